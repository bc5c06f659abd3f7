package serving

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/collective"
	"github.com/tgssim/tgssim/sim"
	"github.com/tgssim/tgssim/workload"
)

// drafting is a setup whose decode steps verify drafts that are made for nothing:
// a step takes 10 ms per query token of a request.
func drafting(query int, acceptance float64, source Source) *setup {
	s := newSetup(source)
	s.config.Decode.MTP = MTPConfig{QueryTokens: query, Acceptance: acceptance}
	return s
}

// decodeSteps are the decode steps of a story.
func (o *story) decodeSteps() (steps []Step) {
	for _, st := range o.steps {
		if st.Pool == poolDecode {
			steps = append(steps, st)
		}
	}
	return steps
}

// Every draft is right: three tokens a step, and no more at the end than asked
// for. All of them count, and each step is one output.
func TestAllDraftsAccepted(t *testing.T) {
	o := drafting(3, 1, requests(at(0, 100, 10))).run(t)
	var output []int64
	for i, st := range o.decodeSteps() {
		require.Equal(t, 30*ms, st.End-st.Start)
		require.Equal(t, 3, st.Tokens)
		require.EqualValues(t, 100+3*i+3, st.Context)
		output = append(output, st.Output)
	}
	require.Equal(t, []int64{3, 3, 3, 1}, output)
	require.Equal(t, map[sim.Time]int{30 * ms: 3}, o.gaps)
	r := o.records[0]
	require.Equal(t, map[sim.Time]int{r.FirstToken: 2, r.FirstToken + 30*ms: 2, r.FirstToken + 60*ms: 2}, o.extras)
	require.Equal(t, 90*ms, r.Finish-r.FirstToken)
	require.EqualValues(t, 10, o.usage[1].Tokens)

	// All of it in the first step.
	o = drafting(3, 1, requests(at(0, 100, 2))).run(t)
	require.Equal(t, o.records[0].FirstToken, o.records[0].Finish)
	require.EqualValues(t, 2, o.usage[1].Tokens)
}

// Every draft is wrong: one token a step, at the price of two query tokens.
func TestNoDraftAccepted(t *testing.T) {
	with, without := drafting(2, 0, requests(at(0, 100, 10))).run(t), drafting(1, 0.6, requests(at(0, 100, 10))).run(t)
	require.Len(t, with.decodeSteps(), 10)
	require.Len(t, without.decodeSteps(), 10)
	for i, st := range with.decodeSteps() {
		require.EqualValues(t, 1, st.Output)
		require.Equal(t, 20*ms, st.Compute)
		require.Equal(t, 10*ms, without.decodeSteps()[i].Compute)
		require.EqualValues(t, 100+i+2, st.Context, "what was drafted in vain is overwritten")
	}
	require.Empty(t, with.extras)
	require.Empty(t, without.extras)
}

// With acceptance p a step makes 1 + p + p^2 + ... tokens; the sample mean is
// within four standard errors. A draft whose predecessor was rejected is worth
// nothing, so the second of two is accepted in p^2 of the steps.
func TestTokensPerStep(t *testing.T) {
	for _, c := range []struct {
		query      int
		acceptance float64
	}{{2, 0.6}, {3, 0.5}, {4, 0.9}} {
		const requestsEach, tokens = 40, 5000
		var all []workload.Request
		for range requestsEach {
			all = append(all, at(0, 1, tokens))
		}
		o := drafting(c.query, c.acceptance, requests(all...)).run(t)
		steps, output := 0, int64(0)
		for _, st := range o.decodeSteps() {
			steps += st.Requests
			output += st.Output
		}
		mean, square := 0.0, 0.0
		for n := range c.query { // n drafts are accepted
			p := math.Pow(c.acceptance, float64(n))
			if n < c.query-1 {
				p *= 1 - c.acceptance
			}
			mean += p * float64(n+1)
			square += p * float64((n+1)*(n+1))
		}
		// The last step of a request may be cut: at most query - 1 tokens of each.
		cut := float64(requestsEach*(c.query-1)) / float64(steps)
		sigma := math.Sqrt((square - mean*mean) / float64(steps))
		require.InDelta(t, mean, float64(output)/float64(steps), 4*sigma+cut, "%+v", c)
		require.Less(t, 4*sigma+cut, 0.02, "a tolerance that means something")
	}
}

// What becomes of a request's drafts depends on the seed and on its ID, not on
// when it runs or beside whom.
func TestDraftsAreTheRequestsOwn(t *testing.T) {
	spans := func(seed uint64, rs ...workload.Request) (steps []int) {
		s := drafting(2, 0.5, requests(rs...))
		s.seed = seed
		o := s.run(t)
		byID := o.byID()
		for id := range rs {
			steps = append(steps, int((byID[id].Finish-byID[id].FirstToken)/(20*ms)))
		}
		return steps
	}
	alone := spans(1, at(0, 100, 200))
	together := spans(1, at(0, 100, 200), at(0, 50, 300), at(ms, 10, 77))
	later := spans(1, at(40*ms, 1, 200), at(41*ms, 50, 300))
	require.Equal(t, alone[0], together[0])
	require.Equal(t, together[:2], later)
	require.NotEqual(t, alone, spans(2, at(0, 100, 200)))
}

// A draft passes the module over all query tokens and takes a head of its own.
// In prefill the module only makes its KV.
func TestDraftLayersTakeTime(t *testing.T) {
	run := func(moe bool, mtp MTPConfig) []Step {
		s := newSetup(requests(at(0, 100, 1)))
		if moe {
			s = moeSetup(requests(at(0, 100, 1)))
		}
		s.decode.head, s.prefill.head, s.decode.mlp = 7*us, 3*us, 5*us
		s.config.Decode.MTP = mtp
		return s.run(t).steps
	}
	none := run(false, MTPConfig{QueryTokens: 1, LayersPerDraft: 1})
	two := run(false, MTPConfig{QueryTokens: 3, LayersPerDraft: 1})
	// A dense model: 100 us of attention in the prompt's layer, 10 ms per query
	// token and 5 us of MLP in the decode step's.
	require.Equal(t, 103*us, none[0].Compute)
	require.Equal(t, 203*us, two[0].Compute)
	require.Equal(t, 10*ms+(5+7)*us, none[1].Compute)
	require.Equal(t, 3*(30*ms+(5+7)*us), two[1].Compute)
	// Drafts that are looked up take neither layers nor heads.
	require.Equal(t, 30*ms+(5+7)*us, run(false, MTPConfig{QueryTokens: 3})[1].Compute)

	// MoE layers: dispatch and combine as well.
	none = run(true, MTPConfig{QueryTokens: 1, LayersPerDraft: 1})
	two = run(true, MTPConfig{QueryTokens: 3, LayersPerDraft: 2})
	lookup := run(true, MTPConfig{QueryTokens: 3, LayersPerDraft: 0})
	require.Equal(t, 4*100*us, lookup[1].Dispatch, "four layers")
	require.Equal(t, (4+2*2)*100*us, two[1].Dispatch, "two drafts of two layers")
	require.Equal(t, 4*100*us, none[0].Combine)
	require.Equal(t, (4+2)*100*us, two[0].Combine, "one pass over the prompt")
	require.Equal(t, none[0], lookup[0], "prefill knows nothing of drafts without a module")
}

// A measured dispatch takes its fixed time and that of the tokens of one GPU, and
// moves nothing. The stretch of overlapped prefill multiplies both.
func TestMeasuredTiming(t *testing.T) {
	measure := func(c *PoolConfig) {
		c.MoE.Timing = collective.TimingMeasured
		c.MoE.MeasuredDispatch = collective.Measured{Fixed: 30 * us, PerToken: us}
		c.MoE.MeasuredCombine = collective.Measured{Fixed: 40 * us, PerToken: 2 * us}
		c.MoE.DispatchStartup = ms // replaced
	}
	s := moeSetup(requests(at(0, 300, 1), at(0, 100, 1)))
	measure(&s.config.Prefill)
	layers := sim.Time(s.prefill.moe)
	o := s.run(t)
	require.Equal(t, layers*330*us, o.steps[0].Dispatch)
	require.Equal(t, layers*640*us, o.steps[0].Combine)
	require.Equal(t, CommTime{Startup: layers * 70 * us, Ports: layers * 900 * us}, o.usage[0].Comm)
	require.Len(t, o.network.specs, 4, "those of decode only")

	// The tokens of a rank of two GPUs are half on each.
	s = moeSetup(requests(at(0, 300, 1)))
	measure(&s.config.Prefill)
	s.config.Prefill.TP = 2
	require.Equal(t, layers*180*us, s.run(t).steps[0].Dispatch)

	// Query tokens travel too.
	s = moeSetup(requests(at(0, 10, 1), at(0, 10, 1)))
	measure(&s.config.Decode)
	s.config.Decode.MTP = MTPConfig{QueryTokens: 3, Acceptance: 0.5}
	o = s.run(t)
	last := o.decodeSteps()[len(o.decodeSteps())-1]
	require.Equal(t, sim.Time(s.decode.moe)*(30*us+sim.Time(last.Requests/2+last.Requests%2)*3*us), last.Dispatch)
}

// The log of drafts is a map from steps to sums.
func TestDraftLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log draftLog
		model := map[int64]int64{}
		for now := range int64(rapid.IntRange(1, 60).Draw(t, "steps")) {
			for range rapid.IntRange(0, 3).Draw(t, "requests") {
				step := now + rapid.Int64Range(0, 300).Draw(t, "ahead")
				n := rapid.Int64Range(1, 9).Draw(t, "drafts")
				log.add(now, step, n)
				model[step] += n
			}
			require.Equal(t, model[now], log.take(now))
		}
	})
}
