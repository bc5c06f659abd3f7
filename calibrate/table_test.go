package calibrate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/compute"
	"github.com/tgssim/tgssim/internal/config"
)

func TestReadColumns(t *testing.T) {
	// Any order, any unit in the name, sizes in columns or in one, blanks where a
	// size has no meaning, comments, a byte order mark.
	table, err := Read("dir/x.csv", []byte("\ufeff# H800, locked clocks\n"+
		"TIME_MS, n,kernel,k,dtype,M,experts,rows per expert,shape,mfu,note\n"+
		"0.0125,2112,gemm,7168,fp8,64,,,,0.4,warm\n"+
		"1.5, 4096,grouped-masked,7168,bf16,,8,127.5,,,\n"+
		"# the same by name\n"+
		"0.02,,gqa_decode,,,,,,batch=4 kv_len=1000 heads=32 kv_heads=8 head_dim=128,,\n"+
		"0.03,,mla_prefill,,,,,,heads=128 seq_len=512 context_len=0,,\n"+
		"0.004,,launch_gap,,,,,,kernels=4,,\n"), "")
	require.NoError(t, err)
	require.Equal(t, "x.csv", table.File)
	require.Equal(t, []string{"mfu", "note"}, table.Ignored)
	require.Len(t, table.Rows, 5)
	for i, want := range []Row{
		{Line: 3, Kernel: compute.Kernel{Class: "gemm_fp8", DType: compute.FP8, M: 64, N: 2112, K: 7168}, Microseconds: 12.5},
		{Line: 4, Kernel: compute.Kernel{Class: "grouped_masked", DType: compute.BF16, Experts: 8, RowsPerExpert: 127.5, N: 4096, K: 7168}, Microseconds: 1500},
		{Line: 6, Kernel: compute.Kernel{Class: "gqa_decode", DType: compute.BF16, Batch: 4, KVLen: 1000, QueryTokens: 1, Heads: 32, KVHeads: 8, HeadDim: 128}, Microseconds: 20},
		{Line: 7, Kernel: compute.Kernel{Class: "mla_prefill", DType: compute.BF16, Sequences: 1, SeqLen: 512, Heads: 128, Latent: 512, RopeDim: 64, NopeDim: 128, ValueDim: 128}, Microseconds: 30},
		{Line: 8, Kernel: compute.Kernel{Class: "launch_gap", DType: compute.BF16, Kernels: 4}, Microseconds: 4},
	} {
		got := table.Rows[i]
		got.shape, got.fold = "", 0
		require.InDelta(t, want.Microseconds, got.Microseconds, 1e-9)
		got.Microseconds = want.Microseconds
		require.Equal(t, want, got)
	}
	require.Equal(t, "m=64 n=2112 k=7168", table.Rows[0].shape)
	require.Equal(t, "dtype=bf16 n=4096 k=7168 experts=8 rows_per_expert=127.5", table.Rows[1].shape)
}

func TestReadGPUs(t *testing.T) {
	text := "gpu,kernel,bytes,us\nH20,elementwise,1,1\nh800,elementwise,1,2\nH20,elementwise,1,3\n"
	table, err := Read("x.csv", []byte(text), "h20")
	require.NoError(t, err)
	require.Len(t, table.Rows, 2)
	require.Equal(t, 1, table.OtherGPUs)
	_, err = Read("x.csv", []byte(text), "B200")
	require.EqualError(t, err, "x.csv: gpu: has no rows of B200, only of H20, h800")
	_, err = Read("x.csv", []byte(text), "")
	require.EqualError(t, err, "x.csv: gpu: has rows of H20, h800: choose one")
	table, err = Read("x.csv", []byte("gpu,kernel,bytes,us\nL40,elementwise,1,1\n"), "")
	require.NoError(t, err)
	require.Equal(t, "L40", table.GPU)
}

func TestReadIsStrict(t *testing.T) {
	const header = "kernel,dtype,m,n,k,time_us\n"
	for text, want := range map[string]string{
		"":                                              "x.csv: is empty: the first line names the columns",
		header:                                          "x.csv: has no measurements below its header",
		"kernel,m,n,k,mfu\n":                            "x.csv:1: time_us: there is no column of times, only mfu: a fit needs measured times, because utilisations",
		"kernel,m,n,k,TFLOPS,GB/s\n":                    "only tflops and gb/s: a fit needs measured times",
		"kernel,m,n,k\n":                                "x.csv:1: time_us: there is no column of times: write them in microseconds as time_us",
		"m,n,k,us\n":                                    "x.csv:1: kernel: there is no such column",
		"kernel,m,n,k,time\n":                           "x.csv:1:14: time: has no unit in its name: write time_us",
		"kernel,m,n,kernals,us\n":                       "x.csv:1:12: kernals: unknown column; did you mean kernels?",
		"kernel,m,m,k,us\n":                             "x.csv:1:10: m: is named twice",
		"kernel,m,n,k,us,time_ms\n":                     "x.csv:1:17: time_ms: is a second column of times, beside us",
		header + "gemm_fp9,,1,1,1,1\n":                  `x.csv:2:1: kernel: "gemm_fp9" is not a kernel class; did you mean gemm_fp8?`,
		header + "gemm,,1,1,1,1\n":                      "x.csv:2:1: kernel: gemm needs a dtype",
		header + "gemm,fp16,1,1,1,1\n":                  `x.csv:2:1: kernel: gemm needs a dtype, bf16 or fp8, not "fp16"`,
		header + "gemm_bf16,fp8,1,1,1,1\n":              `x.csv:2:11: dtype: "fp8" is not a format of gemm_bf16: write bf16`,
		header + "gemm_bf16,,1,x,1,1\n":                 `x.csv:2:14: n: "x" is not a number`,
		header + "gemm_bf16,,1,nan,1,1\n":               `x.csv:2:14: n: "nan" is not a number`,
		header + "gemm_bf16,,1,1.5,1,1\n":               "x.csv:2:14: n: must be a whole number, not 1.5",
		header + "gemm_bf16,,0,1,1,1\n":                 "x.csv:2:12: m: must be from 1 to 1e+15, not 0",
		header + "gemm_bf16,,1,1,1,0\n":                 "x.csv:2:18: time_us: must be above 0 and at most 1000 s, not 0",
		header + "gemm_bf16,,1,1,1,-3\n":                "x.csv:2:18: time_us: must be above 0",
		header + "gemm_bf16,,1,1,1,\n":                  "x.csv:2:18: time_us: is empty: write a number",
		header + "gemm_bf16,,1,,1,2\n":                  "x.csv:2: n: is missing: gemm_bf16 needs m, n, k",
		header + "elementwise,,1,,,2\n":                 "x.csv:2:14: m: has no meaning for elementwise, whose sizes are bytes, kernels",
		header + "gemm_bf16,,1,1,1\n":                   "x.csv:2:1: there are 5 fields where the header has 6",
		header + "gemm_bf16,,1,\"1,1,1\n":               `x.csv:2`,
		header + "\n\ngemm_bf16,,1,1,1,1e99\n":          "x.csv:4:18: time_us: must be above 0",
		"kernel,shape,us\ngemm_fp8,m=1 n=1 k:1,3\n":     `x.csv:2:10: shape: expected size=number pairs, such as m=64 n=2112 k=7168, not "k:1"`,
		"kernel,shape,us\ngemm_fp8,m=1 n=1 kvlen=1,3\n": `x.csv:2:10: shape: "kvlen" is not a size; did you mean kv_len?`,
		"kernel,m,shape,us\ngemm_fp8,2,m=1 n=1 k=1,3\n": "x.csv:2:12: m: is given twice",
		"kernel,shape,us\ngrouped_masked,experts=1 rows_per_expert=3 n=1 k=1,3\n":            "dtype: is missing: grouped_masked needs one of bf16, fp8, mxfp4",
		"kernel,shape,us\ngqa_decode,batch=1 kv_len=3 heads=5 kv_heads=2 head_dim=64,3\n":    "x.csv:2: kv_heads: 2 must divide the 5 heads",
		header + "gemm_bf16,,1e300,1,1,2\n":                                                  "x.csv:2:12: m: must be from 1 to 1e+15, not 1e300",
		"k\x00e\x00r\x00n\x00":                                                               "x.csv: is not UTF-8 text: save the table as CSV in UTF-8",
		"\xff\xfek":                                                                          "x.csv: is not UTF-8 text",
		"kernel;m;n;k;time_us\ngemm_fp8;1;1;1;2\n":                                           `x.csv:1:1: the line has no comma: separate the columns by commas, not by ';'`,
		"kernel,shape,us\ngrouped_masked,experts=1 rows_per_expert=-3 n=1 k=1 dtype=fp8,3\n": "x.csv:2:16: rows_per_expert: must be above 0 and at most 1e+15, not -3",
		"gpu,kernel,bytes,us\n,elementwise,1,1\n":                                            "x.csv:2:1: gpu: is empty",
		header + strings.Repeat("gemm_bf16,,1,1,1,x\n", 30):                                  "x.csv: there may be more; reading stopped after 20 problems",
	} {
		_, err := Read("x.csv", []byte(text), "")
		require.ErrorContains(t, err, want, text)
		var ps config.Problems
		require.ErrorAs(t, err, &ps)
	}
}

// The folds are of like size, and repetitions of a shape stay together.
func TestFolds(t *testing.T) {
	table, err := Read("x.csv", []byte(measured(t, gpu(t, "H800"), append(grid(), grid()...), exact)), "")
	require.NoError(t, err)
	size := map[uint64]int{}
	of := map[string]uint64{}
	for _, r := range table.Rows {
		size[r.fold]++
		key := r.Kernel.Class + " " + r.shape
		if f, ok := of[key]; ok {
			require.Equal(t, f, r.fold)
		}
		of[key] = r.fold
	}
	require.Len(t, size, folds)
	for f, n := range size {
		require.InDelta(t, len(table.Rows)/folds, n, float64(len(table.Rows))/20, f)
	}
}

// Whatever is read can be fitted, and the result is a valid profile.
func FuzzRead(f *testing.F) {
	f.Add([]byte("kernel,dtype,m,n,k,time_us\ngemm,fp8,64,2112,7168,12\n"))
	f.Add([]byte("kernel,shape,ms\ngqa_decode,batch=1 kv_len=3 heads=4 kv_heads=2 head_dim=64,3\nlaunch_gap,,1\n"))
	f.Add([]byte("gpu,kernel,bytes,kernels,us\nH20,elementwise,1,1,1\nh800,elementwise,1,,2\n"))
	rows := grid()
	f.Add([]byte(measured(f, gpu(f, "H20"), append(rows[:12:12], rows[len(rows)-8:]...), exact)))
	base := gpu(f, "H800")
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return // no more than a moment
		}
		table, err := Read("x.csv", data, "")
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		r, err := Fit(table, base)
		require.NoError(t, err)
		text, err := r.Profile.Marshal()
		require.NoError(t, err)
		_, err = compute.ReadProfile("x.yaml", text)
		require.NoError(t, err)
	})
}
