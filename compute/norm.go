package compute

// norm3 is (a^3 + b^3)^(1/3) for a, b >= 0: between max(a, b) and 1.26 times
// it, a smooth "the slower of compute and memory decides".
//
// It uses +, -, * and / only, with every product rounded before it is added, so
// that every CPU gives the same bits; math.Cbrt is compiled with fused
// multiply-adds where the machine has them.
func norm3(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if !(b > 0) {
		return a
	}
	q := b / a
	return float64(a * cbrt12(1+float64(float64(q*q)*q)))
}

// cbrt12 is the cube root of u in [1, 2], to 2 ulp and never below 1. A chord,
// off by at most 0.8 %, is refined by two steps of Halley's method, which cubes
// the relative error e to 2/3 e^3: 3e-7, then below 1e-19.
func cbrt12(u float64) float64 {
	y := 1.0075 + float64(0.2599*(u-1))
	y = halley(y, u)
	return max(1, halley(y, u))
}

// halley improves y as cube root of u. Written as a small correction, it does
// not lose the last bit.
func halley(y, u float64) float64 {
	c := float64(float64(y*y) * y)
	return y + float64(y*((u-c)/((c+c)+u)))
}
