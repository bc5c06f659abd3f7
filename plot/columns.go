package plot

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

// A column is how a column is shown.
type column struct {
	// label is the axis label, with the unit.
	label string
	// short names a value in a legend, %s being the value; "" is the label and the
	// value.
	short string
}

// columns are the labels of columns; latencies and shares follow by their forms.
var columnLabels = map[string]column{
	"gpus":                          {label: "GPUs", short: "%s GPUs"},
	"prefill_gpus":                  {label: "Prefill GPUs", short: "%s prefill GPUs"},
	"decode_gpus":                   {label: "Decode GPUs", short: "%s decode GPUs"},
	"nodes":                         {label: "Servers", short: "%s servers"},
	"cluster.nodes":                 {label: "Servers", short: "%s servers"},
	"leaves":                        {label: "Leaf switches", short: "%s leaves"},
	"cluster.leaves":                {label: "Leaf switches", short: "%s leaves"},
	"spines":                        {label: "Spine switches", short: "%s spines"},
	"cluster.spines":                {label: "Spine switches", short: "%s spines"},
	"uplinks_per_leaf":              {label: "Uplinks per leaf switch", short: "%s uplinks per leaf"},
	"oversubscription":              {label: "Oversubscription of the leaf switches (down : up)", short: "%s:1 oversubscribed"},
	"cluster.oversubscription":      {label: "Oversubscription of the leaf switches (down : up)", short: "%s:1 oversubscribed"},
	"cluster.nic_rate_gbps":         {label: "NIC rate (Gb/s)", short: "%s Gb/s NICs"},
	"cluster.link_rate_gbps":        {label: "Link rate (Gb/s)", short: "%s Gb/s links"},
	"prefill_instances":             {label: "Prefill instances", short: "%s prefill instances"},
	"decode_instances":              {label: "Decode instances", short: "%s decode instances"},
	"prefill.instances":             {label: "Prefill instances", short: "%s prefill instances"},
	"decode.instances":              {label: "Decode instances", short: "%s decode instances"},
	"decode.max_batch_requests":     {label: "Largest decode batch (requests per rank)", short: "batch up to %s"},
	"prefill.max_batch_tokens":      {label: "Largest prefill batch (tokens)", short: "prefill batch up to %s tokens"},
	"workload.arrivals.rate_per_s":  {label: "Offered load (requests/s)", short: "%s requests/s"},
	"workload.arrivals.rate":        {label: "Offered load (requests/s)", short: "%s requests/s"},
	"scale.load.rate_per_gpu_per_s": {label: "Offered load (requests/s per GPU)", short: "%s requests/s per GPU"},
	"workload.requests":             {label: "Requests", short: "%s requests"},
	"workload.prompt.mean":          {label: "Mean prompt length (tokens)", short: "prompts of %s tokens"},
	"workload.output.mean":          {label: "Mean output length (tokens)", short: "outputs of %s tokens"},
	"tgs":                           {label: "TGS of the whole run (tokens/s per GPU)"},
	"tgs_steady":                    {label: "TGS (tokens/s per GPU)"},
	"tgs_decode":                    {label: "TGS of decode GPUs over the whole run (tokens/s per GPU)"},
	"tgs_decode_steady":             {label: "TGS of decode GPUs (tokens/s per GPU)"},
	"tgs_prefill":                   {label: "Prompt tokens/s per prefill GPU over the whole run"},
	"tgs_prefill_steady":            {label: "Prompt tokens/s per prefill GPU"},
	"tgs_offered":                   {label: "Offered TGS (tokens/s per GPU)"},
	"tgs_perfect_fabric":            {label: "Upper bound of TGS with a perfect fabric (tokens/s per GPU)"},
	"tgs_without_fabric_wait":       {label: "Upper bound of TGS without waiting for the fabric (tokens/s per GPU)"},
	"tokens_per_s_per_user":         {label: "Speed for one user (tokens/s)"},
	"batch_per_decode_gpu":          {label: "Mean batch (requests per decode GPU)"},
	"request_goodput":               {label: "Goodput (requests/s within the SLO)"},
	"slo_attainment":                {label: "Requests within the SLO (share of all)"},
	"offered_rate_req_per_s":        {label: "Offered load (requests/s)"},
	"served_rate_req_per_s":         {label: "Served load (requests/s)"},
	"request_throughput":            {label: "Finished requests/s over the whole run"},
	"output_throughput":             {label: "Output tokens/s of the cluster"},
	"total_token_throughput":        {label: "Prompt and output tokens/s of the cluster"},
	"seconds_per_token":             {label: "Time per generated token (s)"},
	"completed":                     {label: "Finished requests"},
	"requests_rejected":             {label: "Rejected requests"},
	"requests_unfinished":           {label: "Unfinished requests"},
	"exposed_comm_share_prefill":    {label: "Exposed communication (share of prefill GPU time)"},
	"exposed_comm_share_decode":     {label: "Exposed communication (share of decode GPU time)"},
	"fabric_wait_share_prefill":     {label: "Waiting for the fabric (share of prefill GPUs' busy time)"},
	"fabric_wait_share_decode":      {label: "Waiting for the fabric (share of decode GPUs' busy time)"},
	"kv_transfer_share_ttft":        {label: "KV transfer (share of TTFT)"},
	"ttft_share_transfer_queue":     {label: "KV transfers behind other traffic (share of TTFT)"},
	"gpu_time_prefill_dispatch":     {label: "Exposed dispatch (share of prefill GPU time)"},
	"gpu_time_prefill_combine":      {label: "Exposed combine (share of prefill GPU time)"},
	"gpu_time_decode_dispatch":      {label: "Exposed dispatch (share of decode GPU time)"},
	"gpu_time_decode_combine":       {label: "Exposed combine (share of decode GPU time)"},
	"dispatch_us_prefill":           {label: "Mean dispatch in prefill (\u00b5s)"},
	"combine_us_prefill":            {label: "Mean combine in prefill (\u00b5s)"},
	"dispatch_us_decode":            {label: "Mean dispatch in decode (\u00b5s)"},
	"combine_us_decode":             {label: "Mean combine in decode (\u00b5s)"},
	"comm_prefill_paths":            {label: "Uneven or narrow paths (share of prefill's AllToAll time)"},
	"comm_prefill_contention":       {label: "Other traffic (share of prefill's AllToAll time)"},
	"comm_decode_paths":             {label: "Uneven or narrow paths (share of decode's AllToAll time)"},
	"comm_decode_contention":        {label: "Other traffic (share of decode's AllToAll time)"},
	"tgs_cv_100ms":                  {label: "Variation of TGS over 100 ms (standard deviation over mean)"},
	"tgs_worst_100ms":               {label: "TGS of the worst 100 ms (tokens/s per GPU)"},
	"bursts":                        {label: "Bursts of arrivals"},
	"bursts_unrecovered":            {label: "Bursts not recovered from"},
	"burst_recovery_ms":             {label: "Mean recovery from a burst (ms)"},
	"max_queue_bytes":               {label: "Longest queue of a switch port (bytes)"},
	"p99_queue_bytes":               {label: "Longest 99th percentile of a switch port's queue (bytes)"},
	"marked_share":                  {label: "Packets marked (share of all at switch ports)"},
	"paused_ms":                     {label: "Ports paused by PFC, summed (ms)"},
	"pauses":                        {label: "Pauses by PFC"},
	"dropped_packets":               {label: "Packets dropped by switches"},
	"link_down_packets":             {label: "Packets lost on links"},
	"retransmitted_packets":         {label: "Packets sent again"},
	"retransmission_timeouts":       {label: "Retransmission timeouts"},
	"jfi_uplinks":                   {label: "Fairness of the uplinks' load (Jain's index)"},
	"mmr_uplinks":                   {label: "Largest load of an uplink over the mean"},
	"prefill_busy":                  {label: "Busy prefill instances (share of time)"},
	"events":                        {label: "Simulated events"},
	folderColumn:                    {label: "Folder", short: "%s"},
	"network.engine":                {label: "Network engine", short: "%s engine"},
	"congestion.algorithm":          {label: "Congestion control", short: "%s"},
	"packet.path.choice":            {label: "Routing", short: "%s"},
	"model.name":                    {label: "Model", short: "%s"},
	"gpu.name":                      {label: "GPU", short: "%s"},
}

var (
	latency = regexp.MustCompile(`^(mean|median|std|max|p\d+)_(ttft|ttft_prefill_only|tpot|itl|e2el|kv_transfer)_ms$`)
	util    = regexp.MustCompile(`^(mean|max)_util_(\w+)$`)
)

var (
	statistics = map[string]string{"mean": "mean", "median": "median", "std": "standard deviation of", "max": "largest"}
	latencies  = map[string]string{
		"ttft": "TTFT", "ttft_prefill_only": "TTFT without KV transfer and decode", "tpot": "TPOT", "itl": "ITL",
		"e2el": "end-to-end latency", "kv_transfer": "KV transfer",
	}
)

// suffixes are the units in columns' names, longest first.
var suffixes = []struct{ suffix, unit string }{
	{"_per_s", "/s"}, {"_req_per_s", "requests/s"}, {"_gbps", "Gb/s"}, {"_bytes", "bytes"}, {"_ms", "ms"}, {"_us", "\u00b5s"}, {"_s", "s"},
}

// columnOf describes a column, known or not.
func columnOf(name string) column {
	if c, ok := columnLabels[name]; ok {
		return c
	}
	if m := latency.FindStringSubmatch(name); m != nil {
		stat := statistics[m[1]]
		if stat == "" {
			stat = ordinal(m[1][1:]) + " percentile of"
		}
		return column{label: fmt.Sprintf("%s %s (ms)", sentence(stat), latencies[m[2]])}
	}
	if m := util.FindStringSubmatch(name); m != nil {
		return column{label: fmt.Sprintf("%s utilisation of %s links (share)", sentence(statistics[m[1]]), words(m[2]))}
	}
	for _, s := range suffixes {
		if rest, ok := strings.CutSuffix(name, s.suffix); ok {
			label := sentence(words(rest))
			return column{label: label + " (" + s.unit + ")", short: label + " %s " + s.unit}
		}
	}
	label := sentence(words(name))
	return column{label: label, short: label + " %s"}
}

func ordinal(n string) string {
	switch {
	case strings.HasSuffix(n, "1") && n != "11":
		return n + "st"
	case strings.HasSuffix(n, "2") && n != "12":
		return n + "nd"
	case strings.HasSuffix(n, "3") && n != "13":
		return n + "rd"
	}
	return n + "th"
}

// acronyms are spelt so wherever they are a word.
var acronyms = map[string]string{
	"tgs": "TGS", "ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "kv": "KV", "ep": "EP", "gpu": "GPU", "gpus": "GPUs", "nic": "NIC",
	"nics": "NICs", "moe": "MoE", "mtp": "MTP", "qps": "queue pairs", "ecn": "ECN", "pfc": "PFC", "slo": "SLO", "tp": "TP", "dp": "DP",
	"dcqcn": "DCQCN", "hpcc": "HPCC", "ecmp": "ECMP", "int": "INT", "gse": "GSE", "nvlink": "NVLink", "mtu": "MTU", "ack": "ACK",
}

// words spells a key as words: "decode.max_batch" is "decode max batch".
func words(key string) string {
	parts := strings.FieldsFunc(key, func(r rune) bool { return r == '_' || r == ' ' || r == '.' })
	for i, p := range parts {
		if a, ok := acronyms[strings.ToLower(p)]; ok {
			parts[i] = a
		}
	}
	return strings.Join(parts, " ")
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// isShare tells columns whose largest value is 1.
func isShare(name string) bool {
	return strings.Contains(name, "share") || strings.Contains(name, "attainment") ||
		slices.ContainsFunc([]string{"jfi_", "gpu_time_", "comm_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// find checks that a column is one of the table's or a key of its scenarios, and
// returns its full name: an axis of a quantity may be named without its unit.
func (t *table) find(name string) (string, error) {
	if name == folderColumn || slices.Contains(t.columns, name) {
		return name, nil
	}
	for _, axis := range t.axes {
		if rest, ok := strings.CutPrefix(axis, name); ok && slices.ContainsFunc(suffixes, func(s struct{ suffix, unit string }) bool { return s.suffix == rest }) {
			return axis, nil
		}
	}
	known := slices.Clone(t.columns)
	for i := range t.rows {
		s := t.rows[i].settings
		if s == nil {
			continue
		}
		if v := s.Value(name); v.IsScalar() {
			return name, nil
		}
		if i == 0 || len(known) == len(t.columns) {
			known = appendKeys(known, "", s.Value(""))
		}
	}
	return "", fmt.Errorf("no column %q%s", name, config.Suggest(name, known))
}

func appendKeys(known []string, path string, v config.Value) []string {
	for _, k := range v.Keys() {
		at := k
		if path != "" {
			at = path + "." + k
		}
		switch x := v.Get(k); {
		case x.IsMapping():
			known = appendKeys(known, at, x)
		case x.IsScalar():
			known = append(known, at)
		}
	}
	return known
}

// text is the value of a column, or of a key of the scenario. What the packet
// engine alone asks for says which engine it is that does not.
func (r *row) text(name string) string {
	if s, ok := r.cells[name]; ok {
		return s
	}
	if r.settings == nil {
		return ""
	}
	if strings.HasPrefix(name, "congestion.") || strings.HasPrefix(name, "packet.") {
		if engine, _ := r.settings.Value("network.engine").Text(); engine != "packet" {
			return engine + " engine"
		}
	}
	s, _ := r.settings.Value(name).Text()
	return s
}

// ideal tells whether the network of a run is ideal.
func (r *row) ideal() bool {
	if r.settings == nil {
		return false
	}
	engine, _ := r.settings.Value("network.engine").Text()
	return engine == "ideal"
}

// number is the value of a column as a number; a quantity of the scenario counts
// without its unit.
func (r *row) number(name string) (float64, bool) {
	s := r.text(name)
	if x, ok := parseNumber(s); ok {
		return x, true
	}
	if _, ok := r.cells[name]; ok || s == "" {
		return 0, false
	}
	return parseNumber(s[:len(s)-len(unitOf(s))])
}

// unitOf is what follows the number in a quantity, "" without one.
func unitOf(s string) string {
	end := strings.LastIndexAny(s, "0123456789.")
	return s[end+1:]
}

// show writes a value of a column for a legend.
func show(name, value string) string {
	c := columnOf(name)
	x, ok := parseNumber(value)
	if !ok {
		if a, there := acronyms[strings.ToLower(value)]; there {
			return a
		}
		return value
	}
	text := number(x)
	if c.short == "" {
		return c.label + " " + text
	}
	return strings.Replace(c.short, "%s", text, 1)
}

// ratio writes an oversubscription.
func ratio(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) + ":1" }
