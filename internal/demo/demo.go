// Package demo tells what Quire does on real data, in under a minute: it
// starts a broker as a process of its own, loads the earthquakes of 2016,
// reads them back and compares each, follows the tail, splits and merges a topic
// while it is written, and kills the broker in the middle of a load. Every number that it prints was measured in that run,
// and it fails if one of the promises does not hold.
//
// The command line calls it and says how the broker is started.
package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/status"
)

// Options say where and how the demo runs. Program and Tell must be set.
type Options struct {
	// Dir is where the broker keeps its data. It must be empty or not there,
	// and stays. If Dir is empty a temporary directory is used and removed.
	Dir string
	// Program is the command line that runs a broker; flags for the data
	// directory and the addresses are added to it.
	Program []string
	// Env is the environment of the broker.
	Env []string
	// Tell is given each step of the story when it is over.
	Tell func(Step) error
	// Meter, if not nil, begins a progress bar of so many records.
	Meter func(label string, total int64) Meter
}

// Meter is a progress bar.
type Meter interface {
	Set(n int64)
	End()
}

// run is one run of the demo.
type run struct {
	Options
	quakes *quakes
	broker *broker
	client *client.Client
	// kept is where a reader was in step 3, and what it had read.
	kept struct {
		cursor string
		seen   *ledger
	}
	// lost is what became of the records of the load that was interrupted.
	lost    *outcomes
	started time.Time
}

// The topics of the demo.
const (
	mainTopic   = "earthquakes"
	liveTopic   = "live"
	rangesTopic = "ranges"
	crashTopic  = "interrupted"
)

// limit is how long the demo may take. It usually takes a few seconds.
const limit = 2 * time.Minute

// Run tells the story. It stops every process that it has started, also when
// ctx ends.
func Run(ctx context.Context, opts Options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := &run{Options: opts, started: time.Now()}
	if r.quakes, err = load(); err != nil {
		return err
	}
	remove, err := r.prepare()
	if err != nil {
		return err
	}
	defer func() {
		r.stop()
		if e := remove(); err == nil && e != nil {
			err = status.New(status.Internal, "cannot remove the data: %w", e)
		}
	}()
	for _, step := range []func(context.Context) (Step, error){
		r.start, r.load, r.readBack, r.follow, r.reshape, r.crash, r.recover, r.resume,
	} {
		s, err := step(ctx)
		if err != nil {
			return r.explain(ctx, err)
		}
		if err := r.Tell(s); err != nil {
			return err
		}
	}
	return r.Tell(r.end())
}

// prepare finds the directory and says how it is removed.
func (r *run) prepare() (remove func() error, err error) {
	if r.Dir == "" {
		dir, err := os.MkdirTemp("", "quire-demo-")
		if err != nil {
			return nil, status.New(status.Internal, "cannot make a directory: %w", err)
		}
		r.Dir = filepath.Join(dir, "data")
		return func() error { return os.RemoveAll(dir) }, nil
	}
	switch entries, err := os.ReadDir(r.Dir); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, status.New(status.UsageError, "cannot use the directory: %w", err)
	case len(entries) > 0:
		return nil, status.New(status.UsageError, "%s is not empty, and the demo changes nothing that is there", r.Dir)
	}
	return func() error { return nil }, nil
}

// stop ends the broker and what talks to it.
func (r *run) stop() {
	if r.client != nil {
		_ = r.client.Close()
	}
	if r.broker != nil {
		r.broker.kill()
	}
}

// explain adds what the broker said last to an error that may come from it.
func (r *run) explain(ctx context.Context, err error) error {
	if r.broker == nil || ctx.Err() != nil {
		return err
	}
	if said := r.broker.lastWords(); said != "" {
		err = &status.Error{Code: status.CodeOf(err), Message: err.Error() + "; the broker said last: " + said, Err: err}
	}
	return err
}

// meter begins a progress bar, or nothing.
func (r *run) meter(label string, total int) Meter {
	if r.Meter == nil {
		return silent{}
	}
	return r.Meter(label, int64(total))
}

type silent struct{}

func (silent) Set(int64) {}
func (silent) End()      {}
