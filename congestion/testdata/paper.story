# Equation 1 of the paper: R_T = R_C, R_C = R_C (1 - alpha/2), alpha = (1-g)
# alpha + g, with g = 1/256 and alpha = 1 at first. Equation 2: alpha = (1-g)
# alpha after every 55 us without a CNP.
rp: a CNP cuts the rate, and alpha decays without one
line: 40Gbps
dcqcn: {preset: paper}
----
0us     start    => rate=40Gbps target=40Gbps alpha=1 next=never
10us    look     => rate=40Gbps alpha=1
100us   cnp      => rate=20Gbps target=40Gbps alpha=1 next=155us
154.9us look     => rate=20Gbps alpha=1
155us   look     => alpha=255/256
209.9us look     => alpha=255/256
210us   look     => alpha=255/256^2
650us   look     => alpha=255/256^10

# Five times halfway to R_T: 40 - 20/2^k. The sixth expiry is an additive
# increase, but R_T is at the line's 40 Gb/s already.
rp: five steps of fast recovery by the timer
line: 40Gbps
dcqcn: {preset: paper}
----
0us     start => rate=40Gbps
0us     cnp   => rate=20Gbps      target=40Gbps stages=0/0 next=55us
55us    look  => rate=30Gbps      target=40Gbps stages=1/0 next=110us
110us   look  => rate=35Gbps      target=40Gbps stages=2/0
165us   look  => rate=37.5Gbps    target=40Gbps stages=3/0
220us   look  => rate=38.75Gbps   target=40Gbps stages=4/0
275us   look  => rate=39.375Gbps  target=40Gbps stages=5/0
330us   look  => rate=39.6875Gbps target=40Gbps stages=6/0

# The same without a look in between.
rp: five steps of fast recovery in one call
line: 40Gbps
dcqcn: {preset: paper}
----
0us     start
0us     cnp
329.9us look => rate=39.375Gbps  target=40Gbps stages=5/0 next=330us alpha=255/256^5
330us   look => rate=39.6875Gbps target=40Gbps stages=6/0 next=385us alpha=255/256^6

# Alpha is 1 as long as CNPs come faster than 55 us: 1 (1-g) + g = 1. Each CNP
# halves the rate and sets R_T to what it was: 40, 20, 10. At 5 Gb/s, R_T = 10:
# 10 - 5/2^k. The sixth expiry adds R_AI = 40 Mb/s to R_T: 10.04; R_C goes from
# 9.84375 halfway to it. Without the byte counter every later one does the same.
rp: additive increase by the timer alone
line: 40Gbps
dcqcn: {preset: paper}
----
0us   start
0us   cnp   => rate=20Gbps target=40Gbps
50us  cnp   => rate=10Gbps target=20Gbps alpha=1
100us cnp   => rate=5Gbps  target=10Gbps alpha=1
155us look  => rate=7.5Gbps
375us look  => rate=9.84375Gbps     target=10Gbps    stages=5/0
430us look  => rate=9.941875Gbps    target=10.04Gbps stages=6/0
485us look  => rate=10.0109375Gbps  target=10.08Gbps stages=7/0
540us look  => rate=10.06546875Gbps target=10.12Gbps stages=8/0

# The byte counter counts bytes, not packets: 10 MB are one expiry, in one packet
# or many. It alone does what the timer alone does.
rp: fast recovery and additive increase by the byte counter
line: 40Gbps
dcqcn: {preset: paper, increase_timer: 0s}
----
0us  start
0us  cnp          => rate=20Gbps target=40Gbps
0us  cnp          => rate=10Gbps target=20Gbps
1us  send 9999999B => rate=10Gbps stages=0/0
2us  send 1B      => rate=15Gbps target=20Gbps stages=0/1
3us  send 4MB     => rate=15Gbps
4us  send 4MB     => rate=15Gbps
5us  send 4MB     => rate=17.5Gbps stages=0/2
6us  send 8MB     => rate=18.75Gbps stages=0/3
7us  send 20MB    => rate=19.6875Gbps target=20Gbps stages=0/5
8us  send 10MB    => rate=19.86375Gbps target=20.04Gbps stages=0/6
9s   look         => rate=19.86375Gbps next=never

# Hyper increase needs both stages above F, and adds i R_HAI the i-th time
# (200 Mb/s here): 5 timer and 5 byte expiries are fast recovery; the sixth
# expiry of the timer is additive; with the sixth of the byte counter the lower
# stage is 6 and i is 1, and so it is at the seventh of the timer; at the seventh
# of the byte counter i is 2.
#   after ten halvings: 10 - 5/2^10 = 9.9951171875
#   +40 Mb/s to R_T:  (9.9951171875 + 10.04) / 2 = 10.01755859375
#   +200 Mb/s:        (10.01755859375 + 10.24) / 2 = 10.128779296875
#   +200 Mb/s:        (10.128779296875 + 10.44) / 2 = 10.2843896484375
#   +400 Mb/s:        (10.2843896484375 + 10.84) / 2 = 10.56219482421875
# Each is rounded up to the bit per second.
rp: hyper increase
line: 40Gbps
dcqcn: {preset: paper}
----
0us   start
0us   cnp
1us   cnp
2us   cnp         => rate=5Gbps target=10Gbps
57us  send 10MB   => rate=8.75Gbps         stages=1/1
277us send 40MB   => rate=9.995117188Gbps target=10Gbps stages=5/5
332us look        => rate=10.017558594Gbps target=10.04Gbps stages=6/5
333us send 10MB   => rate=10.128779297Gbps target=10.24Gbps stages=6/6
387us look        => rate=10.284389649Gbps target=10.44Gbps stages=7/6
388us send 10MB   => rate=10.562194825Gbps target=10.84Gbps stages=7/7

# A CNP starts timer, byte counter and both stages over: at 50 us the timer has
# run for 50 of its 55 us and the byte counter holds 9 of 10 MB.
rp: a CNP starts everything over
line: 40Gbps
dcqcn: {preset: paper}
----
0us   start
0us   cnp        => next=55us
40us  send 9MB   => stages=0/0
50us  cnp        => rate=10Gbps target=20Gbps next=105us
55us  look       => rate=10Gbps
60us  send 9MB   => rate=10Gbps stages=0/0
105us look       => rate=15Gbps stages=1/0
106us send 1MB   => rate=17.5Gbps stages=1/1
110us cnp        => target=17.5Gbps stages=0/0 next=165us

# n bytes at R_C: 4,000 B at 40 Gb/s are 800 ns, at 20 Gb/s 1,600 ns. Before the
# first CNP a packet never waits for more than itself.
rp: pacing
line: 40Gbps
dcqcn: {preset: paper}
----
0us  start
1us  send 4000B => gap=800ns
2us  cnp        => rate=20Gbps
2us  send 4000B => gap=1600ns
57us send 4000B => gap=1066.666667ns rate=30Gbps

# The rate goes no lower than the minimum, and R_T never below R_C.
rp: the floor
line: 40Gbps
dcqcn: {preset: paper, min_rate: 6Gbps}
----
0us start
0us cnp => rate=20Gbps
1us cnp => rate=10Gbps
2us cnp => rate=6Gbps target=10Gbps
3us cnp => rate=6Gbps target=6Gbps
58us look => rate=6Gbps target=6Gbps
333us look => rate=6.02Gbps target=6.04Gbps stages=6/0

# decrease_interval with cuts at CNPs: a CNP that comes sooner raises alpha (1
# stays 1) and starts alpha's timer over, but neither cuts nor restarts the
# increase timer.
rp: the least time between two cuts
line: 40Gbps
dcqcn: {preset: paper, decrease_interval: 20us}
----
0us  start
0us  cnp  => rate=20Gbps target=40Gbps next=55us
19us cnp  => rate=20Gbps target=40Gbps next=55us
20us cnp  => rate=10Gbps target=20Gbps next=75us
30us cnp  => rate=10Gbps next=75us
75us look => rate=15Gbps alpha=1
84us look => alpha=1
85us look => alpha=255/256

# A flow that starts below line rate rises to it like one that was cut.
rp: a lower initial rate
line: 40Gbps
dcqcn: {preset: paper, initial_rate: 10Gbps}
----
0us   start => rate=10Gbps target=40Gbps next=55us
55us  look  => rate=25Gbps
110us look  => rate=32.5Gbps
120us cnp   => rate=16.25Gbps target=32.5Gbps
