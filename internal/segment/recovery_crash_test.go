package segment_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/quirelog/quire/internal/faultfs"
)

// TestRecoveryMayDieAnywhere kills a process whose disk had failed it, so that
// the page cache shows what the disk does not have, and stops the machine at
// each change that the next start makes, in turn: recovery must not destroy
// anything on the word of bytes that the power cut takes back.
// QUIRE_CRASH_RECOVERIES says of how many histories; default 60.
func TestRecoveryMayDieAnywhere(t *testing.T) {
	oneProcessor(t)
	tally := &tally{counts: map[string]int{}}
	deaths := 0
	for seed := range uint64(env(t, "QUIRE_CRASH_RECOVERIES", usual(60))) {
		died, err := dying(t, seed, nil, tally)
		deaths += died
		if err != nil {
			var story strings.Builder
			_, _ = dying(t, seed, &story, tally)
			t.Fatalf("history %d: %v\n%s", seed, err, &story)
		}
	}
	t.Logf("%d deaths: %v", deaths, tally)
}

// dying counts the deaths that one history offers.
func dying(t *testing.T, seed uint64, story io.Writer, tally *tally) (deaths int, err error) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, story, tally)
		w.calm()
		if err = w.failedLife(); err != nil {
			return
		}
		for n := int64(0); err == nil; n++ {
			f := w.fork()
			f.disk.CrashAt(n)
			if _, err = f.open(); err != nil {
				return
			}
			if !f.disk.Frozen() {
				deaths = int(n)
				f.leave()
				return
			}
			err = f.dead(n)
		}
	})
	return deaths, err
}

// failedLife ends with a process that was killed after an operation failed in
// the middle of its work.
func (w *world) failedLife() error {
	if err := w.quietLife(); err != nil {
		return err
	}
	w.harm = harm{}
	if _, err := w.open(); err != nil {
		return err
	}
	faults := []faultfs.Fault{{Err: syscall.EIO, Bytes: 1 << 20}, {Err: syscall.EIO}}
	w.failAt(w.rng.Int64N(60), faults[w.rng.IntN(2)], true)
	for range 12 {
		if err := w.burst(); err != nil {
			return err
		}
		if w.stopped() {
			break
		}
	}
	w.say("end: kill")
	old := w.disk
	w.disk = old.Clone()
	old.Freeze()
	w.store.Close() //nolint:errcheck // a store on a dead machine
	w.store = nil
	return nil
}

// fork is a world of its own that goes on from here.
func (w *world) fork() *world {
	f := *w
	f.rng = rand.New(rand.NewPCG(uint64(w.disk.Changes()), 3))
	f.disk = w.disk.Clone()
	f.tracks = nil
	for _, t := range w.tracks {
		f.tracks = append(f.tracks, &track{id: t.id, sure: t.sure, doubt: slices.Clone(t.doubt)})
	}
	return &f
}

// dead cuts the power of a machine that stopped at a change of its recovery,
// and starts again.
func (w *world) dead(n int64) error {
	if w.store != nil {
		w.store.Close() //nolint:errcheck // a store on a dead machine
	}
	for _, survive := range []int{0, 50} {
		f := w.fork()
		o := faultfs.CrashOptions{Seed: uint64(n), Survive: survive, Mixed: survive > 0}
		f.disk = w.disk.Crash(o)
		f.calm()
		f.cacheKept = false
		f.say("the recovery died at change %d: %+v", n, o)
		if _, err := f.open(); err != nil || !f.reconciled {
			return fmt.Errorf("recovery died at change %d: %w", n, err)
		}
		if err := f.close(); err != nil {
			return err
		}
	}
	return nil
}
