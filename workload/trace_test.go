package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/sim"
)

// published finds a published trace outside the module, or skips the test.
func published(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{"..", "..", "shared", "traces"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no published trace %s here", path)
	}
	return path
}

func play(t *testing.T, path string, change func(*Config)) ([]Request, Stats) {
	t.Helper()
	trace := DefaultTraceConfig(path)
	cfg := Config{Trace: &trace}
	if change != nil {
		change(&cfg)
	}
	return generate(t, cfg, 1)
}

// The sums that are known of the published excerpts.
func TestPublishedTraces(t *testing.T) {
	for _, c := range []struct {
		file                   []string
		format                 string
		rows, prompt, output   int
		blocks, repeats, times int
	}{
		{[]string{"azure-2023", "AzureLLMInferenceTrace_code.head2000.csv"}, FormatAzure, 2000, 3973157, 59024, 0, 0, 0},
		{[]string{"azure-2023", "AzureLLMInferenceTrace_conv.head2000.csv"}, FormatAzure, 2000, 2209565, 529807, 0, 0, 0},
		{
			[]string{"mooncake-fast25", "conversation_trace.head2000.jsonl"}, FormatMooncake, 2000, 27441774, 704602,
			54559, 54559 - 38788, 224,
		},
		{[]string{"burstgpt", "BurstGPT_1.first3rows.csv"}, FormatBurstGPT, 3, 472 + 1087 + 417, 18 + 230 + 276, 0, 0, 3},
		{[]string{"burstgpt", "BurstGPT_3.first4rows.csv"}, FormatBurstGPT, 4, 906 + 36 + 1779 + 935, 446 + 29 + 123 + 178, 0, 0, 4},
	} {
		t.Run(c.file[1], func(t *testing.T) {
			path := published(t, c.file...)
			all, s := play(t, path, nil)
			require.Equal(t, c.format, s.Trace.Format)
			require.Equal(t, c.rows, s.Trace.Rows)
			require.Equal(t, TraceStats{Format: c.format, Rows: c.rows}, s.Trace, "nothing skipped, dropped or out of order")
			require.Equal(t, c.rows, s.Requests)
			require.EqualValues(t, c.prompt, s.PromptTokens)
			require.EqualValues(t, c.output, s.OutputTokens)
			require.EqualValues(t, c.blocks, s.Blocks)
			require.EqualValues(t, c.repeats, s.RepeatedBlocks)
			times := map[sim.Time]bool{}
			for _, r := range all {
				times[r.Arrival] = true
			}
			if c.times > 0 {
				require.Len(t, times, c.times, "distinct arrivals")
			}
			requireSlowAgrees(t, path, c.format, 1, all)
		})
	}
}

func requireSlowAgrees(t *testing.T, path, form string, speedup float64, got []Request) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	rows, err := slowRead(data, form)
	require.NoError(t, err)
	require.Equal(t, slowReplay(rows, speedup), got)
}

var samples = []struct {
	file, format string
	stats        TraceStats
}{
	{"azure_2023.csv", FormatAzure, TraceStats{Rows: 120}},
	{"azure_2024.csv", FormatAzure, TraceStats{Rows: 80, ZeroPrompt: 1, ZeroOutput: 1, Dropped: 2, OutOfOrder: 5}},
	{"burstgpt_1.csv", FormatBurstGPT, TraceStats{Rows: 60, ZeroOutput: 3, Dropped: 3}},
	{"burstgpt_3.csv", FormatBurstGPT, TraceStats{Rows: 50, ZeroOutput: 1, Dropped: 1}},
	{"mooncake.jsonl", FormatMooncake, TraceStats{Rows: 100}},
	{"bailian.jsonl", FormatBailian, TraceStats{Rows: 60}},
}

func sample(file string) string { return filepath.Join("testdata", file) }

func TestSamplesAgainstAPlainReader(t *testing.T) {
	for _, c := range samples {
		for _, speedup := range []float64{1, 2, 0.3, 1e6, 0.001} {
			t.Run(fmt.Sprintf("%s at %v", c.file, speedup), func(t *testing.T) {
				all, s := play(t, sample(c.file), func(cfg *Config) { cfg.Trace.Speedup = speedup })
				c.stats.Format = c.format
				require.Equal(t, c.stats, s.Trace)
				require.Equal(t, c.stats.Rows-c.stats.Dropped, len(all))
				requireSlowAgrees(t, sample(c.file), c.format, speedup, all)
				require.Zero(t, all[0].Arrival)
			})
		}
	}
}

// Naming the format, a byte order mark, other line ends and blank lines change
// nothing.
func TestDressingOfTheFile(t *testing.T) {
	for _, c := range samples {
		data, err := os.ReadFile(sample(c.file))
		require.NoError(t, err)
		plain := strings.TrimSuffix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
		want, err := ReadTrace(strings.NewReader(plain), "f", DefaultTraceConfig(""))
		require.NoError(t, err)
		for name, text := range map[string]string{
			"BOM":              "\uFEFF" + plain,
			"CRLF":             strings.ReplaceAll(plain, "\n", "\r\n"),
			"final newline":    plain + "\n",
			"blank lines":      "\n  \n" + strings.ReplaceAll(plain, "\n", "\n\r\n") + "\n\n",
			"spaces":           strings.ReplaceAll(plain, ",", " , "),
			"a byte at a time": plain,
		} {
			cfg := DefaultTraceConfig("")
			cfg.Format = c.format
			var r io.Reader = strings.NewReader(text)
			if name == "a byte at a time" {
				r = iotest.OneByteReader(r)
			}
			got, err := ReadTrace(r, "f", cfg)
			require.NoError(t, err, "%s with %s", c.file, name)
			require.Equal(t, want, got, "%s with %s", c.file, name)
		}
	}
}

func TestQuotedCSV(t *testing.T) {
	const text = `"Timestamp","Model, or not","Request tokens","Response tokens"
"5","a ""model"", yes","10","20"
6,plain,11,"21"
`
	rows := read(t, text, DefaultTraceConfig("")).rows
	require.Equal(t, []row{{at: 5e9, prompt: 10, output: 20}, {at: 6e9, prompt: 11, output: 21}}, rows)
}

func read(t *testing.T, text string, cfg TraceConfig) *Trace {
	t.Helper()
	trace, err := ReadTrace(strings.NewReader(text), "f", cfg)
	require.NoError(t, err)
	return trace
}

const azureHead = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

// The time scale is exact to the picosecond, however far from the first row: at
// speedup 3 the last row here is 10,000,000.0000001 s / 3 in.
func TestSpeedupIsExact(t *testing.T) {
	const text = azureHead +
		"2024-05-10 00:00:00.0000001+00:00,1,1\n" +
		"2024-05-10 00:00:00.1000000+00:00,1,1\n" +
		"2024-05-10 00:00:01+00:00,1,1\n" +
		"2024-09-02 17:46:40.0000002+00:00,1,1\n"
	trace := read(t, text, DefaultTraceConfig(""))
	require.Equal(t, sim.Time(0), trace.arrival(0, 3))
	require.Equal(t, sim.Time(99_999_900_000), trace.arrival(1, 1))
	require.Equal(t, sim.Time(33_333_300_000), trace.arrival(1, 3))
	require.Equal(t, sim.Time(999_999_900_000), trace.arrival(2, 1))
	require.Equal(t, sim.Time(1_999_999_800_000), trace.arrival(2, 0.5))
	require.Equal(t, sim.Never, trace.arrival(3, 1), "115 days")
	require.Equal(t, sim.Time(5_000_000_000_000_050_000), trace.arrival(3, 2))
	require.Equal(t, sim.Time(3_333_333_333_333_366_667), trace.arrival(3, 3))
}

func TestTraceLongerThanTheClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.csv")
	require.NoError(t, os.WriteFile(path, []byte("Timestamp,Request tokens,Response tokens\n5,1,1\n10000005,1,1\n"), 0o600))
	trace := DefaultTraceConfig(path)
	_, err := Load(Config{Trace: &trace})
	require.ErrorContains(t, err, "trace.speedup: ")
	require.ErrorContains(t, err, "lasts 115.7 days at speedup 1, and the clock covers 106")
	all, s := generate(t, Config{Trace: &trace, Requests: 1}, 1)
	require.Len(t, all, 1)
	require.Equal(t, 1, s.Trace.Unplayed)
	all, _ = generate(t, Config{Trace: &trace, Duration: sim.Second}, 1)
	require.Len(t, all, 1)
	trace.Speedup = 2
	all, _ = generate(t, Config{Trace: &trace}, 1)
	require.Equal(t, 5_000_000*sim.Second, all[1].Arrival)
}

// One trace, read once, plays at any speed.
func TestReplayOfOneReading(t *testing.T) {
	f, err := os.Open(sample("azure_2023.csv"))
	require.NoError(t, err)
	defer f.Close()
	cfg := DefaultTraceConfig(sample("azure_2023.csv"))
	trace, err := ReadTrace(f, cfg.Path, cfg)
	require.NoError(t, err)
	require.Equal(t, TraceStats{Format: FormatAzure, Rows: 120}, trace.Stats())
	for _, speedup := range []float64{1, 3} {
		cfg.Speedup = speedup
		g, err := trace.Replay(Config{Trace: &cfg, Requests: 50})
		require.NoError(t, err)
		want, _ := play(t, cfg.Path, func(c *Config) { c.Trace.Speedup, c.Requests = speedup, 50 })
		require.Equal(t, want, drain(g.Source(sim.Streams{})))
	}
	_, err = trace.Replay(Config{})
	require.ErrorContains(t, err, "trace: missing")
	cfg.Speedup = 0
	_, err = trace.Replay(Config{Trace: &cfg})
	require.ErrorContains(t, err, "trace.speedup: 0")
}

func TestSkipRowsRequestsAndDuration(t *testing.T) {
	whole, _ := play(t, sample("azure_2023.csv"), nil)
	shift := func(all []Request) []Request {
		out := append([]Request(nil), all...)
		for i := range out {
			out[i].ID = i
			out[i].Arrival -= all[0].Arrival
		}
		return out
	}
	all, s := play(t, sample("azure_2023.csv"), func(c *Config) { c.Trace.Skip, c.Trace.Rows = 20, 30 })
	require.Equal(t, shift(whole[20:50]), all)
	require.Equal(t, TraceStats{Format: FormatAzure, Rows: 50, Skipped: 20}, s.Trace)

	all, s = play(t, sample("azure_2023.csv"), func(c *Config) { c.Requests = 7 })
	require.Equal(t, whole[:7], all)
	require.Equal(t, TraceStats{Format: FormatAzure, Rows: 120, Unplayed: 113}, s.Trace)

	// The interval of arrivals is half open.
	all, _ = play(t, sample("azure_2023.csv"), func(c *Config) { c.Duration = whole[60].Arrival })
	require.Equal(t, whole[:60], all)
	all, _ = play(t, sample("azure_2023.csv"), func(c *Config) { c.Duration = whole[60].Arrival + 1 })
	require.Equal(t, whole[:61], all)

	// The window of rows ends the reading: what follows may be anything.
	cfg := DefaultTraceConfig("")
	cfg.Skip, cfg.Rows = 1, 1
	trace := read(t, azureHead+"2024-01-01 00:00:00,1,1\n2024-01-01 00:00:01,2,2\n\x00nonsense", cfg)
	require.Len(t, trace.rows, 1)
	// Skipped rows take their hash IDs with them.
	cfg.Rows = 0
	trace = read(t, `{"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1,2]}
{"timestamp":0,"input_length":600,"output_length":0,"hash_ids":[1,2]}
{"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[8,9]}
`, cfg)
	require.Equal(t, []uint64{8, 9}, trace.blocks)
}

func TestTiesKeepTheOrderOfTheFile(t *testing.T) {
	trace := read(t, "Timestamp,Request tokens,Response tokens\n7,1,1\n5,2,1\n7,3,1\n5,4,1\n5,5,1\n9,6,1\n", DefaultTraceConfig(""))
	var order []int32
	for _, r := range trace.rows {
		order = append(order, r.prompt)
	}
	require.Equal(t, []int32{2, 4, 5, 1, 3, 6}, order)
	require.Equal(t, 3, trace.summary.OutOfOrder)
}

func TestZeroLengths(t *testing.T) {
	const text = azureHead + "2024-01-01 00:00:00,0,5\n2024-01-01 00:00:01,5,0\n2024-01-01 00:00:02,0,0\n2024-01-01 00:00:03,5,5\n"
	cfg := DefaultTraceConfig("")
	skip := read(t, text, cfg)
	require.Len(t, skip.rows, 1)
	require.Equal(t, TraceStats{Format: FormatAzure, Rows: 4, ZeroPrompt: 2, ZeroOutput: 1, Dropped: 3}, skip.summary)

	cfg.ZeroLengths = ZeroOne
	one := read(t, text, cfg)
	require.Equal(t, TraceStats{Format: FormatAzure, Rows: 4, ZeroPrompt: 2, ZeroOutput: 1}, one.summary)
	for i, want := range [][2]int32{{1, 5}, {5, 1}, {1, 1}, {5, 5}} {
		require.Equal(t, want, [2]int32{one.rows[i].prompt, one.rows[i].output})
	}

	cfg.ZeroLengths = ZeroRefuse
	_, err := ReadTrace(strings.NewReader(text), "f", cfg)
	require.EqualError(t, err, "f:2: no prompt tokens; at least 1 is expected with zero_lengths: refuse")
}

func TestBlocks(t *testing.T) {
	_, s := play(t, sample("mooncake.jsonl"), nil)
	require.Equal(t, 512, s.BlockTokens)
	_, s = play(t, sample("bailian.jsonl"), nil)
	require.Equal(t, 16, s.BlockTokens)
	require.Positive(t, s.RepeatedBlocks)

	const text = `{"timestamp":0,"input_length":1024,"output_length":1,"hash_ids":[18446744073709551615, 7 ,8]}`
	cfg := DefaultTraceConfig("")
	_, err := ReadTrace(strings.NewReader(text), "f", cfg)
	require.EqualError(t, err, "f:1: hash_ids: 3 blocks for 1024 prompt tokens; at most 2 with block_tokens: 512")
	cfg.BlockTokens = 500
	require.Equal(t, []uint64{1<<64 - 1, 7, 8}, read(t, text, cfg).blocks)
}

// Other fields are skipped, whatever they hold.
func TestJSONFields(t *testing.T) {
	const text = `{"type":"te\"xt]}","turn":{"a":[1,{"timestamp":9}],"b":"\\"},"timestamp":1.5e3,
	"input_length" : 3,"hash_ids":[ ],"ok":true,"none":null,"output_length":4,"list":[[],[{}]]}`
	trace := read(t, strings.ReplaceAll(text, "\n", ""), DefaultTraceConfig(""))
	require.Equal(t, []row{{at: 1_500_000_000, prompt: 3, output: 4}}, trace.rows)
}

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "5": 5e9, "007": 7e9, "19440110.0": 19440110e9, "1.": 1e9, "0.000000001": 1,
		"0.0000000014": 1, "0.0000000015": 2, "9200000000": maxInstant, "9199999999.999999999": maxInstant - 1,
		"1e3": 1e12, "1.25E-3": 1250000,
	} {
		got, problem := parseSeconds([]byte(text))
		require.Empty(t, problem, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "-1", "-0", "x", "1.5.2", "1,5", "1 5", ".", ".5", "nan", "NaN", "inf", "0x10", "1_000", "+5", "1e", "e5",
		"9200000000.000000001", "92000000000", "99999999999999999999999999", "1e300", "1e400", "1e10", "NaNe1", "0x1ep3", "1e5_0", "+1e5", "1e5e5", "1-e5", "infinitye",
	} {
		_, problem := parseSeconds([]byte(text))
		require.NotEmpty(t, problem, text)
	}
}

func TestParseClock(t *testing.T) {
	const noon = 1_700_136_000 // 2023-11-16 12:00:00 UTC
	for text, want := range map[string]int64{
		"2023-11-16 12:00:00":                 noon * 1e9,
		"2023-11-16T12:00:00Z":                noon * 1e9,
		"2023-11-16 12:00:00.9799600":         noon*1e9 + 979_960_000,
		"2023-11-16 12:00:00.000000001":       noon*1e9 + 1,
		"2023-11-16 12:00:00.5+00:00":         noon*1e9 + 5e8,
		"2023-11-16 12:00:00+08:00":           noon*1e9 - 8*3600e9,
		"2023-11-16 12:00:00.25-0730":         noon*1e9 + 25e7 + 27000e9,
		"2023-11-16 12:00:00+01":              noon*1e9 - 3600e9,
		"2024-02-29 00:00:00":                 1_709_164_800e9,
		"1971-01-01 00:00:00":                 31_536_000e9,
		"2260-12-31 23:59:59.999999999-14:00": 9_183_110_399_999_999_999 + 14*3600e9,
	} {
		got, problem := parseClock([]byte(text))
		require.Empty(t, problem, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "2023-11-16", "2023-11-16 12:00", "2023/11/16 12:00:00", "2023-11-16x12:00:00", "2023-11-16 12:00:00.",
		"2023-11-16 12:00:00.1234567890", "2023-11-16 12:00:00 UTC", "2023-11-16 12:00:00+15:00", "2023-11-16 12:00:00+00:60",
		"2023-11-16 12:00:00+", "2023-11-16 12:00:00+0:00", "2023-11-16 12-00-00", "2023-02-29 00:00:00", "2023-13-01 00:00:00",
		"2023-00-01 00:00:00", "2023-11-16 24:00:00", "2023-11-16 12:60:00", "2023-11-16 12:00:60", "1970-12-31 23:59:59",
		"2261-01-01 00:00:00", "20a3-11-16 12:00:00", "2023-11-16 12:00:00.5.5", "2023-11-16 12:00:00ZZ", "2023-11-16 12:00:00+:::0", "2023-11-16 12:00:00+:00",
	} {
		_, problem := parseClock([]byte(text))
		require.NotEmpty(t, problem, text)
	}
}

// Everything that is wrong with a file is said with its line, the column, what
// was found and what is valid.
func TestTraceErrors(t *testing.T) {
	const (
		burst = "Timestamp,Model,Request tokens,Response tokens\n"
		ok    = "2024-01-01 00:00:00,1,1\n"
		json  = `{"timestamp": 1, "input_length": 2, "output_length": 3}` + "\n"
	)
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f:1: the file is empty; expected a CSV header or JSON lines"},
		{"blank", "\n\n \n", "f:3: the file is empty; expected a CSV header or JSON lines"},
		{"only a mark", "\uFEFF", "f:1: the file is empty; expected a CSV header or JSON lines"},
		{"only a header", azureHead, "f:1: the file has a header but no rows"},
		{"all failed", azureHead + "2024-01-01 00:00:00,5,0\n", "f:2: none of the 1 rows can be played: 0 skipped, 1 without prompt or output tokens"},
		{"compressed", "\x1f\x8b\x08\x00", "f:1: the file is compressed; unpack it with gunzip first"},
		{
			"junk", "\x00\x01\xff\xfe" + strings.Repeat("z", 100),
			`f:1: "\x00\x01\xff\xfe` + strings.Repeat("z", 56) + `"... is not the first line of a known format: azure has the columns TIMESTAMP, ContextTokens, GeneratedTokens, burstgpt has the columns Timestamp, Request tokens, Response tokens; mooncake and bailian are JSON lines`,
		},
		{"long header", strings.Repeat("a,", 40000), `f:1: the header "` + strings.Repeat("a,", 30) + `"... is 80000 bytes long; is this a trace?`},
		{
			"misspelt column", "TIMESTAMP,ContextTokens,Generated Tokens\n" + ok,
			`f:1: GeneratedTokens: the header "TIMESTAMP,ContextTokens,Generated Tokens" lacks this column of the format azure; is it "Generated Tokens"?`,
		},
		{
			"missing column", "Timestamp,Model,Request tokens\n5,a,5\n",
			`f:1: Response tokens: the header "Timestamp,Model,Request tokens" lacks this column of the format burstgpt`,
		},
		{
			"column twice", "Timestamp,Request tokens,Request tokens,Response tokens\n",
			`f:1: Request tokens: the header "Timestamp,Request tokens,Request tokens,Response tokens" has this column twice`,
		},
		{"few fields", azureHead + ok + "2024-01-01 00:00:00,1\n", "f:3: the number of fields is 2; 3 are valid, as in the header"},
		{"many fields", azureHead + ok + "2024-01-01 00:00:00,1,2,\n", "f:3: the number of fields is 4; 3 are valid, as in the header"},
		{"header again", azureHead + ok + azureHead, `f:3: TIMESTAMP: "TIMESTAMP" is not a time; a time such as 2023-11-16 18:17:03.9799600 is valid`},
		{"no number", azureHead + "2024-01-01 00:00:00,many,2\n", `f:2: ContextTokens: "many" is not a whole number; 0 to 10000000 is valid`},
		{"fraction", azureHead + "2024-01-01 00:00:00,2,2.5\n", `f:2: GeneratedTokens: "2.5" is not a whole number; 0 to 10000000 is valid`},
		{"negative", azureHead + "2024-01-01 00:00:00,1,-2\n", `f:2: GeneratedTokens: "-2" is negative; 0 to 10000000 is valid`},
		{"too large", azureHead + ok + "2024-01-01 00:00:00,10000001,2\n", `f:3: ContextTokens: "10000001" is too large; 0 to 10000000 is valid`},
		{"far too large", azureHead + "2024-01-01 00:00:00,99999999999999999999999,2\n", `f:2: ContextTokens: "99999999999999999999999" is too large; 0 to 10000000 is valid`},
		{"nan", azureHead + "2024-01-01 00:00:00,NaN,2\n", `f:2: ContextTokens: "NaN" is not a whole number; 0 to 10000000 is valid`},
		{"empty field", azureHead + "2024-01-01 00:00:00,,2\n", `f:2: ContextTokens: "" is empty; 0 to 10000000 is valid`},
		{"no such day", azureHead + "2024-02-30 00:00:00,1,2\n", `f:2: TIMESTAMP: "2024-02-30 00:00:00" is not on the calendar; a time such as 2023-11-16 18:17:03.9799600 is valid`},
		{"quotes", azureHead + "2024-01-01 00:00:00,\"1,2\n", "f:2: quotes are not balanced; a quoted field must end on its line"},
		{"nan seconds", burst + "nan,a,1,2\n", `f:2: Timestamp: "nan" is not a number; a number of seconds from 0 to 9200000000 is valid`},
		{"negative seconds", burst + "5,a,1,2\n-5,a,1,2\n", `f:3: Timestamp: "-5" is negative or not a number; a number of seconds from 0 to 9200000000 is valid`},
		{"lines are counted with blank ones", burst + "\n\n5,a,1,2\n\nx,a,1,2\n", `f:6: Timestamp: "x" is not a number; a number of seconds from 0 to 9200000000 is valid`},
		{"not JSON", json + json + "{\"timestamp\": 1,\n", "f:3: not JSON: unexpected end of JSON input; one object per line is expected"},
		{"no object", json + "[1]\n", `f:2: "[1]" is not an object; {"timestamp": ..., "input_length": ..., "output_length": ...} is expected`},
		{"missing key", json + `{"timestamp": 1, "output_length": 3}`, "f:2: input_length: missing; every row needs timestamp, input_length and output_length"},
		{"key in other case", `{"Timestamp": 1, "input_length": 1, "output_length": 3}`, "f:1: timestamp: missing; every row needs timestamp, input_length and output_length"},
		{"twice", `{"timestamp": 1, "timestamp": 1, "input_length": 1, "output_length": 3}`, "f:1: timestamp: written twice"},
		{"text for a number", json + `{"timestamp": 1, "input_length": "2", "output_length": 3}`, `f:2: input_length: "\"2\"" is not a whole number; 0 to 10000000 is valid`},
		{"null", `{"timestamp": null, "input_length": 2, "output_length": 3}`, `f:1: timestamp: "null" is not a number; a number of milliseconds from 0 to 9200000000000 is valid`},
		{"no list", `{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": 7}`, `f:1: hash_ids: "7" is not a list; a list of whole numbers from 0 to 18446744073709551615 is valid`},
		{"negative hash", `{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [-7]}`, `f:1: hash_ids: "[-7]" has the item "-7"; a list of whole numbers from 0 to 18446744073709551615 is valid`},
		{"large hash", `{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [18446744073709551616]}`, `f:1: hash_ids: "[18446744073709551616]" has the item "18446744073709551616", which is too large; a list of whole numbers from 0 to 18446744073709551615 is valid`},
		{"very long line", azureHead + ok + strings.Repeat("1", maxLine+1), "f:3: the line is longer than 16 MiB; is this a trace?"},
		{"chat", `{"chat_id": 1, "timestamp": 9200000001, "input_length": 2, "output_length": 3}`, `f:1: timestamp: "9200000001" is too large; a number of seconds from 0 to 9200000000 is valid`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadTrace(strings.NewReader(c.text), "f", DefaultTraceConfig(""))
			require.EqualError(t, err, c.want)
			var ps config.Problems
			require.ErrorAs(t, err, &ps)
			require.Len(t, ps, 1)
		})
	}
}

func TestTraceSettingsThatDoNotFit(t *testing.T) {
	cfg := DefaultTraceConfig("")
	cfg.Format = FormatMooncake
	_, err := ReadTrace(strings.NewReader(azureHead), "f", cfg)
	require.ErrorContains(t, err, "f:1: not JSON: ")
	cfg.Format = FormatBurstGPT
	_, err = ReadTrace(strings.NewReader(azureHead), "f", cfg)
	require.ErrorContains(t, err, "f:1: Timestamp: the header ")
	cfg.Format, cfg.BlockTokens = FormatAzure, 16
	_, err = ReadTrace(strings.NewReader(azureHead), "f", cfg)
	require.EqualError(t, err, "f:1: block_tokens: the format azure has no blocks; remove it")
	cfg.BlockTokens, cfg.Skip = 0, 5
	_, err = ReadTrace(strings.NewReader(azureHead+"2024-01-01 00:00:00,1,1\n"), "f", cfg)
	require.EqualError(t, err, "f:2: none of the 1 rows can be played: 1 skipped, 0 without prompt or output tokens")
	cfg.Format = "csv"
	_, err = ReadTrace(strings.NewReader(azureHead), "f", cfg)
	require.ErrorContains(t, err, `format: unknown format "csv"`)
}

func TestTraceThatCannotBeRead(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(azureHead+"2024-01-01 00:00:00,1,1\n"), iotest.ErrReader(errors.New("the disk is gone")))
	_, err := ReadTrace(broken, "f", DefaultTraceConfig(""))
	require.EqualError(t, err, "f:3: cannot be read: the disk is gone")

	trace := DefaultTraceConfig(filepath.Join("testdata", "absent.csv"))
	_, err = Load(Config{Trace: &trace})
	require.ErrorContains(t, err, "trace.path: cannot read "+filepath.Join("testdata", "absent.csv")+": ")
	trace.Path = "testdata"
	_, err = Load(Config{Trace: &trace})
	require.Error(t, err)
}

func TestLongLineOfBlocks(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`{"timestamp":0,"input_length":10000000,"output_length":1,"hash_ids":[0`)
	for i := 1; i < 19532; i++ {
		fmt.Fprintf(&b, ", %d", 1_000_000_000_000_000_000+i)
	}
	b.WriteString("]}")
	require.Len(t, read(t, b.String(), DefaultTraceConfig("")).blocks, 19532)
}
