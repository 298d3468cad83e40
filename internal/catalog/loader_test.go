package catalog

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	pb "github.com/quirelog/quire/internal/catalog/catalogpb"
	"github.com/quirelog/quire/status"
)

// forge makes a snapshot of items of its own, footed as it should be.
func forge(t testing.TB, items ...*pb.SnapshotItem) [][]byte {
	t.Helper()
	body := marshalChunk(t, 0, items...)
	return [][]byte{body, marshalChunk(t, 1, footerItem(uint64(len(items)), xxh3.Hash(body)))}
}

func marshalChunk(t testing.TB, index uint64, items ...*pb.SnapshotItem) []byte {
	t.Helper()
	b, err := (&pb.SnapshotChunk{Index: index, Items: items}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exampleItems are the items of the example's snapshot, without the footer.
func exampleItems(t testing.TB) []*pb.SnapshotItem {
	s := example(t)
	return slices.Collect(s.items(SnapshotVersion, s.retiredInOrder()))
}

func TestLoaderRefusesWhatIsNotASnapshot(t *testing.T) {
	items := exampleItems(t)
	at := func(match func(*pb.SnapshotItem) bool) int {
		i := slices.IndexFunc(items, match)
		if i < 0 {
			t.Fatal("the example has no such item")
		}
		return i
	}
	swapped := func(i int) []*pb.SnapshotItem {
		c := slices.Clone(items)
		c[i], c[i+1] = c[i+1], c[i]
		return c
	}
	without := func(i int) []*pb.SnapshotItem { return slices.Delete(slices.Clone(items), i, i+1) }
	firstTopic := at(func(m *pb.SnapshotItem) bool { return m.GetTopic() != nil })
	firstRange := at(func(m *pb.SnapshotItem) bool { return m.GetRange() != nil })
	firstRetired := at(func(m *pb.SnapshotItem) bool { return m.GetRetired() != nil })
	firstTombstone := at(func(m *pb.SnapshotItem) bool { return m.GetTombstone() != nil })
	newer := &pb.SnapshotItem{Item: &pb.SnapshotItem_Header{Header: &pb.SnapshotHeader{Version: SnapshotVersion + 1}}}
	versionless := &pb.SnapshotItem{Item: &pb.SnapshotItem_Header{Header: &pb.SnapshotHeader{}}}
	good := forge(t, items...)
	footer := func(digest uint64) *pb.SnapshotItem { return footerItem(uint64(len(items)), digest) }

	for _, tc := range []struct {
		name   string
		chunks [][]byte
		says   string
	}{
		{"nothing", nil, "without a footer"},
		{"no footer", good[:1], "without a footer"},
		{"only a footer", good[1:], "chunk 1 comes in its place"},
		{"a chunk twice", [][]byte{good[0], good[0]}, "chunk 0 comes in its place"},
		{"a chunk after the footer", append(slices.Clone(good), marshalChunk(t, 2)), "follows the footer"},
		{"an empty chunk", [][]byte{good[0], marshalChunk(t, 1)}, "it is empty"},
		{"a footer in company", [][]byte{marshalChunk(t, 0, append(items, footer(xxh3.Hash(nil)))...)}, "not alone"},
		{"a wrong count", [][]byte{good[0], marshalChunk(t, 1, footerItem(1, xxh3.Hash(good[0])))}, "ends 1 items"},
		{"a wrong digest", [][]byte{good[0], marshalChunk(t, 1, footer(1))}, "the footer ends"},
		{"a newer version", forge(t, newer), "catalog snapshot of version 4, this program knows version 3"},
		{"no version", forge(t, versionless), "without a version"},
		{"no header", forge(t, without(0)...), "out of order"},
		{"two headers", forge(t, append([]*pb.SnapshotItem{items[0]}, items...)...), "out of order"},
		{"a namespace late", forge(t, swapped(firstTopic-1)...), "out of order"},
		{"a range without a topic", forge(t, without(firstTopic)...), "out of order"},
		{"a segment without a range", forge(t, without(firstRange)...), "out of order"},
		{"a retired segment early", forge(t, swapped(firstRetired-1)...), "out of order"},
		{"retired out of order", forge(t, swapped(firstRetired)...), "out of order"},
		{"a tombstone early", forge(t, swapped(firstTombstone-1)...), "out of order"},
		{"a tombstone less", forge(t, without(firstTombstone)...), "0 tombstones"},
		{"no kind", forge(t, append(slices.Clone(items), &pb.SnapshotItem{})...), "no kind"},
		{"a segment less", forge(t, without(firstRange+1)...), "range r1"},
		{"a short id", forge(t, append(slices.Clone(items), &pb.SnapshotItem{Item: &pb.SnapshotItem_Tombstone{
			Tombstone: &pb.Tombstone{Id: []byte("x"), Name: &pb.Name{}},
		}})...), "an identity of 1 bytes"},
		{"a name not there", forge(t, append(slices.Clone(items), &pb.SnapshotItem{Item: &pb.SnapshotItem_Tombstone{
			Tombstone: &pb.Tombstone{},
		}})...), "canonical"},
		{"a huge chunk", [][]byte{make([]byte, MaxChunk+1)}, "at most 262144"},
		{"garbage", [][]byte{[]byte("GET / HTTP/1.1\r\n")}, "chunk 0"},
	} {
		_, err := load(tc.chunks)
		code := status.DataCorrupt
		if tc.name == "a newer version" {
			code = status.DataNewer
		}
		if status.CodeOf(err) != code || !strings.Contains(message(err), tc.says) {
			t.Errorf("%s: %v, want code %s and %q", tc.name, err, code, tc.says)
		}
	}
}

func TestLoaderFindsEachFlippedBit(t *testing.T) {
	good := snapshot(example(t))
	for i := range good {
		for bit := range len(good[i]) * 8 {
			bad := slices.Clone(good)
			bad[i] = bytes.Clone(good[i])
			bad[i][bit/8] ^= 1 << (bit % 8)
			if _, err := load(bad); err == nil {
				t.Fatalf("bit %d of chunk %d is flipped and the snapshot loads", bit, i)
			}
		}
	}
}
