# The uplink that has been given the least. A container that ends early gives back
# what it has not used: uplink 1 is then behind and is next.
uplinks: the least sent
gse: {container_bytes: 16KB, reorder_bytes: 1MB}
uplinks: 3
----
open => path=0 assigned=16KB,0B,0B
open => path=1
open => path=2
open => path=0 assigned=32KB,16KB,16KB
close 1 12KB => assigned=32KB,4KB,16KB
open => path=1 assigned=32KB,20KB,16KB
open => path=2 assigned=32KB,20KB,32KB

uplinks: in turn
gse: {container_bytes: 16KB, reorder_bytes: 1MB, spray: round-robin}
uplinks: 3
----
open => path=0
close 0 12KB
open => path=1
open => path=2
open => path=0
down 1
open => path=2
open => path=0
open => path=2

# The shortest queue; of equals the least given, and of those in turn.
uplinks: the shortest queue
gse: {container_bytes: 16KB, reorder_bytes: 1MB, spray: least-queue}
uplinks: 3
----
open 5KB 4KB 9KB => path=1
open 5KB 9KB 5KB => path=2
open 5KB 5KB 5KB => path=0
open 5KB 5KB 5KB => path=1 assigned=16KB,32KB,16KB
open 5KB 5KB 5KB => path=2

# One that comes back is not given all that it has missed.
uplinks: failure and repair
gse: {container_bytes: 16KB, reorder_bytes: 1MB}
uplinks: 2
----
open => path=0
down 1
open => path=0
open => path=0 assigned=48KB,0B
up 1 => assigned=48KB,48KB
open => path=1
open => path=0
down 0
down 1
open => path=none
