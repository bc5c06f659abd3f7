package congestion

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// TestControllerIsDCQCN: through Controller, many flows at once, each is what it
// is alone.
func TestControllerIsDCQCN(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		var line units.Rate
		c.DCQCN, line = anyDCQCN(t)
		ctl, err := New(c, Line{line, 4096})
		require.NoError(t, err)
		d, err := NewDCQCN(c.DCQCN, line)
		require.NoError(t, err)
		const n = 4
		var ids [n]FlowID
		var alone [n]RP
		for i := range ids {
			ids[i] = ctl.Open(0, Route{})
			d.Start(&alone[i], 0)
		}
		for _, h := range anyHappenings(t) {
			i := rapid.IntRange(0, n-1).Draw(t, "flow")
			f, id := &alone[i], ids[i]
			if rapid.IntRange(0, 15).Draw(t, "restart") == 0 {
				ctl.Close(id)
				ids[i] = ctl.Open(h.at, Route{})
				require.Equal(t, id, ids[i], "the ID is reused")
				d.Start(f, h.at)
			}
			want := happen(d, f, h)
			switch h.kind {
			case hCNP:
				ctl.OnCNP(id, h.at)
			case hMarked:
				ctl.OnAck(id, h.at, Ack{Marked: true})
			case hAck:
				ctl.OnAck(id, h.at, Ack{})
			case hSend:
				require.Equal(t, want, ctl.OnSend(id, h.at, h.bytes))
			}
			require.Equal(t, d.Rate(f, h.at), ctl.Rate(id, h.at))
			require.Equal(t, d.Window(f, h.at), ctl.Window(id, h.at))
			require.Equal(t, d.NextDeadline(f), ctl.NextDeadline(id))
		}
	})
}

func TestNone(t *testing.T) {
	c := DefaultConfig()
	c.Algorithm = "none"
	ctl, err := New(c, Line{400 * units.Gbps, 4096})
	require.NoError(t, err)
	f := ctl.Open(5, Route{})
	g := ctl.Open(5, Route{})
	require.NotEqual(t, f, g)
	require.Equal(t, NoWindow, ctl.Window(f, 5))
	ctl.OnCNP(f, 6)
	ctl.OnAck(f, 6, Ack{Marked: true})
	require.Equal(t, 400*units.Gbps, ctl.Rate(f, 7))
	require.Equal(t, sim.Time(7+82880), ctl.OnSend(f, 7, 4144))
	require.Equal(t, sim.Never, ctl.NextDeadline(f))
	ctl.Close(f)
	require.Equal(t, f, ctl.Open(9, Route{}))

	c.None.Window = 128 * 4096
	n, err := NewNone(c.None, 100*units.Gbps)
	require.NoError(t, err)
	require.Equal(t, units.Bytes(128*4096), n.Window())
	require.Equal(t, sim.Time(80), n.OnSend(0, 1))
}

func TestNoWindow(t *testing.T) {
	d, err := NewDCQCN(DefaultDCQCN(), 400*units.Gbps)
	require.NoError(t, err)
	var f RP
	d.Start(&f, 0)
	require.Equal(t, NoWindow, d.Window(&f, 0))
	require.Equal(t, 400*units.Gbps, d.LineRate())
}

// TestSizes holds the state of flows and ports to what the package says of it.
func TestSizes(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(RP{}), "a cache line")
	require.EqualValues(t, 8, unsafe.Sizeof(NP{}))
	require.EqualValues(t, 24, unsafe.Sizeof(Marker{}))
	require.EqualValues(t, 64, unsafe.Sizeof(PauseState{}))
	require.EqualValues(t, 16, unsafe.Sizeof(group{})+unsafe.Sizeof(Buffer{}.queues[0]), "per port and priority")
	require.EqualValues(t, 2, unsafe.Sizeof(Verdict{}))
}

func TestNothingAllocates(t *testing.T) {
	d, err := NewDCQCN(DefaultDCQCN(), 400*units.Gbps)
	require.NoError(t, err)
	b, err := NewBuffer(DefaultBuffer(), 400*units.Gbps, 4178, samePorts(64, Port{400 * units.Gbps, sim.Microsecond}))
	require.NoError(t, err)
	m := DefaultECN().At(400 * units.Gbps).Marker()
	var f RP
	var np NP
	d.Start(&f, 0)
	now, marked := sim.Time(0), 0
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now += 50 * sim.Microsecond
		d.OnMarked(&np, now)
		d.OnCNP(&f, now)
		d.OnAck(&f, now, Ack{Marked: true})
		d.OnSend(&f, now, 4178)
		d.Rate(&f, now)
		d.Alpha(&f, now)
		d.NextDeadline(&f)
		if m.Mark(4*units.MB, Uniform(1, uint64(now))) {
			marked++
		}
		b.Admit(1, 2, 3, 4178)
		b.Release(1, 2, 3, 4178)
	}))
}
