package node_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/producers"
	"github.com/quirelog/quire/status"
)

// drawn is the n-th of producers that nobody has named.
func drawn(n int) batch.ProducerID {
	return producers.DrawnID([16]byte{1: byte(n), 2: byte(n >> 8)})
}

// sequences are records of a producer with the values v1, v2 and so on after
// their sequences. The keys are k0, k1 and k2 in turn, or all key.
func sequences(h batch.Producer, first, last uint64, key ...string) []byte {
	h.First = first
	if !h.Band.Valid() || h.Band == (keyspace.Band{}) {
		h.Band = keyspace.Full()
	}
	b := batch.NewBuilder(batch.Options{Producer: &h})
	for n := first; n <= last; n++ {
		k := fmt.Sprint("k", n%3)
		if key != nil {
			k = key[0]
		}
		if err := b.Add(&batch.Record{Key: []byte(k), Value: fmt.Append(nil, "v", n), Sequence: n}); err != nil {
			panic(err)
		}
	}
	return b.Finish()
}

// answer is what Produce says.
type answer struct {
	node.ProduceResult
	err error
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return string(status.CodeOf(a.err))
	case a.Repeated:
		return "repeated"
	}
	return "appended"
}

func begin(b *node.Broker, topic string, raw []byte) <-chan answer {
	ch := make(chan answer, 1)
	b.Produce(node.ProduceRequest{Topic: topic, Batch: raw}, func(res node.ProduceResult, err error) { ch <- answer{res, err} })
	return ch
}

func ask(t testing.TB, b *node.Broker, topic string, raw []byte, want string) answer {
	t.Helper()
	a := <-begin(b, topic, raw)
	if a.String() != want {
		t.Fatalf("%v (%v), want %s", a, a.err, want)
	}
	return a
}

// A batch that is sent again is recognized and answered as the first time,
// whatever happened to its range meanwhile.
func TestARetryIsRecognized(t *testing.T) {
	fs := vfs.NewCrashableMem()
	var b *node.Broker
	crash := func() {
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 2))})
		_ = b.Close()
		fs = left
		b = open(t, fs)
	}
	ctx := context.Background()
	reshape := func(f func(context.Context, string) error) func() {
		return func() {
			if err := f(ctx, "t"); err != nil {
				t.Fatal(err)
			}
		}
	}
	split := reshape(func(ctx context.Context, name string) error { return b.SplitTopic(ctx, name, nil) })
	merge := reshape(func(ctx context.Context, name string) error { return b.MergeTopic(ctx, name) })
	roll := func() {
		for range 2 {
			if err := send(b, "t", numbered("filler", 0, 5000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, befall := range map[string][]func(){
		"nothing":                      nil,
		"a roll":                       {roll},
		"two rolls":                    {roll, roll},
		"a crash":                      {crash},
		"a roll and a crash":           {roll, crash, crash},
		"a split":                      {split},
		"a split and a crash":          {split, crash},
		"a crash and a split":          {crash, split},
		"a merge":                      {split, merge},
		"a merge of a split":           {split, split, merge, merge},
		"merges with crashes":          {split, crash, split, crash, merge, crash, merge, crash},
		"a merge after only a crash":   {split, crash, merge},
		"crashes with nothing between": {crash, crash, split, crash, crash},
	} {
		t.Run(name, func(t *testing.T) {
			fs = vfs.NewCrashableMem()
			b = open(t, fs)
			create(t, b, "t", map[string]string{"segment-bytes": "65536"})
			h := batch.Producer{ID: drawn(1), Session: 1}
			first := ask(t, b, "t", sequences(h, 1, 5, "k"), "appended")
			h.Prev = 5
			second := ask(t, b, "t", sequences(h, 6, 9, "k"), "appended")
			for _, f := range befall {
				f()
			}
			if again := ask(t, b, "t", sequences(h, 6, 9, "k"), "repeated"); again.AppendTime != second.AppendTime {
				t.Errorf("appended at %d, and by the repetition at %d", second.AppendTime, again.AppendTime)
			}
			h.Prev = 0
			if again := ask(t, b, "t", sequences(h, 1, 5, "k"), "repeated"); again.AppendTime != first.AppendTime {
				t.Errorf("appended at %d, and by the repetition at %d", first.AppendTime, again.AppendTime)
			}
			h.Floor, h.Prev = 9, 9
			ask(t, b, "t", sequences(h, 10, 12, "k"), "appended")
			ask(t, b, "t", sequences(h, 10, 12, "k"), "repeated")
			h.Floor, h.Prev = 9, 13
			if a := <-begin(b, "t", sequences(h, 14, 14, "k")); a.err == nil {
				t.Errorf("a record after one that is missing: %v", a)
			}

			var got []string
			all, _ := readAll(t, b, "t", node.Start{}, 0)
			for _, v := range all {
				if strings.HasPrefix(v, "v") {
					got = append(got, v)
				}
			}
			same(t, got, numbers(1, 13))
		})
	}
}

// What was in flight to a range that is split is recognized by the ranges that
// continue it, before they have anything of their own.
func TestARetryIsRecognizedByHeirs(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	h := batch.Producer{ID: drawn(1), Session: 1}
	ask(t, b, "t", sequences(h, 1, 5, "k"), "appended")
	for range 4 {
		if err := b.SplitTopic(context.Background(), "t", nil); err != nil {
			t.Fatal(err)
		}
		ask(t, b, "t", sequences(h, 1, 5, "k"), "repeated")
	}
	if err := b.MergeTopic(context.Background(), "t"); err != nil {
		t.Fatal(err)
	}
	ask(t, b, "t", sequences(h, 1, 5, "k"), "repeated")
}

// No answer rests on what is not committed (I13): a repetition is answered when
// the first try is, and as unknown when that is.
func TestARepetitionIsAnsweredWhenTheLogIsCommitted(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	b := open(t, fs)
	create(t, b, "t", nil)
	h := batch.Producer{ID: drawn(1), Session: 1}
	ask(t, b, "t", sequences(h, 1, 1), "appended")

	hold, syncing := make(chan error), make(chan struct{}, 100)
	fs.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if op.Kind != faultfs.SyncData {
			return faultfs.Fault{}
		}
		syncing <- struct{}{}
		return faultfs.Fault{Err: <-hold}
	})
	h.Prev = 1
	first := begin(b, "t", sequences(h, 2, 2))
	<-syncing
	again := begin(b, "t", sequences(h, 2, 2))
	early := begin(b, "t", sequences(batch.Producer{ID: h.ID, Session: 1, Prev: 3}, 4, 4))
	old := begin(b, "t", sequences(batch.Producer{ID: h.ID, Session: 0}, 9, 9))
	for what, ch := range map[string]<-chan answer{"a repetition": again, "an early one": early, "one of an old session": old} {
		select {
		case a := <-ch:
			close(hold)
			t.Fatalf("%s is %v before what it rests on is committed", what, a)
		default:
		}
	}
	hold <- errors.New("input/output error")
	fs.SetInjector(nil)
	close(hold)
	for _, ch := range []<-chan answer{first, again, early, old} {
		if a := <-ch; a.String() != "store_failed" {
			t.Errorf("after a failed sync: %v", a)
		}
	}
	_ = b.Close()
	b = open(t, fs.Crash(faultfs.CrashOptions{}))
	ask(t, b, "t", sequences(h, 2, 2), "appended") // it is known now that it was not
	got, _ := readAll(t, b, "t", node.Start{}, 0)
	same(t, got, numbers(1, 3))
}

// What a full disk refused is not taken for a repetition when it is sent again.
func TestWhatAFullDiskRefusedIsForgotten(t *testing.T) {
	fs := faultfs.New(faultfs.Config{Capacity: 3 << 20})
	b := open(t, fs)
	create(t, b, "t", nil)
	create(t, b, "big", nil)
	h := batch.Producer{ID: drawn(1), Session: 1}
	ask(t, b, "t", sequences(h, 1, 2), "appended")
	filler := strings.Repeat("x", 100<<10)
	for produce(b, "big", filler) == nil {
	}
	long := strings.Repeat("k", 4000)
	n := uint64(3)
	for ; ; n++ {
		h.Floor, h.Prev = n-1, n-1
		if a := <-begin(b, "t", sequences(h, n, n, long)); a.err != nil {
			if a.String() != "disk_full" {
				t.Fatal(a.err)
			}
			break
		}
	}
	if err := b.DeleteTopic(context.Background(), "big"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an append after space returned", func() bool {
		a := <-begin(b, "t", sequences(h, n, n, long))
		if a.err == nil && a.Repeated {
			t.Error("what was refused is taken for a repetition")
		}
		return a.err == nil
	})
	ask(t, b, "t", sequences(h, n, n, long), "repeated")
	got, _ := readAll(t, b, "t", node.Start{}, 0)
	same(t, got, numbers(1, int(n)+1))
}

// A power cut at any step of carrying what is known into a new segment forgets
// nothing: the segment before has it, until the new one has all of it.
func TestAPowerCutWhileTheStateIsCarried(t *testing.T) {
	// Each part of the state has a round of its own.
	small := func(c *node.Config) { c.Store.RoundBytes = 64 << 10 }
	before := faultfs.New(faultfs.Config{})
	b := open(t, before, small)
	create(t, b, "t", nil)
	const producers, records = 80, 8000 // more than a part of the state holds
	last := func(n int) []byte {
		h := batch.Producer{ID: drawn(n), Session: 1, First: 1, Band: keyspace.Full()}
		raw := batch.NewBuilder(batch.Options{Producer: &h})
		for i := range uint64(records) {
			if err := raw.Add(&batch.Record{Key: []byte("k"), Sequence: 1 + 2*i}); err != nil {
				panic(err)
			}
		}
		return raw.Finish()
	}
	for n := range producers {
		ask(t, b, "t", last(n), "appended")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for step := 1; ; step++ {
		fs := before.Clone()
		b := open(t, fs, small)
		steps := 0
		fs.SetInjector(func(op faultfs.Op) faultfs.Fault {
			if op.Kind == faultfs.SyncData || op.Kind == faultfs.Write {
				if steps++; steps == step {
					return faultfs.Fault{Err: errors.New("input/output error")}
				}
			}
			return faultfs.Fault{}
		})
		err := produce(b, "t", "v1")
		_ = b.Close()
		b = open(t, fs.Crash(faultfs.CrashOptions{Survive: 100}))
		ask(t, b, "t", last(0), "repeated")
		ask(t, b, "t", last(producers-1), "repeated")
		_ = b.Close()
		if err == nil {
			if step < 6 {
				t.Errorf("%d steps, of which two write the state", step-1)
			}
			return
		}
	}
}

// Bad days of producers that do not keep to the rules, or are too many.
func TestProducersThatAreRefused(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	h := batch.Producer{ID: producers.ChosenID([16]byte{9}), Session: 2}
	ask(t, b, "t", sequences(h, 5, 5), "appended")
	old := h
	old.Session = 1
	ask(t, b, "t", sequences(old, 6, 6), "producer_fenced")
	ask(t, b, "t", sequences(h, 5, 5, "another key"), "repeated")
	h.Floor, h.Prev = 7, 7
	ask(t, b, "t", sequences(h, 8, 8), "appended")
	back := h
	back.Floor, back.Prev = 3, 8
	ask(t, b, "t", sequences(back, 9, 9), "appended") // a floor never goes back
	ask(t, b, "t", sequences(batch.Producer{ID: h.ID, Session: 2}, 6, 6), "repeated")
	a := <-begin(b, "t", sequences(batch.Producer{ID: h.ID, Session: 2}, 9, 11))
	var refusal *node.Refusal
	if !errors.As(a.err, &refusal) || a.String() != "partial_duplicate" || fmt.Sprint(refusal.Appended) != "[9]" {
		t.Errorf("a batch of which one record is there: %v", a.err)
	}
	narrow := batch.Producer{ID: drawn(2), Session: 1, Band: keyspace.Band{First: 1, Last: 1}}
	ask(t, b, "t", sequences(narrow, 1, 1), "invalid_argument")

	for n := range producers.MaxProducers - 1 {
		ask(t, b, "t", sequences(batch.Producer{ID: drawn(100 + n), Session: 1}, 1, 1), "appended")
	}
	ask(t, b, "t", sequences(batch.Producer{ID: drawn(50), Session: 1}, 1, 1), "limit_reached")
	h.Prev = 9
	ask(t, b, "t", sequences(h, 10, 10), "appended") // those that are known go on
	if err := b.CloseProducer("t", drawn(100), 1); err != nil {
		t.Fatal(err)
	}
	ask(t, b, "t", sequences(batch.Producer{ID: drawn(50), Session: 1}, 1, 1), "appended")
	if err := b.CloseProducer("no", drawn(100), 1); status.CodeOf(err) != status.TopicNotFound {
		t.Errorf("a producer of no topic: %v", err)
	}
}

// A producer that is closed is forgotten for good, also by the log.
func TestAClosedProducerStaysForgotten(t *testing.T) {
	fs := vfs.NewMem()
	b := open(t, fs)
	create(t, b, "t", nil)
	h := batch.Producer{ID: drawn(1), Session: 1}
	ask(t, b, "t", sequences(h, 1, 1), "appended")
	if err := b.CloseProducer("t", h.ID, 1); err != nil {
		t.Fatal(err)
	}
	ask(t, b, "t", sequences(h, 1, 1), "appended") // against the rules, but it shows it
	if err := b.CloseProducer("t", h.ID, 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, fs)
	ask(t, b, "t", sequences(h, 1, 1), "appended")
}

// A producer that nobody chose is forgotten two hours after its last use, by the
// clock of the log.
func TestAProducerExpires(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	b := open(t, vfs.NewMem(), func(c *node.Config) { c.Clock = clock })
	create(t, b, "t", nil)
	h := batch.Producer{ID: drawn(1), Session: 1}
	ask(t, b, "t", sequences(h, 1, 1), "appended")
	now = now.Add(producers.DrawnLifetime - time.Second)
	ask(t, b, "t", sequences(h, 1, 1), "repeated")
	now = now.Add(time.Second)
	ask(t, b, "t", sequences(h, 1, 1), "appended")
}

// A batch of a producer is never cut by the broker: the producer is told where.
func TestABatchOfAProducerThatStraddlesIsRefused(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", nil)
	h := batch.Producer{ID: drawn(1), Session: 1}
	keys := []string{"k0", "k1", "k2"}
	at := func(key string) ident.Position { return keyspace.PositionOf([]byte(key)) }
	slices.SortFunc(keys, func(x, y string) int { return cmp.Compare(at(x), at(y)) })
	if err := b.SplitTopic(context.Background(), "t", []byte(keys[1])); err != nil {
		t.Fatal(err)
	}
	a := <-begin(b, "t", sequences(h, 1, 3))
	var refusal *node.Refusal
	if !errors.As(a.err, &refusal) || refusal.Err.Code != status.RangeMoved || fmt.Sprint(refusal.Cuts) != fmt.Sprint([]ident.Position{at(keys[1])}) {
		t.Fatalf("%v, with %v", a.err, refusal)
	}
	// One that says it follows what may be in the other range is told too.
	h.Prev = 2
	if a := <-begin(b, "t", sequences(h, 3, 3, keys[2])); !errors.As(a.err, &refusal) || len(refusal.Cuts) != 1 {
		t.Errorf("%v, want where to cut", a.err)
	}
	got, _ := readAll(t, b, "t", node.Start{}, 0)
	same(t, got, nil)
}
