// Package congestion holds what paces a flow and what a switch does to say that
// it is congested:
//
//   - DCQCN, the congestion control of RoCEv2: the notification point (NP) at
//     the receiver, which turns ECN marks into CNPs, and the reaction point (RP)
//     at the sender, which turns CNPs into a rate; and None, line rate with a
//     fixed window;
//   - HPCC, which follows telemetry, and Swift, which follows delay: windows; and
//     TIMELY, which follows the gradient of delay: a rate;
//   - CreditScheduler and CreditSender, the two ends of receiver credits; and on
//     them GSE: DGSQ and Uplinks at the source, Sequencer at the egress;
//   - INT, in-band telemetry, and INTMeter, what follows from it;
//   - Marker, the ECN marking of an egress queue;
//   - Buffer, a switch's shared buffer with its dynamic thresholds, headroom and
//     PFC decisions, and PauseState, the other end of PFC.
//
// # Pure state machines
//
// Nothing here has a clock, a random stream or a timer of its own. The engine
// calls in with the time and what has happened; the answer is a decision: when
// the next packet may go, whether to mark, whether to send a CNP or a PAUSE. So
// each can be driven by a text story (testdata) with no engine at all.
//
// The state of a flow is a plain struct without pointers that the engine keeps
// where it likes: an RP is 64 bytes, an NP is 8, a PauseState 64 per port, and a
// Buffer takes 16 bytes per port and priority. What all flows of a line rate
// share, a DCQCN, does not change after NewDCQCN. No call allocates.
//
// # Lazy timers
//
// DCQCN has three timers per flow, the fastest of which expires every
// microsecond. None is an event. Every call first catches up on the timers that
// have expired since the last one, in the order in which they would have gone
// off, so it makes no difference when or how often an engine calls: a flow
// touched at every expiry and one touched only by its packets are in the same
// state, bit for bit. NextDeadline says when a rate will next change by itself,
// for an engine that wants to know.
//
// Of events at one instant the timers come first, in the order alpha, increase,
// decrease; then the call.
//
// # Another algorithm
//
// A file with a config, a state and the methods of Controller, a field in Config,
// and a line in the table of controller.go, add an algorithm: docs/extending.md
// has an example. The engine calls DCQCN's methods directly, on the state within
// its own queue pair; all others it runs through Controller, by name, at the price
// of an indirect call.
package congestion
