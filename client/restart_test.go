package client_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/internal/front/native"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// restartable is a broker on a disk in memory that is stopped and started
// again, each time at another address.
type restartable struct {
	t      *testing.T
	mu     sync.Mutex
	conns  []net.Conn // of its clients, at their end
	off    bool       // nobody reaches it
	fs     *vfs.MemFS
	rng    *rand.Rand
	addr   atomic.Pointer[string]
	node   *node.Broker
	server *native.Server
	served sync.WaitGroup
}

func startBroker(t *testing.T) *restartable {
	r := &restartable{t: t, fs: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(1, 2))}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *restartable) start() {
	r.t.Helper()
	var err error
	// A small journal and no ballast: both are written in full at each start.
	small := segment.Config{JournalFileBytes: 1 << 20, BallastReserve: -1}
	if r.node, err = node.Open(node.Config{Dir: "data", FS: r.fs, Store: small}); err != nil {
		r.t.Fatal(err)
	}
	if r.server, err = native.New(native.Node(r.node), native.Config{}); err != nil {
		r.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	server := r.server
	r.served.Go(func() { _ = server.Serve(ln) })
	addr := ln.Addr().String()
	r.addr.Store(&addr)
}

// stop stops the broker in order.
func (r *restartable) stop() {
	_ = r.server.Shutdown(context.Background())
	_ = r.node.Close()
	r.served.Wait()
}

func (r *restartable) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// cut breaks every connection in the middle of what it does.
func (r *restartable) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, nc := range r.conns {
		_ = nc.Close()
	}
	r.conns = nil
}

func (r *restartable) client() *client.Client {
	r.t.Helper()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, *r.addr.Load())
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.off {
			_ = nc.Close()
			return nil, errors.New("the broker has no power")
		}
		r.conns = append(r.conns, nc)
		return nc, nil
	}
	c, err := client.Dial(r.t.Context(), "broker", client.WithDialer(dial))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// crash takes the broker's power: it comes back with what was synced and, of the
// rest, what chance has written.
func (r *restartable) crash() {
	r.t.Helper()
	// What it answers from here on nobody hears.
	r.mu.Lock()
	r.off = true
	r.mu.Unlock()
	r.cut()
	left := r.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: r.rng})
	r.stop()
	r.fs = left
	r.start()
	r.mu.Lock()
	r.off = false
	r.mu.Unlock()
}

// load is a producer that counts upwards, over some keys and none.
type load struct {
	next int
	acks chan int
}

const loadKeys = 5

// keyOf is the key of a record; each sixth has none.
func keyOf(i int) []byte {
	if i%(loadKeys+1) == loadKeys {
		return nil
	}
	return strconv.AppendInt([]byte("key "), int64(i%(loadKeys+1)), 10)
}

// run sends until stop is closed.
func (l *load) run(t *testing.T, p *client.Producer, stop <-chan struct{}) {
	for ; ; l.next++ {
		select {
		case <-stop:
			return
		default:
		}
		i := l.next
		rec := record.Record{Key: keyOf(i), Value: []byte(strconv.Itoa(i))}
		err := p.Send(t.Context(), rec, func(err error) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
			select {
			case l.acks <- i:
			default:
			}
		})
		if err != nil {
			t.Errorf("send %d: %v", i, err)
			return
		}
	}
}

// trouble has a producer and a subscriber work while something befalls their
// broker again and again. Every record is acknowledged, and the subscriber gets
// each once, those of a key in order.
func trouble(t *testing.T, rounds int, befall func(r *restartable, round int)) {
	r := startBroker(t)
	c := r.client()
	if _, err := c.CreateTopic(t.Context(), "numbers", client.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	sub, err := r.client().Subscribe(t.Context(), "numbers", client.End())
	if err != nil {
		t.Fatal(err)
	}
	l := &load{acks: make(chan int)}
	p := c.NewProducer("numbers", client.BatchRecords(20), client.MaxBuffered(32<<10))
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() { l.run(t, p, stop) })
	for round := range rounds {
		for range 200 {
			<-l.acks
		}
		befall(r, round)
	}
	<-l.acks
	close(stop)
	sender.Wait()
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.check(t, sub)
}

// check reads as many records as were sent.
func (l *load) check(t *testing.T, sub *client.Subscription) {
	seen := make([]bool, l.next)
	last := map[string]int{}
	left := l.next
	for rec, err := range sub.All() {
		if err != nil {
			t.Fatal(err)
		}
		i, err := strconv.Atoi(string(rec.Value))
		key := string(keyOf(i))
		switch before, some := last[key]; {
		case err != nil || i < 0 || i >= l.next || string(rec.Key) != key:
			t.Fatalf("record %q was read and never written", rec.Value)
		case seen[i]:
			t.Fatalf("record %d came twice", i)
		case some && i < before && rec.Key != nil:
			t.Fatalf("record %d of its key came after %d", i, before)
		}
		seen[i], last[key] = true, i
		if left--; left == 0 {
			return
		}
	}
}

func TestARestartWritesEveryRecordOnce(t *testing.T) {
	trouble(t, 3, func(r *restartable, _ int) { r.restart() })
}

func TestACutConnectionWritesEveryRecordOnce(t *testing.T) {
	trouble(t, 5, func(r *restartable, _ int) { r.cut() })
}

func TestACrashWritesEveryRecordOnce(t *testing.T) {
	trouble(t, 3, func(r *restartable, _ int) { r.crash() })
}

func TestSplitsAndMergesWriteEveryRecordOnce(t *testing.T) {
	trouble(t, 12, func(r *restartable, round int) { r.reshape(round) })
}

func TestCrashesAmongSplitsAndMergesWriteEveryRecordOnce(t *testing.T) {
	trouble(t, 8, func(r *restartable, round int) {
		r.cut()
		r.reshape(round)
		if round%2 == 1 {
			r.crash()
		}
	})
}

// reshape splits the topic three times, then merges it twice, and so on. A range
// with one key is not split.
func (r *restartable) reshape(round int) {
	r.t.Helper()
	var err error
	if round%5 < 3 {
		err = r.node.SplitTopic(r.t.Context(), "numbers", nil)
	} else {
		err = r.node.MergeTopic(r.t.Context(), "numbers")
	}
	if err != nil && status.CodeOf(err) != status.InvalidArgument {
		r.t.Error(err)
	}
}

// Records without a key go to all ranges.
func TestRecordsWithoutAKeySpread(t *testing.T) {
	r := startBroker(t)
	c := r.client()
	if _, err := c.CreateTopic(t.Context(), "numbers", client.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		r.reshape(round)
	}
	p := c.NewProducer("numbers")
	const records = 64 << 10
	for range records {
		if err := p.Send(t.Context(), record.Record{Value: []byte("v")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := r.node.DescribeTopic(t.Context(), "numbers")
	if err != nil {
		t.Fatal(err)
	}
	var all uint64
	for _, rng := range d.Ranges {
		if all += rng.Records; len(rng.Children) == 0 && rng.Records < records/64 {
			t.Errorf("range %v has %d of %d records", rng.ID, rng.Records, records)
		}
	}
	if all != records {
		t.Errorf("%d records of %d", all, records)
	}
}

// Of two producers with one name, the one that was begun last writes.
func TestAProducerIsFencedByTheNextOfItsName(t *testing.T) {
	r := startBroker(t)
	c := r.client()
	if _, err := c.CreateTopic(t.Context(), "numbers", client.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	write := func(p *client.Producer, value string) error {
		if err := p.Send(t.Context(), record.Record{Key: []byte("k"), Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
		return p.Flush(t.Context())
	}
	first := c.NewProducer("numbers", client.ProducerName("the writer"))
	if err := write(first, "1"); err != nil {
		t.Fatal(err)
	}
	r.restart()
	next := c.NewProducer("numbers", client.ProducerName("the writer"))
	if err := write(next, "2"); err != nil {
		t.Fatal(err)
	}
	if err := write(first, "3"); status.CodeOf(err) != status.ProducerFenced {
		t.Errorf("the first producer, after the next: %v", err)
	}
	other := c.NewProducer("numbers", client.ProducerName("another"))
	for _, p := range []*client.Producer{next, other} {
		if err := write(p, "4"); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []*client.Producer{first, next, other} {
		_ = p.Close(t.Context())
	}
	nameless := c.NewProducer("numbers", client.ProducerName(strings.Repeat("n", 256)))
	if err := write(nameless, "5"); status.CodeOf(err) != status.InvalidName {
		t.Errorf("a name of 256 bytes: %v", err)
	}
	_ = nameless.Close(t.Context())
}
