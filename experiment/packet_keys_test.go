package experiment

// What the packet engine's settings need to act on.
const (
	pauses  = "congestion.buffer.alpha=0.0078125"
	losses  = "congestion.buffer.lossless=[] congestion.buffer.egress_alpha=0.0078125"
	sprayed = "packet.path.choice=spray-random"
	fault   = "packet.faults=[{link:_leaf0>spine0,_at:_100us,_rate:_0}]"
	rises   = "congestion.dcqcn.increase_timer=10us"
	marks   = "congestion.ecn.thresholds=[{rate:_100Gbps,_kmin:_100kB,_kmax:_200kB,_pmax:_0.5}]"

	hpcc  = "congestion.algorithm=hpcc"
	swift = "congestion.algorithm=swift"

	byINT   = "packet.path.choice=int packet.path.int={preset:_packet,_probe_interval:_5us}"
	byCONGA = "packet.path.choice=conga packet.path.conga={preset:_conweave,_flowlet_gap:_1us}"

	oneClass = "one traffic class crosses servers here, and a note says that the mode never acted; fabric/packet tests two"
)

// packetKeys has each key of the packet engine.
func packetKeys() []change {
	keys := []change{
		{key: "packet.train", value: "4"},
		{key: "packet.path.choice", value: "flowlet"},
		{key: "packet.path.index", value: "1", on: "packet.path.choice=static"},
		{key: "packet.path.flowlet_gap", value: "1us", on: "packet.path.choice=flowlet"},
		{key: "packet.path.max_paths", value: "2", on: sprayed},
		{key: "packet.path.choice", value: "conga"},
		{key: "packet.path.choice", value: "int"},
		{key: "packet.path.choice", value: "oracle"},
		{key: "packet.path.int.preset", value: "greedy", on: byINT},
		{key: "packet.path.int.per", value: "message", on: byINT},
		{key: "packet.path.int.flowlet_gap", value: "1us", on: byINT + " packet.path.int.per=flowlet"},
		{key: "packet.path.int.margin", value: "0.9", on: byINT},
		{key: "packet.path.int.hold", value: "1us", on: byINT},
		{key: "packet.path.int.choices", value: "0", on: byINT},
		{key: "packet.path.int.levels", value: "2", on: byINT},
		{key: "packet.path.int.gain", value: "0.1", on: byINT},
		{key: "packet.path.int.max_age", value: "20us", on: byINT},
		{key: "packet.path.int.probe_interval", value: "20us", on: byINT},
		{key: "packet.path.int.probe_bytes", value: "200B", on: byINT},
		{key: "packet.path.conga.preset", value: "paper", on: byCONGA},
		{key: "packet.path.conga.period", value: "5us", on: byCONGA},
		{key: "packet.path.conga.alpha", value: "0.9", on: byCONGA},
		{key: "packet.path.conga.bits", value: "7", on: byCONGA},
		{key: "packet.path.conga.flowlet_gap", value: "10us", on: byCONGA},
		{key: "packet.path.conga.aging", value: "5us", on: byCONGA},
		{key: "packet.path.conga.header_bytes", value: "8B", on: byCONGA},
		{key: "packet.transport.window_bdp", value: "2", on: "congestion.algorithm=none"},
		{key: "packet.transport.window_bdp", value: "2", does: idle, why: "it is the window of pacing none"},
		{key: "packet.transport.ack_bytes", value: "64B"},
		{key: "packet.transport.ack_every", value: "1"},
		{key: "packet.transport.ack_queueing", value: "true"},
		{key: "packet.transport.recovery", value: "go-back-n", on: sprayed},
		{key: "packet.transport.reorder_window", value: "64", on: sprayed},
		{key: "packet.transport.reorder_tolerance", value: "3", on: sprayed},
		{key: "packet.transport.timeout", value: "100us", on: losses},
		{key: "packet.nic.max_qps", value: "1"},
		{key: "packet.nic.max_requests", value: "1"},
		{key: "packet.nic.request_cost", value: "1us"},
		{key: "packet.nic.drain_rate", value: "100Gbps"},
		{key: "packet.nic.drain_buffer", value: "64KiB", on: "packet.nic.drain_rate=200Gbps"},
		{key: "packet.queues.mode", value: "strict", does: idle, why: oneClass},
		{key: "packet.queues.kv_weight", value: "3", on: "packet.queues.mode=weighted", does: idle, why: oneClass},
		{key: "packet.queues.ep_weight", value: "3", on: "packet.queues.mode=weighted", does: idle, why: oneClass},
		{key: "packet.queues.ep_priority", value: "2", does: idle, why: oneClass},
		{key: "packet.queues.kv_priority", value: "1", on: pauses},
		{key: "packet.queues.control_priority", value: "3", does: refused},
		{key: "packet.queues.control_priority", value: "5", does: idle, why: "control has a priority of its own, whichever"},
		{key: "packet.mark_at", value: "enqueue"},
		{key: "packet.pause_response", value: "1us", on: pauses},
		{key: "packet.deadlock_check", value: "5us", on: pauses},
		{key: "packet.faults[0].link", value: "leaf0>spine1", on: fault},
		{key: "packet.faults[0].at", value: "200us", on: fault},
		{key: "packet.faults[0].rate", value: "0.5", on: fault},
		{key: "packet.fault_detection", value: "50us", on: fault},

		{key: "congestion.algorithm", value: "none"},
		{key: "congestion.none.window", value: "100kB", on: "congestion.algorithm=none"},
		{key: "congestion.dcqcn.preset", value: "paper"},
		{key: "congestion.dcqcn.notify", value: "ack"},
		{key: "congestion.dcqcn.cnp_interval", value: "50us"},
		{key: "congestion.dcqcn.cnp_scope", value: "port"},
		{key: "congestion.dcqcn.cnp_deferred", value: "true"},
		{key: "congestion.dcqcn.cnp_delay", value: "1us"},
		{key: "congestion.dcqcn.alpha_update", value: "cnp"},
		{key: "congestion.dcqcn.alpha_timer", value: "55us"},
		{key: "congestion.dcqcn.g", value: "0.0625"},
		{key: "congestion.dcqcn.initial_alpha", value: "0.5"},
		{key: "congestion.dcqcn.rate_decrease", value: "cnp"},
		{key: "congestion.dcqcn.decrease_interval", value: "50us"},
		{key: "congestion.dcqcn.min_decrease_factor", value: "0.8"},
		{key: "congestion.dcqcn.clamp_target_rate", value: "true"},
		{key: "congestion.dcqcn.clamp_target_rate_after_time_increase", value: "false", on: rises},
		{key: "congestion.dcqcn.first_cnp_rate", value: "0.5"},
		{key: "congestion.dcqcn.increase_timer", value: "50us"},
		{key: "congestion.dcqcn.byte_counter", value: "100kB"},
		{key: "congestion.dcqcn.fast_recovery", value: "5", on: rises},
		{key: "congestion.dcqcn.rate_ai", value: "500Mbps", on: rises},
		{key: "congestion.dcqcn.rate_hai", value: "1Gbps", on: rises},
		{key: "congestion.dcqcn.rate_hai_by_stage", value: "true", on: rises},
		{key: "congestion.dcqcn.scale_from", value: "100Gbps", on: rises},
		{key: "congestion.dcqcn.release_at_line_rate", value: "true", does: idle,
			why: "no sender is back at line rate before its transfer ends; congestion tests it"},
		{key: "congestion.dcqcn.min_rate", value: "1Gbps"},
		{key: "congestion.dcqcn.initial_rate", value: "100Gbps"},
		{key: "congestion.dcqcn.window", value: "100kB"},
		{key: "congestion.dcqcn.window_follows_rate", value: "true", on: "congestion.dcqcn.window=1MB"},

		{key: "congestion.algorithm", value: "hpcc"},
		{key: "congestion.algorithm", value: "swift"},
		{key: "congestion.hpcc.eta", value: "0.5", does: idle, why: "congestion.algorithm is dcqcn"},
		{key: "congestion.hpcc.preset", value: "hpcc-ns3", on: hpcc},
		{key: "congestion.hpcc.eta", value: "0.9", on: hpcc},
		{key: "congestion.hpcc.max_stage", value: "1", on: hpcc},
		{key: "congestion.hpcc.rate_ai", value: "1Gbps", on: hpcc},
		{key: "congestion.hpcc.scale_from", value: "50Gbps", on: hpcc},
		{key: "congestion.hpcc.fast_react", value: "false", on: hpcc},
		{key: "congestion.hpcc.base_rtt", value: "20us", on: hpcc},
		{key: "congestion.hpcc.min_rate", value: "20Gbps", on: hpcc},
		{key: "congestion.swift.preset", value: "htsim", on: swift},
		{key: "congestion.swift.base_target", value: "15us", on: swift},
		{key: "congestion.swift.target_rtts", value: "2", on: swift},
		{key: "congestion.swift.hop_delay", value: "1us", on: swift},
		{key: "congestion.swift.flow_scaling", value: "1", on: swift},
		{key: "congestion.swift.scaling_min_window", value: "1", on: swift},
		{key: "congestion.swift.scaling_max_window", value: "50", on: swift},
		{key: "congestion.swift.ai", value: "4", on: swift},
		{key: "congestion.swift.beta", value: "0.4", on: swift},
		{key: "congestion.swift.max_mdf", value: "0.2", on: swift},
		{key: "congestion.swift.min_window", value: "30", on: swift},
		{key: "congestion.swift.max_window", value: "20", on: swift},
		{key: "congestion.swift.initial_window", value: "10", on: swift},
		{key: "congestion.swift.reset_timeouts", value: "1", on: swift + " packet.transport.timeout=20us " + losses},
		{key: "congestion.int.preset", value: "hpcc-ns3", on: hpcc},
		{key: "congestion.int.header_bytes", value: "10B", on: hpcc},
		{key: "congestion.int.hop_bytes", value: "4B", on: hpcc},
		{key: "congestion.int.reserved_hops", value: "4", on: hpcc},
		{key: "congestion.int.reserved_hops", value: "0", on: hpcc, does: refused},
		{key: "congestion.int.time_unit", value: "1us", on: hpcc},
		{key: "congestion.int.bytes_unit", value: "10kB", on: hpcc},
		{key: "congestion.int.queue_unit", value: "100kB", on: hpcc},
		{key: "congestion.int.scale_from", value: "100Mbps", on: hpcc + " congestion.int.bytes_unit=100B"},

		{key: "congestion.ecn.preset", value: "sonic"},
		{key: "congestion.ecn.thresholds[0].rate", value: "200Gbps", on: marks},
		{key: "congestion.ecn.thresholds[0].kmin", value: "50kB", on: marks},
		{key: "congestion.ecn.thresholds[0].kmax", value: "400kB", on: marks},
		{key: "congestion.ecn.thresholds[0].pmax", value: "0.1", on: marks},
		{key: "congestion.ecn.proportional", value: "false", on: marks},

		{key: "congestion.buffer.preset", value: "derived", on: pauses},
		{key: "congestion.buffer.size", value: "100MB", on: pauses},
		{key: "congestion.buffer.size", value: "4MB", does: refused},
		{key: "congestion.buffer.size_from", value: "200Gbps", on: pauses},
		{key: "congestion.buffer.lossless", value: "[]", on: pauses},
		{key: "congestion.buffer.guaranteed", value: "200kB", on: pauses},
		{key: "congestion.buffer.alpha", value: "0.015625", on: pauses},
		{key: "congestion.buffer.alpha_follows_rate", value: "true",
			on: pauses + " cluster.link_rate=800Gbps cluster.oversubscription=1"},
		{key: "congestion.buffer.static_threshold", value: "100kB"},
		{key: "congestion.buffer.resume_offset", value: "100kB", on: pauses},
		{key: "congestion.buffer.egress_alpha", value: "0.015625", on: losses},
		{key: "congestion.buffer.egress_guaranteed", value: "2MB", on: losses},
		{key: "congestion.buffer.headroom.bytes", value: "300kB", on: pauses},
		{key: "congestion.buffer.headroom.delays", value: "1", on: pauses},
		{key: "congestion.buffer.headroom.frames", value: "4", on: pauses},
		{key: "congestion.buffer.headroom.response", value: "true", on: pauses},
		{key: "congestion.buffer.headroom.pool", value: "10MB", on: pauses},
	}
	for i := range keys {
		keys[i].in = "packet"
		if keys[i].does == "" {
			keys[i].does = changes
		}
	}
	return keys
}
