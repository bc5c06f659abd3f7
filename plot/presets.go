package plot

// A kind is the way a picture is made.
type kind int

const (
	kindXY kind = iota
	kindFrontier
	kindTTFT
	kindITL
	kindBreakdown
)

// A Preset is a picture by name.
type Preset struct {
	Name string
	// Shows says what is in the picture.
	Shows string
	// Needs says what it is made from.
	Needs string

	kind  kind
	title string
	x     string
	ys    []string
}

var presets = []Preset{
	{
		Name: "tgs-vs-size", Shows: "TGS against the number of GPUs, a line per fabric, with 95 % bands",
		Needs: "a sweep over cluster.nodes; --reps 3 or more for bands",
		kind:  kindXY, title: "Tokens per GPU per second against cluster size", x: "gpus", ys: []string{"tgs_steady"},
	},
	{
		Name: "tgs-vs-oversubscription", Shows: "TGS against the oversubscription of the leaf switches",
		Needs: "a sweep over cluster.oversubscription",
		kind:  kindXY, title: "Tokens per GPU per second against oversubscription", x: "oversubscription", ys: []string{"tgs_steady"},
	},
	{
		Name: "frontier", Shows: "TGS against tokens/s for one user, the points that no other beats joined",
		Needs: "a sweep over what trades one for the other: decode.max_batch_requests, workload.arrivals.rate, decode.instances",
		kind:  kindFrontier, title: "Throughput of a GPU against speed for a user", x: "tokens_per_s_per_user", ys: []string{"tgs_steady"},
	},
	{
		Name: "batch", Shows: "TGS and ITL against the mean decode batch",
		Needs: "a sweep over decode.max_batch_requests or workload.arrivals.rate",
		kind:  kindXY, title: "What larger decode batches cost and bring", x: "batch_per_decode_gpu", ys: []string{"tgs_steady", "mean_itl_ms"},
	},
	{
		Name: "ttft-cdf", Shows: "the distribution of the time to first token, a line per run",
		Needs: "folders of tgssim run (requests.csv)",
		kind:  kindTTFT, title: "Time to first token",
	},
	{
		Name: "itl-cdf", Shows: "the distribution of the gaps between outputs, a line per run",
		Needs: "folders of tgssim run --set metrics.steps=true (requests.csv, steps.csv)",
		kind:  kindITL, title: "Time between outputs",
	},
	{
		Name: "ttft-breakdown", Shows: "where the time to first token goes, as stacked bars against the prompt length, a panel per run",
		Needs: "folders of tgssim run (requests.csv)",
		kind:  kindBreakdown, title: "Where the time to first token goes",
	},
}

// Presets lists the pictures by name.
func Presets() []Preset { return append([]Preset(nil), presets...) }

func presetNames() []string {
	names := make([]string, len(presets))
	for i := range presets {
		names[i] = presets[i].Name
	}
	return names
}

// make composes the figure.
func (p *Preset) make(r *Request) (*figure, error) {
	switch p.kind {
	case kindTTFT, kindITL:
		return p.makeCDF(r)
	case kindBreakdown:
		return p.makeBreakdown(r)
	}
	return p.makeXY(r)
}
