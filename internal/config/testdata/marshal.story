# The resolved scenario: every key, in the order of the fields, with units.

parse a.yaml
{}
----
ok

marshal
----
name: base
description: ""
seed: 1
topology:
  leaves: 4
  spines: 2
  link_rate: 400Gbps
  buffer: 64MiB
  lossless: true
  hop_latency: 600ns
  lags: []
arrivals:
  rate: 20/s
  cv: 1
  spread: 0.5
  seeds: {}
  ratio: null
  grid: []
pools:
  - role: prefill
    tp: 8
    window: 5ms
failures: null
mix: {}
notes: []

parse a.yaml
name: "on"
description: |
  Two racks, one spine each.
    # Indented, and not a comment.
pools:
  - {role: prefill}
  - {role: "decode: fast", tp: 2}
failures: {mtbf: 90s}
mix:
  "8b": {share: 1, model: "8"}
  "2:1": {share: 1e-9}
  Chat: {share: 1e21, model: v3.1}
notes: ["a, b", "", "don't", "tab\there", "- x", "-1", "1_0", " x", "日本", "a  b", "400Gbps", "two\nlines", "space \nat the end"]
arrivals: {grid: [[1], []], seeds: {b: 1, a: 2}, ratio: 0.1, spread: 0.1}
----
ok

marshal
----
name: "on"
description: |
  Two racks, one spine each.
    # Indented, and not a comment.
seed: 1
topology:
  leaves: 4
  spines: 2
  link_rate: 400Gbps
  buffer: 64MiB
  lossless: true
  hop_latency: 600ns
  lags: []
arrivals:
  rate: 20/s
  cv: 1
  spread: 0.1
  seeds:
    a: 2
    b: 1
  ratio: 0.1
  grid: [[1], []]
pools:
  - role: prefill
    tp: 1
    window: 20ms
  - role: "decode: fast"
    tp: 2
    window: 20ms
failures:
  mtbf: 90s
  links: 1
mix:
  "2:1":
    share: 1e-09
    model: ""
  8b:
    share: 1
    model: "8"
  Chat:
    share: 1e+21
    model: v3.1
notes:
  - "a, b"
  - ""
  - "don't"
  - "tab\there"
  - "- x"
  - "-1"
  - "1_0"
  - " x"
  - "日本"
  - "a  b"
  - 400Gbps
  - |-
    two
    lines
  - "space \nat the end"
