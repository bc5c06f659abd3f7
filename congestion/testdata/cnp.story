# The paper's NP: the first mark sends a CNP at once; marks within the 50 us after
# it send one at their end, and so on. The mark at 20 us finds that of 10 us.
np: a deferred CNP
dcqcn: {preset: paper}
----
0us    marked => cnp=0s
10us   marked => cnp=50us
20us   marked => cnp=never
49us   marked => cnp=never
50us   marked => cnp=100us
99us   marked => cnp=never
160us  marked => cnp=160us
400us  marked => cnp=400us
449us  marked => cnp=450us
501us  marked => cnp=501us

# The NIC's: a mark within the interval is forgotten.
np: the least time between two CNPs
dcqcn: {preset: alibaba}
----
0us    marked => cnp=0s
1us    marked => cnp=never
3.9us  marked => cnp=never
4us    marked => cnp=4us
9us    marked => cnp=9us
12.9us marked => cnp=never
13us   marked => cnp=13us

np: every marked packet
dcqcn: {preset: alibaba, cnp_interval: 0s}
----
0us   marked => cnp=0s
1ns   marked => cnp=1ns
1ns   marked => cnp=1ns

# The delay moves CNPs and not their spacing.
np: processing delay
dcqcn: {preset: alibaba, cnp_delay: 55us}
----
0us marked => cnp=55us
3us marked => cnp=never
4us marked => cnp=59us

np: delay of a deferred CNP
dcqcn: {preset: paper, cnp_delay: 5us}
----
0us  marked => cnp=5us
10us marked => cnp=55us
49us marked => cnp=never
55us marked => cnp=105us

np: marks that travel on acknowledgements
dcqcn: {preset: hpcc-ns3}
----
0us marked => cnp=never
9us marked => cnp=never
