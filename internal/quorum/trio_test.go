package quorum

import (
	"testing"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// trio is three stores of one range without faults: what is written is durable
// when it says so, and what is sent arrives.
type trio struct {
	t       testing.TB
	now     Instant
	ranges  [3]*Range
	view    View
	cut     [3]bool // its messages are lost, both ways
	slow    [3]bool // its writes wait
	writes  [3][]Write
	disk    [3][][]byte // the batches of all segments
	seals   [3][]ident.Offset
	results []Result
	reads   []Read
	last    [3]Ready // what else the newest Ready said
	sent    int
}

func (t *trio) owner(i int) catalog.Owner {
	return catalog.Owner{Store: ident.StoreID{byte(i + 1)}, Process: ident.Incarnation{byte(i + 1), 1}}
}

func newTrio(tb testing.TB, change func(*Config)) *trio {
	t := &trio{t: tb}
	slots := []ident.StoreID{{1}, {2}, {3}}
	t.view = View{Replicas: slots, Range: &catalog.Range{
		ID: 7, Epoch: 1, Version: 1, Owner: t.owner(0),
		Open: &catalog.OpenSegment{ID: 1, Epoch: 1, Store: slots[0]},
	}}
	for i := range t.ranges {
		l, err := NewLeases(0, LeaseConfig{Self: t.owner(i)})
		t.must(err)
		cfg := Config{Range: 7, Self: t.owner(i), Leases: l}
		if change != nil {
			change(&cfg)
		}
		t.ranges[i], err = New(0, cfg, Disk{})
		t.must(err)
	}
	return t
}

func (t *trio) must(err error) {
	if err != nil {
		t.t.Helper()
		t.t.Fatal(err)
	}
}

// settle does what the ranges say until they say nothing.
func (t *trio) settle() {
	for busy := true; busy; {
		busy = false
		for i, r := range t.ranges {
			ready := r.Ready()
			if ready.Empty() {
				continue
			}
			busy = true
			for _, w := range ready.Writes {
				if w.Kind == WriteSeal {
					t.seals[i] = append(t.seals[i], w.Tail.End)
				}
				if w.Kind == WriteAppend {
					t.disk[i] = append(t.disk[i], w.Batch)
				}
				if t.slow[i] {
					t.writes[i] = append(t.writes[i], w)
				} else {
					r.Stored(t.now, w.Serial, Durable)
				}
			}
			for j := range ready.Messages {
				m := &ready.Messages[j]
				t.sent++
				if to := int(m.To[0]) - 1; !t.cut[i] && !t.cut[to] {
					t.ranges[to].Step(t.now, m)
				}
			}
			for _, l := range ready.Loads {
				t.load(i, l)
			}
			t.results = append(t.results, ready.Results...)
			t.reads = append(t.reads, ready.Reads...)
			t.last[i] = ready
		}
	}
}

func (t *trio) load(i int, l Load) {
	var out [][]byte
	for _, b := range t.disk[i] {
		h, err := batch.ParseHeader(b)
		t.must(err)
		if h.Base >= l.From && len(out) < 2 {
			out = append(out, b)
		}
	}
	t.ranges[i].Loaded(t.now, l.ID, out)
}

// catchUp answers the writes that wait.
func (t *trio) catchUp(i int, done Done) {
	t.slow[i] = false
	for _, w := range t.writes[i] {
		t.ranges[i].Stored(t.now, w.Serial, done)
	}
	t.writes[i] = nil
	t.settle()
}

// applied is the view after a proposal was applied.
func (t *trio) applied(p Proposal, owner catalog.Owner) View {
	next := *t.view.Range
	open := *next.Open
	if p.Seal.End > open.Base {
		next.Segments = append(next.Segments, catalog.SealedSegment{OpenSegment: open, Seal: p.Seal})
	}
	if p.Kind == ProposeTake {
		next.Epoch++
	}
	next.Version++
	next.Owner = owner
	if next.Open = nil; p.Kind != ProposeEnd {
		next.Open = &catalog.OpenSegment{
			ID: open.ID + 1, Epoch: next.Epoch, Base: p.Seal.End, UserBefore: open.UserBefore + p.Seal.Users,
			Chain: p.Seal.Digest, Store: owner.Store,
		}
	}
	t.view = View{Range: &next, Replicas: t.view.Replicas}
	return t.view
}

// pass lets time pass.
func (t *trio) pass(d time.Duration) {
	for end := t.now.Add(d); t.now < end; {
		t.now = t.now.Add(10 * time.Millisecond)
		for _, r := range t.ranges {
			r.Tick(t.now)
		}
		t.settle()
	}
}

func (t *trio) serve() {
	t.must(t.ranges[0].Claim(t.now, t.view))
	t.settle()
}

func (t *trio) append(token uint64) error {
	err := t.ranges[0].Append(t.now, 1, token, oneRecord(t.t, 100))
	t.settle()
	return err
}

// committed are the tokens with that fate, in the order of the results.
func (t *trio) fates(f Fate) (tokens []uint64) {
	for _, r := range t.results {
		if r.Fate == f {
			tokens = append(tokens, r.Token)
		}
	}
	return tokens
}

func oneRecord(tb testing.TB, size int) []byte {
	b := batch.NewBuilder(batch.Options{})
	if err := b.Add(&batch.Record{Value: make([]byte, size), Time: 1}); err != nil {
		tb.Fatal(err)
	}
	return b.Finish()
}

// forget lets go of what was noted, so that a benchmark does not grow.
func (t *trio) forget() {
	t.results, t.reads = t.results[:0], t.reads[:0]
	for i := range t.disk {
		t.disk[i] = t.disk[i][:0]
	}
}
