package catalog

import (
	"bytes"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	pb "github.com/quirelog/quire/internal/catalog/catalogpb"
	"github.com/quirelog/quire/status"
)

// FuzzUnmarshalCommand: any bytes are refused with a code of the table, or are
// exactly what the command that they decode to is encoded as, and applying it
// keeps the state in order.
func FuzzUnmarshalCommand(f *testing.F) {
	for _, c := range commands() {
		f.Add(encode(f, c))
	}
	f.Add([]byte{0x08, 0x02})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := UnmarshalCommand(b)
		if err != nil {
			if code := status.CodeOf(err); code != status.DataCorrupt && code != status.DataNewer {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		var m pb.Command
		if err := m.UnmarshalVT(b); err != nil {
			t.Fatal(err)
		}
		if again, err := marshalCommand(c, m.Version); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%+v is encoded as %x, %v, not %x", c, again, err, b)
		}
		s := example(t)
		before := snapshot(s)
		_, err = s.Apply(c)
		if err != nil && !slices.EqualFunc(before, snapshot(s), slices.Equal) {
			t.Fatalf("refused (%v), and changed the state: %+v", err, c)
		}
		if err := s.Check(); err != nil {
			t.Fatalf("after %+v: %v", c, err)
		}
	})
}

// FuzzLoader: any chunk, even with the footer that belongs behind it, is
// refused with a code of the table, or is a state that is in order and has
// exactly this snapshot.
func FuzzLoader(f *testing.F) {
	for _, s := range []*State{New(), example(f)} {
		chunks := snapshot(s)
		f.Add(chunks[0])
		f.Add(chunks[1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var chunk pb.SnapshotChunk
		_ = chunk.UnmarshalVT(b) // then it has no items, and the loader says what is wrong
		footer := marshalChunk(t, 1, footerItem(uint64(len(chunk.Items)), xxh3.Hash(b)))
		s, err := load([][]byte{b, footer})
		if err != nil {
			if code := status.CodeOf(err); code != status.DataCorrupt && code != status.DataNewer {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if again := snapshot(s); len(again) != 2 || !bytes.Equal(again[0], b) || !bytes.Equal(again[1], footer) {
			t.Fatal("another snapshot after loading")
		}
	})
}
