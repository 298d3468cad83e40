package control_test

import (
	"encoding/binary"
	"iter"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quirelog/quire/internal/control"
)

// ledger is a state machine that keeps what it was told, in order. Its answer is
// how much that is.
type ledger struct {
	mu    sync.Mutex // of the test that looks at lines
	lines []string
	// restored counts the snapshots that it was made of.
	restored int
}

func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func (l *ledger) Apply(command []byte) (any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(command))
	return len(l.lines), nil
}

func (l *ledger) Snapshot() iter.Seq[[]byte] {
	lines := l.all()
	return func(yield func([]byte) bool) {
		for c := range slices.Chunk(lines, 3) {
			if !yield([]byte(strings.Join(c, "\n"))) {
				return
			}
		}
	}
}

func (l *ledger) Restore(chunks iter.Seq[[]byte]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
	l.restored++
	for c := range chunks {
		l.lines = append(l.lines, strings.Split(string(c), "\n")...)
	}
	return nil
}

var _ control.Machine = (*ledger)(nil)

// tokenOf makes the token number n.
func tokenOf(n uint64) (t [16]byte) {
	binary.BigEndian.PutUint64(t[:], n)
	return t
}

// tally counts what histories met, so that one that has gone blind is noticed.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

// seeds are those of the histories to run: the first n of them as a rule, and the
// one that the variable names, if it does.
func seeds(t *testing.T, variable string, n uint64) (first, last uint64) {
	t.Helper()
	before := runtime.GOMAXPROCS(1) // the order of goroutines is that of the seed
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	env := os.Getenv(variable)
	if env == "" {
		return 1, usual(n)
	}
	one, err := strconv.ParseUint(env, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return one, one
}

// usual is a number of histories for the plain test command, a tenth of it under
// the race detector, which makes each ten times as slow.
func usual(n uint64) uint64 {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return n / 10
	}
	return n
}
