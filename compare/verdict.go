package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/metrics"
)

// verdict is one sentence on the pair: whether TGS differs, by how much, why as far
// as the attribution of GPU time says, and whether TTFT and ITL do.
func (p *Pair) verdict() string {
	n := len(p.runs)
	switch {
	case n == 0:
		return "No replication succeeded in both."
	case p.Same && len(p.B.Differences) == 0:
		return fmt.Sprintf("%s is A: no difference, in %s.", p.B.Letter, replications(n))
	case p.Same:
		return fmt.Sprintf("No difference: %s is the same run as A, event by event, in %s, so %s never acted.",
			p.B.Letter, replications(n), p.keys())
	}
	text, tgs := p.throughput()
	if tgs != nil && tgs.Significant() {
		text += p.why(tgs.Diff)
	}
	return text + p.latency("mean_ttft_ms", "p99_ttft_ms", "TTFT") + p.latency("mean_itl_ms", "p99_itl_ms", "ITL") + "."
}

func replications(n int) string {
	if n == 1 {
		return "1 replication"
	}
	return fmt.Sprintf("all %d replications", n)
}

// keys names the keys that differ.
func (p *Pair) keys() string {
	var keys []string
	for i, d := range p.B.Differences {
		if i == maxShown {
			keys = append(keys, fmt.Sprintf("and %d more", len(p.B.Differences)-i))
			break
		}
		keys = append(keys, d.Key)
	}
	return strings.Join(keys, ", ")
}

// throughput says what became of TGS: in the steady window or, when there is none
// or neither emits a token in it, over the whole run.
func (p *Pair) throughput() (string, *Paired) {
	const unit = "tokens/s per GPU"
	x, ok := p.measure("tgs_steady")
	name := "TGS"
	if !ok || x.A == 0 && x.B == 0 {
		if x, ok = p.measure("tgs"); !ok {
			return "TGS is undefined", nil
		}
		name = "TGS over the whole run"
	}
	switch relative, _ := x.Relative(); {
	case x.Diff == 0 && x.Half == 0:
		return fmt.Sprintf("No difference in %s: %s %s in both", name, figure(x.A), unit), &x
	case x.N < 2:
		return fmt.Sprintf("%s has %s %s than A in the one replication, %s against %s %s", p.B.Letter, moreOrLess(x.Diff), name,
			figure(x.B), figure(x.A), unit), &x
	case !x.Significant():
		return fmt.Sprintf("No significant difference in %s: %s - A is %s %s %s, and a difference of %s would be found four times in five",
			name, p.B.Letter, signed(x.Diff), x.interval(1), unit, detectable(x)), &x
	default:
		how := "significantly"
		if p.Constant {
			how = "exactly"
		}
		gpus := float64(p.B.Cluster.GPUs)
		all := fmt.Sprintf(", %s tokens/s on its %d GPUs", signed(x.Diff*gpus), p.B.Cluster.GPUs)
		if p.B.Cluster.GPUs != p.a.Cluster.GPUs {
			all = ""
		}
		return fmt.Sprintf("%s has %s %s than A, %s by %s: %s against %s %s, %s %s%s", p.B.Letter, moreOrLess(x.Diff), name,
			how, percent(math.Abs(relative)), figure(x.B), figure(x.A), unit, signed(x.Diff), x.interval(1), all), &x
	}
}

// detectable is the smallest difference that would have been found, and its share.
func detectable(x Paired) string {
	if x.A == 0 {
		return size(x.Detectable)
	}
	return fmt.Sprintf("%s (%s)", size(x.Detectable), percent(x.Detectable/math.Abs(x.A)))
}

func moreOrLess(diff float64) string {
	if diff > 0 {
		return "more"
	}
	return "less"
}

// leastPoint is the change of a share from which it explains anything.
const leastPoint = 0.001

// why names the waiting of GPUs that changed most, among what changed significantly
// and against TGS: less TGS, more waiting. Where the slower one is saturated it
// asks the pool that limits it, and no other.
func (p *Pair) why(tgs float64) string {
	var most *Paired
	var pool, text string
	for _, of := range p.limiting(tgs) {
		for _, a := range activities {
			x, ok := p.measure("gpu_time_" + of + "_" + a.key)
			if !ok || !x.Significant() || x.Diff*tgs > 0 || math.Abs(x.Diff) < leastPoint {
				continue
			}
			if most == nil || math.Abs(x.Diff) > math.Abs(most.Diff) {
				most, pool, text = &x, of, a.text
			}
		}
	}
	if most == nil {
		return "; no share of the GPUs' waiting says why"
	}
	return fmt.Sprintf("; the %s GPUs spend %s of their time on %s instead of %s", pool, percent(most.B), text, percent(most.A))
}

// limiting lists the pools that may limit TGS: prefill or decode where most runs of
// the slower variant are saturated there, or else both.
func (p *Pair) limiting(tgs float64) []string {
	prefill, decode := 0, 0
	for _, r := range p.runs {
		slower := r.a
		if tgs < 0 {
			slower = r.b
		}
		switch s := slower.Saturation; {
		case !strings.HasPrefix(s, metrics.Saturated.String()):
		case strings.Contains(s, metrics.StageQueue.String()):
			prefill++
		default:
			decode++
		}
	}
	switch {
	case 2*prefill > len(p.runs):
		return pools[:1]
	case 2*decode > len(p.runs):
		return pools[1:]
	}
	return pools
}

// least is the part of A from which a significant difference is worth a word, half
// of a fourth digit: where replications are alike those of nanoseconds are
// significant, too.
const least = 5e-5

func (p *Paired) worthAWord() bool { return p.Significant() && math.Abs(p.Diff) >= least*math.Abs(p.A) }

// latency says what became of a latency when it differs significantly and is worth a
// word: its mean or else its 99th percentile. Of the mean TTFT it names the piece that
// changed most.
func (p *Pair) latency(mean, p99, name string) string {
	x, ok := p.measure(mean)
	what := "mean " + name
	if !ok || !x.worthAWord() {
		if x, ok = p.measure(p99); !ok || !x.worthAWord() {
			return ""
		}
		what = name + " p99"
	}
	word := "longer"
	if x.Diff < 0 {
		word = "shorter"
	}
	text := fmt.Sprintf("; %s is %s ms %s (%s against %s, %s)", what, size(x.Diff), word, figure(x.B), figure(x.A), x.interval(1))
	if mean != "mean_ttft_ms" || what != "mean TTFT" {
		return text
	}
	var most *Paired
	var piece string
	for _, q := range pieces {
		y, ok := p.measure("ttft_ms_" + q.key)
		if ok && y.Significant() && y.Diff*x.Diff > 0 && (most == nil || math.Abs(y.Diff) > math.Abs(most.Diff)) {
			most, piece = &y, q.text
		}
	}
	if most == nil {
		return text
	}
	return text + fmt.Sprintf(", of which %s %s ms", piece, signed(most.Diff))
}

// interval writes the 95 % interval in a scale: "[-1.2, +0.6]"; "" without one.
func (p *Paired) interval(scale float64) string {
	if p.N < 2 {
		return ""
	}
	low, high := (p.Diff-p.Half)*scale, (p.Diff+p.Half)*scale
	d := decimals(max(math.Abs(low), math.Abs(high)), 3)
	return "[" + withSign(low, d) + ", " + withSign(high, d) + "]"
}

// decimals is how many decimals show so many significant digits.
func decimals(x float64, digits int) int {
	if x == 0 || math.IsInf(x, 0) {
		return 0
	}
	return max(0, min(digits-1-int(math.Floor(math.Log10(math.Abs(x)))), 6))
}

// large is from where figures have an exponent, so that tables keep their width.
const large = 1e8

// figure writes four significant digits at least, with thousands separated.
func figure(x float64) string {
	if math.Abs(x) >= large {
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	return metrics.Thousands(strconv.FormatFloat(x, 'f', decimals(x, 4), 64))
}

// signed is figure with a sign and three digits.
func signed(x float64) string { return withSign(x, decimals(x, 3)) }

// size is signed without the sign.
func size(x float64) string { return strings.TrimPrefix(signed(math.Abs(x)), "+") }

func withSign(x float64, decimals int) string {
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		return "0"
	}
	text = metrics.Thousands(text)
	if math.Abs(x) >= large {
		text = figure(x)
	}
	if x > 0 {
		text = "+" + text
	}
	return text
}

// percent writes a fraction.
func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', decimals(100*x, 2), 64) + " %" }
