# 100 Gb/s and 4,000 B: 25 packets are 8 us. Base target 20 us + 3 hops x 1 us; no
# flow scaling. Below the target the window grows by ai per round trip: 1/10 for
# one packet of a window of 10, twice that for two packets.
swift: additive increase
line: 100Gbps
mtu: 4000B
rtt: 8us
hops: 3
swift: {preset: htsim, base_target: 20us, flow_scaling: 0}
----
look                 => cwnd=10 target=23 window=40000B
10us ack 4000B 10us  => cwnd=10.1 window=40400B
20us ack 0B 10us     => cwnd=10.1

# A delay of 25 us is 2 above the target of 20: 1 - 0.8 x 5/25 = 0.84. At most once
# per round trip (the last one measured); at most by half.
#   100 x 0.84 = 84; at 40 us: 1 - 0.8 x 80/100 = 0.36, but not below 0.5: 42
swift: multiplicative decrease
line: 100Gbps
mtu: 4000B
rtt: 8us
swift: {preset: htsim, base_target: 20us, hop_delay: 0s, flow_scaling: 0, initial_window: 100}
----
0us  ack 4000B 25us  => cwnd=84
10us ack 4000B 25us  => cwnd=84
24us ack 4000B 25us  => cwnd=84
25us ack 4000B 25us  => cwnd=70.56
60us ack 4000B 100us => cwnd=70.56
125us ack 4000B 100us => cwnd=35.28

# Equation 2. fs_range is 5 base targets of 10 us between windows of 1 and 100:
# alpha = 50/(1 - 1/10) = 500/9, beta = -50/9, in us. At 100: 0; at 25: 500/45 -
# 50/9 = 50/9; at 4: 250/9 - 50/9 = 200/9; at 1, and below: 50.
swift: flow scaling
line: 100Gbps
mtu: 4000B
swift: {preset: htsim, base_target: 10us, hop_delay: 0s, scaling_min_window: 1, initial_window: 25}
----
look            => target=10+50/9
0us loss        => cwnd=12.5
1s  loss        => cwnd=6.25
2s  loss        => cwnd=3.125
3s  loss        => cwnd=1.5625
4s  loss        => cwnd=0.78125 target=60
5s  loss        => cwnd=0.390625 target=60

swift: flow scaling of a large window
line: 100Gbps
mtu: 4000B
swift: {preset: htsim, base_target: 10us, hop_delay: 0s, scaling_min_window: 1, initial_window: 100}
----
look            => target=10

swift: flow scaling of a small window
line: 100Gbps
mtu: 4000B
swift: {preset: htsim, base_target: 10us, hop_delay: 0s, scaling_min_window: 1, initial_window: 4}
----
look            => target=10+200/9

# Below one packet the window grows by ai per packet acknowledged, and packets are
# paced a round trip over the window apart: 10 us / 0.25 = 40 us. 0.25 + 1 = 1.25
# packets need no pacing but the line's: 4,000 B at 100 Gb/s are 320 ns.
swift: a window below one packet
line: 100Gbps
mtu: 4000B
rtt: 10us
swift: {preset: htsim, initial_window: 0.25}
----
0us send 4000B      => gap=40us window=1000B rate=800Mbps
40us ack 4000B 10us => cwnd=1.25 window=5000B
40us send 4000B     => gap=320ns

# What the path says: the first window is a bandwidth-delay product, 8 us of 12.5 KB
# = 100 KB = 25 packets; the target 1.25 x 8 us = 10 us. The window goes no higher
# than twice the product.
swift: derived from the path
line: 100Gbps
mtu: 4000B
rtt: 8us
swift: {flow_scaling: 0}
----
look                  => cwnd=25 target=10 rate=100Gbps
1us ack 100000B 9us   => cwnd=26
2us ack 10MB 9us      => cwnd=50
# A round trip that was not taken changes nothing.
3us ack 4000B 0us     => cwnd=50

# Timeouts: by half, at most once per round trip; after five in a row to the
# minimum. An acknowledgement ends the row.
swift: timeouts
line: 100Gbps
mtu: 4000B
rtt: 8us
----
0us   timeout       => cwnd=12.5
4us   timeout       => cwnd=12.5
10us  timeout       => cwnd=6.25
11us  timeout       => cwnd=6.25
12us  timeout       => cwnd=0.1

swift: an acknowledgement between timeouts
line: 100Gbps
mtu: 4000B
rtt: 8us
----
0us   timeout       => cwnd=12.5
1us   timeout
2us   timeout
3us   timeout
4us   ack 0B 9us    => cwnd=12.5
5us   timeout       => cwnd=12.5
