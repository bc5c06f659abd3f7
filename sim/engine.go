package sim

import "fmt"

// A HandlerID names a registered Handler inside events, which hold no pointers.
type HandlerID uint16

// An Event is something that happens at one instant. It is a plain value of 24
// bytes: the queue holds nothing for the garbage collector to follow.
type Event struct {
	At      Time
	seq     uint64
	Handler HandlerID
	// Kind and Arg mean what the handler wants them to mean.
	Kind uint16
	Arg  uint32
}

// A Handler receives the events addressed to it, one at a time, in queue order.
type Handler interface {
	Handle(e Event)
}
