package segment_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing/synctest"

	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// dataDir is where the store lives; its parent is durable, it is not there at
// first.
const dataDir = "srv/data"

// world is one store with its disk, its clients and its troubles, through
// several lives of the process.
type world struct {
	rng   *rand.Rand
	disk  *faultfs.FS
	cfg   segment.Config
	store *segment.Store
	tally *tally
	story io.Writer // nil tells nobody

	tracks []*track
	nextID ident.SegmentID
	// most bounds the segments.
	most int
	// full says that the disk is small, so that operations may be refused.
	full bool
	// reconciled says that this life compared the store with the model,
	// cacheKept that the page cache is as it was when that was done last.
	reconciled, cacheKept bool
	// made says that some Open succeeded: there is a store.
	made bool

	harm harm
}

// newWorld draws the configuration of a history.
func newWorld(seed uint64, story io.Writer, t *tally) *world {
	rng := rand.New(rand.NewPCG(seed, 0x51))
	w := &world{rng: rng, story: story, tally: t, nextID: 1, full: rng.IntN(4) == 0}
	w.cfg = segment.Config{OpenFiles: 16, MinFreeBytes: -1, BallastReserve: -1, Observer: t}
	if rng.IntN(4) > 0 {
		w.cfg.SyncWorkers = 1 // the syncs of a checkpoint follow each other
	}
	w.tune()
	w.most = []int{4, 12, 24}[rng.IntN(3)]
	disk := faultfs.Config{
		Seed: seed, WriteBack: 30 * rng.IntN(3), FailedSyncKeeps: 50 * rng.IntN(2), FullSyncTo: rng.IntN(2) == 0,
	}
	if w.full {
		w.cfg.MinFreeBytes, w.cfg.BallastReserve = 16<<10, 128<<10
		disk.Capacity = 64<<10*int64(2*w.cfg.JournalFiles) + 128<<10 + 150<<10 + rng.Int64N(400<<10)
	}
	if story != nil {
		disk.Trace = func(op faultfs.Op, err error) {
			if op.Kind.Changes() || err != nil && !errors.Is(err, io.EOF) {
				w.say("    %v%s", op, ending(err))
			}
		}
	}
	w.disk = faultfs.New(disk)
	w.must(w.disk.MkdirAll("srv", 0o755))
	root, err := w.disk.OpenDir("/")
	w.must(err)
	w.must(root.Sync())
	w.must(root.Close())
	return w
}

// tune draws what an operator may change from one start to the next.
func (w *world) tune() {
	w.cfg.JournalFileBytes = []int64{64 << 10, 64 << 10, 128 << 10}[w.rng.IntN(3)]
	w.cfg.JournalFiles = 1 + w.rng.IntN(3)
	w.cfg.DirectBytes = []int{2 << 10, 8 << 10, 64 << 10}[w.rng.IntN(3)]
	w.cfg.MarkBytes = []int64{4 << 10, 64 << 10, 1 << 20}[w.rng.IntN(3)]
	w.cfg.TailCacheBytes = []int64{1, 16 << 10, 1 << 20}[w.rng.IntN(3)]
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

func ending(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func (w *world) say(format string, args ...any) {
	if w.story != nil {
		fmt.Fprintf(w.story, format+"\n", args...)
	}
}

// run lives several lives, each of which ends in its own way, and a last one
// without trouble, in which everything must be in order.
func (w *world) run() error {
	for n := range 2 + w.rng.IntN(4) {
		w.say("life %d", n+1)
		if err := w.between(); err != nil {
			return err
		}
		w.arm()
		if err := w.live(); err != nil {
			return err
		}
	}
	w.calm()
	if w.made {
		if err := w.doctor(); err != nil {
			return err
		}
	}
	return w.lastLife()
}

// between is what may happen while no process has the store open.
func (w *world) between() error {
	if w.rng.IntN(5) == 0 {
		w.tune()
	}
	if w.made && !w.full && w.rng.IntN(15) == 0 {
		w.say("  a doctor is told to repair")
		w.harm = harm{}
		w.disk.SetInjector(nil)
		r, err := segment.Doctor(w.disk, dataDir, true)
		if err != nil || !r.Sound() {
			return broken("doctor: %+v, %v", r.Findings, err)
		}
	}
	return nil
}

// calm ends all trouble.
func (w *world) calm() {
	w.disk.SetInjector(nil)
	w.disk.CrashAt(-1)
	w.disk.SetCapacity(0)
	w.harm = harm{}
	w.full = false
}

// settled waits until the store has nothing left to do at this moment.
func settled() { synctest.Wait() }

// violation is a broken promise, as against an operation that failed because
// of the faults.
type violation struct{ what string }

func (v *violation) Error() string { return v.what }

func broken(format string, args ...any) error {
	return &violation{fmt.Sprintf(format, args...)}
}
