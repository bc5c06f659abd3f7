package plot

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"

	"github.com/tgssim/tgssim/internal/detmath"
)

// A tick is a mark on an axis; without a label it is a small one.
type tick struct {
	at    float64
	label string
}

// An axis is one direction of a panel.
type axis struct {
	label    string
	min, max float64
	log      bool
	// places are values that get a tick each, where there is room: the sizes that
	// were simulated.
	places []float64
	// names label the values 0, 1, 2, ... of an axis of names.
	names []string
	// format writes a tick; nil writes the number.
	format func(x float64) string
}

// logRatio is the ratio of the largest to the smallest value from which an axis
// is logarithmic.
const logRatio = 30

// wantsLog tells whether values are better shown on a logarithmic axis: they span
// a ratio over logRatio, or are, where discrete, at least three powers of two.
func wantsLog(values []float64, discrete bool) bool {
	lo, hi := math.Inf(1), math.Inf(-1)
	powers := discrete
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
		if m, _ := math.Frexp(v); m != 0.5 {
			powers = false
		}
	}
	if !(lo > 0) || math.IsInf(hi, 0) {
		return false
	}
	return hi/lo > logRatio || powers && len(values) > 2
}

// fraction is the place of a value along the axis, 0 to 1.
func (a *axis) fraction(v float64) float64 {
	if a.log {
		if v <= 0 {
			return math.Inf(-1)
		}
		lo := detmath.Log(a.min)
		return (detmath.Log(v) - lo) / (detmath.Log(a.max) - lo)
	}
	return (v - a.min) / (a.max - a.min)
}

// cover sets the range to hold lo to hi with a margin, a share of the range, on
// either side. A single value gets a range around it.
func (a *axis) cover(lo, hi, below, above float64) {
	if hi-lo < 1e-6*math.Max(math.Abs(lo), math.Abs(hi)) { // no range to speak of
		lo, hi = math.Min(lo, hi), math.Min(lo, hi)
	}
	switch {
	case a.log && lo == hi:
		a.min, a.max = lo/2, hi*2
	case a.log:
		ratio := detmath.Log(hi / lo)
		a.min, a.max = lo*detmath.Exp(-below*ratio), hi*detmath.Exp(above*ratio)
	case lo == hi && lo == 0:
		a.min, a.max = -1, 1
		if below == 0 {
			a.min = 0
		}
	case lo == hi:
		d := math.Abs(lo) / 2
		a.min, a.max = lo-d, hi+d
	default:
		d := hi - lo
		a.min, a.max = lo-float64(below*d), hi+float64(above*d)
	}
}

// ticks places the marks of an axis of so many points, so that labels keep clear
// of each other. Labels take the room that extent says.
func (a *axis) ticks(length vg.Length, extent func(label string) vg.Length) []tick {
	format := a.format
	fits := func(ts []tick) bool { return a.clear(ts, length, extent) }
	switch {
	case a.names != nil:
		ts := make([]tick, len(a.names))
		for i, name := range a.names {
			ts[i] = tick{float64(i), name}
		}
		return ts
	case len(a.places) > 0:
		if ts := a.placed(fits); ts != nil {
			return ts
		}
	}
	if a.log {
		return a.logTicks(format, fits)
	}
	return a.spaced(8, format, fits)
}

// spaced are up to n ticks at equal distances, of which every second one or less
// has a label where there is no room for more.
func (a *axis) spaced(n int, format func(float64) string, fits func([]tick) bool) []tick {
	for k := n; k > 1; k-- {
		if ts := linearTicks(a.min, a.max, k, format); len(ts) > 1 && fits(ts) {
			return ts
		}
	}
	for every := 2; every <= n; every++ {
		for k := n; k > every; k-- {
			ts := linearTicks(a.min, a.max, k, format)
			for i := range ts {
				if i%every != 0 {
					ts[i].label = ""
				}
			}
			if len(ts) > every && fits(ts) {
				return ts
			}
		}
	}
	return linearTicks(a.min, a.max, 1, format)
}

// placed are ticks at the places, on a logarithmic axis thinned until they fit;
// nil when they never do.
func (a *axis) placed(fits func([]tick) bool) []tick {
	for every := 1; every <= len(a.places); every++ {
		var ts []tick
		for i, v := range a.places {
			t := tick{at: v}
			if i%every == 0 {
				t.label = a.write(v)
			}
			ts = append(ts, t)
		}
		if fits(ts) {
			return ts
		}
		if !a.log {
			return nil
		}
	}
	return nil
}

func (a *axis) write(v float64) string {
	if a.format != nil {
		return a.format(v)
	}
	return number(v)
}

// clear tells whether labels keep half a label's height, or six points, apart.
func (a *axis) clear(ts []tick, length vg.Length, extent func(string) vg.Length) bool {
	const apart = 6
	end := vg.Length(math.Inf(-1))
	for _, t := range ts {
		if t.label == "" {
			continue
		}
		at, half := vg.Length(a.fraction(t.at))*length, extent(t.label)/2
		if at-half < end+apart {
			return false
		}
		end = at + half
	}
	return true
}

// linearTicks are at most n multiples of 1, 2, 2.5 or 5 times a power of ten
// within the range (two where one step is larger than the range).
func linearTicks(lo, hi float64, n int, format func(float64) string) []tick {
	step, digits := niceStep((hi - lo) / float64(n))
	first, last := math.Ceil(lo/step-1e-9), math.Floor(hi/step+1e-9)
	precise := 1 + int(math.Ceil(math.Log10(math.Max(math.Abs(lo), math.Abs(hi))/step))) // digits that tell ticks apart
	var ts []tick
	for k := first; k <= last && len(ts) < 100; k++ {
		v := float64(k * step)
		label := spell(v, digits, max(precise, 4))
		if format != nil {
			label = format(v)
		}
		ts = append(ts, tick{v, label})
	}
	return ts
}

// niceStep is the least of 1, 2, 2.5 and 5 times a power of ten that is not below
// x, with the number of decimals that its multiples have.
func niceStep(x float64) (step float64, digits int) {
	exponent := int(math.Floor(math.Log10(x)))
	for e := exponent - 1; ; e++ {
		for _, m := range []float64{1, 2, 2.5, 5} {
			if step = m * math.Pow10(e); step >= x*(1-1e-9) {
				digits = max(0, -e)
				if m == 2.5 {
					digits = max(0, 1-e)
				}
				return step, digits
			}
		}
	}
}

// logTicks label powers of ten, with some of their multiples where there are few,
// and as on a linear axis where there are none.
func (a *axis) logTicks(format func(float64) string, fits func([]tick) bool) []tick {
	lo, hi := int(math.Floor(math.Log10(a.min))), int(math.Ceil(math.Log10(a.max)))
	try := func(labelled []int, every int) []tick {
		ts, n := a.decades(lo, hi, func(m, e int) bool { return slices.Contains(labelled, m) && e%every == 0 }, format)
		if n < 2 || !fits(ts) {
			return nil
		}
		return ts
	}
	for _, labelled := range [][]int{{1, 2, 3, 4, 5, 6, 8}, {1, 2, 5}, {1, 3}} {
		if hi-lo > 3 && len(labelled) > 3 || hi-lo > 5 {
			continue
		}
		if ts := try(labelled, 1); ts != nil {
			return ts
		}
	}
	for every := 1; every <= 64; every++ {
		if ts := try([]int{1}, every); ts != nil {
			return ts
		}
	}
	return a.spaced(6, format, fits)
}

// decades are ticks at all multiples of powers of ten, and how many are labelled.
func (a *axis) decades(lo, hi int, labelled func(m, e int) bool, format func(float64) string) (ts []tick, n int) {
	if format == nil {
		format = number
	}
	for e := lo; e <= hi; e++ {
		for m := 1; m < 10; m++ {
			t := tick{at: float64(m) * math.Pow10(e)}
			if t.at < a.min*(1-1e-9) || t.at > a.max*(1+1e-9) {
				continue
			}
			if labelled(m, e) {
				t.label = format(t.at)
				n++
			}
			ts = append(ts, t)
		}
	}
	return ts, n
}

// number writes a value for a tick or a name, as short as it is exact to six
// digits: 1,024, 0.25, 2.5M.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'g', 6, 64)
	short, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	digits := 0
	if plain := strconv.FormatFloat(short, 'f', -1, 64); strings.Contains(plain, ".") {
		digits = len(plain) - strings.IndexByte(plain, '.') - 1
	}
	return decimal(short, digits)
}

// decimal writes so many decimals, as spell does.
func decimal(v float64, digits int) string { return spell(v, digits, 6) }

// spell writes so many decimals, commas between thousands, and M, G and T for
// large numbers; very small ones have an exponent. Those have so many significant
// digits at most.
func spell(v float64, digits, precise int) string {
	size := math.Abs(v)
	for _, u := range []struct {
		unit float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}} {
		if size >= u.unit {
			return strconv.FormatFloat(v/u.unit, 'g', precise, 64) + u.name
		}
	}
	if v == 0 {
		return "0"
	}
	if size < 1e-4 {
		return strings.Replace(strconv.FormatFloat(v, 'g', precise, 64), "e-0", "e-", 1)
	}
	text := strconv.FormatFloat(size, 'f', digits, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	if v < 0 && strings.Trim(whole, "0.,") != "" {
		whole = "\u2212" + whole
	}
	return whole
}

// significant writes three significant digits at least, for captions.
func significant(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return decimal(v, min(max(digits, 0), 6))
}

func textWidth(f font.Face) func(string) vg.Length {
	return func(s string) vg.Length { return room(f, s) }
}

// textHeight is the same for all labels.
func textHeight(f font.Face) func(string) vg.Length {
	return func(string) vg.Length { return f.Font.Size }
}
