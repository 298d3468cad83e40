package catalog

import (
	"fmt"
	"time"

	pb "github.com/quirelog/quire/internal/catalog/catalogpb"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// Each type of the state has a pair of functions here, to its message and back.
// What a message can say and the type cannot is caught by whoever decodes: it
// encodes again and compares the bytes.

// decoder keeps the first error of a message that is being decoded.
type decoder struct{ err error }

// id reads an identity. None is the zero identity.
func (d *decoder) id(b []byte) (id ident.Incarnation) {
	if len(b) != 0 && len(b) != len(id) && d.err == nil {
		d.err = fmt.Errorf("an identity of %d bytes", len(b))
	}
	copy(id[:], b)
	return id
}

func idBytes(id ident.Incarnation) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func nameToPB(n Name) *pb.Name {
	return &pb.Name{Tenant: n.Tenant, Namespace: n.Namespace, Topic: n.Topic}
}

func nameFromPB(m *pb.Name) Name {
	return Name{m.GetTenant(), m.GetNamespace(), m.GetTopic()}
}

func ownerToPB(o Owner) *pb.Owner {
	return &pb.Owner{Store: idBytes(o.Store), Process: idBytes(o.Process)}
}

func (d *decoder) owner(m *pb.Owner) Owner {
	return Owner{Store: d.id(m.GetStore()), Process: d.id(m.GetProcess())}
}

func settingsToPB(s Settings) *pb.Settings {
	m := &pb.Settings{
		Ack: pb.Ack(s.Ack), Replicas: uint32(s.Replicas), MaxValueBytes: s.MaxValueBytes,
		SegmentBytes: s.SegmentBytes, SegmentAgeMs: s.SegmentAge.Milliseconds(),
		RetentionBytes: s.RetentionBytes, RetentionAgeMs: s.RetentionAge.Milliseconds(),
	}
	if s.MaxRanges != defaultMaxRanges {
		m.MaxRanges = s.MaxRanges
	}
	switch interval, ok := s.Fsync.Interval(); {
	case ok:
		m.Fsync, m.FsyncIntervalMs = pb.Fsync_FSYNC_INTERVAL, interval.Milliseconds()
	case s.Fsync == FsyncNever:
		m.Fsync = pb.Fsync_FSYNC_NEVER
	default:
		m.Fsync = pb.Fsync_FSYNC_ALWAYS
	}
	return m
}

func settingsFromPB(m *pb.Settings) Settings {
	s := Settings{
		Ack: Ack(m.GetAck()), Replicas: uint8(m.GetReplicas()), MaxValueBytes: m.GetMaxValueBytes(),
		SegmentBytes: m.GetSegmentBytes(), SegmentAge: millis(m.GetSegmentAgeMs()),
		RetentionBytes: m.GetRetentionBytes(), RetentionAge: millis(m.GetRetentionAgeMs()),
	}
	if s.MaxRanges = m.GetMaxRanges(); s.MaxRanges == 0 {
		s.MaxRanges = defaultMaxRanges
	}
	switch m.GetFsync() {
	case pb.Fsync_FSYNC_INTERVAL:
		s.Fsync = Fsync(millis(m.GetFsyncIntervalMs()))
	case pb.Fsync_FSYNC_NEVER:
		s.Fsync = FsyncNever
	}
	return s
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func topicToPB(t *Topic) *pb.Topic {
	return &pb.Topic{
		Id: idBytes(t.ID), Name: nameToPB(t.Name), Type: pb.TopicType(t.Type), Settings: settingsToPB(t.Settings),
		Version: t.Version, Token: idBytes(t.Token), CreatedUs: int64(t.Created), Sessions: t.Sessions,
	}
}

func (d *decoder) topic(m *pb.Topic) *Topic {
	return &Topic{
		ID: d.id(m.Id), Name: nameFromPB(m.Name), Type: TopicType(m.Type), Settings: settingsFromPB(m.Settings),
		Version: m.Version, Token: d.id(m.Token), Created: ident.Timestamp(m.CreatedUs), Sessions: m.Sessions,
	}
}

func rangeToPB(r *Range) *pb.Range {
	m := &pb.Range{
		Id: uint64(r.ID), FirstPosition: uint64(r.Band.First), LastPosition: uint64(r.Band.Last),
		Epoch: uint64(r.Epoch), Owner: ownerToPB(r.Owner), Version: r.Version,
		Start: uint64(r.Start), UserBefore: r.UserBefore, LastTimeUs: int64(r.LastTime),
	}
	for _, id := range r.Parents {
		m.Parents = append(m.Parents, uint64(id))
	}
	for _, id := range r.Children {
		m.Children = append(m.Children, uint64(id))
	}
	if r.Open != nil {
		m.Open = openToPB(*r.Open)
	}
	return m
}

func (d *decoder) rng(m *pb.Range) *Range {
	r := &Range{
		ID:    ident.RangeID(m.Id),
		Band:  keyspace.Band{First: ident.Position(m.FirstPosition), Last: ident.Position(m.LastPosition)},
		Epoch: ident.Epoch(m.Epoch), Owner: d.owner(m.Owner), Version: m.Version,
		Start: ident.Offset(m.Start), UserBefore: m.UserBefore, LastTime: ident.Timestamp(m.LastTimeUs),
	}
	for _, id := range m.Parents {
		r.Parents = append(r.Parents, ident.RangeID(id))
	}
	for _, id := range m.Children {
		r.Children = append(r.Children, ident.RangeID(id))
	}
	if m.Open != nil {
		open := d.open(m.Open)
		r.Open = &open
	}
	return r
}

func openToPB(s OpenSegment) *pb.OpenSegment {
	return &pb.OpenSegment{
		Id: uint64(s.ID), Epoch: uint64(s.Epoch), Base: uint64(s.Base), UserBefore: s.UserBefore,
		Chain: s.Chain, Store: idBytes(s.Store),
	}
}

func (d *decoder) open(m *pb.OpenSegment) OpenSegment {
	return OpenSegment{
		ID: ident.SegmentID(m.GetId()), Epoch: ident.Epoch(m.GetEpoch()), Base: ident.Offset(m.GetBase()),
		UserBefore: m.GetUserBefore(), Chain: m.GetChain(), Store: d.id(m.GetStore()),
	}
}

func sealToPB(s Seal) *pb.Seal {
	return &pb.Seal{
		End: uint64(s.End), Digest: s.Digest, Users: s.Users, Bytes: s.Bytes, LastTimeUs: int64(s.LastTime),
	}
}

func sealFromPB(m *pb.Seal) Seal {
	return Seal{
		End: ident.Offset(m.GetEnd()), Digest: m.GetDigest(), Users: m.GetUsers(), Bytes: m.GetBytes(),
		LastTime: ident.Timestamp(m.GetLastTimeUs()),
	}
}

func endingToPB(e Ending) *pb.Ending {
	return &pb.Ending{
		Range: uint64(e.Range), Epoch: uint64(e.Epoch), Version: e.Version, Open: uint64(e.Open), Seal: sealToPB(e.Seal),
	}
}

func endingFromPB(m *pb.Ending) Ending {
	return Ending{
		Range: ident.RangeID(m.GetRange()), Epoch: ident.Epoch(m.GetEpoch()), Version: m.GetVersion(),
		Open: ident.SegmentID(m.GetOpen()), Seal: sealFromPB(m.GetSeal()),
	}
}

func sealedToPB(s SealedSegment) *pb.SealedSegment {
	return &pb.SealedSegment{Opened: openToPB(s.OpenSegment), Seal: sealToPB(s.Seal)}
}

func (d *decoder) sealed(m *pb.SealedSegment) SealedSegment {
	return SealedSegment{d.open(m.Opened), sealFromPB(m.Seal)}
}

func retiredToPB(r Retired) *pb.Retired {
	return &pb.Retired{Segment: uint64(r.Segment), Topic: idBytes(r.Topic), Store: idBytes(r.Store)}
}

func (d *decoder) retired(m *pb.Retired) Retired {
	return Retired{Segment: ident.SegmentID(m.Segment), Topic: d.id(m.Topic), Store: d.id(m.Store)}
}

func tombstoneToPB(t Tombstone) *pb.Tombstone {
	return &pb.Tombstone{Id: idBytes(t.ID), Name: nameToPB(t.Name), DeletedUs: int64(t.Deleted)}
}

func (d *decoder) tombstone(m *pb.Tombstone) Tombstone {
	return Tombstone{ID: d.id(m.Id), Name: nameFromPB(m.Name), Deleted: ident.Timestamp(m.DeletedUs)}
}
