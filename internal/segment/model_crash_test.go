package segment_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// The model of a store: for each segment what must be there, and behind it
// what may be. The steps of one segment happen in their order, so a crash
// shows the state after some prefix of the steps in doubt, never another mix.

// content is the state of one segment.
type content struct {
	exists  bool
	sealed  bool
	lost    uint64 // records that a repair gave up
	meta    segment.Meta
	batches [][]byte
}

type stepKind uint8

const (
	stepCreate stepKind = iota
	stepAppend
	stepCut
	stepSeal
	stepDelete
)

func (k stepKind) String() string {
	return [...]string{"create", "append", "cut", "seal", "delete"}[k]
}

// step is one change of one segment.
type step struct {
	kind  stepKind
	meta  segment.Meta
	batch []byte
	cut   int // how many batches stay
	// weak: known to be done, though only the page cache may have it.
	weak bool
}

// apply gives the state after s. Slices are never shared with c.
func (c content) apply(s step) content {
	c.batches = slices.Clone(c.batches)
	switch s.kind {
	case stepCreate:
		c = content{exists: true, meta: s.meta}
	case stepAppend:
		c.batches = append(c.batches, s.batch)
	case stepCut:
		c.batches = c.batches[:min(s.cut, len(c.batches))]
	case stepSeal:
		c.sealed = true
	case stepDelete:
		c = content{}
	}
	return c
}

// tail is where the next batch goes.
func (c content) tail() segment.Tail {
	t := segment.Tail{
		Base: c.meta.Base, UserBefore: c.meta.UserBefore, Chain: c.meta.Chain, LastTime: c.meta.NotBefore,
	}
	if n := len(c.batches); n > 0 {
		t = tailAfter(c.batches[n-1])
	}
	return t
}

func tailAfter(b []byte) segment.Tail {
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	return segment.Tail{
		Base: h.End(), UserBefore: h.UserBefore + h.UserRecords(),
		Chain: batch.NextChain(b), LastTime: h.AppendTime,
	}
}

// same says in words how two states differ; empty if they do not.
func (c content) same(o content) string {
	switch {
	case c.exists != o.exists:
		return fmt.Sprintf("it exists: %v, want %v", c.exists, o.exists)
	case c.meta != o.meta:
		return fmt.Sprintf("its meta is %+v, want %+v", c.meta, o.meta)
	case c.sealed != o.sealed:
		return fmt.Sprintf("it is sealed: %v, want %v", c.sealed, o.sealed)
	case c.lost != o.lost:
		return fmt.Sprintf("it lost %d records, want %d", c.lost, o.lost)
	case len(c.batches) != len(o.batches):
		return fmt.Sprintf("it has %d batches, want %d", len(c.batches), len(o.batches))
	}
	for i := range c.batches {
		if !bytes.Equal(c.batches[i], o.batches[i]) {
			return fmt.Sprintf("batch %d of %d differs", i, len(c.batches))
		}
	}
	return ""
}

// track follows one segment id through all its lives.
type track struct {
	id ident.SegmentID
	// sure is what any crash must show, if it shows none of the doubt.
	sure  content
	doubt []step
	seg   *segment.Segment
}

// now is the state as the running store has it.
func (t *track) now() content {
	c := t.sure
	for _, s := range t.doubt {
		c = c.apply(s)
	}
	return c
}

// answered notes that s was done. A strong answer stands for all that came
// before it.
func (t *track) answered(s step) {
	weak := t.now().meta.Durability.Weak
	switch {
	case weak && s.kind == stepAppend:
		s.weak = true
		t.doubt = append(t.doubt, s)
	case weak && s.kind == stepCut:
		t.cutDoubt(s.cut)
	default:
		t.doubt = append(t.doubt, s)
		t.settle()
	}
}

// settle makes everything sure, as a seal, a close and a strong answer do.
func (t *track) settle() {
	t.sure, t.doubt = t.now(), nil
}

// cutDoubt takes back what lies behind the first n batches, whether they are
// sure or not.
func (t *track) cutDoubt(n int) {
	if n < len(t.sure.batches) {
		t.sure.batches = slices.Clone(t.sure.batches[:n])
	}
	t.doubt = slices.DeleteFunc(t.doubt, func(s step) bool {
		if s.kind != stepAppend {
			return false
		}
		n--
		return n < len(t.sure.batches)
	})
}

// unsure notes that nobody knows whether s was done.
func (t *track) unsure(s step) { t.doubt = append(t.doubt, s) }

// recovered judges what a store shows of the segment after it was opened. It
// must be the state after some prefix of the doubt, of which answered says
// that the weak answers count: the page cache was not lost. What was found is
// sure from now on, and the rest never was.
func (t *track) recovered(found content, cacheKept bool) error {
	least := 0
	if cacheKept {
		for i, s := range t.doubt {
			if s.weak {
				least = i + 1
			}
		}
	}
	var why string
	c := t.sure
	for k := 0; ; k++ {
		if k >= least {
			if why = found.same(c); why == "" {
				t.found(c)
				return nil
			}
		}
		if k == len(t.doubt) {
			break
		}
		c = c.apply(t.doubt[k])
	}
	return fmt.Errorf("segment %v: %s (and no state from %s to that fits)", t.id, why, t.sure)
}

// found takes the state c for what the store has. The tail of a weak segment
// stays in doubt for the next power cut.
func (t *track) found(c content) {
	if !c.exists || !c.meta.Durability.Weak || c.sealed || t.sure.meta != c.meta {
		t.sure, t.doubt = c, nil
		return
	}
	n := 0
	for n < min(len(c.batches), len(t.sure.batches)) && bytes.Equal(c.batches[n], t.sure.batches[n]) {
		n++
	}
	t.sure.batches, t.doubt = slices.Clone(c.batches[:n]), nil
	for _, b := range c.batches[n:] {
		t.doubt = append(t.doubt, step{kind: stepAppend, batch: b, weak: true})
	}
}

func (c content) String() string {
	if !c.exists {
		return "no segment"
	}
	s := fmt.Sprintf("%d batches", len(c.batches))
	if c.sealed {
		s += ", sealed"
	}
	return s
}
