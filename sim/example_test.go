package sim_test

import (
	"fmt"

	"github.com/tgssim/tgssim/sim"
)

// A player returns the ball until it is tired.
type player struct {
	name     string
	engine   *sim.Engine
	flight   sim.Lane      // to the other side of the table
	opponent sim.HandlerID // who stands there
	strength int
}

// Handle is called when the ball arrives. Arg counts the strokes.
func (p *player) Handle(e sim.Event) {
	if p.strength == 0 {
		fmt.Printf("%v  %s misses\n", e.At, p.name)
		return
	}
	p.strength--
	fmt.Printf("%v  %s, stroke %d\n", e.At, p.name, e.Arg)
	p.engine.AfterLane(p.flight, p.opponent, 0, e.Arg+1)
}

// Two players at a table. The ball always takes 350 ms to the other side, so its
// flight is a lane; the serve comes after an irregular wait.
func Example() {
	engine := sim.New()
	flight := engine.NewLane(350 * sim.Millisecond)

	ping := &player{name: "ping", engine: engine, flight: flight, strength: 2}
	pong := &player{name: "pong", engine: engine, flight: flight, strength: 1}
	pingID, pongID := engine.Register(ping), engine.Register(pong)
	ping.opponent, pong.opponent = pongID, pingID

	engine.After(1200*sim.Millisecond, pingID, 0, 1)
	engine.Run()
	fmt.Printf("%d events, fingerprint %016x\n", engine.Events(), engine.Fingerprint())

	// Output:
	// 1.2s  ping, stroke 1
	// 1.55s  pong, stroke 2
	// 1.9s  ping, stroke 3
	// 2.25s  pong misses
	// 4 events, fingerprint 10b5ee5c09e8650a
}
