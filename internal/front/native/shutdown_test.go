package native

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func TestShutdownLetsRequestsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done func(node.ProduceResult, error)
		b, sub := subscribed()
		b.produce = func(_ node.ProduceRequest, d func(node.ProduceResult, error)) { done = d }
		s := serve(t, b, Config{})
		p, idle := s.connect(), s.connect()
		p.produce(2, "batch")
		p.poll(3)
		p.send(wire.TypeSubscribeRequest, 4, &quirev1.SubscribeRequest{})
		synctest.Wait()

		down := make(chan error, 1)
		go func() { down <- s.srv.Shutdown(t.Context()) }()
		// What waits for something to happen ends at once …
		ended := map[uint64]bool{}
		for range 2 {
			f, m := p.next()
			if e, ok := m.(*quirev1.Error); !ok || e.Code != string(status.Unavailable) {
				t.Fatalf("read %v %v", f.Type, m)
			}
			ended[f.ID] = true
		}
		if !ended[3] || !ended[4] {
			t.Errorf("ended %v, want the poll and the subscription", ended)
		}
		<-sub.closed
		idle.expectError(0, status.Unavailable)
		idle.expectEnd()
		// … and what is being done is done, after which the client is told
		// that there is no more.
		synctest.Wait()
		select {
		case err := <-down:
			t.Fatalf("Shutdown did not wait: %v", err)
		default:
		}
		done(node.ProduceResult{AppendTime: 42}, nil)
		p.expect(wire.TypeProduceResponse, 2, &quirev1.ProduceResponse{AppendTimeUs: 42})
		p.expectError(0, status.Unavailable)
		p.expectEnd()
		if err := <-down; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if _, err := s.ln.Accept(); err == nil {
			t.Error("the listener is open")
		}
	})
}

func TestShutdownCutsWhatDoesNotFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late func(node.ProduceResult, error)
		b := &fakeBroker{produce: func(_ node.ProduceRequest, d func(node.ProduceResult, error)) { late = d }}
		s := serve(t, b, Config{})
		p := s.connect()
		p.produce(2, "batch")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
		p.expectEnd()
		// The broker's answer may still come and goes nowhere.
		late(node.ProduceResult{}, nil)
		if s.srv.produces.lent != 0 {
			t.Errorf("%d bytes are still borrowed", s.srv.produces.lent)
		}
	})
}

// A connection that is stopped while it sets the clock for a frame stays so.
func TestStoppedConnectionReadsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := New(&fakeBroker{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		client, server := net.Pipe()
		c := newConn(srv, server)
		c.stop(errShutdown)
		c.expect(time.Hour)
		began := time.Now()
		_, err = server.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 0 {
			t.Errorf("read for %v: %v", time.Since(began), err)
		}
		_ = client.Close()
	})
}

func TestServeAfterShutdownEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, &fakeBroker{}, Config{})
		if err := s.srv.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		ln := newMemoryListener()
		if err := s.srv.Serve(ln); err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-ln.closed
	})
}

// A client that ends its sending side gets the answers to what it asked.
func TestAnswersComeAfterTheClientHasEndedItsSide(t *testing.T) {
	_, addr := serveTCP(t, &fakeBroker{}, Config{})
	p := dialTCP(t, addr)
	p.hello()
	p.produce(2, "batch")
	if err := p.nc.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	p.expect(wire.TypeProduceResponse, 2, nil)
	p.expectEnd()
}
