# Containers of 16 KiB (16,384 B) take three packets of 4,160 B; a fourth would make
# 16,640. Tags are container.index/packets of the container before. All of it is
# pushed: 8 us at 400 Gb/s are 400,000 B.
dgsq: whole packets fill containers
----
0us enqueue 41600B => verdict=ok backlog=41600B
0us send 4160B => sent=yes tag=0.0/0 path=0 scheduled=0B
0us send 4160B => tag=0.1/0 path=0
0us send 4160B => tag=0.2/0 path=0
0us send 4160B => tag=1.0/3 path=1
0us send 4160B => tag=1.1/3 path=1
# One that is small still fits.
0us send 4000B => tag=1.2/3 path=1
0us send 60B   => tag=1.3/3 path=1
0us send 4160B => tag=2.0/4 path=2

# Four packets of 4,096 B fill one to the byte.
dgsq: a container that is just full
----
0us enqueue 20480B
0us send 4096B => tag=0.0/0
0us send 4096B => tag=0.1/0
0us send 4096B => tag=0.2/0
0us send 4096B => tag=0.3/0
0us send 4096B => tag=1.0/4

# A container stays open when the queue is empty, and goes on where it was.
dgsq: a container that is part filled
----
0us enqueue 4160B
0us send 4160B => tag=0.0/0 path=0
9us enqueue 8320B
9us send 4160B => tag=0.1/0 path=0

# Bytes beyond the push wait for credit, and the tag says how many are charged. 100
# ns are 5,000 B: 840 are left for the second packet, which owes the rest.
dgsq: credit
rtt: 100ns
----
0us enqueue 10000B
0us send 4160B   => sent=yes scheduled=0B
0us send 4160B   => sent=yes tag=0.1/0 scheduled=3320B
0us send 1680B   => sent=no
0us credit 3320B
0us send 1680B   => sent=no
0us credit 5000B
0us send 1680B   => sent=yes scheduled=1680B backlog=0B

# When its uplink fails, a container ends with what it has; the next packet opens
# another elsewhere. Without any uplink nothing goes, and nothing is charged.
dgsq: a failing uplink
uplinks: 2
----
0us enqueue 41600B
0us send 4160B => tag=0.0/0 path=0
down 0
0us send 4160B => tag=1.0/1 path=1
down 1
0us send 4160B => sent=no backlog=33280B
up 0
0us send 4160B => sent=yes tag=2.0/1 path=0 backlog=29120B

# 20,000 B stop the sources, 10,000 B let them go on.
dgsq: back-pressure
gse: {stop_bytes: 20000B, resume_bytes: 10000B}
----
0us enqueue 20000B => verdict=ok
0us enqueue 1B     => verdict=stop
0us enqueue 4000B  => verdict=ok
0us send 4000B     => verdict=ok
0us send 4000B     => verdict=ok
0us send 4000B     => verdict=ok
0us send 2001B     => verdict=resume backlog=10000B
0us send 4000B     => verdict=ok
0us send 2000B     => verdict=ok
0us enqueue 20000B => verdict=stop backlog=24000B
