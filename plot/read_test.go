package plot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const smallTable = `point,replication,cluster.nodes,fabric,seed,nodes,gpus,tgs_steady,mean_tpot_ms,saturation,error
0,0,4,1:1,1,4,32,400.5,20,keeping up,
0,1,4,1:1,1,4,32,401.5,20,keeping up,
1,0,8,"a,b",1,,,,,,"no
memory"
`

// Where only sweep.csv was kept, it does.
func TestTableOfASweep(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(`{"tool":"tgssim","kind":"sweep","format":1}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sweep.csv"), []byte(smallTable), 0o644))
	table, err := open([]string{dir})
	require.NoError(t, err)
	require.Equal(t, []string{"cluster.nodes", "fabric"}, table.axes)
	require.Len(t, table.rows, 3)
	require.Equal(t, "no\nmemory", table.rows[2].failure)
	require.Equal(t, "a,b", table.rows[2].text("fabric"))
	x, ok := table.rows[1].number("tokens_per_s_per_user")
	require.True(t, ok)
	require.Equal(t, 50., x)
	_, ok = table.rows[2].number("gpus")
	require.False(t, ok)
	f, _ := draws(t, Request{Dirs: []string{dir}, Preset: "tgs-vs-size"})
	require.Equal(t, []xy{{32, 401}}, f.panels[0].layers[0].points)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "sweep.csv"), []byte("point,seed\n"), 0o644))
	_, err = open([]string{dir})
	require.ErrorContains(t, err, "sweep.csv: it has no column replication")
	require.NoError(t, os.Remove(filepath.Join(dir, "sweep.csv")))
	_, err = open([]string{dir})
	require.ErrorContains(t, err, "has no sweep.csv; `tgssim sweep` writes it")
}

func TestFolders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "manifest.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"tool":"other"}`), 0o644))
	_, err := openFolder(dir)
	require.ErrorContains(t, err, "was not written by tgssim")
	_, err = openFolder(file)
	require.ErrorContains(t, err, "is a file")
	require.NoError(t, os.Rename(file, filepath.Join(dir, "sweep.journal")))
	_, err = openFolder(dir)
	require.ErrorContains(t, err, "holds an unfinished sweep; `tgssim sweep ... -o "+dir+" --resume` finishes it")
}

func TestParseNumber(t *testing.T) {
	for s, want := range map[string]float64{"1": 1, "-2.5e3": -2500, "1e-300": 0, "0": 0} {
		x, ok := parseNumber(s)
		require.True(t, ok, s)
		require.Equal(t, want, x)
	}
	for _, s := range []string{"", "NaN", "Inf", "-inf", "1e300", "0x10", "1_000", "4:1", "true", " 1"} {
		_, ok := parseNumber(s)
		require.False(t, ok, s)
	}
}

// A table that has lost its end is no picture of the sweep.
func TestTablesAreWhole(t *testing.T) {
	dir := writeSweep(t, t.TempDir(), study()...)
	manifest := func(runs int) {
		text := fmt.Sprintf(`{"tool":"tgssim","kind":"sweep","seed":7,"runs":%d}`, runs)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(text), 0o644))
	}
	manifest(27)
	_, err := open([]string{dir})
	require.NoError(t, err)
	manifest(28)
	_, err = open([]string{dir})
	require.ErrorContains(t, err, "sweep.jsonl has 27 runs of the sweep's 28: it is not whole")
}

// Whatever is in the files of a sweep: it is refused, or drawn as XML without NaN.
func fuzzSweep(f *testing.F, read func(t *table, f *folder, text []byte) error) {
	f.Fuzz(func(t *testing.T, text []byte, x, y, log string) {
		if len(text) > 4096 {
			return
		}
		tab := &table{folders: []*folder{{name: "f"}}}
		if read(tab, tab.folders[0], text) != nil {
			return
		}
		fig, err := (&Preset{kind: kindFrontier}).composeXY(&Request{X: x, Y: []string{y}, Log: log}, tab)
		if err != nil {
			return
		}
		svg, err := (&Picture{fig}).Encode("x.svg")
		require.NoError(t, err)
		textsOf(t, svg)
	})
}

func FuzzTable(f *testing.F) {
	f.Add([]byte(smallTable), "gpus", "tgs_steady", "")
	f.Add([]byte(smallTable), "fabric", "tgs_steady", "y")
	f.Add([]byte("point,replication,a,seed,b,error\n0,0,1e-60,1,1e60,\n1,0,2,1,-5,\n2,0,\xff,1,0,x\n"), "a", "b", "xy")
	fuzzSweep(f, (*table).readTable)
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"point":0,"replication":0,"axes":{"a":1,"b":"x"},"cluster":{"gpus":8},"error":null,"summary":{"tgs":3.5,"o":{}}}`), "gpus", "tgs", "")
	f.Add([]byte(`{"axes":{"a":1}}{"axes":{"a":2},"summary":{"tgs":1},"point":1}{"error":"e","point":2}`), "a", "tgs", "x")
	fuzzSweep(f, (*table).readJSON)
}

func FuzzRequests(f *testing.F) {
	head := "arrival_s,prompt_tokens,outcome,decode_rank,first_token_s,ttft_ms,ttft_queue_ps,ttft_prefill_compute_ps,ttft_prefill_comm_ps," +
		"ttft_decode_memory_ps,ttft_transfer_post_ps,ttft_transfer_wire_ps,ttft_transfer_queue_ps,ttft_decode_wait_ps,ttft_decode_compute_ps," +
		"ttft_decode_comm_ps,ttft_decode_host_ps\n"
	f.Add([]byte(head + "0.5,100,finished,0,0.6,0.000000010,1,1,1,1,1,1,1,1,1,1,0\n"))
	f.Add([]byte(head + "0.5,9e300,finished,,0.6,1,1,1,1,1,1,1,1,1,1,1,0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		requests, err := readRequests(text)
		if err != nil {
			return
		}
		d := runData{requests: requests, row: &row{}}
		if sample := d.ttfts(); len(sample) > 0 {
			line := cumulate(sample)
			require.Equal(t, 1., line[len(line)-1].y)
		}
		if measured := d.measured(); len(measured) > 0 {
			n := 0
			for _, b := range binsOf(measured) {
				n += len(b.requests)
				require.NotEmpty(t, b.name())
			}
			require.Equal(t, len(measured), n)
		}
	})
}

func FuzzSteps(f *testing.F) {
	f.Add([]byte("pool,instance,end_s,requests\ndecode,0,0.5,3\nprefill,0,,\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		steps, err := readSteps(text)
		if err == nil {
			for _, s := range steps {
				require.GreaterOrEqual(t, int64(s.end), int64(0))
			}
		}
	})
}
