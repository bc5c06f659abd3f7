# Each value that does not fit its key, with what was expected and an example,
# which is the default where there is one.

parse a.yaml
name: 8
description: true
seed: -1
topology: 4
arrivals: []
pools: {role: decode}
failures: [1]
mix: 3
notes: one
----
ok

decode
----
a.yaml:1: name: expected text such as base, found 8: if text is meant, write "8"
a.yaml:2: description: expected text, found true: if text is meant, write "true"
a.yaml:3: seed: expected a whole number such as 1, found -1: it must be in 0..18446744073709551615
a.yaml:4: topology: expected a mapping (keys: leaves, spines, link_rate, buffer, lossless, hop_latency, lags), found 4
a.yaml:5: arrivals: expected a mapping (keys: rate, cv, spread, seeds, ratio, grid), found a list
a.yaml:6: pools: expected a list of mappings, found a mapping
a.yaml:7: failures: expected a mapping (keys: mtbf, links, spare), found a list
a.yaml:8: mix: expected a mapping of names to mappings, found 3
a.yaml:9: notes: expected a list of text, found the text "one"

parse int.yaml
topology:
  leaves: eight
  spines: 128
----
ok

decode
----
int.yaml:2: topology.leaves: expected a whole number such as 4, found the text "eight"
int.yaml:3: topology.spines: expected a whole number such as 2, found 128: it must be in -128..127

parse ints.yaml
pools:
  - tp: 1.5
  - tp: 8.0
  - tp: 1e3
  - tp: 1_000
  - tp: 1,000
  - tp: 0x10
  - tp: 0o17
  - tp: 0b11
  - tp: 010
  - tp: 08
  - tp: -017
  - tp: "8"
  - tp: 8 GPUs
  - tp: yes
  - tp: true
  - tp: 99999999999999999999
  - tp: [8]
  - tp: {a: 8}
  - tp: ~
  - tp:
  - tp: _
  - tp: .inf
  - tp: 2024-01-01
  - tp: 1e30
----
ok

decode
----
ints.yaml:2: pools[0].tp: expected a whole number such as 1, found 1.5
ints.yaml:3: pools[1].tp: expected a whole number such as 1, found 8.0: write 8
ints.yaml:4: pools[2].tp: expected a whole number such as 1, found 1e3: write 1000
ints.yaml:5: pools[3].tp: expected a whole number such as 1, found 1_000: write 1000
ints.yaml:6: pools[4].tp: expected a whole number such as 1, found the text "1,000": write 1000
ints.yaml:7: pools[5].tp: expected a whole number such as 1, found 0x10: write 16
ints.yaml:8: pools[6].tp: expected a whole number such as 1, found 0o17: write 15
ints.yaml:9: pools[7].tp: expected a whole number such as 1, found 0b11: write 3
ints.yaml:10: pools[8].tp: expected a whole number such as 1, found 010: write 10, or 8 if octal is meant
ints.yaml:11: pools[9].tp: expected a whole number such as 1, found 08: write 8
ints.yaml:12: pools[10].tp: expected a whole number such as 1, found -017: write -17, or -15 if octal is meant
ints.yaml:13: pools[11].tp: expected a whole number such as 1, found the text "8": remove the quotes
ints.yaml:14: pools[12].tp: expected a whole number such as 1, found the text "8 GPUs"
ints.yaml:15: pools[13].tp: expected a whole number such as 1, found the text "yes"
ints.yaml:16: pools[14].tp: expected a whole number such as 1, found true
ints.yaml:17: pools[15].tp: expected a whole number such as 1, found 99999999999999999999: it must be in -9223372036854775808..9223372036854775807
ints.yaml:18: pools[16].tp: expected a whole number such as 1, found a list
ints.yaml:19: pools[17].tp: expected a whole number such as 1, found a mapping
ints.yaml:20: pools[18].tp: null; write a whole number such as 1, or delete the line to keep the default
ints.yaml:21: pools[19].tp: no value; write a whole number such as 1, or delete the line to keep the default
ints.yaml:22: pools[20].tp: expected a whole number such as 1, found the text "_"
ints.yaml:23: pools[21].tp: expected a whole number such as 1, found .inf
ints.yaml:24: pools[22].tp: expected a whole number such as 1, found 2024-01-01
ints.yaml:25: pools[23].tp: expected a whole number such as 1, found 1e30

parse ints-ok.yaml
pools: [{tp: +3}, {tp: -3}, {tp: 0}, {tp: -0}, {tp: 9223372036854775807}]
----
ok

decode
----
  - role: decode
    tp: 3
    window: 20ms
  - role: decode
    tp: -3
    window: 20ms
  - role: decode
    tp: 0
    window: 20ms
  - role: decode
    tp: 0
    window: 20ms
  - role: decode
    tp: 9223372036854775807
    window: 20ms

parse floats.yaml
mix:
  a: {share: .nan}
  b: {share: -.Inf}
  c: {share: NaN}
  d: {share: Infinity}
  e: {share: 1e400}
  f:
    share: 0,5
  g: {share: 1_000.5}
  h: {share: 007.5}
  i: {share: 0x1p3}
  j: {share: "0.5"}
  k: {share: half}
  l: {share: 50%}
  m: {share: [1]}
  n: {share: null}
  o: {share: }
  p:
    share: 1,234,567.5
arrivals:
  cv: none
  spread: 1e39
----
ok

decode
----
floats.yaml:2: mix.a.share: expected a number such as 0.5, found .nan: the number must be finite
floats.yaml:3: mix.b.share: expected a number such as 0.5, found -.Inf: the number must be finite
floats.yaml:4: mix.c.share: expected a number such as 0.5, found the text "NaN": the number must be finite
floats.yaml:5: mix.d.share: expected a number such as 0.5, found the text "Infinity": the number must be finite
floats.yaml:6: mix.e.share: expected a number such as 0.5, found the text "1e400": at most 1.7976931348623157e+308 in size
floats.yaml:8: mix.f.share: expected a number such as 0.5, found the text "0,5"
floats.yaml:9: mix.g.share: expected a number such as 0.5, found 1_000.5: write 1000.5
floats.yaml:10: mix.h.share: expected a number such as 0.5, found 007.5: write 7.5
floats.yaml:11: mix.i.share: expected a number such as 0.5, found the text "0x1p3"
floats.yaml:12: mix.j.share: expected a number such as 0.5, found the text "0.5": remove the quotes
floats.yaml:13: mix.k.share: expected a number such as 0.5, found the text "half"
floats.yaml:14: mix.l.share: expected a number such as 0.5, found the text "50%"
floats.yaml:15: mix.m.share: expected a number such as 0.5, found a list
floats.yaml:16: mix.n.share: null; write a number such as 0.5, or delete the line to keep the default
floats.yaml:17: mix.o.share: no value; write a number such as 0.5, or delete the line to keep the default
floats.yaml:19: mix.p.share: expected a number such as 0.5, found the text "1,234,567.5": write 1234567.5
floats.yaml:21: arrivals.cv: expected a number such as 1, found the text "none"
floats.yaml:22: arrivals.spread: expected a number such as 0.5, found 1e39: at most 3.4028234663852886e+38 in size

parse floats-ok.yaml
mix: {a: {share: 3}, b: {share: .5}, c: {share: 5.}, d: {share: -1.5E-3}, e: {share: +2e+3}}
----
ok

decode
----
mix:
  a:
    share: 3
    model: ""
  b:
    share: 0.5
    model: ""
  c:
    share: 5
    model: ""
  d:
    share: -0.0015
    model: ""
  e:
    share: 2000
    model: ""

parse bools.yaml
topology:
  lossless: yes
----
ok

decode
----
bools.yaml:2: topology.lossless: expected true or false, found the text "yes"

parse bools.yaml
topology: {lossless: True}
----
ok

decode
----
bools.yaml:1: topology.lossless: expected true or false, found True

parse bools.yaml
topology: {lossless: 1}
----
ok

decode
----
bools.yaml:1: topology.lossless: expected true or false, found 1

parse bools.yaml
topology: {lossless: "false"}
----
ok

decode
----
bools.yaml:1: topology.lossless: expected true or false, found the text "false": remove the quotes

parse bools.yaml
topology:
  lossless:
----
ok

decode
----
bools.yaml:2: topology.lossless: no value; write true or false, or delete the line to keep the default

parse bools.yaml
topology: {lossless: false}
----
ok

decode
----
  lossless: false

# Text is taken as written; what YAML takes for something else needs quotes.

parse text.yaml
notes: [0x1F, 1_000, 1.5, .inf, false, ~, [a], {a: b}, 1e3]
----
ok

decode
----
text.yaml:1: notes[0]: expected text, found 0x1F: if text is meant, write "0x1F"
text.yaml:1: notes[1]: expected text, found 1_000: if text is meant, write "1_000"
text.yaml:1: notes[2]: expected text, found 1.5: if text is meant, write "1.5"
text.yaml:1: notes[3]: expected text, found .inf: if text is meant, write ".inf"
text.yaml:1: notes[4]: expected text, found false: if text is meant, write "false"
text.yaml:1: notes[5]: null; write text, or delete the item
text.yaml:1: notes[6]: expected text, found a list
text.yaml:1: notes[7]: expected text, found a mapping
text.yaml:1: notes[8]: expected text, found 1e3: if text is meant, write "1e3"

parse text-ok.yaml
notes: [no, Off, "8", 'true', 2024-01-01, "null", 400 Gbps, 1.2.3, 1e3x, "", <<, y]
----
ok

decode
----
notes: ["no", "Off", "8", "true", "2024-01-01", "null", 400 Gbps, 1.2.3, 1e3x, "", "<<", "y"]

# Quantities need their unit. The type itself says what is wrong.

parse units.yaml
topology:
  link_rate: 400
  buffer: 64kb
  hop_latency: 600
  lags: [1us, 2, [3us], soon]
arrivals:
  rate: 20
failures:
  mtbf: [1h]
----
ok

decode
----
units.yaml:2: topology.link_rate: "400" has no unit: write a rate such as 400Gbps or 50GB/s
units.yaml:3: topology.buffer: "64kb" has an unknown unit "kb": use TiB, TB, GiB, GB, MiB, MB, KiB, KB, kB, B
units.yaml:4: topology.hop_latency: "600" has no unit: write ps, ns, us, ms, s, min or h after the number, such as 600us
units.yaml:5: topology.lags[1]: "2" has no unit: write ps, ns, us, ms, s, min or h after the number, such as 2us
units.yaml:5: topology.lags[2]: expected a time, found a list
units.yaml:5: topology.lags[3]: "soon" is not a time: write a number and a unit, such as 1.5us, 20ms or 30s
units.yaml:7: arrivals.rate: "20" has no unit: write a frequency such as 20/s or 90/min
units.yaml:9: failures.mtbf: expected a time such as 3600s, found a list

parse units.yaml
topology:
  link_rate:
  buffer: {size: 64KiB}
  hop_latency: null
arrivals:
  rate: ~
----
ok

decode
----
units.yaml:2: topology.link_rate: no value; write a rate such as 400Gbps, or delete the line to keep the default
units.yaml:3: topology.buffer: expected bytes such as 64MiB, found a mapping
units.yaml:4: topology.hop_latency: null; write a time such as 600ns, or delete the line to keep the default
units.yaml:6: arrivals.rate: null; write a frequency such as 20/s, or delete the line to keep the default

parse units-ok.yaml
topology:
  link_rate: 50GB/s
  buffer: "1 MiB"
  hop_latency: 0
  lags: [1us, 2ms]
arrivals: {rate: 90/min}
----
ok

decode
----
  buffer: 1MiB
  hop_latency: 0s
  lags: [1us, 2ms]
  rate: 1.5/s

# Optional values: null leaves them out, but nothing at all is still a slip.

parse optional.yaml
failures:
arrivals:
  ratio:
----
ok

decode
----
optional.yaml:1: failures: no value; write a mapping (keys: mtbf, links, spare), or null to leave it out
optional.yaml:3: arrivals.ratio: no value; write a number such as 0.5, or null to leave it out

parse optional.yaml
failures: null
arrivals: {ratio: ~}
----
ok

decode
----
ok, all defaults

parse optional.yaml
failures: {}
arrivals: {ratio: 0.25}
----
ok

decode
----
  ratio: 0.25
failures:
  mtbf: 3600s
  links: 1

parse optional.yaml
failures: {links: many}
arrivals: {ratio: high}
----
ok

decode
----
optional.yaml:1: failures.links: expected a whole number such as 1, found the text "many"
optional.yaml:2: arrivals.ratio: expected a number such as 0.5, found the text "high"

# Lists and mappings replace the default whole; their items have defaults.

parse lists.yaml
pools:
  - {}
  - role: prefill
arrivals:
  grid: [[1, 2], [], [3]]
  seeds: {b: 2, a: 1}
mix: {chat: {model: deepseek-v3}}
----
ok

decode
----
  seeds:
    a: 1
    b: 2
  grid: [[1, 2], [], [3]]
  - role: decode
    tp: 1
    window: 20ms
    tp: 1
    window: 20ms
mix:
  chat:
    share: 0
    model: deepseek-v3

parse lists.yaml
pools: []
mix: {}
----
ok

decode
----
pools: []

parse lists.yaml
pools:
  - decode
  - [decode]
  -
arrivals:
  grid: [1, [x]]
  seeds: {a: 65536, b: -1, c: x}
mix: {chat: 0.5}
----
ok

decode
----
lists.yaml:2: pools[0]: expected a mapping (keys: role, tp, window), found the text "decode"
lists.yaml:3: pools[1]: expected a mapping (keys: role, tp, window), found a list
lists.yaml:4: pools[2]: no value; write a mapping (keys: role, tp, window), or delete the item
lists.yaml:6: arrivals.grid[0]: expected a list of whole numbers, found 1
lists.yaml:6: arrivals.grid[1][0]: expected a whole number such as 8, found the text "x"
lists.yaml:7: arrivals.seeds.a: expected a whole number such as 8, found 65536: it must be in 0..65535
lists.yaml:7: arrivals.seeds.b: expected a whole number such as 8, found -1: it must be in 0..65535
lists.yaml:7: arrivals.seeds.c: expected a whole number such as 8, found the text "x"
lists.yaml:8: mix.chat: expected a mapping (keys: share, model), found 0.5

