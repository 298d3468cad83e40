package segment

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// stamped makes a batch that continues the segment's tail.
func stamped(t testing.TB, g *Segment, records int, size int) []byte {
	t.Helper()
	b := batch.NewBuilder(batch.Options{})
	for i := range records {
		r := record.Record{Key: []byte("k"), Value: bytes.Repeat([]byte{byte(i)}, size)}
		if err := b.AddRecord(&r); err != nil {
			t.Fatal(err)
		}
	}
	out := b.Finish()
	tail := g.Tail()
	batch.Stamp{Epoch: g.meta.Epoch, Base: tail.Base, UserBefore: tail.UserBefore, Chain: tail.Chain, AppendTime: tail.LastTime + 1}.Apply(out)
	return out
}

// Small batches go the journal way and large ones the direct way; all are read
// back byte by byte, from memory and from files, before and after restarts.
func TestWhatWasAppendedIsReadBackAfterRestarts(t *testing.T) {
	fs := vfs.NewMem()
	cfg := Config{JournalFileBytes: 256 << 10}
	s, err := Open(fs, "d", cfg)
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Create(Meta{ID: 1, Range: 1, Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := range 400 {
		n := 1
		if i%7 == 0 {
			n = 400
		}
		b := stamped(t, g, n, 256)
		want = append(want, b...)
		ch := make(chan error, 1)
		if err := g.Append(b, func(err error) { ch <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-ch; err != nil {
			t.Fatal(err)
		}
	}
	check := func(g *Segment) {
		t.Helper()
		var got []byte
		at := ident.Offset(0)
		for {
			bs, err := g.Read(at, Limit{Bytes: 100 << 10, Records: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if len(bs.List) == 0 {
				break
			}
			for _, b := range bs.List {
				got = append(got, b...)
				h, _ := batch.ParseHeader(b)
				at = h.End()
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("read %d bytes, want %d", len(got), len(want))
		}
	}
	check(g)
	for round := range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(fs, "d", cfg); err != nil {
			t.Fatal(err)
		}
		g, _ = s.Segment(1)
		check(g)
		if round == 0 {
			if _, err := g.Seal(); err != nil {
				t.Fatal(err)
			}
		}
		if o, err := g.SeekTime(200); err != nil || o == 0 {
			t.Fatal(o, err)
		}
	}
	if err := s.Delete(1); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// What waits for the disk is bounded, but a critical segment, which bounds its own,
// is not turned away for what others hand in.
func TestAFullQueueTurnsAwayWhatIsNotCritical(t *testing.T) {
	s, err := Open(vfs.NewMem(), "d", Config{JournalFileBytes: 256 << 10, QueueBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, critical := range []bool{false, true} {
		id := ident.SegmentID(1)
		if critical {
			id = 2
		}
		g, err := s.Create(Meta{ID: id, Range: 1, Epoch: 1, Critical: critical})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		err = g.Append(stamped(t, g, 1, 10), func(err error) { done <- err })
		switch {
		case critical && err == nil:
			if err := <-done; err != nil {
				t.Error(err)
			}
		case critical || status.CodeOf(err) != status.Overloaded:
			t.Errorf("critical %v: %v", critical, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
