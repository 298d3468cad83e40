package batch

import (
	"encoding/binary"
	"fmt"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
)

// ProducerSize is the size of the producer fields that follow the fixed header
// when the attribute for them is set.
const ProducerSize = 64

// Positions of the producer fields, counted from the end of the fixed header.
const (
	atProducerID = 0
	atSession    = 16
	atFirst      = 24
	atFloor      = 32
	atPrev       = 40
	atBandFirst  = 48
	atBandLast   = 56
)

// ProducerID is the identity of a producer, which outlives its sessions.
type ProducerID [16]byte

// Producer is the part of a batch by which a range recognizes a retry. The
// rules for it are P in the protocol's description.
type Producer struct {
	ID      ProducerID
	Session uint64
	// First is the sequence of the first record. The sequences of a batch rise.
	First uint64
	// Floor: every sequence of Band at or below it is settled at the client.
	Floor uint64
	// Prev is the highest unsettled sequence before First whose position lies
	// in the range's band, else Floor.
	Prev uint64
	// Band is what Floor speaks for.
	Band keyspace.Band
}

// ProducerOf gives the producer fields of a batch that has a header with them.
func ProducerOf(b []byte) (Producer, error) {
	if len(b) < HeaderSize {
		return Producer{}, fmt.Errorf("%w: %d bytes are no header", ErrCorrupt, len(b))
	}
	return parseProducer(b[HeaderSize:])
}

// Renew writes p over the producer fields of an encoded batch that has them. The
// records stay as they are, so First has to.
func (p *Producer) Renew(b []byte) error {
	h, err := ParseHeader(b)
	if err != nil {
		return err
	}
	before, err := ProducerOf(b)
	switch {
	case err != nil:
		return err
	case !h.HasProducer || before.First != p.First:
		return fmt.Errorf("%w: producer fields for sequence %d on a batch that begins with %d", ErrMalformed, p.First, before.First)
	}
	p.put(b[HeaderSize:])
	h.encode(b)
	return nil
}

// put writes p over the first ProducerSize bytes of b.
func (p *Producer) put(b []byte) {
	le := binary.LittleEndian
	copy(b[atProducerID:], p.ID[:])
	le.PutUint64(b[atSession:], p.Session)
	le.PutUint64(b[atFirst:], p.First)
	le.PutUint64(b[atFloor:], p.Floor)
	le.PutUint64(b[atPrev:], p.Prev)
	le.PutUint64(b[atBandFirst:], uint64(p.Band.First))
	le.PutUint64(b[atBandLast:], uint64(p.Band.Last))
}

// parseProducer decodes what put wrote. Floor ≤ Prev < First holds of every
// batch that a client can have a reason to send.
func parseProducer(b []byte) (Producer, error) {
	if len(b) < ProducerSize {
		return Producer{}, fmt.Errorf("%w: %d bytes of producer fields", ErrCorrupt, len(b))
	}
	le := binary.LittleEndian
	p := Producer{
		ID:      ProducerID(b[atProducerID:atSession]),
		Session: le.Uint64(b[atSession:]),
		First:   le.Uint64(b[atFirst:]),
		Floor:   le.Uint64(b[atFloor:]),
		Prev:    le.Uint64(b[atPrev:]),
		Band: keyspace.Band{
			First: ident.Position(le.Uint64(b[atBandFirst:])),
			Last:  ident.Position(le.Uint64(b[atBandLast:])),
		},
	}
	return p, p.check()
}

func (p *Producer) check() error {
	if !p.Band.Valid() {
		return fmt.Errorf("%w: producer's band %s", ErrCorrupt, p.Band)
	}
	if p.Floor > p.Prev || p.Prev >= p.First {
		return fmt.Errorf("%w: producer's floor %d, prev %d, first %d", ErrCorrupt, p.Floor, p.Prev, p.First)
	}
	return nil
}
