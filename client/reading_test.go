package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// reading makes a reading of a topic whose end is at an offset.
func reading(t *testing.T, n *network, end int, opts ...ReadOption) (*Reading, *peer) {
	t.Helper()
	c := n.client()
	var r *Reading
	made := background(func() (err error) {
		r, err = c.Read(t.Context(), "orders", Start(), opts...)
		return err
	})
	b := n.accept()
	id, req := b.fetch()
	want(t, req.Start.GetEnd(), true)
	b.atEnd(id, end)
	id, req = b.fetch()
	want(t, req.Start.GetBeginning(), true)
	b.deliver(id, 0, "0", "1")
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	return r, b
}

func TestAReadingEndsWhereTheEndWasWhenItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := reading(t, newNetwork(t), 5)
		next := pull(t, r)
		want(t, offset(t, r.Cursor()), 0)
		want(t, next(), "0")
		want(t, offset(t, r.Cursor()), 1)
		id, req := b.fetch()
		want(t, offset(t, req.Start.GetCursor()), 2)
		b.deliver(id, 2, "2", "3")
		want(t, next(), "1")
		want(t, next(), "2")
		want(t, next(), "3")
		id, req = b.fetch()
		want(t, offset(t, req.Start.GetCursor()), 4)
		b.deliver(id, 4, "4", "written later", "and this")
		want(t, next(), "4")
		want(t, next(), "(end)")
		want(t, offset(t, r.Cursor()), 5)
		want(t, next(), "(end)")
	})
}

func TestAReadingFetchesAheadOfWhatIsConsumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := reading(t, newNetwork(t), 5)
		next := pull(t, r)
		want(t, next(), "0") // and there is another one in hand
		id, _ := b.fetch()
		b.deliver(id, 2, "2", "3", "4")
		synctest.Wait()
		for _, v := range []string{"1", "2", "3", "4", "(end)"} {
			want(t, next(), v)
		}
	})
}

func TestAReadingGoesOnWhereAFilterFoundNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := reading(t, newNetwork(t), 500, Key([]byte("k")))
		next := pull(t, r)
		want(t, next(), "0")
		id, req := b.fetch()
		want(t, string(req.Filter.GetKey()), "k")
		b.send(wire.TypeDelivery, id, &quirev1.Delivery{Cursor: tokenAt(400)})
		want(t, next(), "1")
		got := make(chan string)
		go func() { got <- next() }()
		id, req = b.fetch()
		want(t, offset(t, req.Start.GetCursor()), 400)
		b.atEnd(id, 500)
		want(t, <-got, "(end)")
		want(t, offset(t, r.Cursor()), 500)
	})
}

func TestAReadingDoesNotAskForTheSameForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := reading(t, newNetwork(t), 500)
		next := pull(t, r)
		want(t, next(), "0")
		id, _ := b.fetch()
		b.send(wire.TypeDelivery, id, &quirev1.Delivery{Cursor: tokenAt(2)})
		want(t, next(), "1")
		want(t, next(), "the broker gives no more of topic orders and does not say why (protocol_violation)")
	})
}

func TestAReadingYieldsGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := reading(t, newNetwork(t), 12)
		next := pull(t, r)
		want(t, next(), "0")
		id, _ := b.fetch()
		d := deliveryFrom(10, "10", "11")
		d.Start, d.Gap = tokenAt(2), &quirev1.Gap{Reason: quirev1.GapReason_GAP_REASON_LOST, Records: 8, Known: true}
		b.send(wire.TypeDelivery, id, d, stored(t, 10, batch.None, "10", "11"))
		want(t, next(), "1")
		want(t, next(), "8 records are missing here (lost)")
		want(t, next(), "10")
		want(t, next(), "11")
		want(t, next(), "(end)")
	})
}

func TestAReadingOutlivesABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		r, b := reading(t, n, 3)
		next := pull(t, r)
		want(t, next(), "0")
		b.fetch()
		b.hangUp()
		b = n.accept()
		id, req := b.fetch()
		want(t, offset(t, req.Start.GetCursor()), 2)
		b.deliver(id, 2, "2")
		for _, v := range []string{"1", "2", "(end)"} {
			want(t, next(), v)
		}
	})
}

func TestAReadingFromTheEndIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		var r *Reading
		made := background(func() (err error) {
			r, err = c.Read(t.Context(), "orders", End())
			return err
		})
		b := n.accept()
		id, _ := b.fetch()
		b.atEnd(id, 5)
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		want(t, pull(t, r)(), "(end)")
		want(t, offset(t, r.Cursor()), 5)
	})
}

func TestAReadingTellsWhyItEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := reading(t, newNetwork(t), 5)
		next := pull(t, r)
		want(t, next(), "0")
		id, _ := b.fetch()
		b.refuse(id, status.TopicNotFound, "there is no topic orders")
		want(t, next(), "1")
		want(t, next(), "there is no topic orders (topic_not_found)")
		want(t, next(), "(end)")
		want(t, offset(t, r.Cursor()), 2)
	})
}

// A fetch that is left behind by its reader ends with the client.
func TestALeftReadingHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		r, b := reading(t, n, 5)
		for rec, err := range r.All() {
			want(t, string(rec.Value), "0")
			want(t, err == nil, true)
			break
		}
		b.fetch()
		begin := time.Now()
		if err := r.c.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, time.Since(begin), time.Duration(0))
	})
}

func TestReachedComparesEveryBand(t *testing.T) {
	half := ident.Position(1) << 63
	entry := func(first, last ident.Position, id ident.RangeID, epoch ident.Epoch, offset ident.Offset) lineage.Entry {
		return lineage.Entry{
			Band:  keyspace.Band{First: first, Last: last},
			Place: lineage.Place{Range: id, Epoch: epoch, Offset: offset},
		}
	}
	whole := func(offset ident.Offset) []lineage.Entry {
		return []lineage.Entry{entry(0, ^ident.Position(0), 1, 1, offset)}
	}
	halves := func(a, b ident.Offset) []lineage.Entry {
		return []lineage.Entry{entry(0, half-1, 2, 5, a), entry(half, ^ident.Position(0), 3, 6, b)}
	}
	for _, test := range []struct {
		name    string
		at, end []lineage.Entry
		want    bool
	}{
		{"before", whole(4), whole(5), false},
		{"at", whole(5), whole(5), true},
		{"beyond", whole(6), whole(5), true},
		{"one band before", halves(7, 4), halves(5, 5), false},
		{"both bands at", halves(5, 5), halves(5, 5), true},
		{"in the children of the end", halves(0, 0), whole(5), true},
		{"in the parent of the end", whole(9), halves(0, 0), false},
	} {
		got := reached(lineage.Cursor{Entries: test.at}, lineage.Cursor{Entries: test.end})
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if reached(lineage.Cursor{Topic: ident.TopicID{1}, Entries: whole(5)}, lineage.Cursor{Topic: ident.TopicID{2}, Entries: whole(5)}) {
		t.Error("the end of another topic was reached")
	}
}
