package catalog

import (
	"runtime"
	"slices"
	"testing"
)

// heapOf is the heap that what make returns keeps alive.
func heapOf(build func() *State) (*State, uint64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return s, after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}

func TestATopicCostsLittleMemory(t *testing.T) {
	const topics, limit = 10_000, 2 << 10
	created, size := heapOf(func() *State { return many(t, topics) })
	if perTopic := size / topics; perTopic > limit {
		t.Errorf("%d bytes a topic, at most %d", perTopic, limit)
	} else {
		t.Logf("%d bytes a topic", perTopic)
	}
	chunks := snapshot(created)
	loaded, size := heapOf(func() *State {
		s, err := load(chunks)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	if perTopic := size / topics; perTopic > limit {
		t.Errorf("%d bytes a topic after a restart, at most %d", perTopic, limit)
	} else {
		t.Logf("%d bytes a topic after a restart", perTopic)
	}
	runtime.KeepAlive(created)
	runtime.KeepAlive(loaded)
}

func BenchmarkLookup(b *testing.B) {
	s := many(b, 10_000)
	names := slices.Collect(func(yield func(Name) bool) {
		for t := range s.After(Name{}) {
			if !yield(t.Name) {
				return
			}
		}
	})
	for i := 0; b.Loop(); i++ {
		if _, ok := s.Lookup(names[i*7919%len(names)]); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkCreateTopic(b *testing.B) {
	s, n := New(), 0
	for b.Loop() {
		if n == MaxTopics {
			s, n = New(), 0
		}
		if _, err := s.Apply(createNumbered(n, 0)); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

// BenchmarkRoll rolls a range that has 10,000 sealed segments, in a catalog of
// as many topics.
func BenchmarkRoll(b *testing.B) {
	s := many(b, 10_000)
	for b.Loop() {
		t := s.byID[numbered(5000)]
		r := t.Ranges[0]
		if len(r.Segments) >= 20_000 {
			if _, err := s.Apply(Trim{Topic: t.ID, TopicVersion: 1, Range: r.ID, Through: r.Segments[10_000].ID}); err != nil {
				b.Fatal(err)
			}
			clear(s.retired)
			continue
		}
		_, err := s.Apply(Roll{
			Topic: t.ID, Range: r.ID, Epoch: r.Epoch, Version: r.Version, Open: r.Open.ID,
			Seal: Seal{End: r.Open.Base + 10, Digest: 1, Users: 10, Bytes: 1},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s := many(b, 10_000)
	for b.Loop() {
		n := 0
		for chunk := range s.Snapshot() {
			n += len(chunk)
		}
		b.SetBytes(int64(n))
	}
}

func BenchmarkLoad(b *testing.B) {
	chunks := snapshot(many(b, 10_000))
	for b.Loop() {
		if _, err := load(chunks); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshalCommand(b *testing.B) {
	data := encode(b, commands()[0])
	for b.Loop() {
		if _, err := UnmarshalCommand(data); err != nil {
			b.Fatal(err)
		}
	}
}
