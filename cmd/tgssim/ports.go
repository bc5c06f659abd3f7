package main

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/topology"
)

// portsFile is the name of the packet engine's file in a run folder.
const portsFile = "ports.csv"

// portsCSV is what the sending end of every link has seen: one line per port, in
// link order. Depths are of waiting data bytes; the percentiles are over time.
func portsCSV(g *topology.Graph, ports []packet.PortStats) []byte {
	var b bytes.Buffer
	b.WriteString("link,wire_bytes")
	for c := range fabric.NumClasses {
		fmt.Fprintf(&b, ",payload_%[1]v_bytes,packets_%[1]v,marked_%[1]v", c)
	}
	b.WriteString(",control_packets")
	for d := congestion.Drop(1); int(d) < len(packet.PortStats{}.Dropped); d++ {
		fmt.Fprintf(&b, ",dropped_%v", d)
	}
	b.WriteString(",pauses,paused_ps,depth_max_bytes,depth_mean_bytes,depth_p50_bytes,depth_p99_bytes")
	for c := range fabric.NumClasses {
		fmt.Fprintf(&b, ",dropped_%[1]v,pauses_%[1]v,paused_%[1]v_ps,depth_max_%[1]v_bytes,depth_mean_%[1]v_bytes,depth_p50_%[1]v_bytes,depth_p99_%[1]v_bytes", c)
	}
	b.WriteByte('\n')
	for i := range ports {
		p := &ports[i]
		fmt.Fprintf(&b, "%s,%d", g.Links[p.Link].Name, int64(p.Wire))
		for c := range fabric.NumClasses {
			fmt.Fprintf(&b, ",%d,%d,%d", int64(p.Payload[c]), p.Packets[c], p.Marked[c])
		}
		fmt.Fprintf(&b, ",%d", p.Control)
		for d := 1; d < len(p.Dropped); d++ {
			fmt.Fprintf(&b, ",%d", p.Dropped[d])
		}
		fmt.Fprintf(&b, ",%d,%d", p.Pauses, int64(p.PausedFor))
		writeDepth(&b, p.Depth)
		for c := range fabric.NumClasses {
			dropped := int64(0)
			for _, k := range p.DroppedOf[c] {
				dropped += k
			}
			fmt.Fprintf(&b, ",%d,%d,%d", dropped, p.PausesOf[c], int64(p.PausedForOf[c]))
			writeDepth(&b, p.DepthOf[c])
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func writeDepth(b *bytes.Buffer, d packet.Depth) {
	fmt.Fprintf(b, ",%d,%s,%d,%d", int64(d.MaxDepth), strconv.FormatFloat(d.MeanDepth, 'f', 1, 64), int64(d.P50Depth), int64(d.P99Depth))
}
