# CONTAINER.INDEX/packets of the one before. The head's packets go out as they come;
# a later container's wait until it is known that the head is over, which only the
# next one's header says.
sequencer: containers wait for each other
----
0us 0.0/0 1000B => verdict=deliver out=0.0 deadline=never
0us 1.0/2 1000B => verdict=hold out=none held=1000B deadline=50us
1us 1.1/2 1000B => verdict=hold out=none held=2000B deadline=50us
2us 0.1/0 1000B => verdict=deliver out=0.1,1.0,1.1 held=0B deadline=never
# Container 1 may go on: nothing has said that it is over.
3us 1.2/2 1000B => verdict=deliver out=1.2
4us 2.0/3 1000B => verdict=hold out=2.0 held=0B

# What comes of container 2 tells nothing about container 0: 1 is needed.
sequencer: a container of which nothing has come
----
0us 0.0/0 1000B => out=0.0
1us 2.0/1 1000B => verdict=hold out=none deadline=51us
2us 2.1/1 1000B => out=none
9us 1.0/1 1000B => out=1.0,2.0,2.1 held=0B

# When the head moves on, the next one has held up what waits since that came. What
# comes of the head itself, or of containers before it, puts the deadline off.
sequencer: the deadline
gse: {reorder_timeout: 10us}
----
0us 2.0/1@2 1000B => out=none deadline=10us
1us 3.0/1@3 1000B => deadline=10us
5us 0.0/0@0 1000B => out=0.0 deadline=15us
6us 1.0/1@1 1000B => out=1.0,2.0,3.0 deadline=never
7us 5.0/1@0 1000B => deadline=17us
8us 7.0/1@2 1000B => deadline=17us
9us 4.0/1@3 1000B => out=4.0,5.0 deadline=19us
10us 9.0/1@3 1000B => deadline=18us

# Container 1 is lost on its way: after the timeout it is given up, with all behind
# it of which nothing has come (2). What comes of it later is late.
sequencer: a lost container
----
0us  0.0/0 1000B => out=0.0
1us  3.0/1 1000B => out=none held=1000B deadline=51us
51us skip        => out=3.0 skipped=3 held=0B deadline=never
60us 1.0/1 1000B => verdict=late out=1.0 late=1
61us 3.1/1 1000B => verdict=deliver out=3.1

# Path 1 is slow: it still brings what was sent before container 5, so 5 is late and is
# waited for. When it has brought 6, 5 was never on it; path 0 is ahead as well.
sequencer: late is not lost
gse: {reorder_timeout: 10us}
----
0us  0.0/0@1 1000B => out=0.0
0us  2.0/1@0 1000B => deadline=10us
8us  1.0/1@1 1000B => out=1.0,2.0 deadline=never
9us  4.0/1@0 1000B => deadline=19us
10us 7.0/1@0 1000B => deadline=19us
18us 3.0/1@1 1000B => out=3.0,4.0 deadline=28us
27us 6.0/1@1 1000B => out=none deadline=20us

# A container that was given up, of which a packet then comes, shows that its path lives.
sequencer: a late packet
gse: {reorder_timeout: 10us}
----
0us  0.0/0@0 1000B => out=0.0
1us  2.0/1@0 1000B => deadline=11us
11us skip          => out=2.0 skipped=2 deadline=never
12us 4.0/1@0 1000B => deadline=22us
15us 1.0/1@1 1000B => verdict=late deadline=25us
24us 3.0/1@1 1000B => out=3.0,4.0 deadline=never

# Within a container packets cannot overtake: a gap is a loss, and nothing waits.
# Its last packet cannot be missed until the timeout.
sequencer: lost packets
----
0us  0.0/0 1000B => out=0.0
0us  0.3/0 1000B => out=0.3 lost=2
1us  1.0/6 1000B => out=none
51us skip        => out=1.0 lost=2 skipped=1
# A copy is late.
52us 1.0/6 1000B => verdict=late out=1.0 late=1

# A container further ahead than the window, or more bytes than may be held: the
# head is given up, and what waits goes out.
sequencer: no room in the window
gse: {reorder_window: 4}
----
0us 1.0/1 1000B => verdict=hold
0us 3.0/1 1000B => verdict=hold held=2000B
0us 4.0/1 1000B => verdict=full+hold out=1.0 held=2000B skipped=1
0us 2.0/1 1000B => out=2.0,3.0,4.0 held=0B

sequencer: no room in memory
gse: {container_bytes: 2KB, reorder_bytes: 2KB}
----
0us 1.0/1 1000B => verdict=hold
0us 2.0/1 1000B => verdict=hold held=2KB
# Container 1 comes out, and with it 2 and, as the head, the new one.
0us 2.1/1 1000B => verdict=full+deliver out=1.0,2.0,2.1 held=0B skipped=1
