package compare

import (
	"slices"

	"github.com/tgssim/tgssim/internal/config"
)

// A Measure is something that is compared.
type Measure struct {
	// Key is its name in summary.json; docs/metrics.md defines them all.
	Key string
	// Label is how it is printed, with the unit, after multiplication with scale.
	Label string
	scale float64
	// Better is +1 where more is better, -1 where less is, and 0 where it depends.
	Better int
}

// Measures is what is compared, in the order of the table.
func Measures() []Measure {
	return []Measure{
		{"tgs_steady", "TGS, steady (tokens/s/GPU)", 1, +1},
		{"tgs", "TGS, whole run", 1, +1},
		{"request_goodput", "goodput (req/s)", 1, +1},
		{"slo_attainment", "within the SLO (%)", 100, +1},
		{"mean_ttft_ms", "TTFT mean (ms)", 1, -1},
		{"p99_ttft_ms", "TTFT p99 (ms)", 1, -1},
		{"mean_itl_ms", "ITL mean (ms)", 1, -1},
		{"p99_itl_ms", "ITL p99 (ms)", 1, -1},
		{"mean_kv_transfer_ms", "KV transfer FCT mean (ms)", 1, -1},
		{"p99_kv_transfer_ms", "KV transfer FCT p99 (ms)", 1, -1},
		{"gpu_time_prefill_dispatch", "dispatch in prefill (%)", 100, -1},
		{"gpu_time_prefill_combine", "combine in prefill (%)", 100, -1},
		{"gpu_time_decode_dispatch", "dispatch in decode (%)", 100, -1},
		{"gpu_time_decode_combine", "combine in decode (%)", 100, -1},
		{"fabric_wait_share_decode", "fabric wait in decode (%)", 100, -1},
		{"tgs_cv_100ms", "TGS variation, 100 ms (%)", 100, -1},
		{"tgs_worst_100ms", "TGS, worst 100 ms", 1, +1},
		{"burst_recovery_ms", "burst recovery (ms)", 1, -1},
		{"max_queue_bytes", "longest queue (MiB)", 1. / (1 << 20), -1},
		{"p99_queue_bytes", "longest queue p99 (MiB)", 1. / (1 << 20), -1},
		{"marked_share", "packets marked (%)", 100, 0},
		{"paused_ms", "ports paused (ms)", 1, -1},
		{"pauses", "pauses", 1, -1},
		{"dropped_packets", "packets dropped", 1, -1},
		{"link_down_packets", "packets lost on links", 1, -1},
		{"retransmitted_packets", "packets sent again", 1, -1},
		{"retransmission_timeouts", "timeouts", 1, -1},
	}
}

// find returns the measure of a key.
func find(key string) (Measure, bool) {
	all := Measures()
	i := slices.IndexFunc(all, func(m Measure) bool { return m.Key == key })
	if i < 0 {
		return Measure{}, false
	}
	return all[i], true
}

// suggest is what else a name may have meant.
func suggest(key string) string {
	var keys []string
	for _, m := range Measures() {
		keys = append(keys, m.Key)
	}
	return config.Suggest(key, keys)
}

// The evidence that a verdict may rest on, beside the measures: where GPU time
// goes, and the pieces of TTFT.
var (
	pools      = []string{"prefill", "decode"}
	activities = []struct{ key, text string }{
		{"dispatch", "exposed dispatch"}, {"combine", "exposed combine"}, {"all_reduce", "the all-reduce"},
		{"barrier", "barriers"}, {"waiting_kv", "waiting for KV"}, {"host", "host gaps"},
	}
	pieces = []struct{ key, text string }{
		{"queue", "the prefill queue"}, {"prefill_compute", "prefill's computing"}, {"prefill_comm", "prefill's communication"},
		{"decode_memory", "waiting for decode memory"}, {"transfer_post", "posting KV"}, {"transfer_wire", "KV on the wire"},
		{"transfer_queue", "KV behind other traffic"}, {"decode_wait", "waiting for a decode batch"},
		{"decode_compute", "the first decode step's computing"}, {"decode_comm", "the first decode step's communication"},
		{"decode_host", "the first decode step's host gap"},
	}
)
