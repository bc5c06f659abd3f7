package congestion

import "github.com/tgssim/tgssim/internal/units"

// A CreditSender is the sending side of credits: what a source has to send, may
// send and has asked for. All are bytes on the wire. Its zero value has nothing
// to push.
//
// A packet may go while something is left to push or of a grant, even if less than
// its length: the rest is debt, which the next grant pays. A remainder too small
// for a packet would otherwise be kept for ever, and with enough sources nobody
// could be granted more. What may be pushed is used first.
type CreditSender struct {
	backlog units.Bytes // to be sent
	push    units.Bytes // that may go without a grant
	// Totals since Start of what was sent under grants or given back, granted,
	// requested and given back.
	spent, granted, requested, returned units.Bytes
}

// Start makes s the state of a new source that may push so many bytes.
func (s *CreditSender) Start(push units.Bytes) { *s = CreditSender{push: push} }

// Add reports bytes to send: new ones, or some to be sent again.
func (s *CreditSender) Add(n units.Bytes) { s.backlog += n }

// Cancel reports that bytes that have been added will not be sent, and returns the
// request that takes back what was asked for them, if there is something to take
// back. Return gives back what was granted.
func (s *CreditSender) Cancel(n units.Bytes) (total units.Bytes, tell bool) {
	s.backlog -= min(n, s.backlog)
	before := s.requested
	s.requested = min(before, max(s.total(), s.granted))
	return s.requested, s.requested < before
}

// total is all that has to be granted, ever.
func (s *CreditSender) total() units.Bytes { return s.spent + max(0, s.backlog-s.push) }

// CanSend says whether there is a packet that may go.
func (s *CreditSender) CanSend() bool { return s.backlog > 0 && s.push+s.Credit() > 0 }

// OnSend reports that a packet of n bytes goes, and returns how many of them use
// credit: the packet's header says it to the scheduler.
func (s *CreditSender) OnSend(n units.Bytes) (scheduled units.Bytes) {
	pushed := min(n, s.push)
	s.push -= pushed
	s.spent += n - pushed
	s.backlog -= n
	return n - pushed
}

// OnCredit takes in a grant: the new total.
func (s *CreditSender) OnCredit(total units.Bytes) { s.granted = max(s.granted, total) }

// Request says what to ask for, and whether to ask now: when something has not
// been asked for, and it is at least threshold bytes or no grant is under way
// that will bring the source here again. Call it after Add and OnCredit.
func (s *CreditSender) Request(threshold units.Bytes) (total units.Bytes, ask bool) {
	total = s.total()
	if n := total - s.requested; n <= 0 || n < threshold && s.requested > s.granted {
		return 0, false
	}
	s.requested = total
	return total, true
}

// Return is what to give back: what was granted beyond what is there to send. It
// counts as given back. Call it after Cancel and OnCredit.
func (s *CreditSender) Return() units.Bytes {
	n := s.granted - s.total()
	if n <= 0 {
		return 0
	}
	s.spent += n
	s.returned += n
	return n
}

// Sent is all that has been sent under grants. A packet carries it, itself included:
// what its receiver misses of the total has been lost, or is late.
func (s *CreditSender) Sent() units.Bytes { return s.spent - s.returned }

// Backlog is what is to be sent, Credit what was granted for it and is left, or
// below 0 the debt.
func (s *CreditSender) Backlog() units.Bytes { return s.backlog }
func (s *CreditSender) Credit() units.Bytes  { return s.granted - s.spent }

// Idle says that nothing is to be sent, and nothing is under way to it.
func (s *CreditSender) Idle() bool {
	return s.backlog == 0 && s.granted == s.spent && s.requested <= s.granted
}
