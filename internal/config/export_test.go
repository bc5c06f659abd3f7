package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Distance is exported for its oracle.
func Distance(a, b string) int { return distance([]rune(a), []rune(b)) }

// Dump prints a tree as one line of flow style, in order, with the places if
// asked for.
func (t *Tree) Dump(places bool) string {
	var b strings.Builder
	t.root.dump(&b, places)
	return b.String()
}

func (n *node) dump(b *strings.Builder, places bool) {
	switch n.kind {
	case scalar:
		b.WriteString(n.tag + " " + strconv.Quote(n.text))
	case sequence:
		b.WriteString("[")
		for _, item := range n.items {
			item.dump(b, places)
			b.WriteString(", ")
		}
		b.WriteString("]")
	case mapping:
		if len(n.keys) != len(n.values) {
			panic(fmt.Sprintf("%d keys and %d values", len(n.keys), len(n.values)))
		}
		b.WriteString("{")
		for _, k := range n.keys {
			b.WriteString(strconv.Quote(k) + ": ")
			n.values[k].dump(b, places)
			b.WriteString(", ")
		}
		b.WriteString("}")
	}
	if places {
		b.WriteString(" @" + n.where)
	}
}
