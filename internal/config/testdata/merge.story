# extends: mappings merge key by key, lists and scalars are replaced, and every
# value remembers its file.

parse base.yaml
name: base
topology:
  leaves: 8
  spines: 4
pools:
  - {role: prefill, tp: 4}
  - {role: decode, tp: 2}
failures: {links: 3}
----
ok

over site.yaml
extends: base
topology:
  spines: 8
pools:
  - {role: decode, tp: 16}
----
ok

take extends
----
base at "site.yaml:1"

take extends
----
untouched at ""

decode
----
  leaves: 8
  spines: 8
  - role: decode
    tp: 16
    window: 20ms
failures:
  mtbf: 3600s
  links: 3

place
name topology topology.leaves topology.spines pools pools[0].tp pools[0].role pools[1] failures.links
----
base.yaml:1: name: here
site.yaml:2: topology: here
base.yaml:3: topology.leaves: here
site.yaml:3: topology.spines: here
site.yaml:4: pools: here
site.yaml:5: pools[0].tp: here
site.yaml:5: pools[0].role: here
site.yaml:4: pools[1]: here (not written)
base.yaml:8: failures.links: here

# What is not written has the place of the section around it, or of the file
# that was named, and the default is told.

place
seed topology.link_rate pools[0].window failures.mtbf arrivals arrivals.cv description nonsense topology.nonsense mix.chat.share
----
site.yaml: seed: here (not written; the default is 1)
site.yaml:2: topology.link_rate: here (not written; the default is 400Gbps)
site.yaml:5: pools[0].window: here (not written; the default is 20ms)
base.yaml:8: failures.mtbf: here (not written; the default is 3600s)
site.yaml: arrivals: here (not written)
site.yaml: arrivals.cv: here (not written; the default is 1)
site.yaml: description: here (not written)
site.yaml: nonsense: here
site.yaml:2: topology.nonsense: here
site.yaml: mix.chat.share: here

over top.yaml
topology: {leaves: 0, link_rate: 2Tbps}
----
ok

validate
----
top.yaml:1: topology.leaves: must be at least 1
top.yaml:1: topology.link_rate: must be below 1Tbps
site.yaml:5: pools[0].tp: must be at most 8

set
topology.leaves=4
pools[0].tp=8
----
ok

validate
----
top.yaml:1: topology.link_rate: must be below 1Tbps

# What is missing is missing in the file that was named.

set
notes[0]=a
----
--set notes[0]=a: notes is not written in top.yaml, so it has no items to change; set the whole list

# A section can be switched off, and on again with its defaults.

over off.yaml
failures: null
----
ok

decode
----
  spines: 8
  link_rate: 2Tbps
  - role: decode
    window: 20ms

over on.yaml
failures: {}
----
ok

decode
----
  spines: 8
  link_rate: 2Tbps
  - role: decode
    window: 20ms
failures:
  mtbf: 3600s
  links: 1

parse typo.yaml
extends: [a, b]
----
ok

take extends
----
typo.yaml:1: extends: expected text such as untouched, found a list

