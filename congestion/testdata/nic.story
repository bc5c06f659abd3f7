# The NIC's flavour as HPCC-ns3 has it: the first CNP sets alpha to 1 and starts
# both periods; the first cut comes one decrease period (4 us) later. The first
# 1 us of alpha counts as one without a CNP: at the cut alpha has seen four
# quiet periods, the CNP of 0 us being no news: (255/256)^4. R_C = 400 (1 -
# (255/256)^4 / 2) Gb/s = 203.10673709027... Gb/s, rounded down to the bit.
rp: the first cut comes a period after the first CNP
line: 400Gbps
dcqcn: {preset: hpcc-ns3}
----
0us    start      => rate=400Gbps target=400Gbps next=never
10us   ack        => rate=400Gbps next=never
20us   ack marked => rate=400Gbps target=400Gbps alpha=1 next=24us
23.9us look       => rate=400Gbps alpha=255/256^3
24us   look       => rate=203106737090b/s alpha=255/256^4 next=324us

# A CNP in a period of alpha raises it at the end of that period, once.
rp: alpha moves at the end of its period
line: 400Gbps
dcqcn: {preset: hpcc-ns3}
----
0us   start
0us   ack marked => alpha=1
0.5us ack marked => alpha=1
1us   look       => alpha=1
2us   look       => alpha=255/256
2.2us ack marked => alpha=255/256
2.4us ack marked => alpha=255/256
3us   look       => alpha=255/256^2+1/256
4us   look       => alpha=255/256^3+255/256*1/256

# Cuts come on a grid of 4 us that starts with the first CNP, wherever the CNPs
# fall: one at 13 us cuts at 16 us. One at that very instant belongs to the next
# period. With alpha held at 1 (its timer is 1 s) a cut halves; no increase has
# come between, so R_T stays (clamp only after an increase).
rp: cuts on a grid
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s}
----
0us  start
0us  ack marked => rate=400Gbps next=4us
4us  look       => rate=200Gbps target=400Gbps next=304us
13us ack marked => rate=200Gbps next=16us
15us ack marked => next=16us
16us ack marked => rate=100Gbps target=400Gbps next=20us
20us look       => rate=50Gbps  target=400Gbps next=320us
24us look       => rate=50Gbps

# 300 us are 75 periods of 4 us, so timer and cut meet often. The timer is first:
# it raises the rate to 300, and the cut then finds that the rate has risen.
rp: the timer comes before a cut at the same instant
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s}
----
0us   start
0us   ack marked
301us ack marked => rate=200Gbps target=400Gbps next=304us
304us look       => rate=150Gbps target=300Gbps next=604us stages=0/0

# R_AI and R_HAI are 5 and 50 Mb/s per 25 Gb/s: 80 and 800 at 400 Gb/s. F is 1:
# one step of fast recovery, one additive, all others hyper, each by 800.
#   (150 + 200.08) / 2 = 175.04; (175.04 + 200.88) / 2 = 187.96;
#   (187.96 + 201.68) / 2 = 194.82
rp: fast recovery, additive and hyper increase by the timer
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, clamp_target_rate: true}
----
0us    start
0us    ack marked
5us    ack marked => rate=200Gbps target=400Gbps
8us    look       => rate=100Gbps target=200Gbps next=308us
308us  look       => rate=150Gbps target=200Gbps
608us  look       => rate=175.04Gbps target=200.08Gbps
908us  look       => rate=187.96Gbps target=200.88Gbps
1208us look       => rate=194.82Gbps target=201.68Gbps stages=4/0

# The same constants on a 100 Gb/s line are a quarter.
rp: increases scale with the line
line: 100Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, clamp_target_rate: true}
----
0us    start
0us    ack marked
5us    ack marked
608us  look => rate=43.76Gbps target=50.02Gbps
1208us look => rate=48.705Gbps target=50.42Gbps

# clamp_target_rate: every cut.
rp: clamp always
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, clamp_target_rate: true}
----
0us start
0us ack marked
4us ack marked => rate=200Gbps target=400Gbps
8us look       => rate=100Gbps target=200Gbps

# clamp_target_rate_after_time_increase: a cut after a timer expiry; not a second
# cut in a row.
rp: clamp after an increase by the timer
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s}
----
0us   start
0us   ack marked
4us   ack marked => rate=200Gbps target=400Gbps
8us   look       => rate=100Gbps target=400Gbps
308us look       => rate=250Gbps target=400Gbps stages=1/0
310us ack marked
312us look       => rate=125Gbps target=250Gbps stages=0/0

# Neither: the timer does not count, the byte counter does.
rp: clamp after an increase by bytes only
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, byte_counter: 1MB, clamp_target_rate_after_time_increase: false}
----
0us   start
0us   ack marked
304us look       => rate=300Gbps target=400Gbps stages=1/0
305us ack marked
308us look       => rate=150Gbps target=400Gbps stages=0/0
309us send 1MB   => rate=275Gbps target=400Gbps stages=0/1
310us ack marked
312us look       => rate=137.5Gbps target=275Gbps

# Notify by CNP: an acknowledgement's mark says nothing then.
rp: marks on acknowledgements do not count twice
line: 400Gbps
dcqcn: {preset: alibaba}
----
0us start
0us ack marked => rate=400Gbps next=never
1us cnp        => rate=400Gbps next=5us
5us look       => rate=203106737090b/s target=400Gbps

# Back at line rate nothing is due. Alpha goes on decaying: at 12 s, by 1 s each,
# 12 times since the first CNP; the next CNP finds it so.
rp: a flow back at line rate
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s}
----
0us  start
0us  ack marked
12s  look       => rate=400Gbps target=400Gbps next=never alpha=255/256^12
12s  ack marked => rate=400Gbps next=12.000004s alpha=255/256^12

# With release_at_line_rate the next CNP is a first one: alpha is 1 again.
rp: a flow released at line rate
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, release_at_line_rate: true}
----
0us     start
0us     ack marked
4us     look       => rate=200Gbps
12s     look       => rate=400Gbps next=never
12s     ack marked => rate=400Gbps alpha=1
12.000004s look    => rate=200Gbps target=400Gbps

# A flow that comes back to line rate with a CNP not yet acted upon is cut first.
# From 200 Gb/s, 38 halvings of the distance, one per us, reach the line at 138
# us; the CNP of 130 us cuts at 200 us. The flow is released at 238 us, so that
# the CNP of 250 us is a first one, whose cut comes 100 us later, off the grid.
rp: no release before a cut
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, increase_timer: 1us, decrease_interval: 100us, release_at_line_rate: true}
----
0us   start
0us   ack marked => next=100us
100us look       => rate=200Gbps
130us ack marked => target=400Gbps
137us look       => rate=399999999999b/s next=138us
138us look       => rate=400Gbps next=200us
200us look       => rate=200Gbps target=400Gbps next=201us
237us look       => rate=399999999999b/s
238us look       => rate=400Gbps next=never
250us ack marked => rate=400Gbps next=350us
350us look       => rate=200Gbps

# The first CNP sets both rates, the first cut halves; R_T stays.
rp: the rate on the first CNP
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, first_cnp_rate: 0.5}
----
0us  start
10us ack marked => rate=200Gbps target=200Gbps
14us look       => rate=100Gbps target=200Gbps next=314us

rp: a bound on cuts
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, min_decrease_factor: 0.75}
----
0us start
0us ack marked
4us look => rate=300Gbps target=400Gbps

# A window of 1 MB at line rate, half of it at half the rate.
rp: a window that follows the rate
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, window: 1MB, window_follows_rate: true}
----
0us start        => window=1MB
0us ack marked   => window=1MB
4us look         => window=500KB

rp: a fixed window
line: 400Gbps
dcqcn: {preset: hpcc-ns3, alpha_timer: 1s, window: 1MB}
----
0us start
0us ack marked
4us look => window=1MB rate=200Gbps

# What the vendor's tool prints: alpha starts at 1023/1024 and keeps 1019/1024 of
# itself per us: R_C = 400 (1 - 1023/1024 (1019/1024)^4 / 2) = 204.069258440... Gb/s.
# The byte counter of 32,767 B comes long before the 300 us of the timer: with F
# = 1 the first expiry goes halfway to R_T and the next ones add 5 Mb/s (none
# here, R_T is at the line).
rp: an unchanged adapter
line: 400Gbps
dcqcn: {preset: nvidia}
----
0us   start
0us   cnp         => rate=400Gbps alpha=1023/1024 next=4us
4us   look        => rate=204069258440b/s target=400Gbps alpha=1023/1024*1019/1024^4
5us   send 32767B => rate=302034629220b/s target=400Gbps stages=0/1
5.5us send 32767B => rate=351017314610b/s target=400Gbps stages=0/2

# 4,178 B at 100 Mb/s take 334.24 us. The timer makes it (0.1 + 400)/2 = 200.05 Gb/s
# after 300 us, in which 3,750 B went: the other 428 B take 17.1157 ns.
rp: a packet that waits goes earlier when the rate rises
dcqcn: {preset: nvidia, initial_rate: 100Mbps}
----
0us start
0us send 4178B => rate=100Mbps gap=300.017116us
0us look       => rate=100Mbps next=300us

rp: in HPCC-ns3 it waits as long as it was told
dcqcn: {preset: hpcc-ns3, initial_rate: 100Mbps}
----
0us start
0us send 4178B => gap=334.24us
