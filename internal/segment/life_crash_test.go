package segment_test

import (
	"errors"
	"fmt"

	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// live is one life of the process: open, check, work, end.
func (w *world) live() error {
	opened, err := w.open()
	if err != nil {
		return err
	}
	if w.reconciled {
		for range 1 + w.rng.IntN(12) {
			if err := w.work(); err != nil {
				return err
			}
			if w.stopped() {
				break
			}
		}
	}
	return w.end(opened)
}

// stopped says whether the store, or the machine, is at its end.
func (w *world) stopped() bool { return w.store.Err() != nil || w.disk.Frozen() }

// open opens the store and compares it with the model. It says false if the
// store was rightly refused.
func (w *world) open() (bool, error) {
	w.reconciled = false
	store, err := segment.Open(w.disk, dataDir, w.cfg)
	if err != nil {
		w.say("  open: %v", err)
		if w.excused(err) {
			w.tally.count("failed open")
			return false, nil
		}
		return false, fmt.Errorf("open: %w", err)
	}
	w.say("  open")
	w.store = store
	if err := w.recovered(); err != nil {
		if w.disk.Frozen() || w.harm.fired {
			w.say("  reading everything: %v", err)
			var violation *violation
			if !errors.As(err, &violation) {
				return true, nil
			}
		}
		return false, err
	}
	w.reconciled, w.made = true, true
	return true, nil
}

// excused says whether an error may be, in view of what was done to the disk.
func (w *world) excused(err error) bool {
	if w.disk.Frozen() || w.harm.fired {
		return true
	}
	return w.full && status.CodeOf(err) == status.DiskFull
}

// end ends the life: the store is closed, the process killed, or the power
// cut.
func (w *world) end(opened bool) error {
	if !opened && !w.disk.Frozen() && w.rng.IntN(2) == 0 {
		// The next open must not find locks or files of the failed one.
		w.say("end: opened again")
		w.disk.SetInjector(nil)
		w.cacheKept = w.cacheKept || w.reconciled
		return nil
	}
	if opened && !w.stopped() && w.rng.IntN(3) == 0 {
		if err := w.close(); err != nil {
			return err
		}
	}
	old := w.disk
	if w.rng.IntN(3) == 0 {
		w.say("end: kill")
		w.tally.count("kill")
		w.cacheKept = w.cacheKept || w.reconciled
		w.disk = old.Clone()
		if w.harm.syncFailed && w.rng.IntN(2) == 0 {
			w.say("  the cache forgets what the failed sync did not store")
			w.disk.EvictCache()
			w.cacheKept = false
		}
	} else {
		w.cacheKept = false
		w.disk = old.Crash(w.drawCrash())
		w.tally.count("power cut")
	}
	w.say("  on the disk: %v", w.disk.Files())
	old.Freeze()
	if opened {
		w.store.Close() //nolint:errcheck // a store on a dead machine; only that it returns matters
	}
	w.store = nil
	return nil
}

func (w *world) drawCrash() faultfs.CrashOptions {
	o := faultfs.CrashOptions{
		Seed:    w.rng.Uint64(),
		Survive: []int{0, 10, 50, 90, 100}[w.rng.IntN(5)],
		Mixed:   w.rng.IntN(2) == 0,
		Torn:    20 * w.rng.IntN(2),
	}
	w.say("end: power cut, %+v", o)
	return o
}

// close ends the store in order: everything, weak or not, is sure then.
func (w *world) close() error {
	err := w.store.Close()
	w.say("  close%s", ending(err))
	if err == nil {
		w.tally.count("close")
		for _, t := range w.tracks {
			if w.reconciled {
				t.settle()
			}
		}
		return nil
	}
	if w.excused(err) {
		return nil
	}
	return fmt.Errorf("close: %w", err)
}

// lastLife shows that nothing of the past hurts the future.
func (w *world) lastLife() error {
	w.say("last life")
	if _, err := w.open(); err != nil || !w.reconciled {
		return fmt.Errorf("the last open: %w", err)
	}
	for range 3 {
		if err := w.work(); err != nil {
			return err
		}
	}
	if err := w.everyOpenSegmentAccepts(); err != nil {
		return err
	}
	if err := w.scrub(); err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	if err := w.doctor(); err != nil {
		return err
	}
	w.disk = w.disk.Crash(faultfs.CrashOptions{})
	if _, err := w.open(); err != nil {
		return err
	}
	return w.close()
}
