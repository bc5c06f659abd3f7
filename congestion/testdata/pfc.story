# 100,000 B of memory, of which 2 ports x 2 x 1,000 B are guaranteed and 2 x 2 x
# 5,000 B headroom: 76,000 B are shared. alpha = 1: a group alone is paused when
# it uses more than half of them, 38,000 B, its guarantee not counted.
#   39 packets: 1,000 guaranteed, 38,000 shared; what is left is 38,000. Not more.
#   the 40th: 39,000 would be more than 38,000: headroom, and XOFF.
#   4 more fit the headroom of 5,000 B, the next does not.
buffer: XOFF, headroom, loss
buffer: {size: 100KB, lossless: [3, 4], guaranteed: 1KB, alpha: 1.0, resume_offset: 2KB, headroom: {bytes: 5KB, pool: 0B}}
----
admit 0>1 3 1KB     => verdict=ok used=1KB shared=0B threshold=76KB pool=76KB total=1KB queued=1KB
admit 0>1 3 1KB x38 => verdict=ok used=39KB shared=38KB threshold=38KB paused=no
admit 0>1 3 1KB     => verdict=pause used=39KB headroom=1KB shared=38KB paused=yes
admit 0>1 3 1KB x4  => verdict=ok used=39KB headroom=5KB paused=yes total=44KB queued=44KB
admit 0>1 3 1KB     => verdict=drop-headroom headroom=5KB total=44KB queued=44KB
admit 0>1 3 1B      => verdict=drop-headroom
# Headroom is given back first, then shared memory. After 5 KB of headroom, XON
# needs use + 2 KB <= threshold: at 37 KB used of 76 the threshold is 39.
release 0>1 3 1KB x5 => verdict=ok headroom=0B used=39KB paused=yes
release 0>1 3 1KB    => verdict=resume used=38KB shared=37KB threshold=39KB paused=no queued=38KB
release 0>1 3 1KB    => verdict=ok
admit 0>1 3 1KB x2   => verdict=ok used=39KB paused=no
admit 0>1 3 1KB      => verdict=pause headroom=1KB

# A group that uses much lowers the threshold of the others: 38,000 B are left,
# so the second stops at 19,000 (19,000 left), and the first, which may now use
# only that, is paused by its next packet.
buffer: thresholds fall as the pool fills
buffer: {size: 100KB, lossless: [3, 4], guaranteed: 1KB, alpha: 1.0, resume_offset: 0B, headroom: {bytes: 5KB, pool: 0B}}
----
admit 0>1 3 1KB x39 => verdict=ok shared=38KB threshold=38KB
admit 1>0 3 1KB x20 => verdict=ok shared=57KB threshold=19KB paused=no
admit 0>1 3 1KB     => verdict=pause headroom=1KB shared=57KB
admit 1>0 3 1KB     => verdict=pause headroom=1KB shared=57KB
# The second is resumed as soon as its use is at the threshold; the first has to
# come down to what is left: at 28 KB + 19 KB, 29 KB are left.
release 1>0 3 1KB   => verdict=resume used=20KB threshold=19KB
release 0>1 3 1KB   => verdict=ok headroom=0B used=39KB
release 0>1 3 1KB x9 => verdict=ok used=30KB threshold=28KB
release 0>1 3 1KB   => verdict=resume used=29KB threshold=29KB

# alpha = 1/8 at a single group: paused above 1/9 of the shared memory. Of 90,000
# B + 10,000 B headroom: 10,000 B.
buffer: a small alpha
buffer: {size: 100KB, lossless: [3], guaranteed: 0B, alpha: 0.125, resume_offset: 0B, headroom: {bytes: 5KB, pool: 0B}}
----
admit 0>1 3 1KB x10 => verdict=ok shared=10KB threshold=10KB pool=90KB
admit 0>1 3 1B      => verdict=pause headroom=1B

# alpha = 8 lets a group take 8/9; the pool itself is a limit too.
buffer: a large alpha
buffer: {size: 100KB, lossless: [3], guaranteed: 0B, alpha: 8.0, headroom: {bytes: 5KB, pool: 0B}}
----
admit 0>1 3 80KB => verdict=ok shared=80KB threshold=80KB
admit 1>0 3 9KB  => verdict=pause used=9KB headroom=0B shared=89KB threshold=8KB
admit 1>0 3 2KB  => verdict=ok used=9KB headroom=2KB shared=89KB

# A static threshold does not move.
buffer: a static threshold
buffer: {size: 100KB, lossless: [3], guaranteed: 0B, static_threshold: 20KB, resume_offset: 5KB, headroom: {bytes: 5KB, pool: 0B}}
----
admit 0>1 3 1KB x20 => verdict=ok threshold=20KB
admit 1>0 3 1KB x20 => verdict=ok threshold=20KB
admit 0>1 3 1KB     => verdict=pause headroom=1KB
release 0>1 3 1KB   => verdict=ok headroom=0B used=20KB
release 0>1 3 1KB x4 => verdict=ok used=16KB
release 0>1 3 1KB   => verdict=resume used=15KB

# 4 KB of headroom for all groups together, of 5 KB each.
buffer: a headroom pool runs out
buffer: {size: 100KB, lossless: [3, 4], guaranteed: 0B, static_threshold: 10KB, headroom: {bytes: 5KB, pool: 4KB}}
----
admit 0>1 3 10KB => verdict=ok pool=96KB
admit 0>1 3 3KB  => verdict=pause headroom=3KB
admit 1>0 4 10KB => verdict=ok
admit 1>0 4 1KB  => verdict=pause headroom=1KB
admit 0>1 3 1KB  => verdict=drop-headroom
release 1>0 4 1KB => headroom=0B
admit 0>1 3 1KB  => verdict=ok headroom=4KB

# A group without shared use is resumed even where the threshold is 0.
buffer: the last packet resumes
buffer: {size: 100KB, lossless: [3, 4], guaranteed: 1KB, alpha: 256.0, resume_offset: 10KB, headroom: {bytes: 5KB, pool: 0B}}
----
admit 1>0 3 77KB => verdict=pause shared=76KB threshold=0B
admit 0>1 3 1KB  => verdict=ok used=1KB shared=76KB paused=no
admit 0>1 3 1KB  => verdict=pause headroom=1KB
release 0>1 3 1KB => verdict=resume used=1KB threshold=0B

# Lossy packets share the pool up to a threshold per egress queue, and are
# dropped above. 90,000 B shared; alpha 1: a queue alone gets half.
buffer: lossy drop at the egress threshold
buffer: {size: 100KB, lossless: [3], guaranteed: 0B, egress_alpha: 1.0, egress_guaranteed: 2KB, headroom: {bytes: 5KB, pool: 0B}}
----
admit 0>1 0 1KB x45 => verdict=ok shared=45KB queued=45KB
admit 0>1 0 1KB     => verdict=drop-queue shared=45KB queued=45KB
# Another priority is another queue: the same 45 KB are left for it; it takes half.
admit 0>1 1 1KB x23 => verdict=ok shared=68KB queued=23KB
admit 0>1 1 1KB     => verdict=drop-queue
release 0>1 0 1KB   => verdict=ok
admit 0>1 1 1KB     => verdict=drop-queue

# A queue may hold its guarantee while the pool has room, and no more.
buffer: the egress guarantee
buffer: {size: 100KB, lossless: [3], guaranteed: 0B, alpha: 256.0, egress_alpha: 0.5, egress_guaranteed: 2KB, headroom: {bytes: 5KB, pool: 0B}}
----
admit 0>1 3 89KB => verdict=ok shared=89KB
admit 0>1 0 500B => verdict=ok shared=89500B
admit 0>1 0 501B => verdict=drop-pool
admit 0>1 0 500B => verdict=ok shared=90KB
admit 0>1 0 1B   => verdict=drop-pool

# Without headroom the packet that would pass the threshold is lost, and pauses
# the group all the same; an empty group, which nothing could resume, it does not.
buffer: no headroom
buffer: {size: 100KB, lossless: [3], guaranteed: 0B, static_threshold: 20KB, resume_offset: 5KB, headroom: {bytes: 0B}}
----
admit 0>1 3 21KB => verdict=drop-headroom paused=no
admit 0>1 3 20KB => verdict=ok shared=20KB paused=no
admit 0>1 3 1KB  => verdict=drop-headroom-pause shared=20KB paused=yes
admit 0>1 3 1KB  => verdict=drop-headroom paused=yes
release 0>1 3 20KB => verdict=resume shared=0B paused=no

# Without lossless priorities nothing is reserved and nothing pauses.
buffer: a lossy switch
buffer: {size: 100KB, lossless: [], egress_alpha: 1.0}
----
admit 0>1 3 1KB x50 => verdict=ok pool=100KB shared=50KB
admit 0>1 3 1KB     => verdict=drop-queue
