package catalog

import (
	"iter"
	"slices"

	"github.com/zeebo/xxh3"

	pb "github.com/quirelog/quire/internal/catalog/catalogpb"
)

// SnapshotVersion is the version of the snapshots that this code writes.
const SnapshotVersion = 3

// MaxChunk bounds a chunk of a snapshot.
const MaxChunk = 256 << 10

// Snapshot gives the state as a sequence of chunks of at most MaxChunk bytes
// each, which a Loader reads. Equal states give equal chunks. The state is
// taken at the call: the sequence may be walked later, and by another
// goroutine, while more commands are applied. A chunk belongs to whoever
// receives it.
func (s *State) Snapshot() iter.Seq[[]byte] { return s.snapshot(SnapshotVersion) }

func (s *State) snapshot(version uint32) iter.Seq[[]byte] {
	// The topics are immutable, and the slices that are not copied are only
	// appended to or cut at the front.
	view := &State{
		namespaces: s.namespaces, ordered: slices.Clone(s.ordered), tombstones: s.tombstones,
		deletions: s.deletions, nextRange: s.nextRange, nextSegment: s.nextSegment,
	}
	retired := s.retiredInOrder()
	return func(yield func([]byte) bool) {
		w := chunkWriter{yield: yield}
		for item := range view.items(version, retired) {
			if !w.add(item) {
				return
			}
		}
		if w.flush() {
			w.finish()
		}
	}
}

// items are what a snapshot consists of, in their order, but for the footer.
func (s *State) items(version uint32, retired []Retired) iter.Seq[*pb.SnapshotItem] {
	return func(yield func(*pb.SnapshotItem) bool) {
		if !yield(s.headerItem(version)) {
			return
		}
		for _, n := range s.namespaces {
			if !yield(namespaceItem(n)) {
				return
			}
		}
		for _, t := range s.ordered {
			for item := range topicItems(t) {
				if !yield(item) {
					return
				}
			}
		}
		for _, r := range retired {
			if !yield(retiredItem(r)) {
				return
			}
		}
		for _, t := range s.tombstones {
			if !yield(tombstoneItem(t)) {
				return
			}
		}
	}
}

func topicItems(t *Topic) iter.Seq[*pb.SnapshotItem] {
	return func(yield func(*pb.SnapshotItem) bool) {
		if !yield(topicItem(t)) {
			return
		}
		for _, r := range t.Ranges {
			if !yield(rangeItem(r)) {
				return
			}
			for _, g := range r.Segments {
				if !yield(segmentItem(g)) {
					return
				}
			}
		}
	}
}

func (s *State) headerItem(version uint32) *pb.SnapshotItem {
	return &pb.SnapshotItem{Item: &pb.SnapshotItem_Header{Header: &pb.SnapshotHeader{
		Version: version, NextRange: uint64(s.nextRange), NextSegment: uint64(s.nextSegment),
		Deletions: s.deletions,
	}}}
}

func namespaceItem(n Namespace) *pb.SnapshotItem {
	m := &pb.Namespace{Tenant: n.Tenant, Namespace: n.Namespace}
	return &pb.SnapshotItem{Item: &pb.SnapshotItem_Namespace{Namespace: m}}
}

func topicItem(t *Topic) *pb.SnapshotItem {
	return &pb.SnapshotItem{Item: &pb.SnapshotItem_Topic{Topic: topicToPB(t)}}
}

func rangeItem(r *Range) *pb.SnapshotItem {
	return &pb.SnapshotItem{Item: &pb.SnapshotItem_Range{Range: rangeToPB(r)}}
}

func segmentItem(g SealedSegment) *pb.SnapshotItem {
	return &pb.SnapshotItem{Item: &pb.SnapshotItem_Segment{Segment: sealedToPB(g)}}
}

func retiredItem(r Retired) *pb.SnapshotItem {
	return &pb.SnapshotItem{Item: &pb.SnapshotItem_Retired{Retired: retiredToPB(r)}}
}

func tombstoneItem(t Tombstone) *pb.SnapshotItem {
	return &pb.SnapshotItem{Item: &pb.SnapshotItem_Tombstone{Tombstone: tombstoneToPB(t)}}
}

func footerItem(items, digest uint64) *pb.SnapshotItem {
	return &pb.SnapshotItem{Item: &pb.SnapshotItem_Footer{Footer: &pb.SnapshotFooter{Items: items, Digest: digest}}}
}

// chunkWriter gathers items into chunks. Its methods say whether more is
// wanted.
type chunkWriter struct {
	yield  func([]byte) bool
	chunk  pb.SnapshotChunk
	size   int
	items  uint64
	digest xxh3.Hasher
}

// itemFrame is at least what a chunk adds to the bytes of an item, and
// chunkFrame what it adds to those of all.
const (
	itemFrame  = 8
	chunkFrame = 16
)

func (w *chunkWriter) add(item *pb.SnapshotItem) bool {
	n := item.SizeVT() + itemFrame
	if w.size+n > MaxChunk-chunkFrame && !w.flush() {
		return false
	}
	w.chunk.Items = append(w.chunk.Items, item)
	w.size += n
	w.items++
	return true
}

func (w *chunkWriter) flush() bool {
	b, err := w.chunk.MarshalVT()
	if err != nil {
		panic("catalog: a snapshot's message does not encode: " + err.Error())
	}
	clear(w.chunk.Items)
	w.chunk.Items, w.size = w.chunk.Items[:0], 0
	w.chunk.Index++
	_, _ = w.digest.Write(b) // a hash takes everything
	return w.yield(b)
}

func (w *chunkWriter) finish() {
	w.chunk.Items = append(w.chunk.Items, footerItem(w.items, w.digest.Sum64()))
	w.flush()
}
