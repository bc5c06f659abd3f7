package serving

// blockPool is the paged KV cache of one attention rank. Blocks are
// interchangeable, so counting them is enough.
type blockPool struct {
	tokens   int // tokens per block
	capacity int
	used     int
	peak     int
}

func newBlockPool(kvTokens int64, blockTokens int) blockPool {
	return blockPool{tokens: blockTokens, capacity: int(kvTokens / int64(blockTokens))}
}

// need is the number of blocks that hold n tokens.
func (b *blockPool) need(n int) int { return (n + b.tokens - 1) / b.tokens }

// take reserves room for n tokens, or reports that there is none.
func (b *blockPool) take(n int) bool {
	k := b.need(n)
	if b.used+k > b.capacity {
		return false
	}
	b.used += k
	b.peak = max(b.peak, b.used)
	return true
}

// give returns the room of n tokens.
func (b *blockPool) give(n int) { b.used -= b.need(n) }
