package native

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// cutAfter reads to the end of the connection and says when that came. What
// is read on the way is thrown away.
func (p *peer) cutAfter() time.Duration {
	began := time.Now()
	_, _ = io.Copy(io.Discard, p.nc)
	return time.Since(began)
}

func TestSlowHandshakeIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &fakeBroker{}, Config{})
		for name, send := range map[string]func(p *peer){
			"silent": func(*peer) {},
			"a byte a second": func(p *peer) {
				for _, b := range []byte(wire.Preface + "\x10\x00\x00\x00\x01\x00\x00\x00") {
					<-time.After(time.Second)
					if _, err := p.nc.Write([]byte{b}); err != nil {
						return
					}
				}
			},
		} {
			p := s.dial()
			sent := make(chan struct{})
			go func() {
				send(p)
				close(sent)
			}()
			if got := p.cutAfter(); got != 10*time.Second {
				t.Errorf("%s: cut after %v, want 10s", name, got)
			}
			<-sent
		}
	})
}

func TestFrameThatIsNotFinishedIsCutAndIdleConnectionIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &fakeBroker{}, Config{})
		idle, slow, slower := s.connect(), s.connect(), s.connect()
		m := &quirev1.ProduceRequest{Topic: "orders"}
		bufs, err := wire.Encode(wire.TypeProduceRequest, 2, m, make([]byte, 100))
		if err != nil {
			t.Fatal(err)
		}
		slow.write(bufs[0][:5])
		slower.write(append(bufs[0], 1, 2, 3))
		for _, p := range []*peer{slow, slower} {
			p.expectError(0, status.Timeout)
			p.expectEnd()
		}
		<-time.After(24 * time.Hour)
		idle.produce(2, "still here")
		idle.expect(wire.TypeProduceResponse, 2, nil)
		// The time of a frame that took long does not run on after it.
		go func() {
			idle.write(append(bufs[0][:8:8], 3, 0, 0, 0, 0, 0, 0, 0))
			<-time.After(50 * time.Second)
			idle.write(append(bufs[0][16:], bufs[1]...))
		}()
		idle.expect(wire.TypeProduceResponse, 3, nil)
		<-time.After(time.Hour)
		idle.produce(4, "and still")
		idle.expect(wire.TypeProduceResponse, 4, nil)
	})
}

// A client that asks for a lot and reads nothing gets as much memory as its
// limit, not as much as it asked for, and is cut after a while.
func TestClientThatNeverReadsIsBoundedAndCut(t *testing.T) {
	const size = 1 << 20
	for name, ask := range map[string]func(*peer, uint64){
		"fetch": func(p *peer, id uint64) {
			p.send(wire.TypeFetchRequest, id, &quirev1.FetchRequest{MaxBytes: size})
		},
		"long poll": func(p *peer, id uint64) {
			p.send(wire.TypeFetchRequest, id, &quirev1.FetchRequest{MaxBytes: size, WaitMs: 600_000})
		},
		"subscribe": func(p *peer, id uint64) {
			credit := &quirev1.Credit{Records: 1e6, Bytes: 1e12}
			p.send(wire.TypeSubscribeRequest, id, &quirev1.SubscribeRequest{Credit: credit})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int64
				b := &fakeBroker{
					fetch: func(context.Context, node.FetchRequest) (node.Delivery, error) {
						reads.Add(1)
						return deliveryOf(size, "c"), nil
					},
					subscribe: func(context.Context, node.SubscribeRequest) (Subscription, error) {
						return &endlessSubscription{reads: &reads, size: size}, nil
					},
				}
				s := serve(t, b, Config{QueuedBytes: 16 << 20})
				p := s.connect()
				for id := range uint64(100) {
					ask(p, id+2)
				}
				synctest.Wait()
				// Beside the queue there is what each subscription holds.
				if n, most := reads.Load(), int64(16+100); n < 10 || n > most {
					t.Errorf("%d reads of 1 MiB with a queue of 16 MiB", n)
				}
				<-time.After(29 * time.Second)
				synctest.Wait()
				before := reads.Load()
				<-time.After(3 * time.Second)
				synctest.Wait()
				if reads.Load() != before {
					t.Errorf("%d more reads for a client that is cut", reads.Load()-before)
				}
				if s.srv.answers.lent != 0 {
					t.Errorf("%d bytes are still held for it", s.srv.answers.lent)
				}
				if p.cutAfter() != 0 {
					t.Error("the client was not cut")
				}
			})
		})
	}
}

// endlessSubscription always has another delivery.
type endlessSubscription struct {
	reads *atomic.Int64
	size  int
}

func (s *endlessSubscription) Grant(uint64, uint64) {}
func (s *endlessSubscription) Close()               {}

func (s *endlessSubscription) Next(ctx context.Context) (node.Delivery, error) {
	s.reads.Add(1)
	return deliveryOf(s.size, "c"), ctx.Err()
}

// A client that sends and never reads is not read from either, once enough
// answers wait for it.
func TestClientThatOnlySendsIsNotReadForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var produced atomic.Int64
		b := &fakeBroker{produce: func(_ node.ProduceRequest, done func(node.ProduceResult, error)) {
			produced.Add(1)
			done(node.ProduceResult{}, nil)
		}}
		p := serve(t, b, Config{}).connect()
		m := &quirev1.ProduceRequest{Topic: "orders"}
		bufs, err := wire.Encode(wire.TypeProduceRequest, 2, m, []byte("batch"))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 3 * wire.MaxInFlight {
			if _, err := p.nc.Write(append(bufs[0], bufs[1]...)); err != nil {
				break
			}
		}
		if n := produced.Load(); n > 2*wire.MaxInFlight {
			t.Errorf("%d produces were taken of a client that never reads", n)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("cut after %v, want 30s", took)
		}
	})
}

// A client that reads slowly, but reads, is not cut.
func TestSlowReaderIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 100
		b := &fakeBroker{fetch: func(context.Context, node.FetchRequest) (node.Delivery, error) {
			return deliveryOf(size, "c"), nil
		}}
		p := serve(t, b, Config{}).connect()
		p.send(wire.TypeFetchRequest, 2, &quirev1.FetchRequest{})
		one := make([]byte, 1)
		for range size {
			<-time.After(3 * time.Second)
			if _, err := p.nc.Read(one); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// While others wait for what a stalled client holds, it is cut early.
func TestStalledClientIsCutEarlyWhenOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20
		b := &fakeBroker{fetch: func(context.Context, node.FetchRequest) (node.Delivery, error) {
			return deliveryOf(size, "c"), nil
		}}
		s := serve(t, b, Config{QueuedBytes: 2 * size, QueuedBytesInAll: 2 * size})
		stalled, reads := s.connect(), s.connect()
		for id := range uint64(3) {
			stalled.send(wire.TypeFetchRequest, id+2, &quirev1.FetchRequest{})
		}
		synctest.Wait()
		began := time.Now()
		reads.send(wire.TypeFetchRequest, 2, &quirev1.FetchRequest{})
		reads.expect(wire.TypeDelivery, 2, nil)
		if took := time.Since(began); took > pressedStall+writeTick {
			t.Errorf("the other client waited %v", took)
		}
	})
}

// At the bound for batches on their way in, the connection is not read until
// some of them are answered. Other connections are.
func TestProduceBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 6 << 20 // two fit into 16 MiB
		var mu sync.Mutex
		var waiting []func(node.ProduceResult, error)
		b := &fakeBroker{produce: func(req node.ProduceRequest, done func(node.ProduceResult, error)) {
			mu.Lock()
			defer mu.Unlock()
			if len(req.Batch) < size {
				done(node.ProduceResult{}, nil)
				return
			}
			waiting = append(waiting, done)
		}}
		s := serve(t, b, Config{ProduceBytes: 16 << 20})
		p := s.connect()
		go func() {
			for id := range uint64(3) {
				p.send(wire.TypeProduceRequest, id+2, &quirev1.ProduceRequest{}, make([]byte, size))
			}
			// Empty frames need no room, but come after the others.
			p.poll(9)
		}()
		synctest.Wait()
		if len(waiting) != 2 {
			t.Fatalf("the broker has %d batches, want 2", len(waiting))
		}
		other := s.connect()
		other.produce(2, "small")
		other.expect(wire.TypeProduceResponse, 2, nil)
		waiting[0](node.ProduceResult{}, nil)
		p.expect(wire.TypeProduceResponse, 2, nil)
		synctest.Wait()
		if len(waiting) != 3 {
			t.Fatalf("the broker has got %d batches, want 3", len(waiting))
		}
		waiting[1](node.ProduceResult{}, nil)
		waiting[2](node.ProduceResult{}, nil)
		p.expect(wire.TypeProduceResponse, 3, nil)
		p.expect(wire.TypeProduceResponse, 4, nil)
		if s.srv.produces.lent != 0 {
			t.Errorf("%d bytes are still borrowed", s.srv.produces.lent)
		}
	})
}

func TestOneConnectionTooManyIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &fakeBroker{}, Config{MaxConnections: 2})
		first, second := s.connect(), s.connect()
		third := s.dial()
		third.expectError(0, status.LimitReached)
		third.expectEnd()
		if err := first.nc.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.connect()
		second.produce(2, "batch")
		second.expect(wire.TypeProduceResponse, 2, nil)
	})
}

// Answers about topics can be large. Only a few exist before there is room.
func TestTopicRequestsOfAClientThatNeverReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		large := strings.Repeat("x", 1<<20)
		b := &fakeBroker{describe: func(context.Context, string) (node.TopicDescription, error) {
			asked.Add(1)
			return node.TopicDescription{TopicInfo: node.TopicInfo{Name: large}}, nil
		}}
		p := serve(t, b, Config{QueuedBytes: 16 << 20}).connect()
		for id := range uint64(200) {
			p.send(wire.TypeDescribeTopicRequest, id+2, &quirev1.DescribeTopicRequest{})
		}
		synctest.Wait()
		if n := asked.Load(); n < 5 || n > 16+topicRequests+1 {
			t.Errorf("the broker was asked %d times", n)
		}
	})
}
