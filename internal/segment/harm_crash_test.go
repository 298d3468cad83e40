package segment_test

import (
	"io"
	"math/rand/v2"
	"syscall"

	"github.com/quirelog/quire/internal/faultfs"
)

// harm is what is done to the disk during one life.
type harm struct {
	// fired says that some operation failed because of it, syncFailed that
	// a sync did.
	fired, syncFailed bool
	// seen counts the operations since it was armed.
	seen int64
}

// arm draws the harm of a life: none, a stop of the machine at some change,
// one operation that fails, or a disk that dies.
func (w *world) arm() {
	w.harm = harm{}
	w.disk.CrashAt(-1)
	w.disk.SetInjector(nil)
	at := w.rng.Int64N(8 << w.rng.IntN(7))
	switch w.rng.IntN(10) {
	case 0, 1:
	case 2, 3, 4, 5:
		w.crashAt(at)
	case 6, 7, 8:
		w.failAt(at, drawFault(w.rng), false)
	case 9:
		w.failAt(at, faultfs.Fault{Err: syscall.EIO}, true)
	}
}

func (w *world) crashAt(change int64) {
	w.say("  the machine stops at change %d", w.disk.Changes()+change)
	w.disk.CrashAt(w.disk.Changes() + change)
}

// failAt injects a fault into the operation number at, counted from now; the
// dead disk fails all later ones too.
func (w *world) failAt(at int64, fault faultfs.Fault, dead bool) {
	w.say("  operation %d fails: %+v, for ever: %v", at, fault, dead)
	w.disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
		n := w.harm.seen
		w.harm.seen++
		if n != at && (!dead || n < at) || !canFail(op.Kind) {
			return faultfs.Fault{}
		}
		w.harm.fired = true
		w.harm.syncFailed = w.harm.syncFailed || op.Kind.IsSync() && !fault.Crash
		w.tally.count("failed " + op.Kind.String())
		w.say("    %v is made to fail", op)
		if op.Kind == faultfs.Lock {
			fault.Done = false // a lock that nobody holds would stay
		}
		return fault
	})
}

// canFail leaves out what no program can do anything about.
func canFail(k faultfs.Kind) bool { return k != faultfs.Close }

func drawFault(rng *rand.Rand) faultfs.Fault {
	f := faultfs.Fault{Err: []error{syscall.EIO, syscall.EIO, syscall.ENOSPC, io.ErrShortWrite}[rng.IntN(4)]}
	f.Bytes = rng.IntN(3) * rng.IntN(5000)
	f.Done = rng.IntN(4) == 0
	return f
}
