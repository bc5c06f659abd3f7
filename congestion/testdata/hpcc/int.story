# HPCC's header: 2 bytes for the number of hops and the path, 8 per hop, room for
# five from the start: 2 + 5 x 8 = 42, on any path.
int: forty-two bytes
----
size 1 => bytes=42B
size 3 => bytes=42B
size 5 => bytes=42B

# Without room reserved every switch adds its 8.
int: a header that grows
int: {reserved_hops: 0}
----
size 0 => bytes=2B
size 3 => bytes=26B

int: exact
----
stamp 1.234567us/123456B/7654B/400Gbps => at=1.234567us sent=123456B queue=7654B rate=400Gbps

# At 400 Gb/s INT_MULTI is 16: bytes count in 16 x 128 = 2,048 and the queue in 16
# x 80 = 1,280, both rounded down: 60 x 2,048 = 122,880; 5 x 1,280 = 6,400.
int: the resolution of the HPCC repository
line: 400Gbps
int: {preset: hpcc-ns3}
----
stamp 1.234567us/123456B/7654B/400Gbps => at=1.234us sent=122880B queue=6400B rate=400Gbps

# A multiple is at least one: 10 Gb/s has units of 128 and 80.
int: the resolution below 25 Gb/s
line: 10Gbps
int: {preset: hpcc-ns3}
----
stamp 999ps/255B/79B/10Gbps => at=0s sent=128B queue=0B
