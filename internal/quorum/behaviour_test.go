package quorum

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

func TestADeadStoreNeitherFailsNorDelaysAnAppend(t *testing.T) {
	tr := newTrio(t, func(c *Config) { c.MaxInflightBytes, c.MaxRetainedBytes, c.MaxMessageBytes = 1000, 500, 400 })
	tr.serve()
	tr.cut[2] = true
	for token := range uint64(50) {
		tr.must(tr.append(token))
	}
	if got := tr.fates(Committed); len(got) != 50 || !slices.IsSorted(got) {
		t.Fatalf("committed without the third store: %v", got)
	}
	if n := tr.ranges[0].out.entries.len(); n > 10 {
		t.Errorf("%d batches are kept in memory for a store that is dead", n)
	}
	tr.pass(4 * time.Second)
	sent := tr.sent
	tr.pass(4 * time.Second)
	if n := tr.sent - sent; n > 6 {
		t.Errorf("%d messages in 4 s to a store that has long been silent", n)
	}
	tr.cut[2] = false
	tr.pass(8 * time.Second)
	if c := tr.ranges[2].copies[1]; c == nil || c.durable.End != 50 || c.durable.Chain != tr.ranges[0].out.tail.Chain {
		t.Errorf("the third store was not brought up to 50: %+v", c)
	}
	for i, r := range tr.ranges {
		if !r.Resting() {
			t.Errorf("store %d is not resting", i)
		}
	}
}

func TestAMajorityOnDiskIsNeededAndTwoOfThreeSuffice(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.slow[0], tr.slow[1] = true, true
	tr.must(tr.append(1))
	if got := tr.fates(Committed); len(got) != 0 {
		t.Fatal("committed on one disk of three")
	}
	tr.catchUp(1, Durable)
	if got := tr.fates(Committed); len(got) != 1 {
		t.Fatal("not committed on two disks of three; the primary's own need not be one of them")
	}
}

func TestBackPressureIsByBytes(t *testing.T) {
	tr := newTrio(t, func(c *Config) { c.MaxUncommittedBytes = 1000 })
	tr.serve()
	tr.cut[1], tr.cut[2] = true, true
	n := uint64(0)
	for ; n < 100; n++ {
		if err := tr.append(n); err != nil {
			if !errors.Is(err, ErrOverloaded) {
				t.Fatal(err)
			}
			break
		}
	}
	if n == 0 || n == 100 {
		t.Fatalf("%d batches were taken without a quorum", n)
	}
	tr.cut[1] = false
	tr.pass(time.Second)
	if err := tr.append(n); err != nil {
		t.Errorf("after the quorum is back: %v", err)
	}
}

func TestARollReturnsWhatIsNotCommittedInItsOrder(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.append(1))
	tr.cut[1], tr.cut[2] = true, true
	for token := range uint64(3) {
		tr.must(tr.append(10 + token))
	}
	tr.must(tr.ranges[0].Roll(tr.now))
	tr.settle()
	p := tr.last[0].Proposal
	if p.Kind != ProposeRoll || p.Seal.End != 1 {
		t.Fatalf("proposed %+v, not the end 1", p)
	}
	if err := tr.append(20); !errors.Is(err, ErrFrozen) {
		t.Errorf("an append while it is frozen: %v", err)
	}
	tr.cut = [3]bool{}
	tr.pass(time.Second)
	if got := tr.fates(Committed); len(got) != 1 {
		t.Fatalf("committed while it is frozen: %v", got)
	}
	p = tr.last[0].Proposal
	tr.ranges[0].Outcome(tr.now, Outcome{tr.ranges[0].proposal.Serial, Yes, tr.applied(tr.ranges[0].proposal.Proposal, tr.owner(0))})
	tr.settle()
	if got := tr.fates(Returned); !slices.Equal(got, []uint64{10, 11, 12}) {
		t.Errorf("returned %v", got)
	}
	tr.must(tr.append(10))
	tr.pass(time.Second)
	for i, r := range tr.ranges {
		if !r.isClosed(1) {
			t.Errorf("store %d has not sealed the first segment at its end", i)
		}
		if end, _ := r.Readable(2); end != 2 {
			t.Errorf("store %d shows the second segment up to %d", i, end)
		}
	}
	_ = p
}

func TestAnUnknownOutcomeStaysFrozenUntilItIsLookedUp(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.append(1))
	r := tr.ranges[0]
	tr.must(r.Roll(tr.now))
	tr.settle()
	first := r.proposal.Proposal
	r.Outcome(tr.now, Outcome{Serial: first.Serial})
	tr.settle()
	if !tr.last[0].Look || r.State() != Frozen {
		t.Fatalf("after an unknown outcome: look %v, %v", tr.last[0].Look, r.State())
	}
	if r.Leased(tr.now) {
		t.Error("leased while it is frozen")
	}
	tr.pass(time.Second)
	r.Looked(tr.now, tr.view) // it was not applied yet, and still may be
	tr.settle()
	if r.State() != Frozen || r.proposal.Proposal.Seal != first.Seal || r.proposal.Version != first.Version {
		t.Fatalf("after a look that found nothing: %v, %+v", r.State(), r.proposal.Proposal)
	}
	r.Looked(tr.now, tr.applied(first, tr.owner(0)))
	tr.settle()
	if r.State() != Serving || r.out.seg.ID != 2 {
		t.Fatalf("after it was found applied: %v", r.State())
	}
}

func TestAnEndThatIsCancelledGoesOnBehindARoll(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.append(1))
	r := tr.ranges[0]
	tr.must(r.End(tr.now))
	tr.settle()
	end := tr.last[0].Proposal
	if end.Kind != ProposeEnd || end.Seal.End != 1 {
		t.Fatalf("proposed %+v", end)
	}
	r.Cancel(tr.now)
	tr.settle()
	p := r.proposal.Proposal
	if r.State() != Frozen || p.Kind != ProposeRoll || p.Version != end.Version {
		t.Fatalf("after the cancel: %v, %+v", r.State(), p)
	}
	// The end comes late and first.
	r.Looked(tr.now, tr.applied(end, tr.owner(0)))
	tr.settle()
	if r.State() != Ended {
		t.Errorf("the range ended and is %v", r.State())
	}
	if err := tr.append(2); !errors.Is(err, ErrNotPrimary) {
		t.Errorf("an append to a range that ended: %v", err)
	}
	tr.pass(time.Second)
	if !tr.ranges[1].isClosed(1) || !tr.ranges[2].isClosed(1) {
		t.Error("the other stores were not told of the end")
	}
}

func TestAnEmptySegmentIsReplacedUnderANewEpoch(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.ranges[0].Roll(tr.now))
	tr.settle()
	if p := tr.last[0].Proposal; p.Kind != ProposeTake || p.Seal != catalog.EmptySeal(*tr.view.Range.Open) {
		t.Errorf("proposed %+v", p)
	}
}

func TestAClaimTakesTheLongestTailAndTellsWhatBecameOfTheRest(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.append(1))
	tr.cut[2] = true
	tr.must(tr.append(2))
	tr.cut[1] = true
	tr.must(tr.append(3)) // is on one disk
	tr.cut = [3]bool{true, false, false}
	tr.must(tr.ranges[2].Claim(tr.now, tr.view))
	tr.pass(3 * time.Second) // a lease of the holder may have been granted before
	p := tr.ranges[2].proposal.Proposal
	if tr.ranges[2].State() != Frozen || p.Seal.End != 2 {
		t.Fatalf("%v, %+v", tr.ranges[2].State(), p)
	}
	if c := tr.ranges[2].copies[1]; c.durable.End != 2 {
		t.Fatalf("proposed to seal what the claimant's store has up to %d", c.durable.End)
	}
	v := tr.applied(p, tr.owner(2))
	tr.ranges[2].Outcome(tr.now, Outcome{p.Serial, Yes, v})
	tr.cut = [3]bool{}
	tr.pass(3 * time.Second)
	tr.ranges[0].Looked(tr.now, v)
	tr.pass(time.Second)
	if tr.ranges[0].State() != Idle {
		t.Errorf("the one before is %v", tr.ranges[0].State())
	}
	if c, d := tr.fates(Committed), tr.fates(Dropped); !slices.Equal(c, []uint64{1, 2}) || !slices.Equal(d, []uint64{3}) {
		t.Errorf("committed %v, dropped %v", c, d)
	}
	if !tr.ranges[0].isClosed(1) {
		t.Error("what lay past the end was not cut and sealed")
	}
}

func TestAStoreRefusesWhatDoesNotFit(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	for token := range uint64(3) {
		tr.must(tr.append(token))
	}
	r := tr.ranges[1]
	seg := tr.ranges[0].out.seg
	next := oneRecord(t, 10)
	tail := tr.ranges[0].out.tail
	stamp := batch.Stamp{Epoch: 1, Base: tail.End, UserBefore: tail.Users, Chain: tail.Chain, AppendTime: tail.LastTime}
	good := Message{
		Kind: Append, From: ident.StoreID{1}, To: ident.StoreID{2}, Range: 7, Epoch: 1, Owner: tr.owner(0), Segment: seg,
		At: tail.End, Chain: tail.Chain, Batches: [][]byte{next},
	}
	for _, c := range []struct {
		name   string
		change func(*Message, *batch.Stamp)
		want   Refusal
	}{
		{"a gap", func(m *Message, s *batch.Stamp) { m.At++; s.Base++ }, Gap},
		{"another chain before it", func(m *Message, _ *batch.Stamp) { m.Chain++ }, Diverged},
		{"another chain in it", func(_ *Message, s *batch.Stamp) { s.Chain++ }, Diverged},
		{"another batch where one is", func(m *Message, s *batch.Stamp) { m.At = tail.End - 1; s.Base--; m.Chain = 0 }, Diverged},
		{"another process", func(m *Message, _ *batch.Stamp) { m.Owner.Process[5]++ }, Diverged},
		{"another epoch in it", func(_ *Message, s *batch.Stamp) { s.Epoch++ }, Diverged},
		{"what continues", func(*Message, *batch.Stamp) {}, OK},
		{"that once more", func(*Message, *batch.Stamp) {}, OK},
	} {
		m, s := good, stamp
		c.change(&m, &s)
		b := slices.Clone(next)
		s.Apply(b)
		m.Batches = [][]byte{b}
		r.Step(tr.now, &m)
		ready := r.Ready()
		for _, w := range ready.Writes {
			r.Stored(tr.now, w.Serial, Durable)
		}
		answers := append(slices.Clone(ready.Messages), r.Ready().Messages...)
		if len(answers) == 0 || answers[len(answers)-1].Refusal != c.want {
			t.Errorf("%s: %v, want %v", c.name, answers, c.want)
		}
	}
	fence := Message{
		Kind: Fence, From: ident.StoreID{3}, To: ident.StoreID{2}, Range: 7, Epoch: 2, Owner: tr.owner(2), Segment: seg, Holder: tr.owner(0),
	}
	r.Step(tr.now, &fence)
	r.Ready()
	r.Step(tr.now, &good)
	if a := r.Ready().Messages; len(a) != 1 || a[0].Refusal != Below || a[0].Promise != 2 {
		t.Errorf("below the promise: %v", a)
	}
}

func TestAPrimaryWithoutRoomOnItsOwnDiskStops(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.slow[0] = true
	tr.must(tr.append(1))
	tr.catchUp(0, NoRoom)
	if r := tr.ranges[0]; r.State() != Idle || tr.last[0].Why != NoSpace {
		t.Errorf("%v, why %v", r.State(), tr.last[0].Why)
	}
}

func TestAFailedDiskIsTheEnd(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.slow[0], tr.slow[1], tr.slow[2] = true, true, true
	tr.must(tr.append(1))
	tr.catchUp(0, Failed)
	if r := tr.ranges[0]; r.State() != Stopped {
		t.Errorf("%v", r.State())
	}
	if got := tr.fates(Lost); len(got) != 1 {
		t.Errorf("the append is not said to be unknown: %v", tr.results)
	}
	if err := tr.append(2); !errors.Is(err, ErrFailed) {
		t.Errorf("an append afterwards: %v", err)
	}
}

func TestAGrantIsOneProcesss(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.append(1))
	c := tr.ranges[0].copies[1]
	self := tr.owner(0)
	self.Process[9]++ // the same store after a restart
	again, err := New(tr.now, Config{Range: 7, Self: self}, Disk{Promise: 1, Copies: []Copy{{Segment: c.seg, Tail: c.durable}}})
	tr.must(err)
	tr.must(again.Claim(tr.now, tr.view))
	if again.State() != Fencing {
		t.Errorf("a restarted process that claims its range is %v", again.State())
	}
}

func TestAQuorumReadNeedsAQuorum(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.append(1))
	tr.must(tr.ranges[0].ReadQuorum(tr.now, 5))
	tr.settle()
	if len(tr.reads) != 1 || tr.reads[0] != (Read{5, true, 1}) {
		t.Fatalf("%v", tr.reads)
	}
	tr.cut[1], tr.cut[2] = true, true
	tr.must(tr.ranges[0].ReadQuorum(tr.now, 6))
	tr.pass(5 * time.Second)
	if len(tr.reads) != 2 || tr.reads[1].OK {
		t.Fatalf("alone: %v", tr.reads)
	}
}

func TestAPrimaryThatIsCutOffSaysSo(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.cut[1], tr.cut[2] = true, true
	tr.must(tr.append(1))
	said := false
	for range 600 {
		tr.pass(10 * time.Millisecond)
		said = said || tr.last[0].CutOff
	}
	if !said {
		t.Error("six seconds without a quorum, and nothing was said")
	}
}

func TestARestartedStoreIsToldTheCommitOffsetOfAnIdleRange(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.append(1))
	tr.pass(time.Second)
	if !tr.ranges[0].Resting() {
		t.Fatal("the primary is not resting")
	}
	c := tr.ranges[1].copies[1]
	self := tr.owner(1)
	self.Process[9]++
	var err error
	tr.ranges[1], err = New(tr.now, Config{Range: 7, Self: self}, Disk{Promise: 1, Copies: []Copy{{Segment: c.seg, Tail: c.durable}}})
	tr.must(err)
	tr.ranges[0].Connected(tr.now, self.Store)
	tr.pass(time.Second)
	if end, ok := tr.ranges[1].Readable(1); !ok || end != 1 {
		t.Errorf("it shows the segment up to %d", end)
	}
}

func TestTheHolderOfALeaseStopsBeforeTheGrantor(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	holder, grantor := tr.ranges[0].cfg.Leases, tr.ranges[1].cfg.Leases
	sent := Instant(5 * time.Second)
	g, ok := grantor.Grant(sent.Add(40*time.Millisecond), holder.Renewal(sent, ident.StoreID{2}))
	if !ok {
		t.Fatal("not granted")
	}
	holder.Granted(sent.Add(80*time.Millisecond), g)
	seg := tr.ranges[0].out
	if at := sent.Add(899 * time.Millisecond); !holder.holds(at, 7, 1, seg) {
		t.Error("not held before the margin")
	}
	if at := sent.Add(900 * time.Millisecond); holder.holds(at, 7, 1, seg) {
		t.Error("held within the margin")
	}
	x := Exception{7, 2}
	fenced := sent.Add(200 * time.Millisecond)
	if got, want := grantor.fence(fenced, x, tr.owner(2), tr.owner(0)), sent.Add(1040*time.Millisecond); got != want {
		t.Errorf("the fence waits until %d, not %d", got, want)
	}
	// A renewal after the fence prolongs nothing of it, and names the range.
	again := sent.Add(300 * time.Millisecond)
	g, _ = grantor.Grant(again, holder.Renewal(again, ident.StoreID{2}))
	holder.Granted(again, g)
	if holder.holds(again, 7, 1, seg) || !holder.holds(again, 7, 2, seg) || !holder.holds(again, 8, 1, seg) {
		t.Error("an exception is of one range, in the epochs before the fence")
	}
	if got, want := grantor.fence(again, x, tr.owner(2), tr.owner(0)), sent.Add(1040*time.Millisecond); got != want {
		t.Errorf("the same fence later waits until %d, not %d", got, want)
	}
	// While the holder serves in the old epoch the exception stays; then it goes.
	if r := holder.Renewal(again, ident.StoreID{2}); len(r.Dropped) != 0 {
		t.Errorf("dropped %v while it serves", r.Dropped)
	}
	tr.ranges[0].Resign(tr.now)
	if g, _ = grantor.Grant(again, holder.Renewal(again, ident.StoreID{2})); len(g.Except) != 0 {
		t.Errorf("excepted still: %v", g.Except)
	}
}

func TestHowASegmentEndedIsReadInTheCatalog(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	r := tr.ranges[0]
	tr.must(tr.append(1))
	tr.cut[1], tr.cut[2] = true, true
	tr.must(tr.append(2)) // is on one disk
	tr.must(r.Regrant(tr.now))
	tr.settle()
	first := r.proposal.Proposal
	// It hears nothing of that, gives up, wants the range again, and finds more.
	r.Resign(tr.now)
	tr.cut = [3]bool{}
	tr.settle()
	tr.must(r.Claim(tr.now, tr.view))
	tr.pass(3 * time.Second)
	second := r.proposal.Proposal
	if first.Kind != ProposeTake || first.Seal.End != 1 || second.Seal.End != 2 || second.Epoch != first.Epoch {
		t.Fatalf("proposed %+v and %+v", first, second)
	}
	r.Outcome(tr.now, Outcome{second.Serial, Yes, tr.applied(first, tr.owner(0))})
	tr.pass(time.Second)
	if r.State() != Serving || r.out.seg.Base != 1 {
		t.Fatalf("%v, from %d on", r.State(), r.out.seg.Base)
	}
	for i, seals := range tr.seals {
		if !slices.Equal(seals, []ident.Offset{1}) {
			t.Errorf("store %d has sealed at %v, the catalog at 1", i, seals)
		}
	}
}

func TestAGrantCountsOnlyOfAProcessThatFollows(t *testing.T) {
	tr := newTrio(t, nil)
	tr.serve()
	tr.must(tr.append(1))
	primary := tr.ranges[0]
	renew := func(from *Range) {
		g, ok := from.cfg.Leases.Grant(tr.now, primary.cfg.Leases.Renewal(tr.now, from.cfg.Self.Store))
		if !ok {
			t.Fatal("not granted")
		}
		primary.cfg.Leases.Granted(tr.now, g)
	}
	tr.pass(time.Second)
	renew(tr.ranges[1])
	if !primary.Leased(tr.now) {
		t.Fatal("not leased by two of three")
	}
	// Another process of the second store knows no exceptions. Its promise may be of
	// the time before.
	c := tr.ranges[1].copies[1]
	for _, promise := range []ident.Epoch{2, 1} {
		self := tr.owner(1)
		self.Process[9] = byte(promise)
		l, err := NewLeases(tr.now, LeaseConfig{Self: self})
		tr.must(err)
		tr.ranges[1], err = New(tr.now, Config{Range: 7, Self: self, Leases: l}, Disk{
			Promise: promise, Copies: []Copy{{Segment: c.seg, Tail: c.durable}},
		})
		tr.must(err)
		tr.pass(time.Second)
		renew(tr.ranges[1])
		if primary.Leased(tr.now) {
			t.Errorf("promise %d: a grant of a process that has not followed counts", promise)
		}
		if promise == 1 {
			primary.Connected(tr.now, self.Store)
			tr.pass(100 * time.Millisecond)
			if !primary.Leased(tr.now) {
				t.Error("a grant of a process that follows does not count")
			}
		}
	}
}
