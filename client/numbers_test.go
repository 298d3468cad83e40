package client

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// A batch that comes too early is sent again when those before it are there.
func TestABatchOutOfOrderIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(2))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1", "2")
		b := n.accept()
		first, _ := b.produce()
		second, _ := b.produce()
		b.refuse(first, status.Overloaded, "busy")
		b.refuse(second, status.OutOfOrder, "1 is missing")
		want(t, b.place(), "1 after 0, settled 0")
		first = b.last
		want(t, b.place(), "2 after 1, settled 0")
		b.ack(first)
		b.ack(b.last)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok")
	})
}

// What was given up may still arrive: what comes after it says so until
// everything before is settled.
func TestWhatWasGivenUpCountsUntilTheFloorPassesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(3))
		defer closeNow(t, p)
		var o outcomes
		o.send(t, p, "1", "2")
		b := n.accept()
		first, _ := b.produce()
		second, _ := b.produce()
		b.refuse(second, status.DiskFull, "full")
		synctest.Wait()
		o.send(t, p, "3")
		want(t, b.place(), "3 after 2, settled 0")
		b.refuse(b.last, status.OutOfOrder, "2 is missing")
		b.ack(first)
		want(t, b.place(), "3 after 2, settled 2")
		b.ack(b.last)
		wantCode(t, p.Flush(t.Context()), status.DiskFull)
		want(t, o.String(), "1:ok 2:disk_full 3:ok")
	})
}

// A batch that is refused because its topic was split is cut, and its callbacks
// stay in the order of Send.
func TestABatchThatStraddlesASplitIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", MaxInFlight(2))
		defer closeNow(t, p)
		keys, cut := halves()
		var o outcomes
		send := func(from, to int) {
			p.mu.Lock() // so that they gather
			for i := from; i < to; i++ {
				v := strconv.Itoa(i)
				r := record.Record{Key: keys[i%2], Value: []byte(v), Time: time.Now()}
				if err := p.add(&r, sizeOf(&r), o.of(v)); err != nil {
					t.Error(err)
				}
			}
			p.mu.Unlock()
		}
		send(1, 5)
		b := n.accept()
		want(t, b.place(), "1 2 3 4 after 0, settled 0")
		first := b.last
		send(5, 7)
		want(t, b.place(), "5 6 after 4, settled 0")
		b.send(wire.TypeError, first, &quirev1.Error{Code: "range_moved", Message: "split", Cuts: []uint64{cut}})
		b.refuse(b.last, status.OutOfOrder, "4 is missing")
		want(t, b.place(), "1 3 after 0, settled 0")
		upper := b.last
		want(t, b.place(), "2 4 after 1, settled 1")
		b.ack(b.last) // so that one more goes
		want(t, b.place(), "5 after 3, settled 0")
		fifth := b.last
		b.ack(upper)
		want(t, b.place(), "6 after 5, settled 5")
		b.ack(fifth)
		b.ack(b.last)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok 3:ok 4:ok 5:ok 6:ok")
	})
}

// halves gives a key of each half of the keyspace, the upper one first, and
// where they meet.
func halves() (keys [2][]byte, cut uint64) {
	cut = 1 << 63
	for i := 0; keys[0] == nil || keys[1] == nil; i++ {
		key := []byte(strconv.Itoa(i))
		if uint64(keyspace.PositionOf(key)) >= cut {
			keys[1] = key
		} else {
			keys[0] = key
		}
	}
	return keys, cut
}

// After a merge, what was gathered before is settled before anything that
// speaks for the wider band is sent.
func TestWhatWasGatheredBeforeAMergeIsSettledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		p := n.client().NewProducer("orders", BatchRecords(1), MaxInFlight(5))
		defer closeNow(t, p)
		keys, cut := halves()
		p.mu.Lock()
		p.learn([]uint64{cut})
		p.mu.Unlock()
		var o outcomes
		send := func(i int) {
			r := record.Record{Key: keys[i%2], Value: []byte(strconv.Itoa(i))}
			if err := p.Send(t.Context(), r, o.of(strconv.Itoa(i))); err != nil {
				t.Error(err)
			}
		}
		send(1)
		send(2)
		send(3)
		b := n.accept()
		want(t, b.place(), "1 after 0, settled 0")
		first := b.last
		want(t, b.place(), "2 after 1, settled 1")
		second := b.last
		want(t, b.place(), "3 after 1, settled 0")
		third := b.last
		b.send(wire.TypeProduceResponse, first, &quirev1.ProduceResponse{Cuts: []uint64{0}})
		synctest.Wait()
		send(4)
		synctest.Wait()
		b.ack(second)
		synctest.Wait() // the fourth still waits, or the next would be it
		b.refuse(third, status.Overloaded, "busy")
		want(t, b.place(), "3 after 2, settled 2")
		b.ack(b.last)
		want(t, b.place(), "4 after 3, settled 3")
		b.ack(b.last)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, o.String(), "1:ok 2:ok 3:ok 4:ok")
	})
}
