package sweep

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Mean is the mean of a measure over replications, with the half-width of its
// 95 % confidence interval by Student's t distribution: the replications are
// independent draws, and their mean is taken for normal.
type Mean struct {
	// N is the number of replications that have the measure.
	N int
	// Mean is undefined for N = 0, Half for N < 2.
	Mean, Half float64
}

// confidence is the probability that the interval holds the true mean.
const confidence = 0.95

// MeanOf is the mean of values.
func MeanOf(values []float64) Mean {
	m := Mean{N: len(values)}
	if m.N == 0 {
		return m
	}
	m.Mean = stat.Mean(values, nil)
	if m.N > 1 {
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(m.N - 1)}.Quantile(1 - (1-confidence)/2)
		m.Half = t * stat.StdDev(values, nil) / math.Sqrt(float64(m.N))
	}
	return m
}

// A PointSummary is a point over its replications.
type PointSummary struct {
	Point  int
	Labels []string
	// Cluster is nil when nothing was built.
	Cluster *Cluster
	// Failed counts the replications without results, the first for Error.
	Failed int
	Error  string
	// Means has the measures that were asked for, in their order.
	Means []Mean
	// Words has the verdicts that were asked for: the replications' common one, or
	// "differs".
	Words []string
}

// Summarise brings every point's replications together: the means of measures
// and the verdicts of words.
func (f *Folder) Summarise(measures, words []string) ([]PointSummary, error) {
	out := make([]PointSummary, len(f.plan.Points))
	values := make([][]float64, len(measures))
	err := f.Rows(func(r Row) error {
		s := &out[r.Point]
		if r.Replication == 0 {
			*s = PointSummary{Point: r.Point, Labels: r.Labels, Words: make([]string, len(words))}
			for i := range values {
				values[i] = values[i][:0]
			}
		}
		if s.Cluster == nil {
			s.Cluster = r.Cluster
		}
		if r.Error != "" {
			if s.Failed++; s.Failed == 1 {
				s.Error = r.Error
			}
		} else {
			for i, name := range measures {
				if x, ok := r.Measure(name); ok {
					values[i] = append(values[i], x)
				}
			}
			for i, name := range words {
				s.Words[i] = agree(s.Words[i], r.Word(name))
			}
		}
		if r.Replication == f.plan.Replications-1 {
			for i := range measures {
				s.Means = append(s.Means, MeanOf(values[i]))
			}
		}
		return nil
	})
	return out, err
}

func agree(a, b string) string {
	if a == "" || a == b {
		return b
	}
	return "differs"
}
