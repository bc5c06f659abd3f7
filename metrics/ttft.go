package metrics

import "github.com/tgssim/tgssim/serving"

// A Split cuts the TTFT of a set of requests into its pieces.
type Split struct {
	Requests int
	// TTFT is the set's mean, in milliseconds.
	TTFT float64
	// Mean is the mean of each piece, in milliseconds.
	Mean [serving.NumPieces]float64
	// Share is each piece's part of the set's TTFT in millionths. The shares of
	// a set that waited at all sum to a million.
	Share [serving.NumPieces]int
}

// Transfer is the part of the TTFT that the KV transfer takes, in millionths:
// posting, wire and queueing; waiting for decode memory is not its fault.
func (s *Split) Transfer() int {
	return s.Share[serving.PieceTransferPost] + s.Share[serving.PieceTransferWire] + s.Share[serving.PieceTransferQueue]
}

// splits computes where TTFT went: for all measured requests, and for the slow
// ones, whose TTFT is at or above the 99th percentile.
func (x *analysis) splits() {
	x.r.TTFTMean = split(x.measured)
	var slow []*Request
	for _, q := range x.measured {
		if q.TTFTOf().Milliseconds() >= x.r.TTFT.P99 {
			slow = append(slow, q)
		}
	}
	x.r.TTFTTail = split(slow)

	s := &x.r.Summary
	if x.r.TTFTMean.TTFT > 0 {
		s.TTFTShares = sharesJSON(x.r.TTFTMean.Share)
		s.KVTransferShare = num(float64(x.r.TTFTMean.Transfer()) / million)
	}
	if x.r.TTFTTail.TTFT > 0 {
		s.TTFTTailShares = tailSharesJSON(x.r.TTFTTail.Share)
		s.KVTransferTailShare = num(float64(x.r.TTFTTail.Transfer()) / million)
	}
}

func split(requests []*Request) Split {
	s := Split{Requests: len(requests)}
	if len(requests) == 0 {
		return s
	}
	var total spanSum
	var sums [serving.NumPieces]spanSum
	for _, q := range requests {
		total.add(q.TTFTOf())
		for p, t := range q.TTFT {
			sums[p].add(t)
		}
	}
	n := float64(len(requests))
	s.TTFT = total.in() * 1e3 / n
	weights := make([]float64, len(sums))
	for p := range sums {
		weights[p] = sums[p].in()
		s.Mean[p] = weights[p] * 1e3 / n
	}
	copy(s.Share[:], Shares(weights, million))
	return s
}
