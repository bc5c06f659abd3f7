# What Parse refuses, and where it says the mistake is. A syntax error is on the
# line after the longest valid beginning, whatever the YAML library says.

parse ok.yaml
# comments and both styles are fine
topology: {leaves: 8, spines: 4}
pools:
  - role: prefill
    tp: 8
  - {role: decode}
----
ok

parse empty.yaml
----
empty.yaml: empty; expected a mapping, such as "key: value" on each line

parse comment.yaml
# nothing but a comment
----
comment.yaml: empty; expected a mapping, such as "key: value" on each line

parse null.yaml
---
----
null.yaml:2: expected a mapping, such as "key: value" on each line, found nothing

parse list.yaml
- leaves
- spines
----
list.yaml:1: expected a mapping, such as "key: value" on each line, found a list

parse text.yaml

leaves 8
----
text.yaml:2: expected a mapping, such as "key: value" on each line, found the text "leaves 8"

parse colon.yaml
name: a
seed 8
topology:
  leaves: 4
----
colon.yaml:2: could not find expected ':' (a key is followed by a colon and a space)

parse indent.yaml
topology:
    leaves: 4
  spines: 2
name: a
----
indent.yaml:3: did not find expected key (is it indented like the keys around it?)

parse deeper.yaml
topology:
  leaves: 4
    spines: 2
name: a
----
deeper.yaml:3: mapping values are not allowed in this context (a second colon, or a line indented too far?)

parse twocolons.yaml
name: a: b
----
twocolons.yaml:1: mapping values are not allowed in this context (a second colon, or a line indented too far?)

parse bracket.yaml
name: a
notes: [a, b
seed: 3
topology:
  leaves: 4
----
bracket.yaml:2: did not find expected ',' or ']' (is a list [...] left open?)

parse brace.yaml
name: a
topology: {leaves: 4, spines: 2
seed: 3
----
brace.yaml:2: did not find expected ',' or '}' (is a mapping {...} left open?)

parse quote.yaml
name: a
description: "left open
seed: 3
topology:
  leaves: 4
----
quote.yaml:2: found unexpected end of stream (is a quote left open?)

parse afterquote.yaml
name: "a" b
----
afterquote.yaml:1: did not find expected key (is it indented like the keys around it?)

parse at.yaml
name: a
notes: [a, @b]
----
at.yaml:2: found character that cannot start any token (text that begins with @, ` or % needs quotes)

parse star.yaml
name: * 3
----
star.yaml:1: did not find expected alphabetic or numeric character (text that begins with * or & needs quotes)

parse dash.yaml
notes:
- a
b: c
- d
----
dash.yaml:4: did not find expected key (is it indented like the keys around it?)

parse lasttab.yaml
topology:
	leaves: 4
----
lasttab.yaml:2: a tab in the indentation; use spaces

parse spacetab.yaml
topology:
  leaves: 4
  	spines: 2
----
spacetab.yaml:3: a tab in the indentation; use spaces

parse innertab.yaml
topology:	{leaves:	4}
----
ok

# Duplicates name both lines, at any depth and in either style.

parse twice.yaml
topology:
  leaves: 4
name: a
topology:
  spines: 2
----
twice.yaml:4: topology: duplicate key, first written at twice.yaml:1

parse nested.yaml
pools:
  - role: a
    tp: 1
    "role": b
  - {tp: 1, tp: 2}
----
nested.yaml:4: pools[0].role: duplicate key, first written at nested.yaml:2
nested.yaml:5: pools[1].tp: duplicate key, first written on the same line

# YAML's machinery for repeating and typing is not needed to read a scenario.

parse anchor.yaml
topology: &t
  leaves: 4
name: &n base
----
anchor.yaml:1: topology: anchors (&t) are not supported; write the value out where it is needed
anchor.yaml:3: name: anchors (&n) are not supported; write the value out where it is needed

parse alias.yaml
notes: &n [a]
mix: *n
----
alias.yaml:1: notes: anchors (&n) are not supported; write the value out where it is needed
alias.yaml:2: mix: aliases (*n) are not supported; write the value out

parse merge.yaml
topology:
  <<: {leaves: 4}
  <<: {spines: 4}
  spines: 2
----
merge.yaml:2: topology: merge keys (<<) are not supported; use extends, or write the keys out
merge.yaml:3: topology: merge keys (<<) are not supported; use extends, or write the keys out

parse tags.yaml
name: !!str 5
seed: !thing 5
topology: !!map {leaves: 5}
!!str mix: 3
&k notes: 3
----
tags.yaml:1: name: tags (!!str) are not supported; the key decides the type
tags.yaml:2: seed: tags (!thing) are not supported; the key decides the type
tags.yaml:3: topology: tags (!!map) are not supported; the key decides the type
tags.yaml:4: mix: tags (!!str) are not supported; the key decides the type
tags.yaml:5: notes: anchors (&k) are not supported; write the value out where it is needed

parse second.yaml
name: a
---
name: b
----
second.yaml:3: a second document begins here; a file holds one

parse second-empty.yaml
name: a
---
----
second-empty.yaml:3: a second document begins here; a file holds one

parse end.yaml
---
name: a
...
----
ok

parse second-bad.yaml
name: a
---
name: [
----
second-bad.yaml:3: did not find expected node content

parse keys.yaml
1: a
true: b
~: c
1.5: d
? [a, b]
: e
"": f
"2": fine
on: fine
2024-01-01: fine
----
keys.yaml:1: key 1 is not text; if it is meant, write "1"
keys.yaml:2: key true is not text; if it is meant, write "true"
keys.yaml:3: key ~ is not text; if it is meant, write "~"
keys.yaml:4: key 1.5 is not text; if it is meant, write "1.5"
keys.yaml:5: a key must be text, not a list or mapping
keys.yaml:7: a key is empty

parse deep.yaml
a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
----
deep.yaml:1: a[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: nested deeper than 32 levels

parse alias.yaml
name: a
notes: [*b]
----
alias.yaml:2: aliases (*b) are not supported; text that begins with * or & needs quotes

