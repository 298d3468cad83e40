package node

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/producers"
)

// A fold begins where the state of producers stands in a segment for the last
// time, which is never far from its end.
func TestTheLastCarriedStateIsFound(t *testing.T) {
	b, err := Open(Config{Dir: "d", FS: vfs.NewMem(), CarryBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if _, err := b.CreateTopic(context.Background(), "t", catalog.Log, nil); err != nil {
		t.Fatal(err)
	}
	topic, err := b.lookup("t")
	if err != nil {
		t.Fatal(err)
	}
	key := []byte(strings.Repeat("k", 1000))
	states := map[ident.Offset]bool{}
	for n := uint64(1); n <= 200; n++ {
		h := batch.Producer{ID: producers.DrawnID([16]byte{}), Session: 1, Prev: n - 1, Floor: n - 1, Band: keyspace.Full()}
		raw := batch.NewBuilder(batch.Options{Producer: &h})
		if err := raw.Add(&batch.Record{Key: key, Sequence: n}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		b.Produce(ProduceRequest{Topic: "t", Batch: raw.Finish()}, func(_ ProduceResult, err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		seg := topic.state.Load().leaves[0].seg
		info := seg.Info()
		want := info.Base
		for b, err := range seg.Scan(info.Base, info.Tail.Base) {
			if err != nil {
				t.Fatal(err)
			}
			if h, err := batch.ParseHeader(b); err == nil && producers.Begins(b) {
				want = h.Base
			}
		}
		states[want] = true
		if got, err := lastCarried(seg, &info); err != nil || got != want {
			t.Fatalf("after %d records the last state is at %d, found %d, %v", n, want, got, err)
		}
		if behind := info.Tail.Base - want; behind > 25 {
			t.Fatalf("%d records behind the last state", behind)
		}
	}
	if len(states) < 5 {
		t.Errorf("the state was carried only %d times", len(states))
	}
}
