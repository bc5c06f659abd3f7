# 100 Gb/s are 12.5 KB per us; T = 10 us, so a bandwidth-delay product, and the
# first window, is 125 KB. W_AI is 40 Mb/s (10 Mb/s per 25 Gb/s) x 10 us = 50 B.
# U is 1 at first.
#
# The first acknowledgement is only remembered, and W_c waits for packet 30's.
# The second comes 1 us later: 12,500 B were sent in it, a full link, and at least
# 25,000 B waited at both: u = 12500/12500 + 25000/125000 = 1.2. tau/T = 0.1:
# U = 0.9 x 1 + 0.1 x 1.2 = 1.02. Packet 2 is before 30, so W_c stays: W =
# 125000/(1.02/0.95) + 50 = 116421.5686... + 50.
# The same once more: U = 0.9 x 1.02 + 0.12 = 1.038, W = 125000 x 0.95/1.038 + 50 =
# 114402.69749518304 + 50: from W_c again, not from W.
hpcc: per-acknowledgement reaction to one reference window
line: 100Gbps
rtt: 10us
----
look                                    => u=1 window=125000B rate=100Gbps stage=0
0us ack 1/30 0us/0B/30000B/100Gbps      => u=1 window=125000B
1us ack 2/31 1us/12500B/25000B/100Gbps  => u=1.02 window=116471B reference=125000 stage=0
2us ack 3/32 2us/25000B/40000B/100Gbps  => u=1.038 window=114452B reference=125000

# min(q, q') is what the queue held all the time between two packets: one that has
# only just formed does not count yet, nor one that has just gone. Half the link
# was sent: u = 0.5; U = 0.5 x 1 + 0.5 x 0.5 = 0.75 after 5 us, then 0.5 x 0.75 +
# 0.25 = 0.625.
hpcc: the smaller of two queues
line: 100Gbps
rtt: 10us
----
0us  ack 1/30 0us/0B/0B/100Gbps          => u=1
5us  ack 2/30 5us/31250B/90000B/100Gbps  => u=3/4
10us ack 3/30 10us/62500B/0B/100Gbps     => u=5/8

# After a round trip or more of silence U is what was measured: tau = T. 20 us
# apart with a quarter sent: U = 1/4 whatever it was.
hpcc: tau is at most T
line: 100Gbps
rtt: 10us
----
0us  ack 1/30 0us/0B/0B/100Gbps         => u=1
20us ack 2/30 20us/62500B/0B/100Gbps    => u=1/4

# Once per round trip W_c follows. maxStage 2 and U = 0.5 in each round: two
# additive increases of 50 B, then W = W_c x 0.95/0.5 + 50, bounded by 125,000 B.
# To begin below the bound, the first full update is at U = 1.9: W_c = 125000 x
# 0.95/1.9 + 50 = 62550 (10 us at 1.9 of the link by queue: u = 1 + 112500/125000).
#   packet 31 > 30: W_c = 62550, and again with packet 61's: stage 0
#   61 > 60: 62600, stage 1;  91 > 90: 62650, stage 2
#   121 > 120: 62650 x 1.9 + 50 = 119085, stage 0
hpcc: stages of additive increase
line: 100Gbps
rtt: 10us
hpcc: {max_stage: 2}
----
0us  ack 1/30    0us/0B/112500B/100Gbps         => u=1
10us ack 31/60   10us/125000B/112500B/100Gbps   => u=1.9 window=62550B reference=62550 stage=0
20us ack 61/90   20us/187500B/0B/100Gbps        => u=1/2 window=62600B reference=62600 stage=1
30us ack 91/120  30us/250000B/0B/100Gbps        => window=62650B reference=62650 stage=2
35us ack 92/120  35us/281250B/0B/100Gbps        => window=119085B reference=62650 stage=2
45us ack 121/150 45us/343750B/0B/100Gbps        => window=119085B reference=119085 stage=0

# Eta itself is full: at U = eta the stage does not count up.
hpcc: just at eta
line: 100Gbps
rtt: 10us
hpcc: {eta: 0.5}
----
0us  ack 1/30    0us/0B/0B/100Gbps
10us ack 31/60   10us/62500B/0B/100Gbps  => u=1/2 window=125000B stage=0
20us ack 61/90   20us/124999B/0B/100Gbps => stage=1

# HPCC-ns3 runs with maxStage 0: every update is multiplicative.
hpcc: no stages
line: 100Gbps
rtt: 10us
hpcc: {preset: hpcc-ns3}
----
0us  ack 1/30    0us/0B/112500B/100Gbps         => u=1
10us ack 31/60   10us/125000B/112500B/100Gbps   => window=62550B
20us ack 61/90   20us/187500B/0B/100Gbps        => window=118895B reference=118895

# The busiest of three hops counts, with its own rate and its own distance in time:
# at 400 Gb/s 25,000 B in 1 us are half the link; at 100 Gb/s 12,500 B in 2 us are
# half of it and 75,000 B queued 75000/125000 = 0.6 more: 1.1, tau = 2 us; at 200
# Gb/s 20,000 B in 1 us are 0.8.
# U = 0.8 + 0.2 x 1.1 = 1.02.
hpcc: the busiest hop
line: 400Gbps
rtt: 10us
----
0us ack 1/30 0us/0B/0B/400Gbps     0us/0B/75000B/100Gbps     0us/0B/0B/200Gbps
1us ack 2/31 1us/25000B/0B/400Gbps 2us/12500B/75000B/100Gbps 1us/20000B/0B/200Gbps => u=1.02

# The windows rate: W/T, and packets are paced by it: 62,550 B in 10 us are 50.04
# Gb/s; 6,255 B take 1 us of it.
hpcc: pacing
line: 100Gbps
rtt: 10us
----
0us  send 12500B => gap=1us rate=100Gbps
0us  ack 1/30    0us/0B/112500B/100Gbps
10us ack 31/60   10us/125000B/112500B/100Gbps   => rate=50.04Gbps
10us send 6255B => gap=1us

# Another path, or another number of hops, begins anew: nothing is compared across
# paths. Telemetry that is older than what is known is not used.
hpcc: path changes and reordering
line: 100Gbps
rtt: 10us
----
0us  ack 1/30        0us/0B/0B/100Gbps
10us ack 2/30        10us/62500B/0B/100Gbps => u=1/2
11us ack 3/30 path=7 11us/9999B/0B/100Gbps  => u=1/2
12us ack 4/30 path=7 10us/9000B/0B/100Gbps  => u=1/2
21us ack 5/30 path=7 21us/41249B/0B/100Gbps => u=1/4
22us ack 6/30 path=7 22us/50000B/0B/100Gbps 22us/9B/0B/100Gbps => u=1/4
23us ack 7/30 path=7 => u=1/4

# Without fast reaction acknowledgements within a round trip change nothing.
hpcc: once per round trip
line: 100Gbps
rtt: 10us
hpcc: {fast_react: false}
----
0us  ack 1/30  0us/0B/112500B/100Gbps        => window=125000B
5us  ack 2/30  5us/62500B/112500B/100Gbps    => u=1 window=125000B
10us ack 31/60 10us/125000B/112500B/100Gbps  => u=1.9 window=62550B

# The floor: 100 Mb/s x 10 us = 125 B. U = 2,000: W = 125000 x 0.95/2000 + 50 = 109.
hpcc: the floor
line: 100Gbps
rtt: 10us
----
0us  ack 1/30  0us/0B/249875KB/100Gbps
10us ack 31/60 10us/125000B/249875KB/100Gbps  => u=2000 window=125B rate=100Mbps

# Packet numbers wrap around: 4294967295 is before 5.
hpcc: packet numbers wrap around
line: 100Gbps
rtt: 10us
----
0us  ack 4294967290/4294967295 0us/0B/112500B/100Gbps
10us ack 4294967295/5 10us/125000B/112500B/100Gbps => window=62550B reference=125000
20us ack 4/9   20us/250000B/112500B/100Gbps => reference=62550

# T for all flows, whatever their path.
hpcc: one T for a network
line: 100Gbps
rtt: 3us
hpcc: {base_rtt: 10us}
----
look => window=125000B
