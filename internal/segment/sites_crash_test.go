package segment_test

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/quirelog/quire/internal/faultfs"
)

// siteFaults are what each operation of a life is subjected to.
var siteFaults = []faultfs.Fault{
	{Crash: true},
	{Err: syscall.EIO},
	{Err: syscall.EIO, Done: true},
	{Err: syscall.ENOSPC},
	{Err: io.ErrShortWrite, Bytes: 700},
}

// TestEveryCallSiteMayFail takes one history and lets each operation that the
// store performs on its disk in the second life, in turn, fail in each way.
// By default it takes every 7th operation, fewer under the race detector;
// QUIRE_CRASH_SITES=N takes every N-th, of more histories if N is below 7.
func TestEveryCallSiteMayFail(t *testing.T) {
	oneProcessor(t)
	stride := env(t, "QUIRE_CRASH_SITES", 7000/usual(1000))
	histories := 2
	if stride < 7 {
		histories = 20
	}
	tally := &tally{counts: map[string]int{}}
	runs := 0
	for seed := range uint64(histories) {
		total, _ := site(t, seed, -1, faultfs.Fault{}, nil, tally)
		for at := int64(seed) % int64(stride); at < total; at += int64(stride) {
			for _, fault := range siteFaults {
				runs++
				_, err := site(t, seed, at, fault, nil, tally)
				if err == nil {
					continue
				}
				var story strings.Builder
				_, _ = site(t, seed, at, fault, &story, tally)
				t.Fatalf("history %d, operation %d of %d, %+v: %v\n%s", seed, at, total, fault, err, &story)
			}
		}
	}
	t.Logf("%d runs: %v", runs, tally)
}

// site runs one history with a fault at one operation of its second life, and
// says how many operations that life has.
func site(
	t *testing.T, seed uint64, at int64, fault faultfs.Fault, story *strings.Builder, tally *tally,
) (total int64, err error) {
	synctest.Test(t, func(*testing.T) {
		var told io.Writer
		if story != nil {
			told = story
		}
		w := newWorld(seed, told, tally)
		defer w.leave()
		if err = w.quietLife(); err != nil {
			return
		}
		w.harm = harm{}
		w.failAt(at, fault, false)
		if err = w.live(); err == nil {
			total = w.harm.seen
			w.calm()
			err = w.lastLife()
		}
	})
	return total, err
}

// quietLife fills a store and closes it, or cuts its power.
func (w *world) quietLife() error {
	if _, err := w.open(); err != nil {
		return err
	}
	for range 8 {
		if err := w.work(); err != nil {
			return err
		}
	}
	if w.rng.IntN(2) == 0 {
		return w.end(true)
	}
	return w.close()
}
