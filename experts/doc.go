// Package experts says which copies of which experts get how many tokens from
// which rank: what a router network chooses (popularity, top-k, groups), where
// the copies are (placement, redundant experts, EPLB), and what follows for the
// two AllToAlls and the grouped GEMM of an MoE layer.
//
// It knows no clock, no bytes and no network. A Router holds the state of one
// pool; Route draws one layer of one step into a Traffic that is used again and
// again. Three ways to get the counts trade detail for time:
//
//   - exact draws every token's experts;
//   - aggregate draws the counts of a rank directly, in a time that does not grow
//     with the tokens, with the mean and the covariances of the exact way;
//   - expected draws nothing: the expectations, in thousandths.
//
// # The law of the choice
//
// A token's score of expert e is log w_e plus a Gumbel variate, where w_e is the
// expert's popularity, and the top k scores are chosen. That is weighted sampling
// without replacement (Gumbel-top-k: Vieira 2014; Kool et al., ICML 2019): the
// first choice is e with probability w_e / sum w, the next likewise among the
// rest. Since -score is the logarithm of an exponential variate of rate w_e, the
// scores are drawn here as a race of exponential clocks, of which only the first
// few arrivals are needed.
//
// With group-limited choice the groups are ranked first and the experts outside
// the best are not considered. GroupTop2 ranks them by the sum of their two best
// scores as DeepSeek-V3 does (arXiv 2412.19437, section 2.1.2, whose scores are
// sigmoid affinities plus a bias); GroupRandom draws the groups by their total
// popularity and independently of the experts' scores, which for equal popularity
// is the uniform choice that collective.Experts.Hit computes with. They differ:
// DeepSeek-V3's choice over equal experts on four servers takes a token to 3.13 of
// them, the uniform one to 2.93.
//
// The tokens are independent of each other. Those of real requests are not, and
// popularity drifts, so measured imbalance is larger than what equal popularity
// gives here.
package experts
