# 100 Gb/s, grants of 12,500 B: one per us. A round trip of 10 us is 125,000 B, ten
# grants; 1.5 of it may be outstanding, fifteen.
scheduler: grants at the rate of the link
line: 100Gbps
rtt: 10us
credit: {quantum: 12500B}
----
open a 1
grant 0us          => to=none next=never
request a 30000B   => next=0s
grant 0us          => to=a total=12500B outstanding=12500B next=1us
grant 0.9us        => to=none next=1us
grant 1us          => to=a total=25000B next=2us
grant 2us          => to=a total=30000B outstanding=30000B next=never
# The last one was 5,000 B: 0.4 us.
request a 40000B   => next=2.4us
grant 3us          => to=a total=40000B
arrive a 40000B    => outstanding=0B

scheduler: taking turns
line: 100Gbps
rtt: 10us
credit: {quantum: 12500B}
----
open a 1
open b 1
open c 1
request a 100KB
request b 20000B
request c 100KB
grant 0us => to=a
grant 1us => to=b
grant 2us => to=c
grant 3us => to=a
grant 4us => to=b total=20000B
grant 5us => to=c
grant 6us => to=a
grant 7us => to=c

# Weight 2 has two grants a turn.
scheduler: taking turns by weight
line: 100Gbps
rtt: 10us
credit: {quantum: 12500B, order: weighted}
----
open a 2
open b 1
request a 50KB
request b 100KB
grant 0us => to=a
grant 1us => to=a
grant 2us => to=b
grant 3us => to=a
grant 4us => to=a total=50KB
grant 5us => to=b
grant 6us => to=b

# Round robin takes no notice of weights.
scheduler: weights without the order
line: 100Gbps
rtt: 10us
credit: {quantum: 12500B}
----
open a 2
open b 1
request a 100KB
request b 100KB
grant 0us => to=a
grant 1us => to=b
grant 2us => to=a

# 15 grants are 187,500 B; the 16th waits for an arrival.
scheduler: no more than is allowed is outstanding
line: 100Gbps
rtt: 10us
credit: {quantum: 62500B, source_outstanding: 1}
----
open a 1
open b 1
request a 1MB
request b 1MB
grant 0us  => to=a outstanding=62500B
grant 5us  => to=b outstanding=125000B
grant 10us => to=a outstanding=187500B next=never
grant 20us => to=none
# One byte is not enough room; a grant's worth is.
arrive b 1B     => next=never
arrive b 62499B => next=20us
# a has the 125,000 B that one source may have.
grant 20us => to=b
arrive a 62500B => next=25us
grant 25us => to=b outstanding=187500B
arrive b 62500B
grant 30us => to=a

# Bytes that came without a grant and wait at the link count while they do.
scheduler: pushed bytes
line: 100Gbps
rtt: 10us
credit: {quantum: 62500B}
----
open a 1
push 150000B
request a 1MB   => outstanding=150000B next=never
pushed 20000B   => next=never
pushed 5000B    => outstanding=125000B next=0s
grant 0us       => to=a outstanding=187500B
pushed 125000B  => outstanding=62500B

# Silence of a timeout: what is outstanding counts as lost, and the source is
# granted again. It hears of the totals only, so nothing is granted twice.
scheduler: what is lost does not block
line: 100Gbps
rtt: 10us
credit: {quantum: 62500B, outstanding: 0.5, timeout: 100us}
----
open a 1
request a 1MB
grant 0us    => to=a total=62500B next=never
expire 99us  => lost=0B next=never
expire 100us => lost=62500B outstanding=0B next=100us
grant 100us  => to=a total=125000B
# What is late after all counts as debt, of no more than a packet.
arrive a 62500B => outstanding=0B
arrive a 4000B  => outstanding=-4000B
arrive a 62500B => outstanding=-4096B

# A request that is taken back, and a source that goes.
scheduler: requesters vanish
line: 100Gbps
rtt: 10us
credit: {quantum: 12500B}
----
open a 1
open b 1
open c 1
request a 100KB
request b 100KB
request c 100KB
grant 0us => to=a outstanding=12500B
request b 0B
close a   => outstanding=0B
grant 1us => to=c
grant 2us => to=c
# What b had not been granted can be asked for again.
request b 10KB
grant 3us => to=c
grant 4us => to=b total=10KB

# Where nothing is outstanding one grant is always allowed, and speed-up 2 makes
# grants twice as fast as the link.
scheduler: speed-up
line: 100Gbps
rtt: 1us
credit: {quantum: 12500B, speedup: 2, outstanding: 0.1}
----
open a 1
request a 100KB
grant 0us       => to=a next=never
arrive a 12500B => next=500ns
grant 600ns     => to=a
arrive a 12500B => next=1.1us
