package experiment

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tgssim/tgssim/scenarios"
)

func TestTry(t *testing.T) {
	ref := os.Getenv("REF")
	if ref == "" {
		t.Skip()
	}
	s, err := scenarios.Load(ref, strings.Fields(os.Getenv("SETS"))...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Build(s)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	r, err := b.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	j, _ := json.MarshalIndent(r.Summary, "", " ")
	fmt.Println(string(j))
	fmt.Println(time.Since(start), r.Events, r.End, r.Fingerprint)
	fmt.Println(r.Notes, r.Saturation, r.Network)
	fmt.Printf("%+v\n", r.Pools)
}
