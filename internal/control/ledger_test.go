package control_test

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/quirelog/quire/internal/control"
)

// ledger is a state machine that keeps what it was told, in order. Its answer is
// how much that is.
type ledger struct {
	mu    sync.Mutex // of the test that looks at lines
	lines []string
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
