package congestion

import (
	"math/bits"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// MaxQuanta is the longest pause that a PFC frame can ask for.
const MaxQuanta = 65535

// quantumBits is the length of a pause quantum in bit times (IEEE 802.3, annex
// 31B.2).
const quantumBits = 512

// pauseFrame is what a PFC frame takes on the wire: 64 B, preamble 8, gap 12.
const pauseFrame units.Bytes = 84

// QuantaTime is how long a pause of so many quanta lasts on a port, rounded up to
// the picosecond.
func QuantaTime(quanta uint16, rate units.Rate) sim.Time {
	return rate.Time(units.Bytes(quanta) * quantumBits / 8)
}

// responseQuanta is the longest that a station may take from the end of a PFC
// frame until it stops, in quanta, by port rate (IEEE 802.3, annex 31B.3.7, as
// SONiC's headroom calculation tabulates it).
var responseQuanta = []struct {
	rate   units.Rate
	quanta uint16
}{
	{10 * units.Gbps, 67},
	{25 * units.Gbps, 80},
	{40 * units.Gbps, 118},
	{50 * units.Gbps, 147},
	{100 * units.Gbps, 394},
	{200 * units.Gbps, 453},
	{400 * units.Gbps, 905},
}

// ResponseTime is the longest that a station may take from the end of a PFC frame
// until it begins no further frame: 1.158 us at 400 Gb/s. A rate between two of
// the standard's takes the quanta of the higher one, and a rate above them all
// those of the highest.
func ResponseTime(rate units.Rate) sim.Time {
	quanta := responseQuanta[len(responseQuanta)-1].quanta
	for _, r := range responseQuanta {
		if rate <= r.rate {
			quanta = r.quanta
			break
		}
	}
	return QuantaTime(quanta, rate)
}

// Headroom is what a group of a port needs above its threshold to lose nothing,
// when no frame is larger than frame bytes and the peer begins no further frame
// later than response after the end of a PFC frame (IEEE 802.1Qbb, annex O).
//
// Let a frame's last bit arrive at t = 0 and take the group above its threshold.
// The PFC frame can wait for a frame on its way out, frame/C; it takes
// pauseFrame/C to send, the delay d to arrive and response to heed. Until then
// the peer has been sending at the rate C, and what it sends arrives a delay
// later: from t = -d on, it begins frames during
//
//	d + frame/C + pauseFrame/C + d + response
//
// and the last of them can be a whole frame longer. With the first frame, which
// can be the one that no longer fits under the threshold, that makes
//
//	C (2 d + response) + 3 frame + pauseFrame
func Headroom(rate units.Rate, delay, response sim.Time, frame units.Bytes) units.Bytes {
	return carried(rate, delay)*2 + carried(rate, response) + 3*frame + pauseFrame
}

// carried is the bytes that a link begins to carry in a time, rounded up; at most
// 2^62.
func carried(rate units.Rate, t sim.Time) units.Bytes {
	const most = 1 << 62
	if rate <= 0 || t <= 0 {
		return 0
	}
	const bit8 = 8 * uint64(sim.Second)
	hi, lo := bits.Mul64(uint64(rate), uint64(t))
	lo, carry := bits.Add64(lo, bit8-1, 0)
	hi += carry
	if hi >= bit8 {
		return most
	}
	q, _ := bits.Div64(hi, lo, bit8)
	return units.Bytes(min(q, most))
}

// RefreshAfter is how long after a PFC frame the next one must be decided on, so
// that it takes effect before a pause of so many quanta expires: the pause less
// what the frame can take to arrive more than the first one did, which is the
// wait for a frame on its way out. It is 0 when the pause is shorter than that.
func RefreshAfter(quanta uint16, rate units.Rate, frame units.Bytes) sim.Time {
	return max(0, QuantaTime(quanta, rate)-rate.Time(frame+pauseFrame))
}

// A PauseState is what the transmitting end of a link keeps: until when each
// priority is paused. Its zero value is ready and takes 64 bytes.
type PauseState struct {
	until [Priorities]sim.Time
}

// Pause heeds a PFC frame for one priority: a pause from now on, which replaces
// any before it. 0 quanta is XON.
func (s *PauseState) Pause(prio int, now sim.Time, quanta uint16, rate units.Rate) {
	s.until[prio] = now + QuantaTime(quanta, rate)
}

// Hold pauses a priority until it is resumed, for an engine that leaves refresh
// frames out.
func (s *PauseState) Hold(prio int) { s.until[prio] = sim.Never }

// Resume ends a pause (XON).
func (s *PauseState) Resume(prio int) { s.until[prio] = 0 }

// Paused says whether a priority may not begin a frame.
func (s *PauseState) Paused(prio int, now sim.Time) bool { return now < s.until[prio] }

// Until is when the pause of a priority ends by itself: not after now when it is
// not paused, sim.Never when it is held.
func (s *PauseState) Until(prio int) sim.Time { return s.until[prio] }
