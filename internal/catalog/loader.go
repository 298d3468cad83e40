package catalog

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	pb "github.com/quirelog/quire/internal/catalog/catalogpb"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// Loader makes a State of the chunks of a snapshot, which it takes one by one
// in their order. It refuses, with a *status.Error of code data_newer, a
// version that it does not know, and with data_corrupt whatever is not exactly
// a snapshot: damaged, incomplete, reordered, or in breach of an invariant.
// After an error the loader is of no more use.
type Loader struct {
	state *State
	// version is that of the snapshot.
	version uint32
	next    uint64 // the chunk that is due
	stage   stage
	items   uint64
	digest  xxh3.Hasher
	// What the next item belongs to, or comes after.
	topic   *Topic
	rng     *Range
	retired ident.SegmentID
}

// stage is how far a snapshot has come; it only grows.
type stage uint8

const (
	atHeader stage = iota
	atNamespaces
	atTopics
	atRetired
	atTombstones
	atEnd
)

var errOrder = errors.New("it is out of order")

// NewLoader begins a snapshot.
func NewLoader() *Loader { return &Loader{state: empty()} }

// Add takes the next chunk. It keeps nothing of b.
func (l *Loader) Add(b []byte) error {
	if len(b) > MaxChunk {
		return status.New(status.DataCorrupt, "catalog snapshot: a chunk of %d bytes, at most %d", len(b), MaxChunk)
	}
	var chunk pb.SnapshotChunk
	if err := chunk.UnmarshalVT(b); err != nil {
		return status.New(status.DataCorrupt, "catalog snapshot, chunk %d: %w", l.next, err)
	}
	if l.stage == atHeader && len(chunk.Items) > 0 {
		// A newer version comes before all else: its other differences
		// would only look like damage.
		if h := chunk.Items[0].GetHeader(); h != nil {
			if err := checkVersion("snapshot", h.Version, SnapshotVersion); err != nil {
				return err
			}
		}
	}
	if err := l.addChunk(&chunk, b); err != nil {
		return status.New(status.DataCorrupt, "catalog snapshot, chunk %d: %w", l.next, err)
	}
	l.next++
	_, _ = l.digest.Write(b) // a hash takes everything
	return nil
}

// State ends the snapshot and gives what it holds, checked.
func (l *Loader) State() (*State, error) {
	if l.stage != atEnd {
		return nil, status.New(status.DataCorrupt, "catalog snapshot: it ends after %d chunks without a footer", l.next)
	}
	if err := l.state.Check(); err != nil {
		return nil, status.New(status.DataCorrupt, "catalog snapshot: %w", err)
	}
	return l.state, nil
}

func (l *Loader) addChunk(chunk *pb.SnapshotChunk, b []byte) error {
	switch {
	case l.stage == atEnd:
		return errors.New("it follows the footer")
	case chunk.Index != l.next:
		return fmt.Errorf("chunk %d comes in its place", chunk.Index)
	case len(chunk.Items) == 0:
		return errors.New("it is empty")
	}
	again := pb.SnapshotChunk{Index: chunk.Index}
	for _, item := range chunk.Items {
		encoded, err := l.addItem(item)
		if err != nil {
			return fmt.Errorf("item %d: %w", l.items, err)
		}
		again.Items = append(again.Items, encoded)
		l.items++
	}
	if l.stage == atEnd && len(chunk.Items) != 1 {
		return errors.New("the footer is not alone")
	}
	encoded, err := again.MarshalVT()
	if err != nil {
		return err
	}
	if !bytes.Equal(encoded, b) {
		return errUnknownFields
	}
	return nil
}

// addItem takes an item and gives what it would be encoded as.
func (l *Loader) addItem(item *pb.SnapshotItem) (*pb.SnapshotItem, error) {
	var d decoder
	var err error
	var again *pb.SnapshotItem
	switch m := item.Item.(type) {
	case *pb.SnapshotItem_Header:
		err = l.addHeader(m.Header)
		again = l.state.headerItem(m.Header.Version)
	case *pb.SnapshotItem_Namespace:
		n := Namespace{m.Namespace.Tenant, m.Namespace.Namespace}
		err = l.advance(atNamespaces)
		l.state.namespaces = append(l.state.namespaces, n)
		again = namespaceItem(n)
	case *pb.SnapshotItem_Topic:
		t := d.topic(m.Topic)
		again = topicItem(t)
		err = l.addTopic(t)
	case *pb.SnapshotItem_Range:
		r := d.rng(m.Range)
		again = rangeItem(r)
		err = l.addRange(r)
	case *pb.SnapshotItem_Segment:
		g := d.sealed(m.Segment)
		again = segmentItem(g)
		err = l.addSegment(g)
	case *pb.SnapshotItem_Retired:
		r := d.retired(m.Retired)
		again = retiredItem(r)
		err = l.addRetired(r)
	case *pb.SnapshotItem_Tombstone:
		t := d.tombstone(m.Tombstone)
		again = tombstoneItem(t)
		err = l.addTombstone(t)
	case *pb.SnapshotItem_Footer:
		err = l.addFooter(m.Footer)
		again = footerItem(m.Footer.Items, m.Footer.Digest)
	default:
		err = errors.New("it has no kind that this version knows")
	}
	if d.err != nil {
		return nil, d.err
	}
	return again, err
}

// advance enters the stage that an item belongs to.
func (l *Loader) advance(to stage) error {
	if l.stage == atHeader || to < l.stage {
		return errOrder
	}
	l.stage = to
	return nil
}

func (l *Loader) addHeader(h *pb.SnapshotHeader) error {
	if l.stage != atHeader {
		return errOrder
	}
	l.stage, l.version = atNamespaces, h.Version
	l.state.nextRange = ident.RangeID(h.NextRange)
	l.state.nextSegment = ident.SegmentID(h.NextSegment)
	l.state.deletions = h.Deletions
	return nil
}

// addTopic relies on Check for the order of the names and for repeated names
// and ids, which leave fewer entries in a map than in the order.
func (l *Loader) addTopic(t *Topic) error {
	if err := l.advance(atTopics); err != nil {
		return err
	}
	if scope, ok := l.state.namespace(t.Name); ok {
		t.Name.Tenant, t.Name.Namespace = scope.Tenant, scope.Namespace
	}
	if t.Sessions > 0 && l.version < 3 {
		return fmt.Errorf("topic %s has sessions, which version %d has not", t.Name, l.version)
	}
	l.topic, l.rng = t, nil
	l.state.ordered = append(l.state.ordered, t)
	l.state.byID[t.ID], l.state.byName[t.Name] = t, t
	return nil
}

func (l *Loader) addRange(r *Range) error {
	if l.stage != atTopics || l.topic == nil {
		return errOrder
	}
	if l.version < 2 && len(r.Parents)+len(r.Children) > 0 {
		return errUnknownFields
	}
	l.rng = r
	l.topic.Ranges = append(l.topic.Ranges, r)
	return nil
}

func (l *Loader) addSegment(g SealedSegment) error {
	if l.stage != atTopics || l.rng == nil {
		return errOrder
	}
	l.rng.Segments = append(l.rng.Segments, g)
	return nil
}

func (l *Loader) addRetired(r Retired) error {
	if err := l.advance(atRetired); err != nil {
		return err
	}
	if r.Segment <= l.retired {
		return errOrder
	}
	l.retired = r.Segment
	l.state.retired[r.Segment] = r
	return nil
}

func (l *Loader) addTombstone(t Tombstone) error {
	if err := l.advance(atTombstones); err != nil {
		return err
	}
	if scope, ok := l.state.namespace(t.Name); ok {
		t.Name.Tenant, t.Name.Namespace = scope.Tenant, scope.Namespace
	}
	l.state.tombstones = append(l.state.tombstones, t)
	l.state.gone[t.ID] = t
	return nil
}

func (l *Loader) addFooter(f *pb.SnapshotFooter) error {
	if err := l.advance(atEnd); err != nil {
		return err
	}
	if f.Items != l.items || f.Digest != l.digest.Sum64() {
		return fmt.Errorf("the footer ends %d items with digest %016x, here are %d with %016x",
			f.Items, f.Digest, l.items, l.digest.Sum64())
	}
	return nil
}
