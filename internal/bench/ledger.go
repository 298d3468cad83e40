package bench

import (
	"sync"
	"sync/atomic"

	"github.com/quirelog/quire/status"
)

// MaxErrors is how many records of a run may fail before it is given up.
const MaxErrors = 10_000

// Ledger is what the workers of a run learned of their records: how many each
// has sent, and what became of those that were not acknowledged. It grows with
// the failures only, of which there are at most MaxErrors and what is in flight
// when that is reached.
type Ledger struct {
	sent []atomic.Uint64

	mu     sync.Mutex
	failed map[ID]status.Outcome
	first  error
	full   chan struct{}
}

// NewLedger makes the ledger of so many workers.
func NewLedger(workers int) *Ledger {
	return &Ledger{
		sent:   make([]atomic.Uint64, workers),
		failed: map[ID]status.Outcome{},
		full:   make(chan struct{}),
	}
}

// Sending notes that a worker is about to send its next record, and says which.
func (l *Ledger) Sending(worker int) ID {
	return ID{Worker: worker, N: l.sent[worker].Add(1) - 1}
}

// Sent counts the records that a worker has sent, or is about to send.
func (l *Ledger) Sent(worker int) uint64 { return l.sent[worker].Load() }

// Failed notes that a record was not acknowledged.
func (l *Ledger) Failed(id ID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = err
	}
	l.failed[id] = outcomeOf(err)
	if len(l.failed) == MaxErrors {
		close(l.full)
	}
}

// outcomeOf says whether a record whose writing failed may be there. Errors
// that have no code come from the other systems that are compared.
func outcomeOf(err error) status.Outcome { return status.Lookup(status.CodeOf(err)).Outcome }

// Full is closed when so many records failed that the run makes no sense.
func (l *Ledger) Full() <-chan struct{} { return l.full }

// Errors counts the records that were not acknowledged; first is why the first
// was not.
func (l *Ledger) Errors() (n uint64, first error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.failed)), l.first
}

// Acked counts the records that were acknowledged. It is exact once nothing is
// in flight.
func (l *Ledger) Acked() uint64 {
	n, _ := l.Errors()
	return l.total() - n
}

// total counts the records that were sent.
func (l *Ledger) total() (n uint64) {
	for i := range l.sent {
		n += l.sent[i].Load()
	}
	return n
}

// fate says what became of a record that was sent: failed is false if it was
// acknowledged.
func (l *Ledger) fate(id ID) (outcome status.Outcome, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	outcome, failed = l.failed[id]
	return outcome, failed
}
