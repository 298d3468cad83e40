package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/quirelog/quire/internal/ident"
)

// reseal makes both checksums right again after a change.
func reseal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[atPayloadCRC:], payloadCRC(b))
	binary.LittleEndian.PutUint32(b[atHeaderCRC:], headerCRC(b))
	return b
}

func TestHeadersThatNoBuilderWritesAreRefused(t *testing.T) {
	le := binary.LittleEndian
	for name, c := range map[string]struct {
		change func(b []byte)
		want   error
	}{
		"magic":                  {func(b []byte) { b[0] = 'q' }, ErrCorrupt},
		"version":                {func(b []byte) { b[atVersion] = 2 }, ErrVersion},
		"bytes behind version":   {func(b []byte) { b[atVersion+2] = 1 }, ErrCorrupt},
		"attribute":              {func(b []byte) { b[atAttributes] |= 0x40 }, ErrCorrupt},
		"upper attribute":        {func(b []byte) { b[atAttributes+1] = 1 }, ErrCorrupt},
		"bytes behind attribute": {func(b []byte) { b[atAttributes+3] = 1 }, ErrCorrupt},
		"compression":            {func(b []byte) { b[atAttributes] |= 3 }, ErrCorrupt},
		"kind":                   {func(b []byte) { b[atAttributes] |= 3 << attrKindShift }, ErrCorrupt},
		"no records":             {func(b []byte) { le.PutUint32(b[atCount:], 0) }, ErrCorrupt},
		"more than can be":       {func(b []byte) { le.PutUint32(b[atCount:], 1000) }, ErrCorrupt},
		"more than may be":       {func(b []byte) { le.PutUint32(b[atCount:], MaxRecords+1) }, ErrTooLarge},
		"raw size":               {func(b []byte) { b[atRawSize]++ }, ErrCorrupt},
		"raw size over limit":    {func(b []byte) { le.PutUint32(b[atRawSize:], MaxSize-HeaderSize+1) }, ErrTooLarge},
		"raw size over all":      {func(b []byte) { le.PutUint32(b[atRawSize:], ^uint32(0)) }, ErrTooLarge},
		"size over limit":        {func(b []byte) { le.PutUint32(b[atSize:], MaxSize+1) }, ErrTooLarge},
		"size over all":          {func(b []byte) { le.PutUint32(b[atSize:], ^uint32(0)) }, ErrTooLarge},
		"size below the header":  {func(b []byte) { le.PutUint32(b[atSize:], HeaderSize-1) }, ErrCorrupt},
		"offsets that wrap":      {func(b []byte) { le.PutUint64(b[atBase:], ^uint64(0)) }, ErrCorrupt},
	} {
		b := golden(t, "plain")
		c.change(b)
		if _, err := ParseHeader(reseal(b)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestStampChangesTheHeaderAndNothingElse(t *testing.T) {
	b := golden(t, "producer")
	was := bytes.Clone(b)
	s := Stamp{Epoch: 77, Base: 78, UserBefore: 79, Chain: 80, AppendTime: 81}
	s.Apply(b)
	h, err := Check(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := (Stamp{h.Epoch, h.Base, h.UserBefore, h.Chain, h.AppendTime}); got != s {
		t.Errorf("stamped %+v, want %+v", got, s)
	}
	if !bytes.Equal(b[atPayloadCRC:], was[atPayloadCRC:]) {
		t.Error("the stamp reached into the producer's part")
	}
}

func TestHeaderSaysWhereTheBatchEndsAndWhatReadersCount(t *testing.T) {
	for name, user := range map[string]uint64{"plain": 6, "producer": 6, "control": 0, "restated": 0} {
		h, err := Check(golden(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if h.End() != goldenStamp.Base+ident.Offset(h.Count) || h.UserRecords() != user {
			t.Errorf("%s: end %d, %d user records", name, h.End(), h.UserRecords())
		}
	}
}

func TestChainTellsPlaceAndContent(t *testing.T) {
	b := golden(t, "plain")
	chain := NextChain(b)
	for name, change := range map[string]func(s *Stamp){
		"epoch":       func(s *Stamp) { s.Epoch++ },
		"base":        func(s *Stamp) { s.Base++ },
		"user before": func(s *Stamp) { s.UserBefore++ },
		"chain":       func(s *Stamp) { s.Chain++ },
		"append time": func(s *Stamp) { s.AppendTime++ },
	} {
		s := goldenStamp
		change(&s)
		s.Apply(b)
		if NextChain(b) == chain {
			t.Errorf("another %s has the same digest", name)
		}
	}
	b = golden(t, "plain")
	b[len(b)-1] ^= 1
	if NextChain(reseal(b)) == chain {
		t.Error("another payload has the same digest")
	}
}

func TestProducerFieldsOutOfOrderAreRefused(t *testing.T) {
	for name, change := range map[string]func(p *Producer){
		"floor above prev": func(p *Producer) { p.Floor = p.Prev + 1 },
		"prev at first":    func(p *Producer) { p.Prev = p.First },
		"prev above first": func(p *Producer) { p.Prev = p.First + 1 },
		"an empty band":    func(p *Producer) { p.Band.First = p.Band.Last + 1 },
	} {
		b := golden(t, "producer")
		p, err := parseProducer(b[HeaderSize:])
		if err != nil {
			t.Fatal(err)
		}
		change(&p)
		p.put(b[HeaderSize:])
		var r Reader
		if err := r.Reset(reseal(b)); !errors.Is(err, ErrCorrupt) || r.Next() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
