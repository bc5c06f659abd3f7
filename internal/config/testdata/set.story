# --set writes a value as one would in the file.

parse a.yaml
topology:
  leaves: 8
pools:
  - {role: prefill, tp: 4}
  - {role: decode}
mix:
  v3.1: {share: 1}
----
ok

set
seed=7
topology.spines=4
 topology.link_rate = 200Gbps
pools[1].tp=2
arrivals.seeds.a=3
arrivals.grid=[[1, 2], [3]]
failures={links: 2}
name="8"
description=x = y
mix.v3.1.share=0.5
----
ok

decode
----
name: "8"
description: "x = y"
seed: 7
  leaves: 8
  spines: 4
  link_rate: 200Gbps
  seeds:
    a: 3
  grid: [[1, 2], [3]]
    tp: 4
    window: 20ms
  - role: decode
    tp: 2
    window: 20ms
failures:
  mtbf: 3600s
  links: 2
mix:
  v3.1:
    share: 0.5
    model: ""

place
seed topology.leaves topology.spines pools[1].tp arrivals.seeds.a failures.links
----
--set seed=7: seed: here
a.yaml:2: topology.leaves: here
--set topology.spines=4: topology.spines: here
--set pools[1].tp=2: pools[1].tp: here
--set arrivals.seeds.a=3: arrivals.seeds.a: here
--set failures={links: 2}: failures.links: here

set
topology={spines: 3}
pools[0]={role: decode, tp: 16}
----
ok

decode
----
name: "8"
description: "x = y"
seed: 7
  spines: 3
  seeds:
    a: 3
  grid: [[1, 2], [3]]
  - role: decode
    tp: 16
    window: 20ms
  - role: decode
    tp: 2
    window: 20ms
failures:
  mtbf: 3600s
  links: 2
mix:
  v3.1:
    share: 0.5
    model: ""

# Of two readings of a dotted key the longest name is meant.

parse dots.yaml
mix:
  v3: {"1": {share: 1}}
  v3.1: {share: 1}
----
ok

place
mix.v3.1.share mix.v3.1 mix.v3
----
dots.yaml:3: mix.v3.1.share: here
dots.yaml:3: mix.v3.1: here
dots.yaml:2: mix.v3: here

parse a.yaml
topology: {spines: 3}
pools: [{role: decode, tp: 16}, {}]
name: "8"
arrivals:
  grid: [[1, 2], [3]]
----
ok

# Mistakes of type are found by decode, with the assignment as the place.

set
topology.leaves=many
topology.spine=4
seed=null
----
ok

decode
----
--set topology.leaves=many: topology.leaves: expected a whole number such as 4, found the text "many"
--set topology.spine=4: topology.spine: unknown key; did you mean spines? (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
--set seed=null: seed: null; write a whole number such as 1, or delete the line to keep the default

# Mistakes of the assignment itself.

set
topology.leaves
----
--set topology.leaves: no value; write section.key=value

set
topology.leaves=
----
--set topology.leaves=: no value; write section.key=value

set
seed=   
----
--set seed=   : no value; write section.key=value

set
seed=# 8
----
--set seed=# 8: no value; write section.key=value

set
=8
----
--set =8: "" is not the path of a key; write section.key=value

set
topology..leaves=8
----
--set topology..leaves=8: "topology..leaves" is not the path of a key; write section.key=value

set
.topology=8
----
--set .topology=8: ".topology" is not the path of a key; write section.key=value

set
topology.=8
----
--set topology.=8: "topology." is not the path of a key; write section.key=value

set
pools[x].tp=8
----
--set pools[x].tp=8: "pools[x].tp" is not the path of a key; write section.key=value

set
pools[0]tp=8
----
--set pools[0]tp=8: "pools[0]tp" is not the path of a key; write section.key=value

set
to pology=8
----
--set to pology=8: "to pology" is not the path of a key; write section.key=value

set
seed=[1, 2
----
--set seed=[1, 2: the value is not YAML: did not find expected ',' or ']' (is a list [...] left open?)

set
seed="1
----
--set seed="1: the value is not YAML: found unexpected end of stream (is a quote left open?)

set
seed=a: b
----
--set seed=a: b: the value is not YAML: mapping values are not allowed in this context (a second colon, or a line indented too far?)

set
seed=- a
----
--set seed=- a: the value is not YAML: block sequence entries are not allowed in this context

set
seed=|
----
--set seed=|: expected one value, such as 8, text, [a, b] or {a: 1}

set
seed=&a 8
----
--set seed=&a 8: seed: anchors (&a) are not supported; write the value out where it is needed

set
seed=*a
----
--set seed=*a: the value is not YAML: aliases (*a) are not supported; text that begins with * or & needs quotes

set
seed=!!int 8
----
--set seed=!!int 8: seed: tags (!!int) are not supported; the key decides the type

set
topology={leaves: 1, leaves: 2}
----
--set topology={leaves: 1, leaves: 2}: topology.leaves: duplicate key, first written on the same line

# Paths that lead nowhere.

set
seed.x=8
----
--set seed.x=8: seed (--set seed=null) is null; set it whole, as seed={key: value}

set
failures=null
failures.links=2
----
--set failures.links=2: failures (--set failures=null) is null; set it whole, as failures={key: value}

set
name.x=8
----
--set name.x=8: name (a.yaml:3) is a single value and has no keys

set
pools.tp=8
----
--set pools.tp=8: pools (a.yaml:2) is a list; name an item as pools[0]

set
pools[2].tp=8
----
--set pools[2].tp=8: pools (a.yaml:2) has 2 items and no [2]

set
pools[99999999999999999999]=8
----
--set pools[99999999999999999999]=8: pools (a.yaml:2) has 2 items and no [99999999999999999999]

set
topology[0]=8
----
--set topology[0]=8: topology (a.yaml:1) is a mapping and has no items

set
notes[0]=a
----
--set notes[0]=a: notes is not written in a.yaml, so it has no items to change; set the whole list

set
arrivals.grid[0][5]=8
----
--set arrivals.grid[0][5]=8: arrivals.grid[0] (a.yaml:5) has 2 items and no [5]

set
arrivals.grid[0][1]=8
arrivals.grid[1]=[4]
----
ok

decode
----
--set topology.leaves=many: topology.leaves: expected a whole number such as 4, found the text "many"
--set topology.spine=4: topology.spine: unknown key; did you mean spines? (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
--set seed=null: seed: null; write a whole number such as 1, or delete the line to keep the default

set
a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h=1
----
--set a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h=1: the path is deeper than 32 levels

set
notes=[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]
seed=x
----
ok

parse a.yaml
{}
----
ok

set
arrivals.grid=[11111111111111111111, 22222222222222222222, 33333333333333333333, 44444444]
----
ok

decode
----
--set arrivals.grid=[11111111111111111111, 22222222222222222222, 333333333333333333...: arrivals.grid[0]: expected a list of whole numbers, found 11111111111111111111
--set arrivals.grid=[11111111111111111111, 22222222222222222222, 333333333333333333...: arrivals.grid[1]: expected a list of whole numbers, found 22222222222222222222
--set arrivals.grid=[11111111111111111111, 22222222222222222222, 333333333333333333...: arrivals.grid[2]: expected a list of whole numbers, found 33333333333333333333
--set arrivals.grid=[11111111111111111111, 22222222222222222222, 333333333333333333...: arrivals.grid[3]: expected a list of whole numbers, found 44444444

