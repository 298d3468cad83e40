package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/quirelog/quire/internal/bench"
)

// comparison is one shape at one durability, against one way of the peer to do
// it.
type comparison struct {
	Shape string
	// Always says that each write is synced before it is acknowledged;
	// otherwise Quire syncs every second and JetStream every two minutes,
	// which is its default.
	Always bool
	// Quire are the arguments of `quire bench`, Peer is what JetStream does.
	Quire []string
	Peer  job
}

// Name is how a comparison is called.
func (c comparison) Name() string {
	durability := "interval"
	if c.Always {
		durability = "always"
	}
	return c.Shape + "/" + durability + "/" + c.Peer.Way
}

// The ways of JetStream are what its clients offer: one request a message; a
// window of asynchronous ones; atomic batches; and fast batches, which are
// acknowledged as they go. Windows and batches have the sizes at which
// JetStream was fastest on the machine of the first comparison.
const (
	waySync   = "sync"
	wayAsync  = "async"
	wayAtomic = "atomic"
	wayFast   = "fast"
)

// connections is how many each system's writers share where many write.
const connections = 4

// comparisons are all there are.
func comparisons() (all []comparison) {
	for _, always := range []bool{true, false} {
		add := func(shape string, quire string, peer job) {
			all = append(all, comparison{shape, always, strings.Fields(quire), peer})
		}
		add("one-in-flight", "produce --unbatched --in-flight 1",
			job{Way: waySync, Payload: 256, InFlight: 1, Connections: 1})
		add("64-in-flight", fmt.Sprintf("produce --unbatched --in-flight 64 --connections %d", connections),
			job{Way: waySync, Payload: 256, InFlight: 64, Connections: connections})
		for _, size := range []struct {
			shape   string
			payload int
		}{{"batched", 256}, {"batched-4k", 4096}} {
			quire := "produce --payload " + strconv.Itoa(size.payload)
			add(size.shape, quire, job{Way: wayAsync, Payload: size.payload, InFlight: 1024, Connections: 1})
			add(size.shape, quire, job{Way: wayAtomic, Payload: size.payload, InFlight: 4, Connections: connections})
			add(size.shape, quire, job{Way: wayFast, Payload: size.payload, Connections: 1})
		}
		// The writer of a fan-out writes in the way that is fastest.
		writer := job{Way: wayAsync, Payload: 256, InFlight: 1024, Connections: 1, Ahead: 16_384}
		if always {
			writer.Way, writer.InFlight = wayAtomic, 1
		}
		for _, n := range []int{1, 10} {
			writer.Subscribers = n
			add("fanout-"+strconv.Itoa(n), "fanout --subscribers "+strconv.Itoa(n), writer)
		}
	}
	return all
}

// quire runs Quire's side of a comparison.
func (c comparison) quire(ctx context.Context, sys systems, s settings, dir string, seed uint64) (r bench.Result, err error) {
	args := append(c.quireArgs(s), "--seed", strconv.FormatUint(seed, 10), "--dir", dir)
	return result(ctx, sys.quire, args...)
}

// quireArgs are the arguments without what differs from run to run.
func (c comparison) quireArgs(s settings) []string {
	args := append([]string{"bench"}, c.Quire...)
	if !c.Always {
		args = append(args, "--fsync", "1s")
	}
	if s.records > 0 {
		args = append(args, "--records", strconv.FormatUint(s.records, 10))
	} else {
		args = append(args, "--duration", s.duration.String())
	}
	return append(args, "--json")
}

// peer runs JetStream's side.
func (c comparison) peer(ctx context.Context, sys systems, s settings, dir string, seed uint64) (r bench.Result, err error) {
	j := c.Peer
	j.Always, j.Records, j.Duration, j.Seed, j.Server, j.Dir = c.Always, s.records, s.duration, seed, sys.nats, dir
	text, err := json.Marshal(j)
	if err != nil {
		return r, err
	}
	return result(ctx, sys.self, jobCommand, string(text))
}

// result runs a command that prints a result.
func result(ctx context.Context, name string, args ...string) (r bench.Result, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	// A process that measures ends its server when it is interrupted.
	cmd.Cancel = func() error { return cmd.Process.Signal(interrupt) }
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("the result is %q: %w", out, err)
	}
	if r.Errors > 0 || !r.Verified {
		return r, fmt.Errorf("%d errors, verified: %v", r.Errors, r.Verified)
	}
	return r, nil
}
