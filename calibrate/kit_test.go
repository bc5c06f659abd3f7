package calibrate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/detmath"
)

func gpu(t testing.TB, name string) *compute.Profile {
	p, err := compute.LoadProfile(name)
	require.NoError(t, err)
	return p
}

// grid are the rows of a benchmark: the kernels of several models over the batch
// sizes of prefill and decode, without times.
func grid() (rows []string) {
	add := func(format string, args ...any) { rows = append(rows, fmt.Sprintf(format, args...)) }
	ms := []int{1, 8, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384}
	for _, m := range ms {
		for _, kn := range [][2]int{{7168, 2112}, {1536, 24576}, {16384, 7168}, {7168, 4096}, {4096, 6144}, {4096, 512}, {12288, 4096}} {
			for _, dt := range []string{"fp8", "bf16"} {
				add("gemm,%s,m=%d k=%d n=%d", dt, m, kn[0], kn[1])
			}
		}
	}
	for _, kn := range [][2]int{{7168, 4096}, {2048, 7168}, {2048, 1536}, {768, 2048}} {
		for _, experts := range []int{1, 4, 8, 16, 32} {
			for _, r := range []int{128, 256, 512, 1024, 4096} {
				add("grouped_contiguous,fp8,experts=%d rows_per_expert=%d k=%d n=%d", experts, r, kn[0], kn[1])
			}
			for _, r := range []int{1, 16, 64, 128, 256, 1024} {
				add("grouped_masked,fp8,experts=%d rows_per_expert=%d k=%d n=%d", experts, r, kn[0], kn[1])
			}
		}
	}
	for _, kv := range []int{512, 1024, 4096, 16384, 65536} {
		for _, batch := range []int{1, 4, 16, 32, 64, 128} {
			for _, heads := range []string{"heads=32 kv_heads=4", "heads=32 kv_heads=8", "heads=64 kv_heads=1"} {
				add("gqa_decode,bf16,batch=%d kv_len=%d %s head_dim=128", batch, kv, heads)
				add("gqa_decode,fp8,batch=%d kv_len=%d %s head_dim=128", batch, kv, heads)
			}
			for _, q := range []int{1, 2} {
				add("mla_decode,bf16,batch=%d kv_len=%d heads=128 query_tokens=%d", batch, kv, q)
				add("mla_decode,bf16,batch=%d kv_len=%d heads=16 query_tokens=%d", batch, kv, q)
				add("mla_decode,fp8,batch=%d kv_len=%d heads=128 query_tokens=%d", batch, kv, q)
			}
		}
	}
	for _, s := range []int{128, 256, 512, 1024, 2048, 4096, 8192, 16384} {
		for _, n := range []int{1, 2, 4} {
			for _, h := range []int{8, 32} {
				add("gqa_prefill,,seq_len=%d sequences=%d heads=%d kv_heads=4 head_dim=128", s, n, h)
				add("mla_prefill,,seq_len=%d sequences=%d heads=%d", s, n, 4*h)
			}
		}
	}
	for i := range 16 {
		add("elementwise,,bytes=%d kernels=%d", 1<<(12+i), 1+i%3)
		add("launch_gap,,kernels=%d", 1+i)
	}
	return rows
}

// measured is a table of the grid with p's times, each multiplied by what noise
// returns.
func measured(t testing.TB, p *compute.Profile, rows []string, noise func() float64) string {
	var b strings.Builder
	b.WriteString("kernel,dtype,shape,time_us\n")
	zero := strings.Join(rows, ",1\n") + ",1\n"
	table, err := Read("grid.csv", []byte("kernel,dtype,shape,time_us\n"+zero), "")
	require.NoError(t, err)
	require.Len(t, table.Rows, len(rows))
	for i, row := range table.Rows {
		fmt.Fprintf(&b, "%s,%.9g\n", rows[i], p.KernelTime(&row.Kernel)*noise())
	}
	return b.String()
}

// gaussian is multiplicative noise of the deviation, from a seed: the same on
// every machine. Twelve uniform numbers add up to a nearly normal one.
func gaussian(seed uint64, deviation float64) func() float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	return func() float64 {
		sum := -6.
		for range 12 {
			sum += r.Float64()
		}
		return detmath.Exp(float64(deviation * sum))
	}
}

func exact() float64 { return 1 }

func fitTable(t testing.TB, csv string, base *compute.Profile) *Result {
	table, err := Read("grid.csv", []byte(csv), "")
	require.NoError(t, err)
	r, err := Fit(table, base)
	require.NoError(t, err)
	return r
}

// reference is the table of golden kernel times beside the project.
func reference(t testing.TB) []byte {
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "reference", "compute", "kernel_times.csv"))
	if err != nil {
		t.Skip("the reference table is not beside the project: ", err)
	}
	return data
}

// seeds is how many tables of noise a test fits.
func seeds() int {
	if testing.Short() {
		return 1
	}
	return 3
}

// gpus are those whose profiles are given back.
func gpus() []string {
	if testing.Short() {
		return []string{"H20"}
	}
	return []string{"H800", "H20"}
}
