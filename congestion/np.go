package congestion

import "github.com/tgssim/tgssim/sim"

// An NP is the notification point: what a receiver's NIC keeps to pace CNPs, one
// per queue pair or one per port, as DCQCNConfig.CNPScope says. Its zero value is
// ready.
type NP struct {
	// next is one interval after the last CNP that was sent or scheduled.
	next sim.Time
}

// OnMarked reports the arrival of a packet with a congestion mark. It returns
// when the CNP for it leaves the NIC: cnp_delay from now, cnp_delay after the end
// of the interval when CNPs are deferred, or sim.Never when it gets none of its
// own.
func (d *DCQCN) OnMarked(np *NP, now sim.Time) sim.Time {
	if d.byACK {
		return sim.Never
	}
	if now >= np.next {
		np.next = now + d.cnpInterval
		return now + d.cnpDelay
	}
	// In the deferred mode np.next is up to two intervals ahead: when it is more
	// than one, the CNP at the end of the running interval is scheduled already.
	if !d.deferred || np.next-d.cnpInterval > now {
		return sim.Never
	}
	at := np.next
	np.next += d.cnpInterval
	return at + d.cnpDelay
}
