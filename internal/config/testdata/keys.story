# Unknown keys: a near name, the right section, or else the keys there are.

parse spine.yaml
topology:
  spine: 4
  linkrate: 400Gbps
  Link-Rate: 400Gbps
  hop_latncy: 1us
  width: 3
----
ok

decode
----
spine.yaml:2: topology.spine: unknown key; did you mean spines? (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
spine.yaml:3: topology.linkrate: unknown key; did you mean link_rate? (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
spine.yaml:4: topology.Link-Rate: unknown key; did you mean link_rate? (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
spine.yaml:5: topology.hop_latncy: unknown key; did you mean hop_latency? (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
spine.yaml:6: topology.width: unknown key (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)

# A key that is known elsewhere: here at the top, there in a section or a list.

parse misplaced.yaml
leaves: 8
tp: 8
mtbf: 1h
topology:
  seed: 3
  pools: []
  share: 0.5
failures:
  topology: {leaves: 8}
----
ok

decode
----
misplaced.yaml:1: leaves: unknown key; leaves belongs under topology (keys here: name, description, seed, topology, arrivals, pools, failures, mix, notes)
misplaced.yaml:2: tp: unknown key; tp belongs under pools (keys here: name, description, seed, topology, arrivals, pools, failures, mix, notes)
misplaced.yaml:3: mtbf: unknown key; mtbf belongs under failures (keys here: name, description, seed, topology, arrivals, pools, failures, mix, notes)
misplaced.yaml:5: topology.seed: unknown key; seed belongs at the top level (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
misplaced.yaml:6: topology.pools: unknown key; pools belongs at the top level (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
misplaced.yaml:7: topology.share: unknown key; share belongs under mix.<name> (keys here: leaves, spines, link_rate, buffer, lossless, hop_latency, lags)
misplaced.yaml:9: failures.topology: unknown key; topology belongs at the top level (keys here: mtbf, links, spare)

parse lists.yaml
pools:
  - {role: decode, tps: 8}
mix:
  chat: {shares: 0.5}
----
ok

decode
----
lists.yaml:2: pools[0].tps: unknown key; did you mean tp? (keys here: role, tp, window)
lists.yaml:4: mix.chat.shares: unknown key; did you mean share? (keys here: share, model)

# Complaints come together, in the order written, whatever their kind.

parse all.yaml
seed: x
toplogy: {leaves: 8}
topology:
  leaves: 1.5
  lossless: on
mix:
  chat: {share: .nan}
----
ok

decode
----
all.yaml:1: seed: expected a whole number such as 1, found the text "x"
all.yaml:2: toplogy: unknown key; did you mean topology? (keys here: name, description, seed, topology, arrivals, pools, failures, mix, notes)
all.yaml:4: topology.leaves: expected a whole number such as 4, found 1.5
all.yaml:5: topology.lossless: expected true or false, found the text "on"
all.yaml:7: mix.chat.share: expected a number such as 0.5, found .nan: the number must be finite

