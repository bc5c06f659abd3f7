package metrics

import "github.com/tgssim/tgssim/serving"

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
	if s.RequestsUnfinished > 0 {
		x.note("%d requests were unfinished when the run stopped; latencies cover finished requests only and are too good.",
			s.RequestsUnfinished)
	}
	reasons := map[string]int{}
	var order []string
	for i := range x.r.Requests {
		q := &x.r.Requests[i]
		if q.Outcome != serving.Rejected {
			continue
		}
		if reason := x.r.Reason(q); reasons[reason] == 0 {
			order = append(order, reason)
			reasons[reason] = 1
		} else {
			reasons[reason]++
		}
	}
	const most = 3
	for i, reason := range order {
		if i == most {
			x.note("Rejected for %d more reasons; requests.csv has them all.", len(order)-most)
			break
		}
		x.note("Rejected %d: %s.", reasons[reason], reason)
	}
	if life := x.r.E2E.Mean; life > 0 && x.r.Steady.Length().Milliseconds() < life {
		x.note("Steady-state figures rest on %s s, less than one mean end-to-end latency (%s s): they still hold ramp-up.",
			short(x.r.Steady.Length().Seconds()), short(life/1e3))
	}
	if s.RequestsUnfinished == 0 {
		if want := s.TotalOutputTokens; s.EmittedOutputTokens != want {
			x.note("Requests got %d output tokens, but %d were seen being emitted; steady-state figures count the latter.",
				want, s.EmittedOutputTokens)
		}
	}
}
