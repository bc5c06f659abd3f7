package scenarios

import (
	"github.com/tgssim/tgssim/congestion"
	"github.com/tgssim/tgssim/fabric"
	"github.com/tgssim/tgssim/fabric/packet"
	"github.com/tgssim/tgssim/internal/config"
	"github.com/tgssim/tgssim/topology"
	"github.com/tgssim/tgssim/workload"
)

// A Fabric is a network without requests: pure traffic over a topology, to check
// a fabric, or a simulator of one, by itself. Endpoint i is GPU i.
type Fabric struct {
	// Description says in a line what the fabric shows.
	Description string `yaml:"description"`
	// Seed is where all randomness of a run comes from.
	Seed uint64 `yaml:"seed"`
	// Cluster is the servers and the fabric between them.
	Cluster topology.Config `yaml:"cluster"`
	// Network is the engine that moves bytes.
	Network fabric.Config `yaml:"network"`
	// Packet and Congestion are NICs, switches and congestion control, in the
	// packet engine.
	Packet     packet.Config     `yaml:"packet"`
	Congestion congestion.Config `yaml:"congestion"`
	// Traffic is the flows.
	Traffic workload.TrafficConfig `yaml:"traffic"`
	// QPs is the number of queue pairs of each flow.
	QPs int `yaml:"qps"`
	// OwnQPs gives every flow queue pairs of its own, with a path, an order and a
	// rate of their own. Otherwise flows between the same two endpoints share theirs
	// and queue up behind each other, as messages of one connection do.
	OwnQPs bool `yaml:"own_qps"`

	// Name is the library's or the file's name, without extension.
	Name string `yaml:"-"`
	tree *config.Tree
}

// DefaultFabric is the fabric that a file starts from.
func DefaultFabric() Fabric {
	f := Fabric{
		Seed:       1,
		Cluster:    topology.DefaultConfig(),
		Network:    fabric.DefaultConfig(),
		Packet:     packet.DefaultConfig(),
		Congestion: congestion.DefaultConfig(),
		QPs:        1,
	}
	f.Network.Engine = fabric.EnginePacket
	return f
}

// LoadFabric reads a fabric as Load reads a scenario.
func LoadFabric(ref string, assignments ...string) (*Fabric, error) {
	f := DefaultFabric()
	var err error
	if f.tree, err = fabrics.load(ref, assignments, &f); err != nil {
		return nil, err
	}
	f.Name = nameOf(ref)
	f.Traffic.Path = relocate(f.tree, "traffic.path", f.Traffic.Path)
	if err := f.Validate(); err != nil {
		return nil, f.Locate(err)
	}
	return &f, nil
}

// Validate checks every setting by itself.
func (f *Fabric) Validate() error {
	var ps config.Problems
	ps.Nest("cluster", f.Cluster.Validate())
	ps.Nest("network", f.Network.Validate())
	ps.Require(f.Network.SampleLayers == 0, "network.sample_layers", "there are no layers in pure traffic: remove it")
	ps.Nest("packet", f.Packet.Validate())
	ps.Nest("congestion", f.Congestion.Validate())
	ps.Nest("traffic", f.Traffic.Validate())
	ps.Require(f.QPs >= 1 && f.QPs <= 256, "qps", "%d is out of range: 1 to 256", f.QPs)
	return ps.Err()
}

// Locate adds to the problems of err where their keys were written.
func (f *Fabric) Locate(err error) error {
	if f.tree == nil || err == nil {
		return err
	}
	return f.tree.Resolve(err)
}

// Written tells whether a key, or anything under it, was written in a file or
// set, rather than left to its default.
func (f *Fabric) Written(key string) bool { return f.tree != nil && f.tree.Where(key) != "" }

// Resolved is the fabric with every default written out, as YAML.
func (f *Fabric) Resolved() ([]byte, error) { return config.Marshal(f) }
