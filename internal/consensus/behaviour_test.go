package consensus

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/zeebo/xxh3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// alone is a host whose one group has one voter, and leads it.
func alone(t *testing.T, cfg Config) *Host {
	t.Helper()
	cfg.Store, cfg.Random = ident.StoreID{1}, rand.NewPCG(1, 2)
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Found(1, []ident.StoreID{cfg.Store}); err != nil {
		t.Fatal(err)
	}
	if err := h.Campaign(1); err != nil {
		t.Fatal(err)
	}
	drain(t, h)
	return h
}

// drain does what a host says until it says no more.
func drain(t *testing.T, h *Host) (all []Ready) {
	t.Helper()
	for h.HasReady() {
		r := h.Ready()
		all = append(all, r)
		if err := h.Stored(r.Batch); err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Committed {
			if err := h.Applied(c.Group, c.Entries[len(c.Entries)-1].Index); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

func TestNothingIsDecidedBeforeItIsStored(t *testing.T) {
	h := alone(t, Config{})
	if err := h.Propose(1, Token{1}, []byte("a")); err != nil {
		t.Fatal(err)
	}
	first := h.Ready()
	if !first.Sync || len(first.Persist) != 1 || len(first.Outcomes) > 0 || h.HasReady() {
		t.Fatalf("before Stored: %+v", first)
	}
	if err := h.Stored(first.Batch); err != nil {
		t.Fatal(err)
	}
	r := h.Ready()
	if len(r.Outcomes) != 1 || r.Outcomes[0].Result != Decided || len(r.Committed) != 1 || string(r.Committed[0].Entries[0].Data) != "a" {
		t.Fatalf("after Stored: %+v", r)
	}
}

func TestATokenInFlightIsProposedOnce(t *testing.T) {
	h := alone(t, Config{})
	for range 3 {
		if err := h.Propose(1, Token{1}, []byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	outcomes, entries := 0, 0
	for _, r := range drain(t, h) {
		outcomes += len(r.Outcomes)
		for _, c := range r.Committed {
			entries += len(c.Entries)
		}
	}
	if outcomes != 1 || entries != 1 {
		t.Fatalf("%d outcomes of %d entries", outcomes, entries)
	}
}

func TestLimitsAreErrors(t *testing.T) {
	h := alone(t, Config{MaxGroups: 2, MaxMembers: 2, MaxProposalBytes: 10, MaxInflight: 2, MaxReads: 1, MaxSnapshotBytes: 5})
	for name, c := range map[string]struct {
		err  error
		code status.Code
	}{
		"proposal bytes": {h.Propose(1, Token{1}, make([]byte, 11)), status.LimitReached},
		"members":        {h.ChangeMembers(1, Token{2}, Change{Voters: []ident.StoreID{{2}, {3}}}), status.LimitReached},
		"last voter":     {h.ChangeMembers(1, Token{2}, Change{Remove: []ident.StoreID{{1}}}), status.InvalidArgument},
		"no change":      {h.ChangeMembers(1, Token{2}, Change{Voters: []ident.StoreID{{1}}}), status.ConditionFailed},
		"snapshot bytes": {h.OfferSnapshot(1, 2, make([]byte, 6)), status.LimitReached},
		"in flight": {errors.Join(
			h.Propose(1, Token{1}, nil), h.Propose(1, Token{2}, nil), h.Propose(1, Token{3}, nil)), status.Overloaded},
		"reads":   {errors.Join(h.ReadIndex(1, 1), h.ReadIndex(1, 2)), status.Overloaded},
		"groups":  {errors.Join(h.Join(2, 5), h.Join(3, 5)), status.LimitReached},
		"founder": {h.Found(4, []ident.StoreID{{9}}), status.InvalidArgument},
	} {
		if got := status.CodeOf(c.err); got != c.code {
			t.Errorf("%s: %v, want %s", name, c.err, c.code)
		}
	}
}

func TestWhoDoesNotLeadSaysSo(t *testing.T) {
	h, err := New(Config{Store: ident.StoreID{1}, Random: rand.NewPCG(1, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Found(1, []ident.StoreID{{1}, {2}, {3}}); err != nil {
		t.Fatal(err)
	}
	var not *NotLeaderError
	if err := h.Propose(1, Token{1}, nil); !errors.As(err, &not) || not.Group != 1 || !not.Leader.IsZero() {
		t.Fatal(err)
	}
}

func TestRemoveEndsProposalsAndReads(t *testing.T) {
	h := alone(t, Config{})
	if err := errors.Join(h.Propose(1, Token{1}, nil), h.ReadIndex(1, 7), h.Remove(1)); err != nil {
		t.Fatal(err)
	}
	r := h.Ready()
	if len(r.Outcomes) != 1 || r.Outcomes[0].Result != Unknown || len(r.Reads) != 1 || r.Reads[0].Err == nil {
		t.Fatalf("%+v", r)
	}
}

// A voter that is alone and has just begun again may know a commit index from
// before what it acknowledged.
func TestAReadAfterARestartSeesWhatWasAcknowledged(t *testing.T) {
	h := alone(t, Config{})
	if err := h.Propose(1, Token{1}, []byte("a")); err != nil {
		t.Fatal(err)
	}
	var s State
	acknowledged := uint64(0)
	for _, r := range drain(t, h) {
		for _, p := range r.Persist {
			s.Entries = append(s.Entries, p.Entries...)
		}
		for _, o := range r.Outcomes {
			acknowledged = o.Index
		}
	}
	full, err := h.Meta(1, acknowledged)
	if err != nil {
		t.Fatal(err)
	}
	s.Self, s.Meta = 1, Meta{Index: acknowledged - 1, Term: full.Term, Membership: full.Membership}
	s.Hard.Term, s.Hard.Commit = full.Term, acknowledged-1 // the commit was not synced
	again, err := New(Config{Store: ident.StoreID{1}, Random: rand.NewPCG(3, 4)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.Restore(1, s), again.Campaign(1)); err != nil {
		t.Fatal(err)
	}
	for again.ReadIndex(1, 1) != nil { // until it leads, and before its own entry is stored
		r := again.Ready()
		if err := again.Stored(r.Batch); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		for _, r := range drain(t, again) {
			for _, a := range r.Reads {
				if a.Err != nil || a.Index < acknowledged {
					t.Fatalf("%+v, but %d was acknowledged", a, acknowledged)
				}
				return
			}
		}
		again.Tick()
	}
	t.Fatal("no answer")
}

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	history := func() string {
		s := newSim(5)
		for range 3000 {
			s.step()
		}
		out := fmt.Sprintf("%+v", s.counts)
		for _, id := range s.groups {
			out += fmt.Sprint(s.oracle.groups[id].sums, s.oracle.groups[id].leaders)
		}
		return out
	}
	if a, b := history(), history(); a != b {
		t.Fatalf("%s\n%s", a, b)
	}
}

func TestLogEntriesAreReadAsTheyWereWritten(t *testing.T) {
	rows := []Member{{ID: 1, Store: ident.StoreID{1}}, {ID: 1 << 40, Store: ident.StoreID{15: 9}}}
	token, got, err := decodeRows(encodeRows(Token{3}, rows))
	if err != nil || token != (Token{3}) || !reflect.DeepEqual(got, rows) {
		t.Fatal(token, got, err)
	}
	for _, bad := range [][]byte{{1}, {2, 16: 0}, append(encodeRows(Token{}, rows), 0)} {
		if _, _, err := decodeRows(bad); err == nil {
			t.Errorf("%v is read", bad)
		}
	}
}

// follower is the first of three founders, with nothing left to do.
func follower(t *testing.T, seed uint64) *Host {
	t.Helper()
	h, err := New(Config{Store: ident.StoreID{1}, Random: rand.NewPCG(seed, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Found(1, []ident.StoreID{{1}, {2}, {3}}); err != nil {
		t.Fatal(err)
	}
	drain(t, h)
	return h
}

// Later answers in the name of this term have no write of their own.
func TestANewTermIsSynced(t *testing.T) {
	h := follower(t, 1)
	m := Message{From: ident.StoreID{2}, To: ident.StoreID{1}, Heartbeats: []Heartbeat{{Group: 1, From: 2, To: 1, Term: 5}}}
	if err := h.Step(m); err != nil {
		t.Fatal(err)
	}
	if r := h.Ready(); !r.Sync || len(r.Persist) != 1 || r.Persist[0].Hard.Term != 5 {
		t.Fatalf("%+v", r)
	}
}

func TestMessagesForAnotherPeerAreNotTaken(t *testing.T) {
	h, err := New(Config{Store: ident.StoreID{1}, Random: rand.NewPCG(1, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Join(1, 5); err != nil {
		t.Fatal(err)
	}
	drain(t, h)
	for to, strangers := range map[PeerID]int{3: 0, 7: 1} {
		m := Message{From: ident.StoreID{2}, To: ident.StoreID{1}, Heartbeats: []Heartbeat{{Group: 1, From: 2, To: to, Term: 5}}}
		if err := h.Step(m); err != nil {
			t.Fatal(err)
		}
		if r := h.Ready(); len(r.Persist) > 0 || len(r.Messages) > 0 || len(r.Strangers) != strangers {
			t.Errorf("for %d: %+v", to, r)
		}
	}
	// Nor is what one store says as the peer of another.
	f := follower(t, 1)
	m := Message{From: ident.StoreID{3}, To: ident.StoreID{1}, Heartbeats: []Heartbeat{{Group: 1, From: 2, To: 1, Term: 5}}}
	if err := f.Step(m); err != nil || f.HasReady() {
		t.Errorf("%v, %+v", err, f.Ready())
	}
}

func TestContextsOfReadsAreNeverUsedTwice(t *testing.T) {
	seen := map[string]bool{}
	for life := range uint64(3) {
		h := follower(t, life)
		m := Message{From: ident.StoreID{2}, To: ident.StoreID{1}, Heartbeats: []Heartbeat{{Group: 1, From: 2, To: 1, Term: 5}}}
		if err := h.Step(m); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := h.ReadIndex(1, 1); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range drain(t, h) {
			for _, m := range r.Messages {
				for _, g := range m.Raft {
					seen[string(g.Message.Entries[0].Data)] = true
				}
			}
		}
	}
	if len(seen) != 9 {
		t.Fatalf("9 reads had %d contexts", len(seen))
	}
}

// Until the snapshot is stored, the log still has entries of another term there.
func TestASnapshotOnItsWayToTheDiskIsWhatTheHostSpeaksOf(t *testing.T) {
	h := follower(t, 1)
	app := raftpb.Message{Type: raftpb.MsgApp, From: 2, To: 1, Term: 2, Index: 1, LogTerm: 1, Entries: []raftpb.Entry{
		{Index: 2, Term: 2}, {Index: 3, Term: 2}, {Index: 4, Term: 2},
	}}
	m := Message{From: ident.StoreID{2}, To: ident.StoreID{1}, Raft: []GroupMessage{{Group: 1, Message: app}}}
	if err := h.Step(m); err != nil {
		t.Fatal(err)
	}
	drain(t, h)
	members, err := h.Members(1)
	if err != nil {
		t.Fatal(err)
	}
	want := Meta{Index: 3, Term: 4, Membership: members}
	m = Message{From: ident.StoreID{3}, To: ident.StoreID{1}, Chunks: []Chunk{{Group: 1, From: 3, To: 1, Term: 5, Meta: want}}}
	if err := h.Step(m); err != nil {
		t.Fatal(err)
	}
	// The checksum of nothing is not 0: what does not fit its checksum is asked for
	// again from its start.
	r := h.Ready()
	if len(r.Persist) != 0 || len(r.Messages) != 1 || r.Messages[0].Acks[0].Done || r.Messages[0].Acks[0].Next != 0 {
		t.Fatalf("a snapshot with another checksum: %+v", r)
	}
	m.Chunks[0].Sum = xxh3.Hash(nil)
	if err := h.Step(m); err != nil {
		t.Fatal(err)
	}
	r = h.Ready()
	if len(r.Persist) != 1 || r.Persist[0].Snapshot == nil {
		t.Fatalf("%+v", r)
	}
	for _, when := range []string{"before", "after"} {
		if got, err := h.Meta(1, 3); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s Stored: %+v, %v", when, got, err)
		}
		if err := errors.Join(h.Compact(1, 3), h.Stored(r.Batch)); err != nil {
			t.Fatal(err)
		}
	}
	if l := h.groups[1].log; l.base.Index != 3 || l.base.Term != 4 || len(l.entries) > 0 {
		t.Fatalf("%+v", l)
	}
}

// A snapshot from before its receiver was a member would be thrown away there.
func TestASnapshotFromBeforeAChangeOfMembersIsNotSent(t *testing.T) {
	l := &entryLog{minimum: 7, snapshot: &Snapshot{Meta: Meta{Index: 6, Term: 1}}}
	if _, err := l.Snapshot(); err == nil || !l.wanted {
		t.Fatal("it is sent")
	}
	l.snapshot.Meta.Index = 7
	if s, err := l.Snapshot(); err != nil || s.Metadata.Index != 7 {
		t.Fatal(s, err)
	}
}
