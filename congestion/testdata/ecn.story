# Kmin 1,600 KB, Kmax 6,400 KB, Pmax 0.2: 0 up to Kmin, half of Pmax in the
# middle, Pmax at Kmax, 1 above.
ecn: the curve
ecn: {preset: alibaba}
----
400Gbps 0B         => kmin=1600KB kmax=6400KB pmax=0.2 p=0
400Gbps 1600000B 0 => p=0 mark=no
400Gbps 1600001B 0 => p=1/24000000 mark=yes
400Gbps 1600001B 0.0000001 => mark=no
400Gbps 4MB 0.0999999 => p=0.1 mark=yes
400Gbps 4MB 0.1000001 => p=0.1 mark=no
400Gbps 6400KB 0.1999999 => p=0.2 mark=yes
400Gbps 6400KB 0.2000001 => p=0.2 mark=no
400Gbps 6400001B 0.9999999 => p=1 mark=yes

# The rule: 4 and 16 KB per Gb/s.
ecn: alibaba at every rate
ecn: {preset: alibaba}
----
25Gbps   0B => kmin=100KB   kmax=400KB   pmax=0.2
100Gbps  0B => kmin=400KB   kmax=1600KB  pmax=0.2
200Gbps  0B => kmin=800KB   kmax=3200KB  pmax=0.2
400Gbps  0B => kmin=1600KB  kmax=6400KB  pmax=0.2
800Gbps  0B => kmin=3200KB  kmax=12800KB pmax=0.2
10Gbps   0B => kmin=40KB    kmax=160KB   pmax=0.2

ecn: simai at every rate
ecn: {preset: simai}
----
25Gbps   0B => kmin=100KB   kmax=400KB   pmax=0.2
100Gbps  0B => kmin=400KB   kmax=1600KB  pmax=0.2
200Gbps  0B => kmin=300KB   kmax=1200KB  pmax=0.8
400Gbps  0B => kmin=800KB   kmax=3200KB  pmax=0.2
800Gbps  0B => kmin=1600KB  kmax=6400KB  pmax=0.2
50Gbps   0B => kmin=200KB   kmax=800KB   pmax=0.2
10Gbps   0B => kmin=40KB    kmax=160KB   pmax=0.2

ecn: conweave at every rate
ecn: {preset: conweave}
----
25Gbps  0B => kmin=100KB kmax=400KB pmax=0.2
100Gbps 0B => kmin=100KB kmax=400KB pmax=0.2
800Gbps 0B => kmin=100KB kmax=400KB pmax=0.2

ecn: sonic at every rate
ecn: {preset: sonic}
----
25Gbps  0B => kmin=1MiB kmax=2MiB pmax=0.05
400Gbps 0B => kmin=1MiB kmax=2MiB pmax=0.05
800Gbps 1536KiB => kmin=1MiB kmax=2MiB pmax=0.05 p=0.025

ecn: the paper's at 40 Gb/s and in proportion
ecn: {preset: paper}
----
40Gbps  0B => kmin=5KB   kmax=200KB  pmax=0.01
25Gbps  0B => kmin=3125B kmax=125KB  pmax=0.01
400Gbps 0B => kmin=50KB  kmax=2MB    pmax=0.01

# DCTCP's marking: a step, where Kmin is Kmax.
ecn: a step
ecn: {thresholds: [{rate: 100Gbps, kmin: 65KB, kmax: 65KB, pmax: 1.0}], proportional: false}
----
100Gbps 65000B 0         => p=0 mark=no
100Gbps 65001B 0.9999999 => p=1 mark=yes
