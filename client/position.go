package client

import (
	"slices"
	"sync"

	"github.com/quirelog/quire/internal/lineage"
)

// position is where an iteration is, exact to the record. Moving it is cheap;
// the text of the cursor is made when somebody asks. It may be asked by any
// goroutine.
type position struct {
	mu sync.Mutex
	// base is a cursor, and places are what was read since then: the last one
	// of each entry in a row.
	base   string
	places []place
}

// jump moves to a cursor.
func (p *position) jump(cursor string) {
	p.mu.Lock()
	p.base, p.places = cursor, p.places[:0]
	p.mu.Unlock()
}

// move moves behind a record.
func (p *position) move(to place) {
	p.mu.Lock()
	if n := len(p.places); n > 0 && p.places[n-1].entry == to.entry {
		p.places[n-1] = to
	} else {
		p.places = append(p.places, to)
	}
	p.mu.Unlock()
}

// cursor is the text of where the position is.
func (p *position) cursor() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.places) == 0 {
		return p.base
	}
	t, err := lineage.NewTracker(p.base)
	for i := 0; i < len(p.places) && err == nil; i++ {
		err = t.Advance(p.places[i].entry, p.places[i].step)
	}
	if err != nil {
		// A cursor that this client cannot read is from a newer broker: going
		// on from base reads the same records again and loses none.
		return p.base
	}
	p.base, p.places = t.Token(), slices.Delete(p.places, 0, len(p.places))
	return p.base
}
