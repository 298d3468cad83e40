package demo

import (
	"bytes"
	"maps"

	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// ledger checks records that are read against those that were written: each
// once, byte for byte, in the order of its key, and nothing else.
type ledger struct {
	quakes *quakes
	// next is for each key the number of its records that were read.
	next map[string]int
	read int
}

func newLedger(q *quakes) *ledger { return &ledger{quakes: q, next: map[string]int{}} }

// clone is a ledger that goes on from here by itself.
func (l *ledger) clone() *ledger { return &ledger{l.quakes, maps.Clone(l.next), l.read} }

// check takes the next record that was read.
func (l *ledger) check(rec record.Record) error {
	key := string(rec.Key)
	indices, n := l.quakes.perKey[key], l.next[key]
	if n >= len(indices) {
		return broken("record %d of key %q was never written: %q", n+1, key, rec.Value)
	}
	if want := l.quakes.records[indices[n]].Value; !bytes.Equal(rec.Value, want) {
		return broken("record %d of key %q is %q, written was %q", n+1, key, rec.Value, want)
	}
	l.next[key] = n + 1
	l.read++
	return nil
}

// has says whether the record at index i was read.
func (l *ledger) has(i int) bool {
	key := l.quakes.records[i].Key
	n := l.next[string(key)]
	return n > 0 && l.quakes.perKey[string(key)][n-1] >= i
}

// broken is the error of a promise that was not kept.
func broken(format string, args ...any) error {
	return status.New(status.DataCorrupt, format, args...)
}
