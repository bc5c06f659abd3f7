package congestion

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/tgssim/tgssim/internal/units"
	"github.com/tgssim/tgssim/sim"
)

// benchFlows is enough flows to leave the first-level cache: 4,096 of 64 B.
const benchFlows = 1 << 12

// congested makes flows that are some way down from line rate, each in another
// phase.
func congested(b *testing.B, preset string) (*DCQCN, []RP) {
	var c DCQCNConfig
	require.NoError(b, c.SetPreset(preset))
	d, err := NewDCQCN(c, 400*units.Gbps)
	require.NoError(b, err)
	rps := make([]RP, benchFlows)
	for i := range rps {
		d.Start(&rps[i], 0)
		at := sim.Time(i) * 97 * sim.Nanosecond
		for k := range sim.Time(1 + i%3) {
			d.OnCNP(&rps[i], at+k*60*sim.Microsecond)
		}
		d.Rate(&rps[i], sim.Millisecond)
	}
	return d, rps
}

// BenchmarkDCQCN is one call of each kind on 4,096 flows in turn: a packet of each
// every 10 us, a CNP of each every 50 us.
func BenchmarkDCQCN(b *testing.B) {
	for _, preset := range DCQCNPresets() {
		run := func(name string, every sim.Time, call func(d *DCQCN, f *RP, now sim.Time)) {
			b.Run(name+"/"+preset, func(b *testing.B) {
				d, rps := congested(b, preset)
				now := sim.Millisecond
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					now += every / benchFlows
					call(d, &rps[i&(benchFlows-1)], now)
				}
				b.ReportMetric(float64(unsafe.Sizeof(RP{})), "B/flow")
			})
		}
		run("OnSend", 10*sim.Microsecond, func(d *DCQCN, f *RP, now sim.Time) { d.OnSend(f, now, 4178) })
		run("OnAck", 10*sim.Microsecond, func(d *DCQCN, f *RP, now sim.Time) { d.OnAck(f, now, Ack{Bytes: 4096}) })
		run("OnAckMarked", 10*sim.Microsecond, func(d *DCQCN, f *RP, now sim.Time) { d.OnAck(f, now, Ack{Bytes: 4096, Marked: true}) })
		run("OnCNP", 50*sim.Microsecond, func(d *DCQCN, f *RP, now sim.Time) { d.OnCNP(f, now) })
	}
}

// BenchmarkUncongested is a packet of a flow that no CNP has reached.
func BenchmarkUncongested(b *testing.B) {
	d, err := NewDCQCN(DefaultDCQCN(), 400*units.Gbps)
	require.NoError(b, err)
	rps := make([]RP, benchFlows)
	for i := range rps {
		d.Start(&rps[i], 0)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		d.OnSend(&rps[i&(benchFlows-1)], sim.Time(i), 4178)
	}
}

// BenchmarkController is OnSend through the interface.
func BenchmarkController(b *testing.B) {
	for _, name := range Algorithms() {
		b.Run(name, func(b *testing.B) {
			c := DefaultConfig()
			c.Algorithm = name
			ctl, err := New(c, Line{400 * units.Gbps, 4096})
			require.NoError(b, err)
			for range benchFlows {
				ctl.OnCNP(ctl.Open(0, Route{}), 0)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				ctl.OnSend(FlowID(i&(benchFlows-1)), sim.Time(i)*2*sim.Nanosecond, 4178)
			}
		})
	}
}

// BenchmarkSilence is the CNP after a silence, which catches up on all of it.
func BenchmarkSilence(b *testing.B) {
	for _, silence := range []sim.Time{100 * sim.Microsecond, sim.Millisecond, 100 * sim.Millisecond, 10 * sim.Second} {
		b.Run(fmt.Sprint(silence), func(b *testing.B) {
			d, rps := congested(b, "alibaba")
			f := rps[1]
			now := sim.Millisecond
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				now += silence
				if now > 90*24*3600*sim.Second {
					now, f = sim.Millisecond, rps[1]
				}
				d.OnCNP(&f, now)
			}
		})
	}
}

func BenchmarkOnMarked(b *testing.B) {
	d, err := NewDCQCN(DefaultDCQCN(), 400*units.Gbps)
	require.NoError(b, err)
	nps := make([]NP, benchFlows)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		d.OnMarked(&nps[i&(benchFlows-1)], sim.Time(i)*300)
	}
	b.ReportMetric(float64(unsafe.Sizeof(NP{})), "B/flow")
}

func BenchmarkMark(b *testing.B) {
	m := DefaultECN().At(400 * units.Gbps).Marker()
	marked := 0
	b.ReportAllocs()
	for i := range b.N {
		if m.Mark(units.Bytes(i&0xFFFFF)*8, Uniform(1, uint64(i))) {
			marked++
		}
	}
	b.ReportMetric(float64(marked)/float64(b.N), "marked/packet")
}

// BenchmarkBuffer is one packet's Admit and Release in a 128-port switch whose
// 256 lossless groups hold some packets each.
func BenchmarkBuffer(b *testing.B) {
	for _, prio := range []int{3, 0} {
		b.Run(map[int]string{3: "lossless", 0: "lossy"}[prio], func(b *testing.B) {
			const ports, depth = 128, 1 << 10
			buf, err := NewBuffer(DefaultBuffer(), 400*units.Gbps, 4178, samePorts(ports, Port{400 * units.Gbps, sim.Microsecond}))
			require.NoError(b, err)
			at := func(i int) (in, out int) { return i * 37 % ports, i * 11 % ports }
			for i := range depth {
				in, out := at(i)
				buf.Admit(in, out, prio, 4178)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				in, out := at(i)
				buf.Release(in, out, prio, 4178)
				in, out = at(i + depth)
				buf.Admit(in, out, prio, 4178)
			}
			b.ReportMetric(float64(unsafe.Sizeof(group{})+unsafe.Sizeof(buf.queues[0])), "B/port-priority")
		})
	}
}
