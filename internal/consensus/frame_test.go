package consensus

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/varint"
	"github.com/quirelog/quire/status"
)

var update = flag.Bool("update", false, "write the golden file of the present version anew")

// messages are one of each kind, by name.
func messages() (names []string, all []Message) {
	from, to, other := ident.StoreID{1, 15: 1}, ident.StoreID{2, 15: 1}, ident.StoreID{3, 15: 1}
	add := func(name string, m Message) {
		m.From, m.To = from, to
		names, all = append(names, name), append(all, m)
	}
	add("empty", Message{})
	add("heartbeats", Message{Heartbeats: []Heartbeat{
		{Group: 1, From: 1, To: 2, Term: 3, Commit: 1 << 40},
		{Group: 1 << 63, From: 1 << 62, To: 2, Term: 3, Commit: 4, Answer: true, Context: []byte("context")},
	}})
	add("append", Message{Raft: []GroupMessage{{Group: 7, Message: raftpb.Message{
		Type: raftpb.MsgApp, From: 1, To: 2, Term: 5, LogTerm: 3, Index: 8, Commit: 7,
		Entries: []raftpb.Entry{
			{Index: 9, Term: 4, Data: []byte("nine")},
			{Index: 10, Term: 5},
			{Index: 11, Term: 5, Type: raftpb.EntryConfChangeV2, Data: []byte{0}},
		},
	}}}})
	add("votes", Message{Raft: []GroupMessage{
		{Group: 1, Message: raftpb.Message{Type: raftpb.MsgPreVote, From: 1, To: 2, Term: 6, LogTerm: 5, Index: 11}},
		{Group: 2, Message: raftpb.Message{Type: raftpb.MsgAppResp, From: 1, To: 2, Term: 6, Index: 11, Reject: true, RejectHint: 9}},
	}})
	meta := Meta{Index: 30, Term: 4, Membership: Membership{
		State: raftpb.ConfState{
			Voters: []uint64{1, 4}, Learners: []uint64{5}, VotersOutgoing: []uint64{1, 2}, LearnersNext: []uint64{2}, AutoLeave: true,
		},
		Members: []Member{{1, from}, {2, to}, {4, other}, {5, ident.StoreID{5}}}, Next: 6,
	}}
	add("chunk", Message{Chunks: []Chunk{{
		Group: 3, From: 1, To: 2, Term: 4, Meta: meta, Total: 9, Sum: 0x0123456789abcdef, Offset: 4, Data: []byte("chunk"),
	}}})
	add("acks", Message{Acks: []ChunkAck{
		{Group: 3, From: 2, To: 1, Term: 4, Index: 30, Next: 9, Done: true}, {Group: 4, From: 2, To: 1, Term: 4, Index: 30, Next: 100},
	}})
	return names, all
}

// The frames of a version are never written otherwise again: as long as it is
// read, the file holds what reading it means.
func TestGoldenFrames(t *testing.T) {
	path := fmt.Sprintf("testdata/frames-v%d.txt", FrameVersion)
	names, all := messages()
	var now strings.Builder
	for i, m := range all {
		fmt.Fprintf(&now, "%s %x\n", names[i], EncodeMessage(m))
	}
	if *update {
		if err := os.WriteFile(path, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil || string(golden) != now.String() {
		t.Errorf("%v: a frame is encoded otherwise than version %d was:\n%s", err, FrameVersion, &now)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(golden)), "\n") {
		_, digits, _ := strings.Cut(line, " ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := DecodeMessage(b); err != nil || !reflect.DeepEqual(m, all[i]) {
			t.Errorf("%s reads as %+v, %v", names[i], m, err)
		}
	}
}

// A frame that was changed anywhere, or cut, is refused with a code.
func TestADamagedFrameIsRefused(t *testing.T) {
	names, all := messages()
	for i, m := range all {
		b := EncodeMessage(m)
		for at := range b {
			b[at] ^= 0x10
			_, err := DecodeMessage(b)
			if code := status.CodeOf(err); code != status.ProtocolViolation && (at > 0 || code != status.VersionMismatch) {
				t.Errorf("%s with another byte %d: %v", names[i], at, err)
			}
			b[at] ^= 0x10
			if _, err := DecodeMessage(b[:at]); status.CodeOf(err) != status.ProtocolViolation {
				t.Errorf("%s cut at %d: %v", names[i], at, err)
			}
		}
	}
}

// Members that raft would panic over are refused before they get there.
func TestMembersThatNoGroupHasAreRefused(t *testing.T) {
	a, b, c := Member{1, ident.StoreID{1}}, Member{2, ident.StoreID{2}}, Member{3, ident.StoreID{3}}
	voters := func(ids ...uint64) raftpb.ConfState { return raftpb.ConfState{Voters: ids} }
	for name, m := range map[string]Membership{
		"nobody votes":              {State: raftpb.ConfState{Learners: []uint64{1}}, Members: []Member{a}, Next: 2},
		"a voter without a store":   {State: voters(1, 2), Members: []Member{a}, Next: 3},
		"a voter twice":             {State: voters(1, 1), Members: []Member{a}, Next: 2},
		"a store without a part":    {State: voters(1), Members: []Member{a, b}, Next: 3},
		"one store twice":           {State: voters(1, 2), Members: []Member{a, {2, a.Store}}, Next: 3},
		"members out of order":      {State: voters(1, 2), Members: []Member{b, a}, Next: 3},
		"an id that is still to be": {State: voters(1, 2), Members: []Member{a, b}, Next: 2},
		"a voter that learns":       {State: raftpb.ConfState{Voters: []uint64{1}, Learners: []uint64{1}}, Members: []Member{a}, Next: 2},
		"a learner to be that never voted": {
			State:   raftpb.ConfState{Voters: []uint64{1}, VotersOutgoing: []uint64{2}, LearnersNext: []uint64{3}},
			Members: []Member{a, b, c}, Next: 4,
		},
		"left without being joint": {State: raftpb.ConfState{Voters: []uint64{1}, AutoLeave: true}, Members: []Member{a}, Next: 2},
	} {
		s := varint.Scanner{Rest: AppendMeta(nil, Meta{Index: 3, Term: 2, Membership: m})}
		if got, err := ScanMeta(&s); err == nil {
			t.Errorf("%s is taken: %+v", name, got)
		}
	}
	s := varint.Scanner{Rest: AppendMeta(nil, Meta{})}
	if m, err := ScanMeta(&s); err != nil || !reflect.DeepEqual(m, Meta{}) {
		t.Errorf("a member that has nothing yet: %+v, %v", m, err)
	}
}

// FuzzDecodeMessage: any bytes, with the checksum that belongs behind them, are
// refused with a code of the table, or are exactly what their message is encoded
// as.
func FuzzDecodeMessage(f *testing.F) {
	_, all := messages()
	for _, m := range all {
		b := EncodeMessage(m)
		f.Add(b[:len(b)-frameTail])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := sealed(body)
		m, err := DecodeMessage(b)
		if err != nil {
			if code := status.CodeOf(err); code != status.ProtocolViolation && code != status.VersionMismatch {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		if again := EncodeMessage(m); string(again) != string(b) {
			t.Fatalf("%+v is encoded as %x, not %x", m, again, b)
		}
	})
}
