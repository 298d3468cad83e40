package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// background runs f and gives a channel with its error.
func background(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func TestALongPollBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		poll := background(func() error {
			got, err := c.Fetch(t.Context(), "orders", End(), Wait(time.Minute))
			if err == nil && string(got.Records[0].Value) != "late" {
				t.Errorf("fetched %q", got.Records[0].Value)
			}
			return err
		})
		p := n.accept()
		slow, _ := p.fetch()
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		id, _ := p.produce()
		p.ack(id)
		if err := <-write; err != nil {
			t.Fatal(err)
		}
		p.deliver(slow, 0, "late")
		if err := <-poll; err != nil {
			t.Fatal(err)
		}
	})
}

func TestACanceledLongPollIsCanceledAtTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		ctx, cancel := context.WithCancel(t.Context())
		poll := background(func() error {
			_, err := c.Fetch(ctx, "orders", End(), Wait(time.Minute))
			return err
		})
		p := n.accept()
		id, _ := p.fetch()
		cancel()
		err := <-poll
		wantCode(t, err, status.Canceled)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap context.Canceled", err)
		}
		if f := p.next(wire.TypeCancel); f.ID != id {
			t.Errorf("canceled request %d, want %d", f.ID, id)
		}
		p.refuse(id, status.Canceled, "canceled")
		// The connection serves on.
		again := background(func() error { return c.DeleteTopic(t.Context(), "orders") })
		p.send(wire.TypeDeleteTopicResponse, p.next(wire.TypeDeleteTopicRequest).ID, &quirev1.DeleteTopicResponse{})
		if err := <-again; err != nil {
			t.Fatal(err)
		}
	})
}

func TestADeadlineEndsARequestWithTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		write := background(func() error {
			_, err := c.Produce(ctx, "orders", rec("x"))
			return err
		})
		n.accept().produce()
		err := <-write
		wantCode(t, err, status.Timeout)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not wrap context.DeadlineExceeded", err)
		}
	})
}

func TestAReadIsRepeatedWhenTheConnectionBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		read := background(func() error {
			_, err := c.Fetch(t.Context(), "orders", Start())
			return err
		})
		p := n.accept()
		p.fetch()
		p.hangUp()
		p = n.accept()
		id, _ := p.fetch()
		p.atEnd(id, 0)
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAWriteThatWasSentAndNotAnsweredIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		p := n.accept()
		p.produce()
		p.hangUp()
		wantCode(t, <-write, status.Unknown)
		if len(n.dials) > 0 {
			t.Error("the client connected again for a write that it must not repeat")
		}
	})
}

func TestAWriteThatWasNotSentWholeIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec(strings.Repeat("x", 1000)))
			return err
		})
		p := n.accept()
		// The broker gets some of the frame and breaks.
		if _, err := p.nc.Read(make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
		p.hangUp()
		p = n.accept()
		id, _ := p.produce()
		p.ack(id)
		if err := <-write; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAWriteThatAStoppingBrokerDidNotBeginIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		p := n.accept()
		p.produce()
		p.refuse(0, status.Unavailable, "the broker is shutting down")
		p.hangUp()
		p = n.accept()
		id, _ := p.produce()
		p.ack(id)
		if err := <-write; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAWriteIsRepeatedAsOftenAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client(WithProduceRetries(2))
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		for range 3 {
			p := n.accept()
			p.produce()
			p.hangUp()
		}
		wantCode(t, <-write, status.Unknown)
	})
}

func TestAWriteThatMayHaveBeenMadeStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client(WithProduceRetries(1))
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		p := n.accept()
		p.produce()
		p.hangUp()
		p = n.accept()
		id, _ := p.produce()
		p.refuse(id, status.DiskFull, "the disk is full")
		err := <-write
		wantCode(t, err, status.Unknown)
		if !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%v does not say what happened then", err)
		}
	})
}

func TestAnOverloadedBrokerIsAskedAgainAFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		p := n.accept()
		begin := time.Now()
		for range refusedTries {
			id, _ := p.produce()
			p.refuse(id, status.Overloaded, "busy")
		}
		wantCode(t, <-write, status.Overloaded)
		if took := time.Since(begin); took < 100*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("the tries took %v", took)
		}
	})
}

func TestABrokerThatCannotServeYetIsAskedUntilItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		read := background(func() error {
			_, err := c.Fetch(t.Context(), "orders", Start())
			return err
		})
		p := n.accept()
		begin := time.Now()
		for time.Since(begin) < 10*time.Second {
			id, _ := p.fetch()
			p.refuse(id, status.Unavailable, "starting")
		}
		id, _ := p.fetch()
		p.atEnd(id, 0)
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	})
}

func TestOtherRefusalsAreReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		read := background(func() error {
			_, err := c.Fetch(t.Context(), "orders", Start())
			return err
		})
		p := n.accept()
		id, _ := p.fetch()
		p.refuse(id, status.TopicNotFound, "there is no topic orders")
		err := <-read
		wantCode(t, err, status.TopicNotFound)
		want(t, err.Error(), "there is no topic orders (topic_not_found)")
	})
}

func TestNoMoreRequestsAreInFlightThanTheBrokerAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.hello.MaxInFlight = 2
		c := n.client()
		var polls []<-chan error
		for range 3 {
			polls = append(polls, background(func() error {
				_, err := c.Fetch(t.Context(), "orders", End(), Wait(time.Minute))
				return err
			}))
		}
		p := n.accept()
		first, _ := p.fetch()
		second, _ := p.fetch()
		arrived := make(chan uint64, 1)
		go func() {
			id, _ := p.fetch()
			arrived <- id
		}()
		synctest.Wait()
		select {
		case <-arrived:
			t.Fatal("a third request came")
		default:
		}
		p.atEnd(first, 0)
		p.atEnd(<-arrived, 0)
		p.atEnd(second, 0)
		for _, poll := range polls {
			if err := <-poll; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestARequestThatWaitsForItsTurnCanBeCanceledAndMovesToTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.hello.MaxInFlight = 1
		c := n.client()
		write := func(ctx context.Context) <-chan error {
			return background(func() error {
				_, err := c.Produce(ctx, "orders", rec("x"))
				return err
			})
		}
		first := write(t.Context())
		b := n.accept()
		b.produce()
		ctx, cancel := context.WithCancel(t.Context())
		second, third := write(ctx), write(t.Context())
		synctest.Wait()
		cancel()
		wantCode(t, <-second, status.Canceled)
		b.hangUp()
		wantCode(t, <-first, status.Unknown)
		b = n.accept()
		id, _ := b.produce()
		b.ack(id)
		if err := <-third; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnAnswerOutOfTheBlueEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		p := n.accept()
		id, _ := p.produce()
		p.ack(id + 7)
		err := <-write
		wantCode(t, err, status.Unknown)
		if !strings.Contains(err.Error(), "which was not made") {
			t.Errorf("%v does not say why", err)
		}
	})
}

func TestABrokerThatStopsReadingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		write := background(func() error {
			_, err := c.Produce(t.Context(), "orders", rec("x"))
			return err
		})
		n.accept() // and reads nothing
		begin := time.Now()
		p := n.accept()
		if took := time.Since(begin); took < writeStall || took > writeStall+time.Second {
			t.Errorf("it took %v to give up", took)
		}
		id, _ := p.produce()
		p.ack(id)
		if err := <-write; err != nil {
			t.Fatal(err)
		}
	})
}

func TestWhatIsOverTheLimitsIsRefusedBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newNetwork(t).client() // nobody accepts
		for _, test := range []struct {
			name string
			recs []record.Record
			code status.Code
			says string
		}{
			{"no records", nil, status.InvalidArgument, "no records to write"},
			{
				"key",
				[]record.Record{{Key: make([]byte, record.MaxKey+1)}},
				status.RecordTooLarge, "key of 4097 bytes, at most 4096",
			},
			{
				"value of the second",
				[]record.Record{rec("x"), {Value: make([]byte, record.MaxValueBound+1)}},
				status.RecordTooLarge, "record 2 of 2",
			},
			{
				"headers",
				[]record.Record{{Headers: make([]record.Header, record.MaxHeaders+1)}},
				status.RecordTooLarge, "65 headers, at most 64",
			},
			{"records", make([]record.Record, MaxBatchRecords+1), status.BatchTooLarge, "at most 16384"},
			{
				"bytes",
				[]record.Record{{Value: make([]byte, 5<<20)}, {Value: make([]byte, 5<<20)}},
				status.BatchTooLarge, "the first 1 of 2 records",
			},
		} {
			_, err := c.Produce(t.Context(), "orders", test.recs...)
			if status.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v, want %s with %q", test.name, err, test.code, test.says)
			}
		}
	})
}
