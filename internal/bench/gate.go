package bench

import (
	"context"
	"sync/atomic"
)

// Gate keeps writers from running away from those that follow them: a record
// may pass while it is not too far ahead of the slowest reader.
type Gate struct {
	ahead, step uint64
	read        []readCount
	// turnstile lets one writer at a time wait at the gate, and those behind it
	// wait for the turnstile. It guards sent, which counts what passed, and
	// allowed, up to which the gate is open.
	turnstile     chan struct{}
	sent, allowed uint64
	// moved gets a token when a reader went step further.
	moved chan struct{}
}

// readCount has a cache line of its own, since each reader counts all the time.
type readCount struct {
	atomic.Uint64
	_ [56]byte
}

// NewGate makes a gate for so many readers.
func NewGate(ahead uint64, readers int) *Gate {
	return &Gate{
		ahead: ahead, step: max(ahead/8, 1), read: make([]readCount, readers),
		turnstile: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
}

// Pass waits until one more record may be sent.
func (g *Gate) Pass(ctx context.Context) error {
	select {
	case g.turnstile <- struct{}{}:
		defer func() { <-g.turnstile }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for g.sent >= g.allowed {
		if g.allowed = g.slowest() + g.ahead; g.sent < g.allowed {
			break
		}
		select {
		case <-g.moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.sent++
	return nil
}

func (g *Gate) slowest() uint64 {
	least := g.read[0].Load()
	for i := range g.read {
		least = min(least, g.read[i].Load())
	}
	return least
}

// Took notes that a reader has one more record, and says how many it has.
func (g *Gate) Took(reader int) uint64 {
	n := g.read[reader].Add(1)
	if n%g.step == 0 {
		select {
		case g.moved <- struct{}{}:
		default:
		}
	}
	return n
}

// Read says how many records a reader has.
func (g *Gate) Read(reader int) uint64 { return g.read[reader].Load() }

// Total counts the records of all readers.
func (g *Gate) Total() (n uint64) {
	for i := range g.read {
		n += g.read[i].Load()
	}
	return n
}
