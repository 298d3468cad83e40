package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func TestDialFailsAtOnceWhenNobodyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.refuse = func(string) error { return errors.New("connection refused") }
		begin := time.Now()
		_, err := Dial(t.Context(), "a:1,b:2", WithDialer(n.dial))
		wantCode(t, err, status.Unavailable)
		want(t, err.Error(), "no broker answered at a:1,b:2: connection refused (unavailable)")
		want(t, time.Since(begin), time.Duration(0))
	})
}

func TestDialTriesEachAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		var tried []string
		n.refuse = func(addr string) error {
			tried = append(tried, addr)
			if addr != "c:3" {
				return errors.New("connection refused")
			}
			return nil
		}
		var c *Client
		dialed := background(func() (err error) {
			c, err = Dial(t.Context(), "a:1, b:2 ,c:3", WithDialer(n.dial))
			return err
		})
		b := n.accept()
		if err := <-dialed; err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		want(t, tried, []string{"a:1", "b:2", "c:3"})
		// It comes back to the one that answered, and moves on from there.
		b.hangUp()
		n.refuse = func(addr string) error {
			tried = append(tried, addr)
			if addr != "a:1" {
				return errors.New("connection refused")
			}
			return nil
		}
		done := background(func() error {
			_, err := c.Fetch(t.Context(), "orders", Start())
			return err
		})
		b = n.accept()
		id, _ := b.fetch()
		b.atEnd(id, 0)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want(t, tried[3:], []string{"c:3", "a:1"})
	})
}

func TestDialHasALimitForEachAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t) // connects, and nobody shakes hands
		begin := time.Now()
		_, err := Dial(t.Context(), "", WithDialer(n.dial), WithDialTimeout(3*time.Second))
		wantCode(t, err, status.Unavailable)
		if !strings.Contains(err.Error(), DefaultAddr+" accepted the connection and did not answer within 3s") {
			t.Errorf("it says %v", err)
		}
		want(t, time.Since(begin), 3*time.Second)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = Dial(ctx, "", WithDialer(n.dial))
		wantCode(t, err, status.Timeout)
		want(t, time.Since(begin), 4*time.Second)
	})
}

func TestDialRefusesWhatIsNoBroker(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(b *peer, id uint64)
		code   status.Code
	}{
		{"http", func(b *peer, _ uint64) {
			_, _ = b.nc.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
		}, status.ProtocolViolation},
		{"another version", func(b *peer, id uint64) {
			b.refuse(id, status.VersionMismatch, "the client speaks 1")
		}, status.VersionMismatch},
		{"another version that it chose", func(b *peer, id uint64) {
			b.send(wire.TypeHelloResponse, id, &quirev1.HelloResponse{Version: 9})
		}, status.VersionMismatch},
		{"too many connections", func(b *peer, id uint64) {
			b.refuse(id, status.LimitReached, "10,000 connections")
		}, status.LimitReached},
		{"hangs up", func(b *peer, _ uint64) { b.hangUp() }, status.Unavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				dialed := background(func() error {
					_, err := Dial(t.Context(), "", WithDialer(n.dial), WithName("tester"))
					return err
				})
				b := &peer{t: t, nc: <-n.dials}
				b.r = wire.NewReader(b.nc, wire.MaxFrame)
				if err := b.r.ReadPreface(); err != nil {
					t.Fatal(err)
				}
				f := b.next(wire.TypeHelloRequest)
				var hello quirev1.HelloRequest
				if err := f.Unmarshal(&hello); err != nil {
					t.Fatal(err)
				}
				want(t, hello.Client, "tester")
				test.answer(b, f.ID)
				wantCode(t, <-dialed, test.code)
			})
		})
	}
}

func TestARequestFailsWithAReasonWhenNoBrokerAnswersForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		rounds := 0
		n.refuse = func(string) error {
			rounds++
			return errors.New("connection refused")
		}
		c := n.client()
		begin := time.Now()
		_, err := c.Produce(t.Context(), "orders", rec("x"))
		wantCode(t, err, status.Unavailable)
		if !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("it says %v", err)
		}
		want(t, time.Since(begin), DefaultReconnectTimeout)
		// The pauses grow from 20 ms to 2 s: far fewer than without.
		if rounds < 10 || rounds > 20 {
			t.Errorf("%d rounds in %v", rounds, DefaultReconnectTimeout)
		}
	})
}

func TestWithoutAReconnectTimeoutTheContextDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.refuse = func(string) error { return errors.New("connection refused") }
		c := n.client(WithReconnectTimeout(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		_, err := c.Fetch(ctx, "orders", Start())
		wantCode(t, err, status.Timeout)
		want(t, time.Since(begin), time.Hour)
	})
}

func TestNobodyDialsWhileNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		time.Sleep(time.Hour)
		want(t, len(n.dials), 0)
		done := background(func() error {
			_, err := c.Fetch(t.Context(), "orders", Start())
			return err
		})
		b := n.accept()
		id, _ := b.fetch()
		b.atEnd(id, 0)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.hangUp()
		time.Sleep(time.Hour)
		want(t, len(n.dials), 0)
	})
}

func TestCloseEndsWhatIsUnderWayAndWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		read := background(func() error {
			_, err := c.Fetch(t.Context(), "orders", End(), Wait(time.Minute))
			return err
		})
		b := n.accept()
		for range 2 {
			if _, err := b.r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		err := <-write
		wantCode(t, err, status.Unknown)
		want(t, errors.Is(err, ErrClosed), true)
		err = <-read
		wantCode(t, err, status.Canceled)
		want(t, errors.Is(err, ErrClosed), true)
		_, err = c.Produce(t.Context(), "orders", rec("x"))
		want(t, errors.Is(err, ErrClosed), true)
		b.ended()
	})
}

func TestCloseEndsADialThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c, err := Dial(t.Context(), "", WithDialer(hang), WithLazyDial())
		if err != nil {
			t.Fatal(err)
		}
		read := background(func() error {
			_, err := c.Fetch(t.Context(), "orders", Start())
			return err
		})
		synctest.Wait()
		begin := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, time.Since(begin), time.Duration(0))
		want(t, errors.Is(<-read, ErrClosed), true)
	})
}

func TestDialRefusesOptionsOutOfBounds(t *testing.T) {
	for _, test := range []struct {
		addr string
		opt  Option
	}{
		{" , ", WithLazyDial()},
		{strings.Repeat("a:1,", MaxAddrs+1), WithLazyDial()},
		{"", WithName(strings.Repeat("x", 257))},
		{"", WithDialTimeout(0)},
		{"", WithReconnectTimeout(-1)},
		{"", WithProduceRetries(-1)},
	} {
		_, err := Dial(t.Context(), test.addr, test.opt)
		wantCode(t, err, status.InvalidArgument)
	}
}
