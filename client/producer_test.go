package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// outcomes collects what callbacks say, in their order.
type outcomes struct {
	mu  sync.Mutex
	all []string
}

func (o *outcomes) of(value string) func(error) {
	return func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		said := "ok"
		if err != nil {
			said = string(status.CodeOf(err))
		}
		o.all = append(o.all, value+":"+said)
	}
}

func (o *outcomes) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.all, " ")
}

// send sends records with the given values.
func (o *outcomes) send(t *testing.T, p *Producer, vals ...string) {
	t.Helper()
	for _, v := range vals {
		if err := p.Send(t.Context(), rec(v), o.of(v)); err != nil {
			t.Fatalf("send %s: %v", v, err)
		}
	}
}

func TestRecordsGatherWhileTwoRequestsAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		var o outcomes
		p := n.client().NewProducer("orders")
		defer closeNow(t, p)
		o.send(t, p, "1")
		b := n.accept()
		first, vals := b.produce()
		want(t, vals, []string{"1"})
		o.send(t, p, "2")
		second, vals := b.produce()
		want(t, vals, []string{"2"})
		for _, v := range numbered(3, 50) {
			o.send(t, p, v)
			synctest.Wait() // so that a producer that sends at once does so
		}
		b.ack(first)
		third, vals := b.produce()
		want(t, vals, numbered(3, 50))
		b.ack(second)
		b.ack(third)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, strings.Count(o.String(), ":ok"), 52)
	})
}

func TestALingerWaitsForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", Linger(50*time.Millisecond))
		defer closeNow(t, p)
		var o outcomes
		begin := time.Now()
		o.send(t, p, "1")
		time.Sleep(20 * time.Millisecond)
		o.send(t, p, "2")
		b := n.accept()
		id, vals := b.produce()
		want(t, vals, []string{"1", "2"})
		want(t, time.Since(begin), 50*time.Millisecond)
		b.ack(id)
	})
}

func TestALingerEndsWhenTheBatchIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", Linger(time.Minute), BatchRecords(3))
		defer closeNow(t, p)
		var o outcomes
		begin := time.Now()
		o.send(t, p, "1", "2", "3", "4")
		b := n.accept()
		id, vals := b.produce()
		want(t, vals, []string{"1", "2", "3"})
		want(t, time.Since(begin), time.Duration(0))
		b.ack(id)
	})
}

func TestAFlushEndsALinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", Linger(time.Minute))
		defer closeNow(t, p)
		var o outcomes
		begin := time.Now()
		o.send(t, p, "1", "2")
		flushed := background(func() error { return p.Flush(t.Context()) })
		b := n.accept()
		id, vals := b.produce()
		want(t, vals, []string{"1", "2"})
		synctest.Wait()
		want(t, o.String(), "")
		b.ack(id)
		if err := <-flushed; err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok")
		want(t, time.Since(begin), time.Duration(0))
	})
}

func TestAFullBatchIsSentWhileOthersAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchBytes(1000), MaxInFlight(3))
		defer closeNow(t, p)
		var o outcomes
		long := strings.Repeat("x", 400)
		o.send(t, p, "a"+long, "b"+long, "c"+long, "d"+long, "e"+long, "f"+long, "g"+long)
		b := n.accept()
		var ids []uint64
		for _, first := range []string{"a", "c", "e"} {
			id, vals := b.produce()
			want(t, len(vals), 2)
			want(t, vals[0][:1], first)
			ids = append(ids, id)
		}
		b.ack(ids[0])
		b.ack(ids[1])
		_, vals := b.produce()
		want(t, vals, []string{"g" + long})
	})
}

func TestCallbacksComeInTheOrderOfSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(2))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1", "2", "3", "4", "5", "6")
		b := n.accept()
		first, _ := b.produce()
		second, _ := b.produce()
		third, _ := b.produce()
		b.ack(third)
		b.refuse(second, status.BatchCorrupt, "bad")
		synctest.Wait()
		want(t, o.String(), "")
		b.ack(first)
		synctest.Wait()
		want(t, o.String(), "1:ok 2:ok 3:batch_corrupt 4:batch_corrupt 5:ok 6:ok")
		want(t, p.Flush(t.Context()).Error(), "2 records were not acknowledged; the first: bad (batch_corrupt)")
	})
}

func TestFlushTellsWhatFailedSinceTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders")
		defer closeNow(t, p)
		for _, v := range []string{"1", "2"} {
			if err := p.Send(t.Context(), rec(v), nil); err != nil {
				t.Fatal(err)
			}
		}
		b := n.accept()
		id, vals := b.produce()
		want(t, len(vals), 2)
		b.refuse(id, status.TopicNotFound, "there is no topic orders")
		err := p.Flush(t.Context())
		wantCode(t, err, status.TopicNotFound)
		var lost *ProduceError
		if !errors.As(err, &lost) || lost.Failed != 2 {
			t.Fatalf("%v does not say that 2 records failed", err)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatalf("a failure was reported again: %v", err)
		}
	})
}

func TestSendWaitsWhileTheBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", MaxBuffered(1000))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, strings.Repeat("a", 600))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Send(ctx, rec(strings.Repeat("b", 600)), func(error) { t.Error("called for a record that was not taken") })
		wantCode(t, err, status.Timeout)

		begin := time.Now()
		sent := background(func() error {
			return p.Send(t.Context(), rec(strings.Repeat("c", 600)), nil)
		})
		b := n.accept()
		id, _ := b.produce()
		time.Sleep(time.Second)
		b.ack(id)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		want(t, time.Since(begin), time.Second)
	})
}

func TestARecordThatIsLargerThanTheBufferIsTakenAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", MaxBuffered(100), BatchBytes(100))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, strings.Repeat("a", 600))
		b := n.accept()
		id, _ := b.produce()
		b.ack(id)
	})
}

func TestSendRefusesARecordOverItsLimitsAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", Linger(time.Second))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1")
		long := record.Record{Key: make([]byte, record.MaxKey+1)}
		err := p.Send(t.Context(), long, func(error) { t.Error("called for a record that was not taken") })
		wantCode(t, err, status.RecordTooLarge)
		o.send(t, p, "2")
		b := n.accept()
		id, vals := b.produce()
		want(t, vals, []string{"1", "2"})
		b.ack(id)
	})
}

// What was sent goes again with its sequences, in order, and says what came
// before it.
func TestABrokenConnectionSendsEverythingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(2))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1", "2", "3", "4")
		b := n.accept()
		want(t, b.place(), "1 after 0, settled 0")
		want(t, b.place(), "2 after 1, settled 0")
		b.hangUp()
		b = n.accept()
		want(t, b.place(), "1 after 0, settled 0")
		first := b.last
		want(t, b.place(), "2 after 1, settled 0")
		b.ack(first)
		second := b.last
		want(t, b.place(), "3 after 2, settled 1")
		b.ack(second)
		third := b.last
		want(t, b.place(), "4 after 3, settled 2")
		b.ack(third)
		b.ack(b.last)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok 3:ok 4:ok")
	})
}

func TestWhatWasNotSentWholeKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(3))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1")
		b := n.accept()
		b.produce()
		o.send(t, p, "2", "3", "4")
		synctest.Wait() // two more wait for the broker to read
		b.hangUp()
		b = n.accept()
		for _, v := range []string{"1", "2", "3", "4"} {
			id, vals := b.produce()
			want(t, vals, []string{v})
			b.ack(id)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok 3:ok 4:ok")
	})
}

func TestWhatIsLeftIsSentInOrderAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(3))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1", "2", "3", "4")
		b := n.accept()
		first, _ := b.produce()
		b.produce()
		b.produce()
		b.ack(first)
		_, vals := b.produce()
		want(t, vals, []string{"4"})
		b.hangUp()
		b = n.accept()
		for _, v := range []string{"2", "3", "4"} {
			id, vals := b.produce()
			want(t, vals, []string{v})
			b.ack(id)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok 3:ok 4:ok")
	})
}

func TestRefusedBatchesAreSentAgainInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(3))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1", "2", "3", "4")
		b := n.accept()
		first, _ := b.produce()
		second, _ := b.produce()
		third, _ := b.produce()
		b.refuse(second, status.Overloaded, "busy")
		b.ack(first)
		synctest.Wait()
		want(t, o.String(), "1:ok") // and the second waits for what becomes of the third
		b.refuse(third, status.Overloaded, "busy")
		for _, v := range []string{"2", "3", "4"} {
			id, vals := b.produce()
			want(t, vals, []string{v})
			b.ack(id)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok 3:ok 4:ok")
	})
}

func TestABrokerThatStaysOverloadedMakesRecordsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client(WithReconnectTimeout(3*time.Second)).NewProducer("orders", MaxInFlight(1))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1", "2")
		flushed := background(func() error { return p.Flush(t.Context()) })
		b := n.accept()
		tries := 0
		go func() {
			for {
				f, err := b.r.Next()
				if err != nil {
					return
				}
				tries++
				b.refuse(f.ID, status.Overloaded, "busy")
			}
		}()
		wantCode(t, <-flushed, status.Overloaded)
		want(t, o.String(), "1:overloaded 2:overloaded")
		synctest.Wait()
		if tries < 5 || tries > 15 {
			t.Errorf("%d tries in 3 s", tries)
		}
	})
}

func TestCallbacksStayInOrderWhenALaterBatchWasAnsweredFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(2))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1", "2")
		b := n.accept()
		b.produce()
		second, _ := b.produce()
		b.ack(second)
		synctest.Wait()
		b.hangUp()
		b = n.accept()
		id, vals := b.produce()
		want(t, vals, []string{"1"})
		want(t, o.String(), "")
		b.ack(id)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok")
	})
}

func TestWhatMayHaveBeenWrittenStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders")
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1")
		b := n.accept()
		b.produce()
		b.hangUp()
		b = n.accept()
		id, _ := b.produce()
		b.refuse(id, status.DiskFull, "full")
		wantCode(t, p.Flush(t.Context()), status.Unknown)
		want(t, o.String(), "1:unknown_outcome")
	})
}

func TestWhatIsNotKnownIsNotSentForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders")
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1")
		for range 3 {
			b := n.accept()
			b.produce()
			time.Sleep(retryTime / 2)
			b.hangUp()
		}
		wantCode(t, p.Flush(t.Context()), status.Unknown)
	})
}

func TestRecordsFailWhenNoBrokerAnswersForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.refuse = func(string) error { return errors.New("connection refused") }
		c := n.client(WithReconnectTimeout(3 * time.Second))
		p := c.NewProducer("orders", BatchRecords(2))
		defer closeNow(t, p)
		var o outcomes
		begin := time.Now()
		o.send(t, p, "1", "2", "3")
		err := p.Flush(t.Context())
		wantCode(t, err, status.Unavailable)
		want(t, time.Since(begin), 3*time.Second)
		want(t, o.String(), "1:unavailable 2:unavailable 3:unavailable")
		// What comes later has its own time.
		o.send(t, p, "4")
		wantCode(t, p.Flush(t.Context()), status.Unavailable)
		want(t, time.Since(begin), 6*time.Second)
	})
}

func TestAFlushThatRunsOutOfTimeLeavesTheRecordsOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders")
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1")
		b := n.accept()
		id, _ := b.produce()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, p.Flush(ctx), status.Timeout)
		b.ack(id)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok")
	})
}

func TestCloseWritesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", Linger(time.Minute))
		var o outcomes
		o.send(t, p, "1", "2")
		closed := background(func() error { return p.Close(t.Context()) })
		b := n.accept()
		id, vals := b.produce()
		want(t, vals, []string{"1", "2"})
		b.ack(id)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok")
		err := p.Send(t.Context(), rec("3"), nil)
		if !errors.Is(err, ErrClosed) {
			t.Fatalf("send after close: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatalf("close again: %v", err)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatalf("flush after close: %v", err)
		}
	})
}

func TestCloseThatRunsOutOfTimeGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(1))
		var o outcomes
		o.send(t, p, "1", "2")
		b := n.accept()
		b.produce()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v does not wrap context.DeadlineExceeded", err)
		}
		var lost *ProduceError
		if !errors.As(err, &lost) || lost.Failed != 2 {
			t.Errorf("close: %v does not say that 2 records failed", err)
		}
		want(t, o.String(), "1:unknown_outcome 2:canceled")
	})
}

func TestClosingTheClientGivesUpItsProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		p := c.NewProducer("orders", BatchRecords(1), MaxInFlight(1), MaxBuffered(1))
		var o outcomes
		o.send(t, p, "1")
		n.accept().produce()
		blocked := background(func() error { return p.Send(t.Context(), rec("2"), o.of("2")) })
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:unknown_outcome")
		if err := <-blocked; !errors.Is(err, ErrClosed) {
			t.Errorf("the blocked send: %v", err)
		}
		wantCode(t, p.Flush(t.Context()), status.Unknown)
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := c.NewProducer("orders").Send(t.Context(), rec("3"), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("a producer of a closed client: %v", err)
		}
	})
}

func TestManyGoroutinesMaySend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(7), MaxBuffered(2000))
		const senders, each = 8, 100
		var wg sync.WaitGroup
		var o outcomes
		for i := range senders {
			wg.Go(func() {
				for j := range each {
					v := fmt.Sprint(i, "-", j)
					if err := p.Send(t.Context(), rec(v), o.of(v)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		b := n.accept()
		next := make([]int, senders)
		for got := 0; got < senders*each; {
			id, vals := b.produce()
			for _, v := range vals {
				var i, j int
				if _, err := fmt.Sscanf(v, "%d-%d", &i, &j); err != nil {
					t.Fatal(err)
				}
				if j != next[i] {
					t.Fatalf("sender %d: record %d came when %d was due", i, j, next[i])
				}
				next[i]++
				got++
			}
			b.ack(id)
		}
		wg.Wait()
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, strings.Count(o.String(), ":ok"), senders*each)
	})
}

func TestAnOptionOutOfBoundsIsReportedBySend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newNetwork(t).client()
		p := c.NewProducer("orders", MaxInFlight(0))
		err := p.Send(t.Context(), rec("x"), nil)
		wantCode(t, err, status.InvalidArgument)
		want(t, err.Error(), "producer option MaxInFlight is 0, allowed are 1 to 256 (invalid_argument)")
		wantCode(t, p.Flush(t.Context()), status.InvalidArgument)
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// It runs in no bubble: the coders of zstd outlive it.
func TestCompressedBatchesArrive(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionS2, CompressionZstd} {
		t.Run(comp.String(), func(t *testing.T) {
			n := newNetwork(t)
			p := n.client().NewProducer("orders", WithCompression(comp))
			long := strings.Repeat("abc", 1000)
			if err := p.Send(t.Context(), rec(long), nil); err != nil {
				t.Fatal(err)
			}
			b := n.accept()
			f := b.next(wire.TypeProduceRequest)
			want(t, values(t, f.Payload), []string{long})
			if small := len(f.Payload) < len(long); small != (comp != CompressionNone) {
				t.Errorf("%d bytes for %d", len(f.Payload), len(long))
			}
			b.ack(f.ID)
			closed := background(func() error { return p.Close(t.Context()) })
			bye := b.next(wire.TypeCloseProducerRequest)
			b.send(wire.TypeCloseProducerResponse, bye.ID, &quirev1.CloseProducerResponse{})
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// closeNow gives up what is left.
func closeNow(t *testing.T, p *Producer) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := p.Close(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
}
