package calibrate

import "math"

// A problem is a robust least-squares problem inside a box: residuals writes
// those at x into r. x is scaled so that 1 is the width of each prior.
type problem struct {
	residuals func(x, r []float64)
	low, high []float64
	rows      int
}

const (
	// differenceStep is the step of the derivatives. It is large against the
	// rounding of t0 to picoseconds (1e-7 of its width) and small against the
	// bends of the forms.
	differenceStep = 1e-4
	maxIterations  = 200
)

// huber is the weight of a residual: 1 up to the threshold, falling beyond.
func huber(r, threshold float64) float64 {
	if a := math.Abs(r); a > threshold {
		return threshold / a
	}
	return 1
}

// loss is the sum of Huber's losses.
func loss(r []float64, threshold float64) (sum float64) {
	for _, v := range r {
		a := math.Abs(v)
		if a > threshold {
			sum += float64(threshold * (a - float64(threshold/2)))
		} else {
			sum += float64(a * a / 2)
		}
	}
	return sum
}

// jacobian writes the derivatives at x, where the residuals are r, column by
// column. Steps are towards the inside of the box.
func (p *problem) jacobian(x, r []float64) [][]float64 {
	cols := make([][]float64, len(x))
	moved := append([]float64(nil), x...)
	for j := range x {
		h := differenceStep
		if x[j]+h > p.high[j] {
			h = -h
		}
		moved[j] = x[j] + h
		h = moved[j] - x[j]
		cols[j] = make([]float64, p.rows)
		p.residuals(moved, cols[j])
		for i := range cols[j] {
			cols[j][i] = (cols[j][i] - r[i]) / h
		}
		moved[j] = x[j]
	}
	return cols
}

// solve moves x to a minimum of Huber's loss with the threshold, by Levenberg and
// Marquardt's method with iteratively reweighted residuals. It returns the loss.
func (p *problem) solve(x []float64, threshold float64) float64 {
	n := len(x)
	r, trial, next := make([]float64, p.rows), make([]float64, p.rows), make([]float64, n)
	p.residuals(x, r)
	best := loss(r, threshold)
	damping := 1e-3
	for range maxIterations {
		a, g := p.normal(x, r, threshold)
		free := p.free(x, g)
		improved := false
		for damping < 1e12 {
			step, ok := dampedStep(a, g, free, damping)
			if !ok {
				damping *= 10
				continue
			}
			for j := range x {
				next[j] = math.Max(p.low[j], math.Min(p.high[j], x[j]-step[j]))
			}
			p.residuals(next, trial)
			l := loss(trial, threshold)
			if l < best {
				improved = best-l > float64(1e-14*best)
				copy(x, next)
				copy(r, trial)
				best, damping = l, math.Max(damping/10, 1e-12)
				break
			}
			damping *= 10
		}
		if !improved {
			break
		}
	}
	return best
}

// normal returns the weighted J'J and J'r at x.
func (p *problem) normal(x, r []float64, threshold float64) (a [][]float64, g []float64) {
	n := len(x)
	cols := p.jacobian(x, r)
	a, g = make([][]float64, n), make([]float64, n)
	for j := range n {
		a[j] = make([]float64, n)
		for i := range r {
			w := float64(huber(r[i], threshold) * cols[j][i])
			g[j] += float64(w * r[i])
			for k := range j + 1 {
				a[j][k] += float64(w * cols[k][i])
			}
		}
		for k := range j {
			a[k][j] = a[j][k]
		}
	}
	return a, g
}

// free tells which constants may move: all but those at a bound that the loss
// pushes them against.
func (p *problem) free(x, g []float64) []bool {
	free := make([]bool, len(x))
	for j := range x {
		free[j] = !(x[j] <= p.low[j] && g[j] >= 0 || x[j] >= p.high[j] && g[j] <= 0)
	}
	return free
}

// dampedStep solves (A + damping diag(A) + damping) step = g over the free
// constants.
func dampedStep(a [][]float64, g []float64, free []bool, damping float64) ([]float64, bool) {
	n := len(g)
	m := make([][]float64, n)
	rhs := make([]float64, n)
	for j := range n {
		m[j] = make([]float64, n)
		if !free[j] {
			m[j][j] = 1
			continue
		}
		rhs[j] = g[j]
		for k := range n {
			if free[k] {
				m[j][k] = a[j][k]
			}
		}
		m[j][j] += float64(damping*a[j][j]) + float64(damping*1e-6)
	}
	l, ok := cholesky(m)
	if !ok {
		return nil, false
	}
	return substitute(l, rhs), true
}

// cholesky returns L with L L' = m; ok is false unless m is positive definite.
func cholesky(m [][]float64) (l [][]float64, ok bool) {
	n := len(m)
	l = make([][]float64, n)
	for i := range n {
		l[i] = make([]float64, n)
		for j := range i + 1 {
			sum := m[i][j]
			for k := range j {
				sum -= float64(l[i][k] * l[j][k])
			}
			switch {
			case i != j:
				l[i][j] = sum / l[j][j]
			case !(sum > 0):
				return nil, false
			default:
				l[i][i] = math.Sqrt(sum)
			}
		}
	}
	return l, true
}

// substitute solves L L' x = b.
func substitute(l [][]float64, b []float64) []float64 {
	n := len(b)
	x := append([]float64(nil), b...)
	for i := range n {
		for k := range i {
			x[i] -= float64(l[i][k] * x[k])
		}
		x[i] /= l[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= float64(l[k][i] * x[k])
		}
		x[i] /= l[i][i]
	}
	return x
}

// deviations returns the posterior standard deviation of each constant, in widths
// of its prior: 1 where the residuals say nothing, near 0 where they decide. noise
// is the deviation of a residual. Bounds do not count: a constant that was driven
// to one by residuals that hardly depend on it is not decided.
func (p *problem) deviations(x []float64, noise float64) []float64 {
	n := len(x)
	r := make([]float64, p.rows)
	p.residuals(x, r)
	a, _ := p.normal(x, r, math.Inf(1))
	m := make([][]float64, n)
	for j := range n {
		m[j] = make([]float64, n)
		for k := range n {
			m[j][k] = a[j][k] / float64(noise*noise)
		}
		m[j][j]++
	}
	sd := make([]float64, n)
	l, ok := cholesky(m)
	for j := range n {
		if !ok {
			sd[j] = 1
			continue
		}
		unit := make([]float64, n)
		unit[j] = 1
		sd[j] = math.Sqrt(substitute(l, unit)[j])
	}
	return sd
}
