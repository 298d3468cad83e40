package segment

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/quirelog/quire/internal/ident"
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

var errShort = errors.New("the piece ends early")

// encoder appends fixed-size numbers.
type encoder struct{ b []byte }

func (e *encoder) u8(v uint8)     { e.b = append(e.b, v) }
func (e *encoder) u32(v uint32)   { e.b = le.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64)   { e.b = le.AppendUint64(e.b, v) }
func (e *encoder) bytes(v []byte) { e.b = append(e.b, v...) }

// decoder reads what encoder wrote; after a piece that ends early it gives
// zeros and err is set.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || len(d.b) < n {
		d.err = errShort
		return make([]byte, n)
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) u8() uint8   { return d.take(1)[0] }
func (d *decoder) u32() uint32 { return le.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return le.Uint64(d.take(8)) }
func (d *decoder) id() (v ident.StoreID) {
	copy(v[:], d.take(len(v)))
	return v
}

// metaSize is the encoded size of a Meta.
const metaSize = 8*7 + 1 + 8

// The flags of an encoded Meta.
const (
	metaWeak     = 1
	metaCritical = 2
)

func (e *encoder) meta(m *Meta) {
	e.u64(uint64(m.ID))
	e.u64(uint64(m.Range))
	e.u64(uint64(m.Epoch))
	e.u64(uint64(m.Base))
	e.u64(m.UserBefore)
	e.u64(m.Chain)
	e.u64(uint64(m.NotBefore))
	flags := uint8(0)
	if m.Durability.Weak {
		flags |= metaWeak
	}
	if m.Critical {
		flags |= metaCritical
	}
	e.u8(flags)
	e.u64(uint64(m.Durability.Interval))
}

func (d *decoder) meta() Meta {
	m := Meta{
		ID:         ident.SegmentID(d.u64()),
		Range:      ident.RangeID(d.u64()),
		Epoch:      ident.Epoch(d.u64()),
		Base:       ident.Offset(d.u64()),
		UserBefore: d.u64(),
		Chain:      d.u64(),
		NotBefore:  ident.Timestamp(d.u64()),
	}
	flags := d.u8()
	m.Durability = Durability{Weak: flags&metaWeak != 0, Interval: time.Duration(d.u64())}
	m.Critical = flags&metaCritical != 0
	return m
}

// tipSize is the encoded size of a tip.
const tipSize = 8 * 6

func (e *encoder) tip(t *tip) {
	e.u64(uint64(t.length))
	e.u64(uint64(t.tail.Base))
	e.u64(t.tail.UserBefore)
	e.u64(t.tail.Chain)
	e.u64(uint64(t.tail.LastTime))
	e.u64(uint64(t.first))
}

func (d *decoder) tip() tip {
	return tip{
		length: int64(d.u64()),
		tail: Tail{
			Base:       ident.Offset(d.u64()),
			UserBefore: d.u64(),
			Chain:      d.u64(),
			LastTime:   ident.Timestamp(d.u64()),
		},
		first: ident.Timestamp(d.u64()),
	}
}

// seal appends the checksum of what the encoder holds from at on.
func (e *encoder) seal(at int) { e.u32(crc32.Checksum(e.b[at:], castagnoli)) }

// unseal checks and removes the checksum at the end of b.
func unseal(b []byte) ([]byte, bool) {
	if len(b) < 4 {
		return nil, false
	}
	body := b[:len(b)-4]
	return body, crc32.Checksum(body, castagnoli) == le.Uint32(b[len(b)-4:])
}
