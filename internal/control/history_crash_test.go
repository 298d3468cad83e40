package control_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/control"
	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// firstSeed names the one history to run, and tells its story.
const firstSeed = "QUIRE_CONTROL_SEED"

// Histories of a store that is alone in a few groups, over a disk that lies, stops
// and fills up, each from its seed: what was acknowledged is there after any end,
// once, in its order; what was refused is not.
func TestHistoriesOfOneStore(t *testing.T) {
	first, last := seeds(t, firstSeed, 400)
	met := newTally()
	for seed := first; seed <= last; seed++ {
		var err error
		synctest.Test(t, func(*testing.T) { err = newHistory(seed, met, first == last).run() })
		if err != nil {
			t.Errorf("seed %d: %v\n\treplay it: %s=%d go test ./internal/control -run %s", seed, err, firstSeed, seed, t.Name())
		}
	}
	t.Log(met.counts)
	for _, what := range []string{
		"acknowledged", "refused", "unknown", "repeated", "rolled", "head left behind", "power cut", "kill", "close", "failed open", "full", "space again",
	} {
		if last-first+1 == 400 && met.counts[what] < 5 {
			t.Errorf("only %d times: %s", met.counts[what], what)
		}
	}
}

// past is what was answered to the commands of one group.
type past struct {
	sure    []string
	perhaps map[string]bool // and may come in any later life until it is seen
	never   map[string]bool
}

type world struct {
	rng    *rand.Rand
	disk   *faultfs.FS
	met    *tally
	tell   bool
	groups map[consensus.GroupID]*past
	names  map[string]uint64 // the tokens of what was acknowledged
	next   uint64
	fired  atomic.Bool
	full   bool

	store    *segment.Store
	driver   *control.Driver
	machines map[consensus.GroupID]*ledger
}

func newHistory(seed uint64, met *tally, tell bool) *world {
	rng := rand.New(rand.NewPCG(seed, 3))
	w := &world{rng: rng, met: met, tell: tell, groups: map[consensus.GroupID]*past{}, names: map[string]uint64{}}
	w.disk = faultfs.New(faultfs.Config{Seed: seed, WriteBack: 30 * rng.IntN(3), FailedSyncKeeps: 50 * rng.IntN(2)})
	for g := range 1 + rng.IntN(3) {
		w.groups[consensus.GroupID(g+1)] = &past{perhaps: map[string]bool{}, never: map[string]bool{}}
	}
	return w
}

func (w *world) say(format string, args ...any) {
	if w.tell {
		fmt.Printf(format+"\n", args...)
	}
}

func (w *world) run() error {
	for range 2 + w.rng.IntN(4) {
		w.arm()
		if err := w.life(); err != nil {
			return err
		}
	}
	w.disk.SetInjector(nil)
	w.disk.CrashAt(-1)
	w.fired.Store(false)
	w.full = false
	if err := w.open(); err != nil {
		return fmt.Errorf("the last open: %w", err)
	}
	defer w.leave()
	if err := w.burst(); err != nil {
		return err
	}
	return w.check()
}

// arm draws the trouble of a life.
func (w *world) arm() {
	w.fired.Store(false)
	w.full = false
	w.disk.SetInjector(nil)
	w.disk.CrashAt(-1)
	at := w.rng.Int64N(8 << w.rng.IntN(7))
	switch w.rng.IntN(8) {
	case 0, 1, 2, 3:
		w.say("the machine stops %d changes from now", at)
		w.disk.CrashAt(w.disk.Changes() + at)
	case 4:
		fault := faultfs.Fault{Err: []error{syscall.EIO, io.ErrShortWrite}[w.rng.IntN(2)], Done: w.rng.IntN(4) == 0}
		w.say("operation %d fails: %v", at, fault)
		w.inject(func(n int64, op faultfs.Op) bool {
			return n == at && op.Kind != faultfs.Close && op.Kind != faultfs.Lock
		}, fault)
	case 5, 6:
		// Whoever shares the disk fills it now and then.
		until := at + w.rng.Int64N(200)
		w.full = true
		w.say("the disk is full from operation %d to %d", at, until)
		w.inject(func(n int64, op faultfs.Op) bool {
			return n >= at && n < until && (op.Kind == faultfs.Write || op.Kind == faultfs.Create) && strings.Contains(op.Path, "/segments")
		}, faultfs.Fault{Err: syscall.ENOSPC, Bytes: w.rng.IntN(3) * 100})
	}
}

func (w *world) inject(hit func(int64, faultfs.Op) bool, fault faultfs.Fault) {
	n := int64(0)
	w.disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
		n++
		if !hit(n-1, op) {
			return faultfs.Fault{}
		}
		if w.fired.Store(true); fault.Err == syscall.ENOSPC {
			w.met.add("full")
		}
		w.say("    %v is made to fail", op)
		return fault
	})
}

func (w *world) excused() bool { return w.fired.Load() || w.disk.Frozen() }

// open begins a life and compares it with the past.
func (w *world) open() error {
	store, err := segment.Open(w.disk, "d", segment.Config{
		JournalFileBytes: 64 << 10, OpenFiles: 16, MinFreeBytes: -1, BallastReserve: -1, SyncWorkers: 1,
	})
	if err != nil {
		return err
	}
	w.store = store
	for _, i := range store.Segments() {
		if i.ID>>63 == 1 && len(store.Segments()) > 1 {
			w.met.add("head left behind")
			break
		}
	}
	w.machines = map[consensus.GroupID]*ledger{}
	w.driver, err = control.OpenDriver(store, control.Config{
		Clock: time.Now, Groups: slices.Sorted(maps.Keys(w.groups)), Voters: []ident.StoreID{store.Identity()},
		Machine: func(id consensus.GroupID) control.Machine {
			m := &ledger{}
			w.machines[id] = m
			return m
		},
		RollBytes: 500 + w.rng.Int64N(4000),
		Host:      consensus.Config{Random: rand.NewPCG(w.rng.Uint64(), 1), MaxMessageBytes: 1000},
	})
	if err != nil {
		_ = store.Close()
		w.store, w.driver = nil, nil
		return err
	}
	if err = w.check(); err != nil {
		w.leave()
		return &broken{err}
	}
	return nil
}

// broken is a promise that was not kept, as against an open that failed.
type broken struct{ error }

// check compares the machines with the past.
func (w *world) check() error {
	for id, p := range w.groups {
		// The state is that of the driver's goroutine; asking it something makes
		// sure that it rests.
		if _, ok := w.driver.Status(id); !ok {
			return fmt.Errorf("%s is gone", id)
		}
		lines := w.machines[id].all()
		at := map[string]int{}
		for i, l := range lines {
			if _, twice := at[l]; twice {
				return fmt.Errorf("%s: %s is there twice", id, l)
			}
			if p.never[l] {
				return fmt.Errorf("%s: %s was refused, and is there", id, l)
			}
			at[l] = i
		}
		last := -1
		for _, l := range p.sure {
			i, ok := at[l]
			if !ok || i < last {
				return fmt.Errorf("%s: %s was acknowledged, and is there: %v, in its order: %v", id, l, ok, i > last)
			}
			last = i
		}
		for l := range at {
			if !slices.Contains(p.sure, l) && !p.perhaps[l] {
				return fmt.Errorf("%s: %s came from nowhere", id, l)
			}
		}
	}
	return nil
}

func (w *world) life() error {
	if err := w.open(); err != nil {
		w.say("open: %v", err)
		if b := (*broken)(nil); errors.As(err, &b) || !w.excused() {
			return fmt.Errorf("open: %w", err)
		}
		w.met.add("failed open")
		w.end()
		return nil
	}
	var err error
	for range 1 + w.rng.IntN(6) {
		if err = w.burst(); err != nil || w.store.Err() != nil || w.disk.Frozen() {
			break
		}
		if err = w.check(); err != nil {
			break
		}
		if w.rng.IntN(3) == 0 {
			<-time.After(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		}
	}
	if err == nil && w.full && w.store.Err() == nil && !w.disk.Frozen() {
		w.say("somebody frees space")
		w.disk.SetInjector(nil)
		w.fired.Store(false)
		w.met.add("space again")
		if err = w.burst(); err == nil {
			err = w.check()
		}
	}
	if err != nil {
		w.leave()
		return err
	}
	w.end()
	return nil
}

// burst proposes a few commands at once.
func (w *world) burst() error {
	ids := slices.Sorted(maps.Keys(w.groups))
	before := w.logs()
	type attempt struct {
		group consensus.GroupID
		line  string
		token uint64
		again bool
		place any
		err   error
	}
	var all []*attempt
	some := 1 + w.rng.IntN(12)
	if w.rng.IntN(4) == 0 {
		some *= 8
	}
	for range some {
		w.next++
		a := &attempt{group: ids[w.rng.IntN(len(ids))], line: fmt.Sprint("c", w.next, strings.Repeat(".", w.rng.IntN(200))), token: w.next}
		if sure := w.groups[a.group].sure; len(sure) > 0 && w.rng.IntN(5) == 0 {
			a.line, a.again = sure[w.rng.IntN(len(sure))], true
			a.token = w.names[a.line]
		}
		all = append(all, a)
	}
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() { a.place, a.err = w.driver.Propose(a.group, tokenOf(a.token), []byte(a.line)) })
		if w.rng.IntN(4) == 0 {
			synctest.Wait()
		}
	}
	wg.Wait()
	// The answer is the place, which says the order.
	slices.SortFunc(all, func(a, b *attempt) int {
		x, _ := a.place.(int)
		y, _ := b.place.(int)
		return x - y
	})
	for _, a := range all {
		p := w.groups[a.group]
		w.say("  %s %s: %v", a.group, a.line, a.err)
		switch code := status.CodeOf(a.err); {
		case a.again && a.err == nil:
			return fmt.Errorf("%s: %s was applied, and its token is taken again", a.group, a.line)
		case a.again:
			if errors.Is(a.err, control.ErrRepeated) {
				w.met.add("repeated")
			}
		case a.err == nil:
			w.met.add("acknowledged")
			p.sure = append(p.sure, a.line)
			w.names[a.line] = a.token
		case code == status.StoreFailed || code == status.Unknown:
			w.met.add("unknown")
			p.perhaps[a.line] = true
		default:
			w.met.add("refused")
			p.never[a.line] = true
			if !w.excused() {
				return fmt.Errorf("%s is refused: %w", a.line, a.err)
			}
		}
	}
	if after := w.logs(); before > 0 && after > before {
		w.met.add("rolled")
	}
	return nil
}

// logs is the number of the newest log.
func (w *world) logs() ident.SegmentID {
	all := w.store.Segments()
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].ID
}

// end ends a life: in order, killed, or with the power.
func (w *world) end() {
	switch {
	case w.driver != nil && !w.disk.Frozen() && w.rng.IntN(3) == 0:
		w.say("close")
		w.met.add("close")
		w.leave()
		w.disk = w.disk.Clone()
		return
	case w.rng.IntN(3) == 0:
		w.say("kill")
		w.met.add("kill")
		old := w.disk
		w.disk = old.Clone()
		old.Freeze()
	default:
		w.say("power cut")
		w.met.add("power cut")
		old := w.disk
		w.disk = old.Crash(faultfs.CrashOptions{
			Seed: w.rng.Uint64(), Survive: []int{0, 10, 50, 90, 100}[w.rng.IntN(5)], Mixed: w.rng.IntN(2) == 0, Torn: 20 * w.rng.IntN(2),
		})
		old.Freeze()
	}
	w.leave()
}

func (w *world) leave() {
	if w.driver != nil {
		w.driver.Close()
		w.store.Close() //nolint:errcheck // that it returns is what matters
	}
	w.driver, w.store = nil, nil
}
