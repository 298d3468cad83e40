package bench

import (
	"github.com/quirelog/quire/status"
)

// Verifier compares what is read with what was written. It is fed the records
// of one topic after the other, each in the order in which it came, and keeps
// one bit a record. It belongs to one goroutine; the ledger may go on growing
// while it checks.
type Verifier struct {
	content *Content
	ledger  *Ledger

	topic int
	// last has, for each lane of the topic, one more than the number that came
	// last.
	last []uint64
	seen []bitmap
	read uint64
}

// NewVerifier makes a verifier for what was made of c and noted in l.
func NewVerifier(c *Content, l *Ledger) *Verifier {
	return &Verifier{
		content: c, ledger: l,
		last: make([]uint64, c.lanes()), seen: make([]bitmap, c.plan.Workers),
	}
}

// Topic says that what comes next is read from that topic, from its start.
func (v *Verifier) Topic(topic int) {
	v.topic = topic
	clear(v.last)
}

// Read counts the records that were checked.
func (v *Verifier) Read() uint64 { return v.read }

// Check compares one record. The error says what is wrong with it.
func (v *Verifier) Check(key, value []byte) error {
	if len(value) != v.content.payload {
		return broken("a record of %d bytes came, %d were written", len(value), v.content.payload)
	}
	id, x := v.content.identify(value)
	if id.Worker >= v.content.plan.Workers || id.N >= v.ledger.sent[id.Worker].Load() {
		return broken("a record came that was not written")
	}
	k := v.content.key(id.Worker, x)
	switch {
	case !same(value[MinPayload:], x):
		return broken("record %d of worker %d came with another value", id.N, id.Worker)
	case string(key) != string(v.content.keys[k]):
		return broken("record %d of worker %d came with another key", id.N, id.Worker)
	case v.content.plan.Topic(id.Worker, id.N) != v.topic:
		return broken("record %d of worker %d came from another topic", id.N, id.Worker)
	}
	last := &v.last[v.content.lane(id.Worker, k)]
	if id.N < *last {
		return broken("record %d of worker %d came again or too late: record %d of the same key came before it",
			id.N, id.Worker, *last-1)
	}
	*last = id.N + 1
	v.seen[id.Worker].set(id.N)
	v.read++
	return nil
}

// Complete says, when everything was read and nothing is in flight, whether
// each record is there that has to be, and none that must not be.
func (v *Verifier) Complete() error {
	for w := range v.seen {
		sent := v.ledger.sent[w].Load()
		missing, first := uint64(0), uint64(0)
		for n := range sent {
			if v.seen[w].has(n) {
				continue
			}
			if _, failed := v.ledger.fate(ID{w, n}); !failed {
				if missing++; missing == 1 {
					first = n
				}
			}
		}
		if missing > 0 {
			return broken("%d acknowledged records of worker %d are lost, the first is number %d of %d",
				missing, w, first, sent)
		}
	}
	return v.refused()
}

// refused says whether a record is there of which it was said that it is not.
func (v *Verifier) refused() error {
	v.ledger.mu.Lock()
	defer v.ledger.mu.Unlock()
	for id, outcome := range v.ledger.failed {
		if outcome == status.No && v.seen[id.Worker].has(id.N) {
			return broken("record %d of worker %d was refused and is there", id.N, id.Worker)
		}
	}
	return nil
}

// broken is the error of a promise that was not kept.
func broken(format string, args ...any) error {
	return status.New(status.DataCorrupt, format, args...)
}

// bitmap is a set of small numbers.
type bitmap []uint64

func (b *bitmap) set(n uint64) {
	for n/64 >= uint64(len(*b)) {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bitmap) has(n uint64) bool {
	return n/64 < uint64(len(b)) && b[n/64]>>(n%64)&1 == 1
}
