package client_test

import (
	"context"
	"net"
	"strconv"
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
	fs     vfs.FS
	addr   atomic.Pointer[string]
	node   *node.Broker
	server *native.Server
	served sync.WaitGroup
}

func startBroker(t *testing.T) *restartable {
	r := &restartable{t: t, fs: vfs.NewMem()}
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
		if err == nil {
			r.mu.Lock()
			r.conns = append(r.conns, nc)
			r.mu.Unlock()
		}
		return nc, err
	}
	c, err := client.Dial(r.t.Context(), "broker", client.WithDialer(dial))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// load is a producer that counts upwards, and what became of its records.
type load struct {
	acked, unknown, lost map[int]bool
	next                 int
	acks                 chan int
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
		rec := record.Record{Key: []byte("k"), Value: []byte(strconv.Itoa(i))}
		err := p.Send(t.Context(), rec, func(err error) {
			switch status.CodeOf(err) {
			case "":
				l.acked[i] = true
				select {
				case l.acks <- i:
				default:
				}
			case status.Unknown:
				l.unknown[i] = true
			default:
				t.Errorf("record %d: %v", i, err)
				l.lost[i] = true
			}
		})
		if err != nil {
			t.Errorf("send %d: %v", i, err)
			return
		}
	}
}

// trouble has a producer and a subscriber work while their broker is in trouble
// again and again, and checks that the subscriber gets what was acknowledged,
// in order and once.
func trouble(t *testing.T, befall func(*restartable)) *load {
	r := startBroker(t)
	c := r.client()
	if _, err := c.CreateTopic(t.Context(), "numbers", client.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	sub, err := r.client().Subscribe(t.Context(), "numbers", client.End())
	if err != nil {
		t.Fatal(err)
	}
	l := &load{acked: map[int]bool{}, unknown: map[int]bool{}, lost: map[int]bool{}, acks: make(chan int)}
	p := c.NewProducer("numbers", client.BatchRecords(20), client.MaxBuffered(32<<10))
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() { l.run(t, p, stop) })

	const rounds = 3
	for range rounds {
		for range 200 {
			<-l.acks
		}
		befall(r)
	}
	last := <-l.acks
	close(stop)
	sender.Wait()
	_ = p.Close(t.Context()) // says that outcomes are unknown, which the load knows

	l.check(t, sub, last)
	return l
}

// check reads up to the record last. What was acknowledged comes in order and
// all of it; a record whose outcome is unknown may come late, since the broker
// may find it in the old connection after it has read from the new one.
// Nothing comes twice, and nothing that was never sent.
func (l *load) check(t *testing.T, sub *client.Subscription, last int) {
	seen := map[int]bool{}
	before := -1
	for rec, err := range sub.All() {
		if err != nil {
			t.Fatal(err)
		}
		i, err := strconv.Atoi(string(rec.Value))
		switch {
		case err != nil || !l.acked[i] && !l.unknown[i]:
			t.Fatalf("record %q was read and never written", rec.Value)
		case seen[i]:
			t.Fatalf("record %d came twice", i)
		case l.acked[i] && i < before:
			t.Fatalf("record %d came after %d", i, before)
		}
		seen[i] = true
		if l.acked[i] {
			before = i
		}
		if i == last {
			break
		}
	}
	for i := range last {
		if l.acked[i] && !seen[i] {
			t.Errorf("record %d was acknowledged and not read", i)
		}
	}
}

func TestARestartInOrderLosesNothingAndLeavesNothingUnknown(t *testing.T) {
	l := trouble(t, (*restartable).restart)
	if len(l.unknown) > 0 {
		t.Errorf("%d records have an unknown outcome", len(l.unknown))
	}
}

func TestCutConnectionsLoseNothingThatWasAcknowledged(t *testing.T) {
	trouble(t, (*restartable).cut)
}

func TestRestartsWithCutConnectionsLoseNothingThatWasAcknowledged(t *testing.T) {
	trouble(t, func(r *restartable) {
		r.cut()
		r.restart()
	})
}
