package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// TestDamageIsNeverSilent builds stores with everything in them, damages one
// place of one file at a time, and opens and reads the store: either an error
// names the file and a byte at or before the damage, or everything reads back
// as it was. By default it samples; QUIRE_CRASH_FLIPS=N makes N times as many
// attempts, 0 flips every bit of every file (hours).
func TestDamageIsNeverSilent(t *testing.T) {
	oneProcessor(t)
	times := env(t, "QUIRE_CRASH_FLIPS", 1)
	for seed := range uint64(max(2, times)) {
		for _, closed := range []bool{true, false} {
			t.Run(fmt.Sprintf("seed=%d,closed=%v", seed, closed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDamager(t, seed, closed)
					d.unmarked = !closed
					for _, f := range d.w.disk.Files() {
						d.file(f, times == 0)
					}
					t.Logf("attempts %v, noticed %v", d.tried, d.noticed)
					d.wasNoticed()
				})
			})
		}
	}
}

// built is a store with sealed, open, weak, cut and deleted segments, a
// journal that rotated and is needed, and indexes. All that strong segments
// have is marked as durable.
func built(t *testing.T, seed uint64, closed bool) *world {
	w := newWorld(seed, nil, &tally{counts: map[string]int{}})
	w.disk.SetCapacity(0)
	w.full, w.cfg.MinFreeBytes, w.cfg.BallastReserve = false, -1, -1
	for life := range 2 {
		if _, err := w.open(); err != nil {
			t.Fatal(err)
		}
		for range 14 {
			if err := w.burst(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second) // beyond the mark interval
		if life == 0 || closed {
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := w.disk
	w.disk = old.Crash(faultfs.CrashOptions{})
	old.Freeze()
	w.store.Close() //nolint:errcheck // closed before, or on a dead machine
	return w
}

// damager tries damages on clones of one store.
type damager struct {
	t    *testing.T
	seed uint64
	w    *world
	want map[ident.SegmentID]content
	// unmarked says that weak segments that are never synced may have a tail
	// that no mark covers: the page cache's luck.
	unmarked bool
	tried    map[string]int
	// noticed counts, by the kind of file, the damages that were reported.
	noticed map[string]int
}

// newDamager builds a store and notes what it has without damage.
func newDamager(t *testing.T, seed uint64, closed bool) *damager {
	d := &damager{t: t, seed: seed, w: built(t, seed, closed), noticed: map[string]int{}, tried: map[string]int{}}
	got, err := d.readAll(d.w.disk.Clone())
	if err != nil {
		t.Fatal(err)
	}
	d.want = got
	return d
}

// readAll opens a store and reads everything in it.
func (d *damager) readAll(disk *faultfs.FS) (map[ident.SegmentID]content, error) {
	store, err := segment.Open(disk, dataDir, d.w.cfg)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // only what it reads matters
	w := &world{rng: rand.New(rand.NewPCG(d.seed, 7)), disk: disk, store: store, tally: d.w.tally}
	all := map[ident.SegmentID]content{}
	for _, info := range store.Segments() {
		c, _, err := w.observe(info.ID)
		if err != nil {
			return nil, err
		}
		all[info.ID] = c
	}
	return all, nil
}

// file tries damages on one file: every bit, or the bits of its beginning and
// a sample of the others, a cut, and its removal.
func (d *damager) file(f faultfs.FileInfo, every bool) {
	rng := rand.New(rand.NewPCG(d.seed, uint64(len(f.Path))))
	flip := func(at int64, bit uint) {
		d.attempt(f.Path, at, fmt.Sprintf("bit %d of byte %d flipped", bit, at), func(disk *faultfs.FS) error {
			return disk.FlipBit(f.Path, at, bit)
		})
	}
	switch {
	case every:
		for at := range f.Size {
			for bit := range uint(8) {
				flip(at, bit)
			}
		}
	default:
		for at := range min(f.Size, int64(usual(60))) {
			flip(at, uint(rng.IntN(8)))
		}
		for range min(f.Size, int64(usual(40))) {
			flip(rng.Int64N(f.Size), uint(rng.IntN(8)))
		}
	}
	for range min(f.Size, 4) {
		at := rng.Int64N(f.Size)
		d.attempt(f.Path, f.Size, fmt.Sprintf("cut to %d bytes", at), func(disk *faultfs.FS) error {
			return disk.Truncate(f.Path, at)
		})
		if from, to := d.sector(f, at); from < to {
			d.attempt(f.Path, to-1, fmt.Sprintf("[%d,%d) zeroed", from, to), func(disk *faultfs.FS) error {
				return disk.Overwrite(f.Path, from, make([]byte, to-from))
			})
		}
	}
	d.attempt(f.Path, f.Size, "removed", func(disk *faultfs.FS) error { return disk.RemoveFile(f.Path) })
}

// sector gives the part of a sector from its first byte that is not zero.
func (d *damager) sector(f faultfs.FileInfo, at int64) (from, to int64) {
	h, err := d.w.disk.Open(f.Path)
	d.w.must(err)
	defer h.Close()
	from = at / faultfs.SectorSize * faultfs.SectorSize
	b := make([]byte, min(faultfs.SectorSize, f.Size-from))
	_, err = h.ReadAt(b, from)
	d.w.must(err)
	return from + int64(len(b)-len(bytes.TrimLeft(b, "\x00"))), from + int64(len(b))
}

// attempt damages a clone, up to the byte last, and judges what the store
// makes of it.
func (d *damager) attempt(path string, last int64, what string, damage func(*faultfs.FS) error) {
	disk := d.w.disk.Clone()
	if err := damage(disk); err != nil {
		d.t.Fatal(err)
	}
	d.tried[kindOf(path)]++
	got, err := d.readAll(disk)
	if err == nil {
		d.mustBeSame(path, what, got)
		return
	}
	d.noticed[kindOf(path)]++
	var c *segment.CorruptError
	switch {
	case !errors.As(err, &c):
		d.t.Errorf("%s, %s: the error is not a damage: %v", path, what, err)
	case dataDir+"/"+c.File != path:
		d.t.Errorf("%s, %s: the error names %s: %v", path, what, c.File, err)
	case c.Offset > last:
		d.t.Errorf("%s, %s: the error names byte %d, which is behind the damage: %v", path, what, c.Offset, err)
	}
}

func (d *damager) mustBeSame(path, what string, got map[ident.SegmentID]content) {
	for id, want := range d.want {
		if m := want.meta.Durability; d.unmarked && m.Weak && m.Interval == 0 {
			want.batches = want.batches[:min(len(got[id].batches), len(want.batches))]
		}
		if why := got[id].same(want); why != "" {
			d.t.Errorf("%s, %s, changed segment %v silently: %s", path, what, id, why)
		}
	}
	if len(got) != len(d.want) {
		d.t.Errorf("%s, %s: there are %d segments, not %d", path, what, len(got), len(d.want))
	}
}

// wasNoticed shows that damage to what counts does not go by unseen.
func (d *damager) wasNoticed() {
	for _, kind := range []string{"STORE", "MANIFEST", "seg"} {
		// What the journal still has is written again over a damaged segment.
		if kind == "seg" && (d.unmarked || d.tried[kind] < usual(200)) {
			continue
		}
		if d.noticed[kind] == 0 || kind != "seg" && d.noticed[kind] < d.tried[kind]*9/10 {
			d.t.Errorf("of %d damages to %s only %d were noticed", d.tried[kind], kind, d.noticed[kind])
		}
	}
}

func kindOf(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	return name[strings.LastIndexByte(name, '.')+1:]
}
