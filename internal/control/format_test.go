package control

import (
	"encoding/hex"
	"flag"
	"fmt"
	"iter"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

var update = flag.Bool("update", false, "write the golden file of the present version anew")

// parts are one of each kind.
func parts() []part {
	meta := consensus.Meta{Index: 9, Term: 3, Membership: consensus.Membership{
		State: raftpb.ConfState{Voters: []uint64{1, 2}}, Next: 3,
		Members: []consensus.Member{{ID: 1, Store: ident.StoreID{1}}, {ID: 2, Store: ident.StoreID{2}}},
	}}
	return []part{
		{tag: tagSelf, group: 7, self: 2},
		{tag: tagPiece, group: 7, piece: []byte("some of it")},
		{tag: tagSnapshot, group: 7, meta: meta, total: 10, sum: 0x0123456789abcdef},
		{tag: tagEntries, group: 7, entries: []raftpb.Entry{{Index: 10, Term: 3, Data: []byte("ten")}, {Index: 11, Term: 4}}},
		{tag: tagHard, group: 7, hard: raftpb.HardState{Term: 4, Vote: 2, Commit: 10}},
		{tag: tagForget, group: 8},
		{tag: tagBegun},
	}
}

func (w *recordWriter) part(p part) {
	switch p.tag {
	case tagSelf:
		w.self(p.group, p.self)
	case tagPiece:
		w.piece(p.group, p.piece)
	case tagSnapshot:
		w.snapshot(p.group, p.meta, p.total, p.sum)
	case tagEntries:
		w.entries(p.group, p.entries)
	case tagHard:
		w.hard(p.group, p.hard)
	case tagForget:
		w.forget(p.group)
	case tagBegun:
		w.begun()
	}
}

// written gives the records of a step.
func written(t testing.TB, ps ...part) (records [][]byte) {
	w := recordWriter{emit: func(v []byte) error {
		records = append(records, append([]byte(nil), v...))
		return nil
	}}
	for _, p := range ps {
		w.part(p)
	}
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	return records
}

func scanned(v []byte) (flags byte, ps []part, err error) {
	flags, err = scanRecord(v, func(p part) error {
		ps = append(ps, p)
		return nil
	})
	return flags, ps, err
}

// The records of a version are never written otherwise again: as long as it is
// read, the file holds what reading it means.
func TestGoldenRecords(t *testing.T) {
	path := fmt.Sprintf("testdata/records-v%d.txt", RecordVersion)
	var now strings.Builder
	for _, p := range parts() {
		fmt.Fprintf(&now, "part-%d %x\n", p.tag, written(t, p)[0])
	}
	tk := newTokens()
	tk.add(consensus.Token{1})
	tk.add(consensus.Token{2})
	fmt.Fprint(&now, "payload ")
	for b := range payload(&tk, &words{"one", "two"}) {
		fmt.Fprintf(&now, "%x", b)
	}
	fmt.Fprintln(&now)
	if *update {
		if err := os.WriteFile(path, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil || string(golden) != now.String() {
		t.Errorf("%v: a record is encoded otherwise than version %d was:\n%s", err, RecordVersion, &now)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(golden)), "\n") {
		name, digits, _ := strings.Cut(line, " ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if name == "payload" {
			got := words{}
			if back, err := openPayload(b, &got); err != nil || !reflect.DeepEqual(back, tk) || !reflect.DeepEqual(got, words{"one", "two"}) {
				t.Errorf("the payload reads as %v, %v, %v", back, got, err)
			}
			continue
		}
		if _, ps, err := scanned(b); err != nil || len(ps) != 1 || !reflect.DeepEqual(ps[0], parts()[i]) {
			t.Errorf("%s reads as %+v, %v", name, ps, err)
		}
	}
}

// words is a machine whose chunks are its state.
type words []string

func (w *words) Apply([]byte) (any, error) { return nil, nil }

func (w *words) Snapshot() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, s := range *w {
			if !yield([]byte(s)) {
				return
			}
		}
	}
}

func (w *words) Restore(chunks iter.Seq[[]byte]) error {
	*w = nil
	for c := range chunks {
		*w = append(*w, string(c))
	}
	return nil
}

// A step that a crash or a full disk cut short says nothing, wherever it stands.
func TestAStepIsWholeOrNothing(t *testing.T) {
	long := raftpb.Entry{Index: 2, Term: 1, Data: make([]byte, recordBytes)}
	more := raftpb.Entry{Index: 3, Term: 1, Data: make([]byte, recordBytes)}
	founded := written(t, part{tag: tagSelf, group: 1, self: 1}, part{tag: tagHard, group: 1, hard: raftpb.HardState{Term: 1, Commit: 1}})
	meta := consensus.Meta{Index: 1, Term: 1}
	snapshot := written(t, part{tag: tagSnapshot, group: 1, meta: meta, sum: xxh3.Hash(nil)})
	step := written(t, part{tag: tagEntries, group: 1, entries: []raftpb.Entry{long, more}}, part{tag: tagHard, group: 1, hard: raftpb.HardState{Term: 2}})
	if len(founded) != 1 || len(step) != 3 {
		t.Fatalf("%d and %d records", len(founded), len(step))
	}
	last := written(t, part{tag: tagHard, group: 1, hard: raftpb.HardState{Term: 3}})
	for name, c := range map[string]struct {
		records [][]byte
		entries int
		term    uint64
	}{
		"whole":             {append(append(founded, snapshot...), step...), 2, 2},
		"without its end":   {append(append(founded, snapshot...), step[:2]...), 0, 1},
		"cut, then another": {append(append(append(founded, snapshot...), step[0]), last...), 0, 3},
		"only its end":      {append(append(append(founded, snapshot...), step[2]), last...), 0, 3},
	} {
		h := &history{groups: map[consensus.GroupID]*groupHistory{}}
		for _, v := range c.records {
			if err := h.record(v); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if g := h.groups[1]; len(g.Entries) != c.entries || g.Hard.Term != c.term {
			t.Errorf("%s: %d entries, term %d", name, len(g.Entries), g.Hard.Term)
		}
	}
}

// Later entries replace earlier ones and all behind them, and a snapshot the log.
func TestReplayEndsWhereRaftDid(t *testing.T) {
	h := &history{groups: map[consensus.GroupID]*groupHistory{}}
	take := func(ps ...part) error {
		for _, v := range written(t, ps...) {
			if err := h.record(v); err != nil {
				return err
			}
		}
		return nil
	}
	entries := func(term uint64, from, to uint64) part {
		p := part{tag: tagEntries, group: 1}
		for i := from; i <= to; i++ {
			p.entries = append(p.entries, raftpb.Entry{Index: i, Term: term})
		}
		return p
	}
	at := func(index uint64, b string) []part {
		m := consensus.Meta{Index: index, Term: 1}
		return []part{{tag: tagPiece, group: 1, piece: []byte(b)}, {tag: tagSnapshot, group: 1, meta: m, total: uint64(len(b)), sum: xxh3.Hash([]byte(b))}}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(take(append([]part{{tag: tagSelf, group: 1, self: 1}}, at(1, "first")...)...))
	must(take(entries(1, 2, 9)))
	must(take(entries(2, 5, 6)))
	g := h.groups[1]
	if len(g.Entries) != 5 || g.Entries[3].Term != 2 {
		t.Errorf("after a suffix was replaced: %v", g.Entries)
	}
	if err := take(entries(2, 8, 8)); status.CodeOf(err) != status.DataCorrupt {
		t.Errorf("a hole: %v", err)
	}
	must(take(at(20, "second")...))
	must(take(entries(2, 19, 22)))
	if g := h.groups[1]; string(g.payload) != "second" || len(g.Entries) != 2 || g.Entries[0].Index != 21 {
		t.Errorf("behind a snapshot: %q, %v", g.payload, g.Entries)
	}
	wrong := at(30, "third")
	wrong[0].piece = []byte("thirD")
	if err := take(wrong...); status.CodeOf(err) != status.DataCorrupt {
		t.Errorf("a snapshot with another checksum: %v", err)
	}
	must(take(part{tag: tagForget, group: 1}))
	if len(h.groups) != 0 {
		t.Error("a group that was removed is there")
	}
}

// FuzzRecord: any bytes are refused with a code of the table, or say what the
// records of their parts say.
func FuzzRecord(f *testing.F) {
	f.Add(written(f, parts()...)[0])
	for _, p := range parts() {
		f.Add(written(f, p)[0])
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		_, ps, err := scanned(v)
		if err != nil {
			if code := status.CodeOf(err); code != status.DataCorrupt && code != status.DataNewer {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		var again []part
		for _, b := range written(t, ps...) {
			_, more, err := scanned(b)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, more...)
		}
		if !reflect.DeepEqual(again, ps) {
			t.Fatalf("%+v came back as %+v", ps, again)
		}
		h := &history{groups: map[consensus.GroupID]*groupHistory{}}
		if err := h.record(v); err != nil && status.CodeOf(err) != status.DataCorrupt {
			t.Fatal(err)
		}
	})
}

// FuzzPayload: any bytes are refused with a code of the table, or are what their
// content is encoded as.
func FuzzPayload(f *testing.F) {
	tk := newTokens()
	tk.add(consensus.Token{1})
	for b := range payload(&tk, &words{"one", "two"}) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var w words
		tk, err := openPayload(b, &w)
		if err != nil {
			if code := status.CodeOf(err); code != status.DataCorrupt && code != status.DataNewer {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		var again []byte
		for p := range payload(&tk, &w) {
			again = append(again, p...)
		}
		if string(again) != string(b) {
			t.Fatalf("%x is encoded as %x", b, again)
		}
	})
}
