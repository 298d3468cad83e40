package segment_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// TestRepairTellsWhatIsLost damages a store in one place, lets the doctor
// look, then repair, and opens the store: what was not damaged is as it was,
// a damaged segment is kept up to the damage, and says how much it lost.
//
// QUIRE_CRASH_REPAIRS says of how many stores; default 2.
func TestRepairTellsWhatIsLost(t *testing.T) {
	oneProcessor(t)
	repaired := 0
	for seed := range uint64(env(t, "QUIRE_CRASH_REPAIRS", 2)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDamager(t, seed, seed%2 == 0)
				rng := rand.New(rand.NewPCG(seed, 9))
				for _, f := range d.w.disk.Files() {
					for range min(f.Size, 6) {
						d.repair(f.Path, rng.Int64N(f.Size))
					}
				}
				repaired += d.noticed["repaired"]
			})
		})
	}
	if repaired < 20 {
		t.Errorf("only %d repairs", repaired)
	}
}

// damaged is a clone of the store with one byte changed, if the store is then
// damaged at all.
func (d *damager) damaged(path string, at int64) *faultfs.FS {
	disk := d.w.disk.Clone()
	d.w.must(disk.FlipBit(path, at, 3))
	if _, err := d.readAll(disk.Clone()); err == nil {
		return nil
	}
	return disk
}

func (d *damager) repair(path string, at int64) {
	disk := d.damaged(path, at)
	if disk == nil {
		return
	}
	what := fmt.Sprintf("%s, byte %d", path, at)
	report, err := segment.Doctor(disk, dataDir, false)
	if err != nil || report.Sound() {
		d.t.Errorf("%s: the doctor sees nothing: %+v, %v", what, report.Findings, err)
		return
	}
	if report, err = segment.Doctor(disk, dataDir, true); err != nil {
		d.t.Errorf("%s: the doctor fails: %v", what, err)
		return
	}
	for _, f := range report.Findings {
		if dataDir+"/"+f.File != path {
			d.t.Errorf("%s: the doctor blames %s: %s", what, f.File, f.What)
		}
		if f.Damage && !f.Repaired {
			d.noticed["beyond repair"]++
			return
		}
	}
	d.noticed["repaired"]++
	d.isRepaired(what, disk)
}

// isRepaired opens a repaired store.
func (d *damager) isRepaired(what string, disk *faultfs.FS) map[ident.SegmentID]content {
	got, err := d.readAll(disk)
	if err != nil {
		d.t.Errorf("%s: after the repair: %v", what, err)
		return nil
	}
	for id, want := range d.want {
		found := got[id]
		if found.same(want) == "" {
			continue
		}
		whole := want.tail().Base
		n := len(found.batches)
		want.batches, want.sealed, want.lost = want.batches[:min(n, len(want.batches))], true, 0
		want.lost = uint64(whole - want.tail().Base)
		if why := found.same(want); why != "" {
			d.t.Errorf("%s: after the repair, segment %v: %s", what, id, why)
		}
	}
	return got
}

// TestRepairSurvivesCrashes stops the machine at every change of a repair: the
// next repair must come to the same end.
func TestRepairSurvivesCrashes(t *testing.T) {
	oneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		d := newDamager(t, 1, true)
		tried := 0
		for _, f := range d.w.disk.Files() {
			if kindOf(f.Path) != "seg" || tried == 3 {
				continue
			}
			// Near the end, so that there is something to keep.
			if damaged := d.damaged(f.Path, f.Size*9/10); damaged != nil {
				tried += d.interruptedRepairs(f.Path, damaged)
			}
		}
		if tried != 3 {
			t.Errorf("only %d segments kept something", tried)
		}
	})
}

// interruptedRepairs says whether there was anything to keep, as a number.
func (d *damager) interruptedRepairs(path string, damaged *faultfs.FS) int {
	calm := damaged.Clone()
	_, err := segment.Doctor(calm, dataDir, true)
	d.w.must(err)
	changes := calm.Changes()
	kept := 0
	want := d.isRepaired(path, calm)
	for _, c := range want {
		if c.lost > 0 && len(c.batches) > 0 {
			kept = 1
		}
	}
	if kept == 0 {
		return 0
	}
	for n := range changes {
		disk := damaged.Clone()
		disk.CrashAt(n)
		if _, err := segment.Doctor(disk, dataDir, true); err == nil {
			d.t.Fatalf("the repair went on after the machine stopped at change %d", n)
		}
		disk = disk.Crash(faultfs.CrashOptions{Seed: uint64(n), Survive: 50, Mixed: true})
		what := fmt.Sprintf("%s, stopped at change %d", path, n)
		if _, err := segment.Doctor(disk, dataDir, true); err != nil {
			d.t.Errorf("%s: %v", what, err)
			continue
		}
		for id, found := range d.isRepaired(what, disk) {
			if why := found.same(want[id]); why != "" {
				d.t.Errorf("%s: segment %v is not as after a repair without a crash: %s", what, id, why)
			}
		}
	}
	return kept
}
