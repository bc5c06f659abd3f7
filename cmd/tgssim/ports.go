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
	b.WriteString(",pauses,paused_ps,depth_max_bytes,depth_mean_bytes,depth_p50_bytes,depth_p99_bytes\n")
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
		fmt.Fprintf(&b, ",%d,%d,%d,%s,%d,%d\n", p.Pauses, int64(p.PausedFor), int64(p.MaxDepth),
			strconv.FormatFloat(p.MeanDepth, 'f', 1, 64), int64(p.P50Depth), int64(p.P99Depth))
	}
	return b.Bytes()
}
