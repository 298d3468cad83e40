package consensus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/varint"
	"github.com/quirelog/quire/status"
)

const (
	// FrameVersion is the version of the frames that this code writes.
	FrameVersion = 1
	// MaxFrame bounds a frame. It must hold a Message of Config.MaxMessageBytes
	// and one entry or chunk more.
	MaxFrame = 16 << 20
	// maxEnvelope bounds the protobuf of one raft message, which is without its
	// entries.
	maxEnvelope = 64 << 10

	frameHead = 1 + 16 + 16
	frameTail = 8
)

// EncodeMessage makes the frame of a Message. FORMAT.md draws it.
func EncodeMessage(m Message) []byte {
	b := make([]byte, 0, 512)
	b = append(b, FrameVersion)
	b = append(b, m.From[:]...)
	b = append(b, m.To[:]...)
	b = binary.AppendUvarint(b, uint64(len(m.Heartbeats)))
	for i := range m.Heartbeats {
		b = m.Heartbeats[i].encode(b)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Raft)))
	for i := range m.Raft {
		b = m.Raft[i].encode(b)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Chunks)))
	for i := range m.Chunks {
		b = m.Chunks[i].encode(b)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Acks)))
	for i := range m.Acks {
		b = m.Acks[i].encode(b)
	}
	return sealed(b)
}

// sealed appends the checksum of a frame.
func sealed(b []byte) []byte { return binary.LittleEndian.AppendUint64(b, xxh3.Hash(b)) }

// DecodeMessage reads a frame. Whatever is not one that EncodeMessage wrote is a
// *status.Error of code protocol_violation, or version_unsupported. Entries and
// contexts have memory of their own, the data of chunks is that of b.
func DecodeMessage(b []byte) (Message, error) {
	switch {
	case len(b) > 0 && b[0] > FrameVersion:
		return Message{}, status.New(status.VersionMismatch,
			"a frame of version %d between stores, this program knows version %d", b[0], FrameVersion)
	case len(b) < frameHead+frameTail || len(b) > MaxFrame || b[0] == 0:
		return Message{}, status.New(status.ProtocolViolation, "%d bytes are no frame between stores", len(b))
	}
	body := b[:len(b)-frameTail]
	if binary.LittleEndian.Uint64(b[len(body):]) != xxh3.Hash(body) {
		return Message{}, status.New(status.ProtocolViolation, "a frame between stores has another checksum")
	}
	d := frameDecoder{Scanner: varint.Scanner{Rest: body[1:]}, entries: maxScannedEntries}
	m := d.message()
	if d.err == nil && (d.Bad || len(d.Rest) > 0) {
		d.err = errFrame
	}
	if d.err != nil {
		return Message{}, status.New(status.ProtocolViolation, "a frame between stores: %w", d.err)
	}
	return m, nil
}

var errFrame = errors.New("it does not end where its parts do")

type frameDecoder struct {
	varint.Scanner
	entries int // that may still come
	err     error
}

func (d *frameDecoder) store() (s ident.StoreID) {
	copy(s[:], d.Take(uint64(len(s))))
	return s
}

// each calls f for each item of a list, until something is wrong. The items have
// at least a byte, so a list is no longer than what is left.
func (d *frameDecoder) each(f func()) {
	for n := d.Uvarint(); n > 0 && !d.Bad && d.err == nil; n-- {
		f()
	}
}

func (d *frameDecoder) flag() bool {
	b := d.Take(1)
	if b != nil && b[0] > 1 {
		d.err = errors.New("a flag is neither 0 nor 1")
	}
	return b != nil && b[0] == 1
}

func (d *frameDecoder) number() int {
	n := d.Uvarint()
	if n > 1<<40 {
		d.err = fmt.Errorf("a length of %d bytes", n)
		return 0
	}
	return int(n)
}

func (d *frameDecoder) message() (m Message) {
	m.From, m.To = d.store(), d.store()
	d.each(func() { m.Heartbeats = append(m.Heartbeats, d.heartbeat()) })
	d.each(func() { m.Raft = append(m.Raft, d.raft()) })
	d.each(func() { m.Chunks = append(m.Chunks, d.chunk()) })
	d.each(func() { m.Acks = append(m.Acks, d.ack()) })
	return m
}

func appendPeers(b []byte, g GroupID, from, to PeerID) []byte {
	b = binary.AppendUvarint(b, uint64(g))
	b = binary.AppendUvarint(b, uint64(from))
	return binary.AppendUvarint(b, uint64(to))
}

func (d *frameDecoder) peers() (g GroupID, from, to PeerID) {
	return GroupID(d.Uvarint()), PeerID(d.Uvarint()), PeerID(d.Uvarint())
}

func appendFlag(b []byte, f bool) []byte {
	if f {
		return append(b, 1)
	}
	return append(b, 0)
}

func (h *Heartbeat) encode(b []byte) []byte {
	b = appendPeers(b, h.Group, h.From, h.To)
	b = binary.AppendUvarint(b, h.Term)
	b = binary.AppendUvarint(b, h.Commit)
	b = appendFlag(b, h.Answer)
	b = binary.AppendUvarint(b, uint64(len(h.Context)))
	return append(b, h.Context...)
}

func (d *frameDecoder) heartbeat() (h Heartbeat) {
	h.Group, h.From, h.To = d.peers()
	h.Term, h.Commit = d.Uvarint(), d.Uvarint()
	h.Answer = d.flag()
	h.Context = bytes.Clone(d.Take(d.Uvarint()))
	if len(h.Context) == 0 {
		h.Context = nil
	}
	return h
}

func (g *GroupMessage) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(g.Group))
	envelope := g.Message
	envelope.Entries = nil
	n := envelope.Size()
	b = binary.AppendUvarint(b, uint64(n))
	b = append(b, make([]byte, n)...)
	if _, err := envelope.MarshalToSizedBuffer(b[len(b)-n:]); err != nil {
		panic("consensus: a message does not encode: " + err.Error())
	}
	return AppendEntries(b, g.Message.Entries)
}

func (d *frameDecoder) raft() (g GroupMessage) {
	g.Group = GroupID(d.Uvarint())
	n := d.Uvarint()
	if n > maxEnvelope {
		d.err = fmt.Errorf("a message of %d bytes beside its entries", n)
		return g
	}
	envelope := d.Take(n)
	if d.err = g.Message.Unmarshal(envelope); d.err != nil {
		return g
	}
	if again, err := g.Message.Marshal(); err != nil || len(g.Message.Entries) > 0 || !bytes.Equal(again, envelope) {
		d.err = errors.New("a message is not in its one form")
		return g
	}
	var es []raftpb.Entry
	es, d.err = ScanEntries(&d.Scanner, d.entries)
	g.Message.Entries = es
	d.entries -= len(es)
	return g
}

func (c *Chunk) encode(b []byte) []byte {
	b = appendPeers(b, c.Group, c.From, c.To)
	b = binary.AppendUvarint(b, c.Term)
	b = AppendMeta(b, c.Meta)
	b = binary.AppendUvarint(b, uint64(c.Total))
	b = binary.LittleEndian.AppendUint64(b, c.Sum)
	b = binary.AppendUvarint(b, uint64(c.Offset))
	b = binary.AppendUvarint(b, uint64(len(c.Data)))
	return append(b, c.Data...)
}

func (d *frameDecoder) chunk() (c Chunk) {
	c.Group, c.From, c.To = d.peers()
	c.Term = d.Uvarint()
	var err error
	if c.Meta, err = ScanMeta(&d.Scanner); err != nil {
		d.err = err
		return c
	}
	c.Total = d.number()
	if sum := d.Take(8); sum != nil {
		c.Sum = binary.LittleEndian.Uint64(sum)
	}
	c.Offset = d.number()
	c.Data = d.Take(d.Uvarint())
	if len(c.Data) == 0 {
		c.Data = nil
	}
	return c
}

func (a *ChunkAck) encode(b []byte) []byte {
	b = appendPeers(b, a.Group, a.From, a.To)
	b = binary.AppendUvarint(b, a.Term)
	b = binary.AppendUvarint(b, a.Index)
	b = binary.AppendUvarint(b, uint64(a.Next))
	return appendFlag(b, a.Done)
}

func (d *frameDecoder) ack() (a ChunkAck) {
	a.Group, a.From, a.To = d.peers()
	a.Term, a.Index = d.Uvarint(), d.Uvarint()
	a.Next = d.number()
	a.Done = d.flag()
	return a
}
