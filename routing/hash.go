// Package routing chooses paths. It is pure: a flow key in, links out, and for the
// choices that change also the time, the flow's state and what is known of the
// paths; no clock and no random stream, so both fabric engines route alike.
package routing

import "math/bits"

// RoCEv2Port is the UDP destination port of RoCEv2 (IANA; InfiniBand
// Architecture Specification, annex A17).
const RoCEv2Port = 4791

// ProtoUDP is the IP protocol number of UDP.
const ProtoUDP = 17

// A FlowKey is the 5-tuple that a switch hashes. Src and Dst stand for the IP
// addresses; any numbering of the endpoints will do.
type FlowKey struct {
	Src, Dst         uint32
	SrcPort, DstPort uint16
	Proto            uint8
}

// RoCE is the key of the packets of queue pair qp from endpoint src to dst.
func RoCE(src, dst, qp uint32) FlowKey {
	return FlowKey{Src: src, Dst: dst, SrcPort: SourcePort(qp), DstPort: RoCEv2Port, Proto: ProtoUDP}
}

// SourcePort is the UDP source port of a queue pair: the one field of a RoCEv2
// packet by which the QPs between two NICs differ, and so all the entropy that
// ECMP has. The QP number is folded into 14 bits by XOR and put into the dynamic
// range 49152..65535, the way Linux folds a flow label
// (rdma_flow_label_to_udp_sport in include/rdma/ib_verbs.h). The 16,384 QPs that
// share their upper bits all have different ports.
func SourcePort(qp uint32) uint16 {
	return 0xC000 | uint16((qp^qp>>14^qp>>28)&0x3FFF)
}

// Hash is the hash of a 5-tuple under a seed. It feeds the seed and then the
// two words of the key through the 64-bit finaliser of splitmix64 (Steele, Lea
// and Flood, OOPSLA 2014, with Stafford's constants "Mix13"). Each step is a
// bijection, so keys that differ only in the addresses, or only in ports and
// protocol, never collide in all 64 bits; every input bit flips every output bit
// with probability 1/2.
//
// Many switches use CRCs, where a seed only XORs a constant into the hash
// ("Hashing Linearity Enables Relative Path Control in Data Centers", USENIX ATC
// 2021), so that tiers stay correlated whatever their seeds. That weakness is
// not modelled.
func Hash(k FlowKey, seed uint64) uint64 {
	h := mix(seed + golden)
	h = mix(h ^ (uint64(k.Src)<<32 | uint64(k.Dst)))
	return mix(h ^ (uint64(k.SrcPort)<<24 | uint64(k.DstPort)<<8 | uint64(k.Proto)))
}

// golden is 2^64 divided by the golden ratio, made odd.
const golden = 0x9E3779B97F4A7C15

// mix is the finaliser of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// pick maps a hash to 0..n-1. It uses the high bits: the multiply-shift
// reduction, whose bias is below n/2^64.
func pick(h uint64, n int) int {
	hi, _ := bits.Mul64(h, uint64(n))
	return int(hi)
}
