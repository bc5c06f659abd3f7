package compare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]Limit{
		"tgs_steady=-2%":    {Key: "tgs_steady", By: -0.02, Relative: true, down: true},
		"tgs=-0%":           {Key: "tgs", By: 0, Relative: true, down: true},
		"p99_ttft_ms=+50":   {Key: "p99_ttft_ms", By: 50},
		"p99_ttft_ms=+.5%":  {Key: "p99_ttft_ms", By: 0.005, Relative: true},
		"marked_share=-1.5": {Key: "marked_share", By: -1.5, down: true},
	} {
		l, err := ParseLimit(text)
		require.NoError(t, err, text)
		want.Text = text
		if want.By == 0 { // -0
			l.By = 0
		}
		require.Equal(t, want, l)
	}
	for text, want := range map[string]string{
		"tgs":                   `--fail-if "tgs": write MEASURE=-N%, +N%, -N or +N, such as tgs_steady=-2% or p99_ttft_ms=+50`,
		"tgs=2%":                "write MEASURE=",
		"tgs=":                  "write MEASURE=",
		"":                      "write MEASURE=",
		"tsg=-2%":               `no measure "tsg" is compared; did you mean tgs?`,
		"tgs=-2%%":              `"2%" is not a decimal number`,
		"tgs=-":                 `"" is not a decimal number`,
		"tgs=-.":                `"." is not a decimal number`,
		"tgs=-0x1":              `"0x1" is not a decimal number`,
		"tgs=-1e3":              `"1e3" is not a decimal number`,
		"tgs=--2":               `"-2" is not a decimal number`,
		"tgs=-inf":              `"inf" is not a decimal number`,
		"tgs=-9999999999999999": "up to 1e15",
		"tgs=+2%":               "more is better of tgs; write -2%",
		"p99_itl_ms=-2":         "less is better of p99_itl_ms; write +2",
	} {
		_, err := ParseLimit(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestJudge(t *testing.T) {
	sure, unsure := 1., 100.
	of := func(a, diff, half float64) Paired { return Paired{N: 5, A: a, B: a + diff, Diff: diff, Half: half} }
	for _, c := range []struct {
		limit string
		p     Paired
		want  string
	}{
		{"tgs=-2%", of(1000, -30, sure), Missed},
		{"tgs=-2%", of(1000, -30, unsure), NotSignificant},
		{"tgs=-2%", of(1000, -20, sure), Kept}, // 2 % and no more
		{"tgs=-2%", of(1000, +30, sure), Kept},
		{"tgs=-0%", of(1000, 0, 0), Kept},
		{"tgs=-0%", of(1000, -2, sure), Missed},
		{"tgs=-25", of(1000, -30, sure), Missed},
		{"tgs=-35", of(1000, -30, sure), Kept},
		{"p99_ttft_ms=+2%", of(1000, 30, sure), Missed},
		{"p99_ttft_ms=+2%", of(1000, -30, sure), Kept},
		{"paused_ms=+1000%", of(0, 30, sure), Missed}, // from nothing
		{"paused_ms=+50", of(0, 30, sure), Kept},
		{"paused_ms=+0%", of(0, 0, 0), Kept},
		{"tgs=-2%", Paired{N: 1, A: 1000, B: 0, Diff: -1000}, Undefined},
		{"tgs=-2%", Paired{}, Undefined},
	} {
		l, err := ParseLimit(c.limit)
		require.NoError(t, err)
		require.Equal(t, c.want, l.judge(c.p), "%s %+v", c.limit, c.p)
	}
}

// Whatever is read is a limit in the direction that is written, and what was read
// reads the same again.
func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"tgs=-2%", "p99_ttft_ms=+50", "tgs", "=-1", "tgs=-", "marked_share=+0.5%", "tgs=-1_000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLimit(text)
		if err != nil {
			require.ErrorContains(t, err, "--fail-if")
			return
		}
		require.Equal(t, text, l.Text)
		require.True(t, strings.HasPrefix(text, l.Key+"="))
		require.Equal(t, l.Relative, strings.HasSuffix(text, "%"))
		require.LessOrEqual(t, l.By*l.By, 1e30)
		if l.down {
			require.LessOrEqual(t, l.By, 0.)
		} else {
			require.GreaterOrEqual(t, l.By, 0.)
		}
		require.NotEmpty(t, l.judge(Paired{N: 2, A: 1, B: 2, Diff: 1}))
	})
}
