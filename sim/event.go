package sim

import "math/bits"

// A HandlerID names a registered Handler inside events, which hold no pointers.
type HandlerID uint16

// An Event is something that happens at one instant, as its handler sees it. Its
// four fields travel in registers.
type Event struct {
	At      Time
	Handler HandlerID
	// Kind and Arg mean what the handler wants them to mean.
	Kind uint16
	Arg  uint32
}

// A Handler receives the events addressed to it, one at a time, in queue order.
type Handler interface {
	Handle(e Event)
}

// An entry is an event in the queue: 24 bytes, nothing for the garbage collector
// to follow. Three fields of one word each keep it in registers; the compiler
// copies a struct of more than four through memory, where a wide load waits for
// the narrow stores before it.
type entry struct {
	at  Time
	seq uint64
	// what is the handler, kind and argument, packed by pack; in the timer heap
	// it is the Timer.
	what uint64
}

// none sorts behind every event. It pads heaps and stands for "empty".
var none = entry{at: Never, seq: 1<<64 - 1}

func pack(h HandlerID, kind uint16, arg uint32) uint64 {
	return uint64(h)<<48 | uint64(kind)<<32 | uint64(arg)
}

// event unpacks x for its handler.
func (x entry) event() Event {
	return Event{At: x.at, Handler: HandlerID(x.what >> 48), Kind: uint16(x.what >> 32), Arg: uint32(x.what)}
}

// key is the part of an entry that orders it.
func (x entry) key() key { return key{x.at, x.seq} }

// A key orders events: by instant, then by sequence number.
type key struct {
	at  Time
	seq uint64
}

// less is 1 when a comes before b and 0 otherwise. It is the borrow of a 128-bit
// subtraction: which of two events comes first is a coin toss to a branch
// predictor, so the queue computes with the answer rather than jump on it.
// Instants are not negative.
func less(a, b key) uint64 {
	_, borrow := bits.Sub64(a.seq, b.seq, 0)
	_, borrow = bits.Sub64(uint64(a.at), uint64(b.at), borrow)
	return borrow
}

// choose returns b when yes is 1 and a when it is 0, without a branch.
func (a key) choose(b key, yes uint64) key {
	mask := -yes
	return key{
		at:  a.at ^ (a.at^b.at)&Time(mask),
		seq: a.seq ^ (a.seq^b.seq)&mask,
	}
}
