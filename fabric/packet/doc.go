// Package packet is the packet-level engine behind fabric.Network: every MTU of
// every message crosses every link by itself, waits in real queues, is marked,
// paused, lost and sent again. It is the truth by which the flow engine is
// judged.
//
// # A packet's life
//
// A queue pair's turn comes at its NIC's port, which makes a packet (32 bytes in
// a pool) and puts it on the wire. One event later, after serialisation,
// propagation and the next switch's pipeline, it is at the next port. If that
// one's wire is free the packet goes on at once: one event per hop. If not, it
// waits in the queue of its priority, and the port wakes up when the wire is
// free: a second event. Both delays are constant for full packets, so both
// events cost O(1) in the kernel's lanes. At its NIC the packet turns into its
// own acknowledgement.
//
// # What is modelled
//
//   - Switches: a shared buffer with dynamic thresholds and headroom
//     (congestion.Buffer), ECN marking, PFC frames that wait for the frame on the
//     wire, take their time on it and spread hop by hop, loss without PFC, strict
//     or weighted classes. A packet is in the buffer while it waits; the one on
//     the wire counts no more.
//   - NICs: reliable connections, round-robin among the queue pairs that may
//     send, pacing by any algorithm of package congestion or by the receiver's
//     credits, limits that make work wait, coalesced acknowledgements, go-back-N or selective repeat, timeouts, a receive buffer
//     with its own drain rate.
//   - Paths: ECMP by the same hash as in the flow engine, static, flowlets,
//     sprays, CONGA, by telemetry, by an oracle, and GSE's containers.
//   - Telemetry: bytes in packets and acknowledgements, stamped by every switch.
//   - Faults: cables that fail, recover or lose speed, with the time that it
//     takes until routing knows.
//   - Inside a server: the flow engine, on NVLink's links. NVLink's packets are
//     too small and its switch too fast for more.
//
// # What is not
//
//   - Acknowledgements and CNPs take the time that they would take alone, as one
//     event, unless transport.ack_queueing is set. Faults do not touch them then.
//   - Requests for credit, grants and returns take that time too, and no room on
//     the wires; they are counted.
//   - A time stamp has no bytes: it is in the BTH of NICs that measure delays.
//   - CONGA's leaf hears of a packet when the spine begins to send it, a flight
//     before it has it.
//   - Every request is a WRITE with immediate. Of its headers the 16 B of RETH on
//     the first packet and the 4 B of immediate data on the last are left out:
//     0.4 ns per request at 400 Gb/s.
//   - PFC pauses last until XON; refresh frames are left out (84 B every 40 to
//     80 us, less than 0.01 % of the wire).
//   - The switch stores every packet before it forwards it; there is no
//     cut-through. Of a train it stores the first packet only.
//   - A train that is on the wire is not cut by a pause or a fault: it shares the
//     fate of its first packet.
//   - A cable of less speed keeps its weight in ECMP, as with switches whose
//     routing knows up and down only: flows that hash onto it are slow, and spray
//     waits for the slowest path. Only failure and repair change routes.
//   - A packet decides its path where it is sent. In a leaf-spine that is where a
//     leaf would decide.
//
// # Books
//
// Every byte is delivered or in flight, every packet is in a queue, on a wire or
// free, every switch's account is the sum of its queues: Network.Check recounts,
// and does so by itself under the invariants tag. Inert lists the settings that
// have not acted in a run, Notices what should not be passed over, such as a
// deadlock of pauses.
package packet
