// Package sim is the simulation kernel: picosecond time, one event queue in
// (time, sequence) order, cancellable timers, named random streams and a
// fingerprint of the run.
//
// # Order
//
// An Engine runs events in the order of their instants, and events of the same
// instant in the order in which they were scheduled: FIFO among equals, whether
// they were scheduled with At, After, AfterLane or Arm. That order is part of
// the contract, so a model may rely on it; where it must not, run the model
// under ShuffleTies too. Now is the instant of the event being handled and never
// goes back, and scheduling before it is a programming error that panics.
//
// Never is not an instant. An event scheduled at Never, or pushed past it by an
// overflow, is dropped: it would not run in any run.
//
// # Queue
//
// Nearly every event of a packet network comes a constant delay after the one
// that caused it: the serialisation of a full packet, of an acknowledgement, the
// propagation of a link. Since Now never goes back, events of one constant delay
// are scheduled in the order in which they run. Such a delay is registered once
// with NewLane and its events wait in a ring buffer, at O(1) each. Irregular
// events share a 4-ary heap, and timers, which move and vanish, have a heap that
// knows where each of them is, so that moving one leaves no stale event behind.
// A small tournament tree over the heads of the rings and heaps knows which of
// them holds the next event; it costs log2(lanes+2) branch-free comparisons per
// event, whatever the number of events waiting. Nothing in the queue is a
// pointer, and in the steady state nothing allocates.
//
// docs/decisions/0001-event-queue.md has the measurements. The order is that of
// a plain binary heap, to which HeapOnly switches an engine; the package's tests
// hold the two and a sorted list against each other.
//
// # Determinism
//
// A run is single-threaded and knows no wall clock, so the same inputs give the
// same trajectory on every machine, and Engine.Fingerprint tells two
// trajectories apart. Parallelism belongs across runs, not inside one.
package sim
