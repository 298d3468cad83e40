package control

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// rounds counts the commit rounds of a store that wrote something for somebody.
type rounds struct{ n int }

func (r *rounds) Round(s segment.RoundStats) {
	if s.Appends > 0 {
		r.n++
	}
}
func (*rounds) Synced(segment.SyncKind, time.Duration) {}
func (*rounds) Limit(string)                           {}

// A command of a store that is alone is durable with one round of the disk, and
// between commands nothing happens: no ticks, no writes.
func TestACommandCostsOneRoundAndRestNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &rounds{}
		store, err := segment.Open(vfs.NewMem(), "d", segment.Config{Observer: seen, MinFreeBytes: -1, BallastReserve: -1})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(store, alone(store))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := seen.n
		for i := range 100 {
			if _, err := c.Propose(command(store, fmt.Sprint("t", i))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := seen.n - before; n != 100 {
			t.Errorf("100 commands took %d rounds", n)
		}
		ticking := make(chan bool, 1)
		c.driver.inbox.post(func() { ticking <- c.driver.ticking })
		if <-ticking {
			t.Error("a store that is alone and leads has ticks")
		}
		before = seen.n
		time.Sleep(time.Hour)
		if seen.n != before {
			t.Errorf("an hour of rest took %d rounds", seen.n-before)
		}
		c.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// What is remembered of tokens has a bound, and the oldest goes first.
func TestTokensAreForgottenInTheirOrder(t *testing.T) {
	tk := newTokens()
	for i := range uint64(maxTokens + 10) {
		tk.add(number(i))
	}
	if len(tk.seen) != maxTokens || tk.seen[number(9)] || !tk.seen[number(10)] {
		t.Errorf("%d are remembered, the first of them: %v, %v", len(tk.seen), tk.seen[number(9)], tk.seen[number(10)])
	}
	var b []byte
	for p := range payload(&tk, &words{}) {
		b = append(b, p...)
	}
	back, err := openPayload(b, &words{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*tokens{&tk, &back} {
		k.add(number(1 << 40))
		if k.seen[number(10)] || !k.seen[number(11)] {
			t.Error("another one than the oldest was forgotten")
		}
	}
}

func number(n uint64) (k [16]byte) {
	for i := range 8 {
		k[i] = byte(n >> (8 * i))
	}
	return k
}

// What is no frame, or is not from whom it comes or not for this store, is refused.
func TestFramesOfOthersAreRefused(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	c, err := Open(store, alone(store))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, self := ident.StoreID{1}, store.Identity()
	for name, frame := range map[string][]byte{
		"garbage":                  {consensus.FrameVersion, 2, 3},
		"to another store":         consensus.EncodeMessage(consensus.Message{From: peer, To: peer}),
		"in the name of another":   consensus.EncodeMessage(consensus.Message{From: ident.StoreID{2}, To: self}),
		"in the name of this very": consensus.EncodeMessage(consensus.Message{From: self, To: self}),
	} {
		if err := c.Driver().Receive(peer, frame); status.CodeOf(err) != status.ProtocolViolation {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Driver().Receive(peer, consensus.EncodeMessage(consensus.Message{From: peer, To: self})); err != nil {
		t.Error(err)
	}
}
