package workload

import "math/rand/v2"

// mooncakeBlock is the number of tokens of a prefix block in Mooncake's traces
// (Qin et al., FAST 2025).
const mooncakeBlock = 512

// groupBit marks the hashes of shared blocks.
const groupBit = 1 << 63

// prefixes gives prompts their blocks.
type prefixes struct {
	PrefixConfig
	popularity []float64 // distribution function over the groups
	r          *rand.Rand
	free       []uint64 // the unused end of a slab that prompts take their blocks from
}

// blocks returns the hashes of a prompt's blocks, the last of which may be
// partly filled, as in Mooncake's traces. Those that lie wholly within a common
// text, the first shared ones, have the hash of the text's block, all others a
// hash of their own. The hashes are numbers in disjoint ranges, not digests: they
// cannot collide.
func (p *prefixes) blocks(id, prompt int) (hashes []uint64, shared int) {
	// Two numbers each time, so that Share does not shift the groups.
	share, group := p.r.Float64(), invert(p.popularity, p.r.Float64())
	if share < p.Share {
		shared = min(p.Tokens, prompt) / p.BlockTokens
	}
	n := blocksOf(prompt, p.BlockTokens)
	if n > len(p.free) {
		p.free = make([]uint64, max(n, 4096))
	}
	hashes, p.free = p.free[:n:n], p.free[n:]
	for i := range hashes {
		// An index is below MaxTokens < 2**24, a group below 2**20 and an ID
		// below 2**30.
		if i < shared {
			hashes[i] = groupBit | uint64(group)<<24 | uint64(i)
		} else {
			hashes[i] = uint64(id)<<24 | uint64(i)
		}
	}
	return hashes, shared
}

// blocksOf is the number of blocks that a prompt fills, the last perhaps partly;
// 0 where there are no blocks.
func blocksOf(prompt, blockTokens int) int {
	if blockTokens == 0 {
		return 0
	}
	return (prompt + blockTokens - 1) / blockTokens
}
