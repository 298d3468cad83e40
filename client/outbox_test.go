package client

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func TestRequestsWaitWhileTooMuchWaitsToBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outbox
		o.init(nil)
		ended := make(chan struct{})
		put := func(size int) error {
			if err := o.hold(t.Context(), ended, size); err != nil {
				return err
			}
			return o.put(wire.TypeProduceRequest, 2, &quirev1.ProduceRequest{}, make([]byte, size), nil, size, false)
		}
		for range 3 {
			if err := put(maxWaiting/2 - 1); err != nil {
				t.Fatal(err)
			}
		}
		waiting := background(func() error { return put(1) })
		synctest.Wait()
		select {
		case <-waiting:
			t.Fatal("it did not wait")
		default:
		}
		want(t, len(o.take().frames), 3)
		want(t, <-waiting == nil, true)

		for range 3 {
			if err := put(maxWaiting/2 - 1); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantCode(t, o.hold(ctx, ended, 1), status.Canceled)
		close(ended)
		want(t, errors.Is(o.hold(t.Context(), ended, 1), ErrClosed), true)
	})
}

// counting is a connection that takes so many bytes and then fails.
type counting struct {
	net.Conn
	left   int
	got    bytes.Buffer
	writes []int
}

func (c *counting) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	c.writes = append(c.writes, n)
	c.got.Write(b[:n])
	if n < len(b) {
		return n, net.ErrClosed
	}
	return n, nil
}

// Frames of every size, of which the connection takes some bytes: exactly the
// whole ones count as sent, and what arrives is a prefix of what was put.
func TestWhatIsWholeOnItsWayCountsAsSent(t *testing.T) {
	sizes := []int{0, 1, copyBelow - 1, copyBelow, 0, copyBelow + 1, maxWrite + 5, 7}
	var whole bytes.Buffer
	var ends []int
	payloads := make([][]byte, len(sizes))
	for i, size := range sizes {
		payloads[i] = bytes.Repeat([]byte{byte(i)}, size)
		bufs, err := wire.Encode(wire.TypeProduceRequest, uint64(i+2), &quirev1.ProduceRequest{Topic: "t"}, payloads[i])
		if err != nil {
			t.Fatal(err)
		}
		whole.Write(slices.Concat(bufs...))
		ends = append(ends, whole.Len())
	}
	cuts := []int{0, 1, whole.Len() - 1, whole.Len()}
	for _, end := range ends {
		cuts = append(cuts, end-1, end, end+1)
	}
	for _, cut := range cuts {
		near, _ := net.Pipe() // for its deadlines
		var o outbox
		o.init(nil)
		requests := make([]*request, len(sizes))
		for i, b := range payloads {
			requests[i] = &request{}
			err := o.put(wire.TypeProduceRequest, uint64(i+2), &quirev1.ProduceRequest{Topic: "t"}, b, requests[i], 0, false)
			if err != nil {
				t.Fatal(err)
			}
		}
		c := &counting{Conn: near, left: cut}
		err := o.flush(c)
		if failed := err != nil; failed != (cut < whole.Len()) {
			t.Fatalf("cut at %d of %d: %v", cut, whole.Len(), err)
		}
		if !bytes.HasPrefix(whole.Bytes(), c.got.Bytes()) {
			t.Fatalf("cut at %d: other bytes were written than those that were put", cut)
		}
		for i, r := range requests {
			if r.sent != (ends[i] <= cut) {
				t.Errorf("cut at %d: frame %d ends at %d and counts as sent: %v", cut, i, ends[i], r.sent)
			}
		}
		if most := slices.Max(c.writes); most > maxWrite {
			t.Errorf("one write of %d bytes", most)
		}
	}
}
