package catalog

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/quirelog/quire/internal/catalog/catalogpb"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// commands has one of each kind, with every field set.
func commands() []Command {
	settings := Settings{
		Ack: AckPrimary, Fsync: Fsync(250_000_000), Replicas: 3, SegmentBytes: 64 << 20, SegmentAge: 600_000_000_000,
		RetentionBytes: 1 << 30, RetentionAge: 7 * day, MaxValueBytes: 64 << 10, MaxRanges: 4096,
	}
	seal := Seal{End: 300, Digest: 0xd1d2d3d4d5d6d7d8, Users: 99, Bytes: 1 << 20, LastTime: 1_700_000_000_000_000}
	return []Command{
		CreateTopic{
			ID: identity(1), Name: orders, Type: Log, Settings: settings, Created: 1_700_000_000_000_000,
			Owner: process1, Deletions: 5,
		},
		AlterTopic{Topic: identity(1), Version: 6, Token: identity(0xee), Settings: settings},
		DeleteTopic{Topic: identity(1), Deleted: 1_700_000_000_000_001},
		Grant{Topic: identity(1), Range: 2, Epoch: 3, Version: 4, Open: 5, Seal: seal, Owner: process3},
		Roll{Topic: identity(1), Range: 2, Epoch: 3, Version: 4, Open: 5, Seal: seal},
		Trim{Topic: identity(1), TopicVersion: 2, Range: 3, Through: 4},
		Split{
			Topic: identity(1), Ending: Ending{Range: 2, Epoch: 3, Version: 4, Open: 5, Seal: seal}, At: 0x8000_0000_0000_0001,
		},
		Merge{
			Topic: identity(1), Left: Ending{Range: 2, Epoch: 3, Version: 4, Open: 5, Seal: seal},
			Right: Ending{Range: 6, Epoch: 7, Version: 8, Open: 9, Seal: EmptySeal(OpenSegment{Base: 7})},
		},
		ConfirmRetired{[]Retired{{7, identity(1), store1}, {9, identity(2), store2}}},
		OpenSession{Topic: identity(1), Sessions: 7},
	}
}

func encode(t testing.TB, c Command) []byte {
	t.Helper()
	b, err := MarshalCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCommandsComeBackAsTheyWere(t *testing.T) {
	for _, c := range append(commands(), ConfirmRetired{}, DeleteTopic{}, Roll{}) {
		back, err := UnmarshalCommand(encode(t, c))
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%+v comes back as %+v, %v", c, back, err)
		}
	}
}

func TestCommandsThatBytesCannotSayAreNotEncoded(t *testing.T) {
	lossy := DefaultSettings()
	lossy.SegmentAge++
	for _, c := range []Command{
		CreateTopic{ID: identity(1), Settings: lossy},
		AlterTopic{Topic: identity(1), Settings: lossy},
		nil,
	} {
		if b, err := MarshalCommand(c); err == nil {
			t.Errorf("%+v is encoded as %x", c, b)
		}
	}
}

func TestCommandBytesAreRefused(t *testing.T) {
	good := encode(t, commands()[0])
	newer := &pb.Command{Version: CommandVersion + 1, Command: &pb.Command_Trim{Trim: &pb.Trim{}}}
	noKind := &pb.Command{Version: CommandVersion}
	noVersion := &pb.Command{Command: &pb.Command_Trim{Trim: &pb.Trim{}}}
	shortID := &pb.Command{Version: CommandVersion, Command: &pb.Command_Trim{Trim: &pb.Trim{Topic: []byte("short")}}}
	zeroID := &pb.Command{
		Version: CommandVersion, Command: &pb.Command_Trim{Trim: &pb.Trim{Topic: make([]byte, 16)}},
	}
	wide := &pb.Command{Version: CommandVersion, Command: &pb.Command_AlterTopic{AlterTopic: &pb.AlterTopic{
		Settings: &pb.Settings{
			Ack: pb.Ack_ACK_QUORUM, Fsync: pb.Fsync_FSYNC_ALWAYS, Replicas: 256 + 3, SegmentBytes: 1 << 20,
			SegmentAgeMs: 1000, MaxValueBytes: 1,
		},
	}}}
	bytesOf := func(m *pb.Command) []byte {
		b, err := m.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tc := range []struct {
		name string
		b    []byte
		says string
		code status.Code
	}{
		{"nothing", nil, "without a version", status.DataCorrupt},
		{"newer", bytesOf(newer), "catalog command of version 4, this program knows version 3", status.DataNewer},
		{"no version", bytesOf(noVersion), "without a version", status.DataCorrupt},
		{"no kind", bytesOf(noKind), "no kind", status.DataCorrupt},
		{"unknown kind", withField99(bytesOf(noKind)), "no kind", status.DataCorrupt},
		{"unknown field", withField99(good), "does not know", status.DataCorrupt},
		{"short id", bytesOf(shortID), "an identity of 5 bytes", status.DataCorrupt},
		{"long zero", bytesOf(zeroID), "canonical", status.DataCorrupt},
		{"wide number", bytesOf(wide), "canonical", status.DataCorrupt},
		{"truncated", good[:len(good)-1], "EOF", status.DataCorrupt},
		{"garbage", []byte("GET / HTTP/1.1\r\n"), "catalog command", status.DataCorrupt},
		{"huge", make([]byte, MaxCommand+1), "at most 65536", status.DataCorrupt},
	} {
		c, err := UnmarshalCommand(tc.b)
		if status.CodeOf(err) != tc.code || !strings.Contains(message(err), tc.says) || c != nil {
			t.Errorf("%s: %+v, %v; want code %s and %q", tc.name, c, err, tc.code, tc.says)
		}
	}
}

// withField99 adds a field that no version knows to a message.
func withField99(b []byte) []byte {
	b = protowire.AppendTag(slices.Clone(b), 99, protowire.VarintType)
	return protowire.AppendVarint(b, 1)
}

func TestSnapshotComesBackAsItWas(t *testing.T) {
	for name, s := range map[string]*State{"empty": New(), "example": example(t), "many chunks": manySegments(t)} {
		chunks := snapshot(s)
		loaded, err := load(chunks)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.EqualFunc(chunks, snapshot(loaded), slices.Equal) {
			t.Errorf("%s: another snapshot after loading", name)
		}
		for _, want := range s.ordered {
			got, ok := loaded.Lookup(want.Name)
			if !ok || !reflect.DeepEqual(deepCopy(got), deepCopy(want)) {
				t.Errorf("%s: topic %s came back as %+v", name, want.Name, got)
			}
		}
	}
}

// manySegments is a state whose snapshot has several chunks.
func manySegments(t testing.TB) *State {
	s := New()
	res, err := s.Apply(createOrders(identity(1)))
	for n := uint64(1); n <= 10_000 && err == nil; n++ {
		res, err = s.Apply(Roll{
			Topic: identity(1), Range: 1, Epoch: 1, Version: n, Open: res.Opened.ID,
			Seal: Seal{End: ident.Offset(n * 1000), Digest: n, Users: 1000, Bytes: 1 << 30, LastTime: ident.Timestamp(n)},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSnapshotChunksAreBounded(t *testing.T) {
	chunks := snapshot(manySegments(t))
	if len(chunks) < 4 {
		t.Errorf("%d chunks", len(chunks))
	}
	for i, c := range chunks {
		if len(c) > MaxChunk || i < len(chunks)-2 && len(c) < MaxChunk/2 {
			t.Errorf("chunk %d of %d has %d bytes", i, len(chunks), len(c))
		}
	}
}

func TestSnapshotIsOfTheMomentOfTheCall(t *testing.T) {
	s := example(t)
	before := snapshot(s)
	late := s.Snapshot()
	for _, c := range []Command{
		DeleteTopic{Topic: identity(3), Deleted: 1},
		ConfirmRetired{s.RetiredOn(store1)},
		Roll{
			Topic: identity(1), Range: 1, Epoch: 2, Version: 5, Open: 5,
			Seal: Seal{End: 400, Digest: 1, Users: 1, LastTime: 1 << 40},
		},
		CreateTopic{
			ID: identity(9), Name: Name{"default", "default", "a"}, Type: Log, Settings: DefaultSettings(),
			Owner: process1, Deletions: 1,
		},
	} {
		apply(t, s, c)
	}
	if !slices.EqualFunc(before, slices.Collect(late), slices.Equal) {
		t.Error("a snapshot that is walked later has changed")
	}
	if slices.EqualFunc(before, snapshot(s), slices.Equal) {
		t.Error("the commands changed nothing")
	}
}

func TestSnapshotCanBeLeftHalfway(t *testing.T) {
	n := 0
	for range manySegments(t).Snapshot() {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d chunks", n)
	}
}
