package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/serving"
)

// summarise copies the statistics into the Summary.
func (x *analysis) summarise() {
	s, r := &x.r.Summary, x.r
	stats := func(st Stats, dst ...**float64) {
		if st.Count == 0 {
			return
		}
		for i, v := range []float64{st.Mean, st.P50, st.Std, st.P90, st.P95, st.P99, st.Max} {
			*dst[i] = num(v)
		}
	}
	stats(r.TTFT, &s.MeanTTFT, &s.MedianTTFT, &s.StdTTFT, &s.P90TTFT, &s.P95TTFT, &s.P99TTFT, &s.MaxTTFT)
	stats(r.TTFTPrefill, &s.MeanTTFTPrefill, &s.MedianTTFTPrefill, &s.StdTTFTPrefill, &s.P90TTFTPrefill,
		&s.P95TTFTPrefill, &s.P99TTFTPrefill, &s.MaxTTFTPrefill)
	stats(r.TPOT, &s.MeanTPOT, &s.MedianTPOT, &s.StdTPOT, &s.P90TPOT, &s.P95TPOT, &s.P99TPOT, &s.MaxTPOT)
	stats(r.ITL, &s.MeanITL, &s.MedianITL, &s.StdITL, &s.P90ITL, &s.P95ITL, &s.P99ITL, &s.MaxITL)
	stats(r.E2E, &s.MeanE2E, &s.MedianE2E, &s.StdE2E, &s.P90E2E, &s.P95E2E, &s.P99E2E, &s.MaxE2E)
	stats(r.KVTransfer, &s.MeanKVTransfer, &s.MedianKVTransfer, &s.StdKVTransfer, &s.P90KVTransfer,
		&s.P95KVTransfer, &s.P99KVTransfer, &s.MaxKVTransfer)
	s.MeasuredRequests = int64(len(x.measured))
	s.ITLSamples = r.ITL.Count
	s.KVTransfers = len(r.Transfers)
	for i := range r.Transfers {
		s.KVBytes += int64(r.Transfers[i].Bytes)
	}
}

// setLinks copies the tiers into the Summary.
func (s *Summary) setLinks(l *Links) {
	for _, k := range []struct {
		tier      Tier
		mean, max **float64
	}{
		{TierNVLink, &s.MeanUtilNVLink, &s.MaxUtilNVLink},
		{TierNICUp, &s.MeanUtilNICUp, &s.MaxUtilNICUp},
		{TierNICDown, &s.MeanUtilNICDown, &s.MaxUtilNICDown},
		{TierLeafUp, &s.MeanUtilLeafUp, &s.MaxUtilLeafUp},
		{TierLeafDown, &s.MeanUtilLeafDown, &s.MaxUtilLeafDown},
	} {
		if t := l.Tier(k.tier); t != nil {
			*k.mean, *k.max = num(t.Mean), num(t.Max)
		}
	}
	if up := l.Tier(TierLeafUp); up != nil {
		s.JFIUplinks, s.MMRUplinks = up.JFI, up.MMR
	}
}

// notes adds the caveats that follow from the figures.
func (x *analysis) notes() {
	s := &x.r.Summary
	if n := s.RequestsUnfinished; n > 0 {
		was := "were"
		if n == 1 {
			was = "was"
		}
		if s.Completed > 0 {
			x.note("%s %s unfinished when the run stopped; latencies cover finished requests only and are too good.",
				requests(n), was)
		} else {
			x.note("%s %s unfinished when the run stopped, and none finished: all figures are of the ramp-up.", requests(n), was)
		}
		if x.a.Exhausted {
			x.note("Nothing was left to happen after %s s: what the unfinished requests wait for lies beyond the 106 days that the clock covers, or never comes.",
				short(x.a.End.Seconds()))
		}
	}
	x.rejections()
	if life := x.life; life > 0 && x.r.Steady.Length() > 0 && x.r.Steady.Length().Milliseconds() < life {
		x.note("Steady-state figures rest on %s s, less than one mean end-to-end latency (%s s): they still hold ramp-up.",
			short(x.r.Steady.Length().Seconds()), short(life/1e3))
	}
	if s.RequestsUnfinished == 0 {
		if want := s.TotalOutputTokens; s.EmittedOutputTokens != want {
			x.note("Requests got %s output tokens, but %s were seen being emitted; steady-state figures count the latter.",
				Thousands(strconv.FormatInt(want, 10)), Thousands(strconv.FormatInt(s.EmittedOutputTokens, 10)))
		}
	}
}

// maxReasons is how many reasons for rejecting are told apart in a note.
const maxReasons = 3

// rejections says how many requests were rejected, and why, the most frequent
// reason first. Reasons that differ in numbers only, such as the length of the
// prompt, are one.
func (x *analysis) rejections() {
	type reason struct {
		text string
		n    int
	}
	var reasons []reason
	at := map[string]int{} // index in reasons; never iterated
	for i := range x.r.Requests {
		q := &x.r.Requests[i]
		if q.Outcome != serving.Rejected {
			continue
		}
		key := withoutNumbers(x.r.Reason(q))
		k, ok := at[key]
		if !ok {
			k = len(reasons)
			at[key] = k
			reasons = append(reasons, reason{text: x.r.Reason(q)})
		}
		reasons[k].n++
	}
	if len(reasons) == 0 {
		return
	}
	slices.SortStableFunc(reasons, func(a, b reason) int { return cmp.Compare(b.n, a.n) })
	var parts []string
	others := 0
	for i, r := range reasons {
		if i < maxReasons {
			parts = append(parts, fmt.Sprintf("%s (%s)", r.text, Thousands(strconv.Itoa(r.n))))
		} else {
			others += r.n
		}
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("for other reasons (%s)", Thousands(strconv.Itoa(others))))
	}
	x.note("Rejected %s: %s.", requests(x.r.Summary.RequestsRejected), strings.Join(parts, "; "))
}

// withoutNumbers replaces every run of digits by a 0.
func withoutNumbers(s string) string {
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		c := s[i]
		if c >= '0' && c <= '9' {
			c = '0'
			if n := len(b); n > 0 && b[n-1] == '0' {
				continue
			}
		}
		b = append(b, c)
	}
	return string(b)
}
