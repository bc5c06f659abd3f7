package workload

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"

	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/internal/units"
)

// A SizePoint is a point of a distribution function: the part of all flows, 0 to
// 1, that are no longer than Bytes.
type SizePoint struct {
	Bytes float64
	CDF   float64
}

// Sizes is a distribution of flow sizes by points of its distribution function,
// in order. Between two points it is uniform; where two have the same size that
// part of all flows is of just that size. Nothing is shorter than the first
// point, whose CDF is the part of flows that are as short. The last CDF is 1.
type Sizes []SizePoint

// named is the table of published distributions.
var named = []struct {
	name   string
	points Sizes
}{
	// Alibaba's distributed storage, 2019; with the HPCC repository,
	// traffic_gen/AliStorage2019.txt.
	{"alistorage2019", Sizes{
		{0, 0}, {4000, 0.2293}, {8000, 0.6921}, {16000, 0.8061}, {32000, 0.9047}, {64000, 0.9353},
		{128000, 0.9677}, {256000, 0.9753}, {2e6, 1},
	}},
	// Data mining of Greenberg et al., VL2, SIGCOMM 2009; ConWeave repository,
	// workloads/mining.txt.
	{"datamining", Sizes{
		{100, 0}, {10000, 0.8}, {152522, 0.8346}, {390541, 0.9}, {3223542, 0.953846}, {1e8, 0.99}, {1e9, 1},
	}},
	// Facebook's Hadoop of Roy et al., SIGCOMM 2015; HPCC repository,
	// traffic_gen/FbHdp_distribution.txt.
	{"fbhadoop", Sizes{
		{0, 0}, {100, 0.01}, {200, 0.02}, {300, 0.05}, {350, 0.15}, {400, 0.2}, {500, 0.3}, {600, 0.4}, {700, 0.5},
		{1000, 0.6}, {2000, 0.67}, {7000, 0.7}, {30000, 0.72}, {50000, 0.82}, {80000, 0.87}, {120000, 0.9},
		{300000, 0.95}, {1e6, 0.975}, {2e6, 0.99}, {1e7, 1},
	}},
	// Alibaba's block storage of Miao et al., Solar, SIGCOMM 2022; ConWeave
	// repository, traffic_gen/Solar2022.txt.
	{"solar2022", Sizes{
		{0, 0}, {4095, 0.00001}, {4096, 0.3}, {16383, 0.35}, {16384, 0.5}, {65535, 0.6}, {65536, 0.95}, {262144, 1},
	}},
	// Web search of Alizadeh et al., DCTCP, SIGCOMM 2010; HPCC repository,
	// traffic_gen/WebSearch_distribution.txt.
	{"websearch", Sizes{
		{0, 0}, {10000, 0.15}, {20000, 0.2}, {30000, 0.3}, {50000, 0.4}, {80000, 0.53}, {200000, 0.6}, {1e6, 0.7},
		{2e6, 0.8}, {5e6, 0.9}, {1e7, 0.97}, {3e7, 1},
	}},
}

// SizesFile is the name that takes the distribution from a file.
const SizesFile = "file"

// SizeNames lists the distributions that are known by name, and SizesFile.
func SizeNames() []string {
	var names []string
	for _, d := range named {
		names = append(names, d.name)
	}
	return append(names, SizesFile)
}

// NamedSizes is a distribution of SizeNames, or nil.
func NamedSizes(name string) Sizes {
	for _, d := range named {
		if d.name == name {
			return d.points
		}
	}
	return nil
}

// Mean is the mean size, in bytes.
func (s Sizes) Mean() float64 {
	sum := float64(s[0].Bytes * s[0].CDF)
	for i := 1; i < len(s); i++ {
		sum += float64((s[i].Bytes + s[i-1].Bytes) / 2 * (s[i].CDF - s[i-1].CDF))
	}
	return sum
}

// Draw is the size of a flow, rounded up to a byte, at least one.
func (s Sizes) Draw(r *rand.Rand) units.Bytes {
	u := r.Float64()
	i := sort.Search(len(s), func(i int) bool { return u <= s[i].CDF })
	if i == 0 || i == len(s) {
		return units.Bytes(max(1, s[min(i, len(s)-1)].Bytes))
	}
	a, b := s[i-1], s[i]
	return units.Bytes(max(1, math.Ceil(a.Bytes+float64((b.Bytes-a.Bytes)*((u-a.CDF)/(b.CDF-a.CDF))))))
}

// ReadSizes reads a distribution: lines of a size in bytes, or with a unit, and
// the part of flows that are no longer, with a blank or a comma between; blank
// lines and lines that begin with # are ignored. The parts end with 1, or with
// 100 and are per cent then. Both columns never fall. What is wrong comes back as
// config.Problems with the file and line.
func ReadSizes(r io.Reader, name string) (Sizes, error) {
	var s Sizes
	lines := newLines(r)
	fail := func(f *fault) (Sizes, error) {
		return nil, config.Problems{{Key: f.column, Message: f.message, Where: name + ":" + strconv.Itoa(lines.number)}}
	}
	for {
		line, f := lines.next()
		if f == nil && line == nil {
			break
		}
		if f == nil {
			if line = bytes.TrimSpace(line); line[0] == '#' {
				continue
			}
			s, f = s.add(line)
		}
		if f != nil {
			return fail(f)
		}
	}
	switch {
	case len(s) == 0:
		return nil, config.Problems{{Message: "holds no distribution; write lines of a size and the part of flows that are no longer", Where: name}}
	case s[len(s)-1].CDF == 100:
		for i := range s {
			s[i].CDF /= 100
		}
	case s[len(s)-1].CDF != 1:
		return fail(faultf("cdf", "the last is %s; it must be 1, or 100 for per cent", number(s[len(s)-1].CDF)))
	}
	if s.Mean() < 1 {
		return fail(faultf("bytes", "the mean of all flows is %s B; it must be at least 1", number(s.Mean())))
	}
	return s, nil
}

// maxSizePoints bounds a file of a distribution.
const maxSizePoints = 1 << 16

// add appends the point of a line.
func (s Sizes) add(line []byte) (Sizes, *fault) {
	fields := bytes.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
	if len(fields) != 2 {
		return s, faultf("", "%s is not a size and a part of flows", quote(line))
	}
	size, f := parseSize(fields[0])
	if f != nil {
		return s, f
	}
	cdf, err := strconv.ParseFloat(string(fields[1]), 64)
	if err != nil || !(cdf >= 0 && cdf <= 100) {
		return s, faultf("cdf", "%s is not a part of flows; 0 to 1, or to 100 in per cent, is valid", quote(fields[1]))
	}
	p := SizePoint{float64(size), cdf}
	if len(s) > 0 {
		switch last := s[len(s)-1]; {
		case p.Bytes < last.Bytes:
			return s, faultf("bytes", "%s is less than the size before", quote(fields[0]))
		case p.CDF < last.CDF:
			return s, faultf("cdf", "%s is less than the part before", quote(fields[1]))
		}
	}
	if len(s) >= maxSizePoints {
		return s, faultf("", "more than %d points", maxSizePoints)
	}
	return append(s, p), nil
}

// parseSize reads a size, in bytes unless it has a unit, from 0 on.
func parseSize(text []byte) (size units.Bytes, f *fault) {
	with := string(text)
	if isDigits(text) {
		with += "B"
	}
	if err := size.UnmarshalText([]byte(with)); err != nil || size < 0 || size > units.TB {
		return 0, faultf("bytes", "%s is not a size; 0 to %v is valid", quote(text), units.TB)
	}
	return size, nil
}
