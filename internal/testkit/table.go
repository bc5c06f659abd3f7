package testkit

import (
	"fmt"
	"strings"
)

// Table finds a table of a document, which stands between the lines "<!-- name -->"
// and "<!-- /name -->": what is before it, what after it, and itself.
func Table(text, name string) (before, after, body string, err error) {
	head, tail := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	i, j := strings.Index(text, head), strings.Index(text, tail)
	if i < 0 || j < i {
		return "", "", "", fmt.Errorf("no table %q", name)
	}
	i += len(head)
	return text[:i], text[j:], text[i:j], nil
}
