# Algorithm 1 with the paper's numbers: T_low 50 us, T_high 500 us, minRTT 20 us,
# alpha 0.875, beta 0.8, delta 10 Mb/s. The first round trip is only remembered.
# 100 -> 120 us: diff = 0.875 x 20 = 17.5 us, gradient 7/8; rate = 10 (1 - 0.8 x 7/8)
# = 3 Gb/s.
# 120 -> 120 us: diff = 0.125 x 17.5 = 2.1875 us, gradient 7/64; rate = 3 (1 - 0.8 x
# 7/64) = 2.7375 Gb/s.
# 120 -> 100 us: diff = 0.125 x 2.1875 - 17.5 < 0: 10 Mb/s more.
timely: the gradient
line: 10Gbps
timely: {preset: paper}
----
look                  => rate=10Gbps gradient=0
0us   ack 1/100 100us => rate=10Gbps gradient=0
100us ack 50/150 300us => rate=10Gbps
200us ack 101/200 120us => rate=3Gbps gradient=7/8 calm=0
300us ack 201/300 120us => rate=2737500000b/s gradient=7/64 calm=0
400us ack 301/400 100us => rate=2747500000b/s calm=1

# Below T_low only increases, whatever the gradient: 20 -> 45 us is one of 0.875 x
# 25/20 = 1.09375. Above T_high only decreases: 600 us after 600 us has a gradient of
# 1.09375/8 + ... and takes 0.8 (1 - 500/600) = 2/15 off.
timely: the thresholds
line: 10Gbps
timely: {preset: paper}
----
0us ack 1/100 20us
100us ack 101/200 45us  => rate=10Gbps gradient=35/32 calm=0
200us ack 201/300 600us => rate=8666666667b/s

# Five round trips in a row without a positive gradient make the sixth increase of
# the five-fold step: delta is 10 Mb/s at 10 Gb/s, and so 100 at 100 Gb/s. The
# rate is brought down first: 0.875 x 10/20 = 7/16, 100 (1 - 0.8 x 7/16) = 65 Gb/s.
timely: hyperactive increase
line: 100Gbps
timely: {preset: paper}
----
0us ack 1/10 100us
1us ack 11/20 110us => rate=65Gbps gradient=7/16 calm=0
2us ack 21/30 100us => rate=65.1Gbps calm=1
3us ack 31/40 100us => rate=65.2Gbps calm=2
4us ack 41/50 100us => rate=65.3Gbps calm=3
5us ack 51/60 100us => rate=65.4Gbps calm=4
6us ack 61/70 100us => rate=65.9Gbps calm=5
7us ack 71/80 100us => rate=66.4Gbps calm=6

# A gradient above 1.25 would take more than all: the least rate is left. Packets of
# 1,000 B are then 80 us apart.
timely: the least rate
line: 10Gbps
timely: {preset: paper}
----
0us ack 1/10 100us
1us ack 11/20 140us   => rate=100Mbps gradient=7/4
1us send 1000B        => gap=80us

# On a path of 8 us the derived thresholds are 20 and 200 us, and the gradient's unit
# is 8 us: 16 us is below T_low, 24 us is a gradient of 0.875 x 8/8 + 0.125 x 7/8.
# 0.875 + 0.109375 = 0.984375; 400 (1 - 0.8 x 0.984375) = 85 Gb/s.
timely: thresholds in round trips
line: 400Gbps
rtt: 8us
----
0us ack 1/10 8us
1us ack 11/20 16us => rate=400Gbps gradient=7/8
2us ack 21/30 24us => rate=85Gbps gradient=63/64
