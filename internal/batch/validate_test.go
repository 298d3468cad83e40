package batch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/record"
)

// one is a batch of the records, as a Builder makes it.
func one(t *testing.T, o Options, recs ...Record) []byte {
	t.Helper()
	b := NewBuilder(o)
	for i := range recs {
		if err := b.Add(&recs[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish()
}

func TestValidateTakesWhatProducersWrite(t *testing.T) {
	for _, name := range []string{"plain", "s2", "zstd", "producer"} {
		b := golden(t, name)
		h, err := Validate(b, Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want, _ := ParseHeader(b); h != want {
			t.Errorf("%s: header %+v, want %+v", name, h, want)
		}
	}
}

func TestValidateRefusesWhatProducersMayNotWrite(t *testing.T) {
	full := Limits{}
	hundred := Limits{MaxValue: 100}
	flipped := golden(t, "plain")
	flipped[HeaderSize+5] ^= 1
	// over is a batch that a Builder would not make.
	over := func(r Record) []byte {
		var e encoder
		return wrap(Header{Count: 1}, e.append(nil, &r, e.size(&r)))
	}
	manyHeaders := make([]record.Header, record.MaxHeaders+1)
	bigHeader := []record.Header{{Value: make([]byte, record.MaxHeaderBytes+1)}}
	for name, c := range map[string]struct {
		batch  []byte
		limits Limits
		want   error
	}{
		"control":          {golden(t, "control"), full, ErrKind},
		"restated":         {golden(t, "restated"), full, ErrKind},
		"sparse":           {golden(t, "sparse"), full, ErrKind},
		"a checkpoint":     {one(t, Options{}, Record{Kind: Checkpoint}), full, ErrKind},
		"a flipped bit":    {flipped, full, ErrCorrupt},
		"a cut batch":      {golden(t, "plain")[:200], full, ErrCorrupt},
		"nothing":          {nil, full, ErrCorrupt},
		"a value":          {over(Record{Value: make([]byte, 101)}), hundred, ErrRecordTooLarge},
		"a default value":  {over(Record{Value: make([]byte, record.MaxValue+1)}), full, ErrRecordTooLarge},
		"a key":            {over(Record{Key: make([]byte, record.MaxKey+1)}), full, ErrRecordTooLarge},
		"headers":          {over(Record{Headers: manyHeaders}), full, ErrRecordTooLarge},
		"header bytes":     {over(Record{Headers: bigHeader}), full, ErrRecordTooLarge},
		"bytes behind":     {wrap(Header{Count: 1}, []byte{2, 0, 0, 0}), full, ErrCorrupt},
		"a missing record": {wrap(Header{Count: 2}, []byte{5, 0, 0, 1, 2, 3}), full, ErrCorrupt},
		"a bad producer": {
			one(t, Options{Producer: &Producer{Band: keyspace.Full()}}, Record{Sequence: 0}), full, ErrCorrupt,
		},
	} {
		if h, err := Validate(c.batch, c.limits); !errors.Is(err, c.want) || h != (Header{}) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestValidateTakesRecordsAtTheirLimits(t *testing.T) {
	b := one(t, Options{}, Record{
		Key: make([]byte, record.MaxKey), Value: make([]byte, 100),
		Headers: []record.Header{{Value: make([]byte, record.MaxHeaderBytes)}, 63: {}},
	})
	if _, err := Validate(b, Limits{MaxValue: 100}); err != nil {
		t.Fatal(err)
	}
}

func TestValidateSpansTheKeys(t *testing.T) {
	nowhere := keyspace.Band{First: 1}
	recs := []Record{{Value: []byte("no key")}}
	want := nowhere
	for i := range 100 {
		key := fmt.Appendf(nil, "key %d", i)
		recs = append(recs, Record{Key: key})
		p := keyspace.PositionOf(key)
		if i == 0 {
			want = keyspace.Band{First: p, Last: p}
		}
		want.First, want.Last = min(want.First, p), max(want.Last, p)
	}
	for _, c := range []Compression{None, S2, Zstd} {
		span := nowhere
		if _, err := Validate(one(t, Options{Compression: c}, recs...), Limits{Span: &span}); err != nil || span != want {
			t.Errorf("compression %d: %v, %v, want %v", c, span, err, want)
		}
	}
	span := nowhere
	if _, err := Validate(one(t, Options{}, recs[0]), Limits{Span: &span}); err != nil || span.Valid() {
		t.Errorf("without a key: %v, %v", span, err)
	}
}

func TestValidationAllocatesNothingPerRecord(t *testing.T) {
	for _, c := range []Compression{None, S2, Zstd} {
		b := benchBatch(c)
		span := keyspace.Band{First: 1}
		lim := Limits{Span: &span}
		n := testing.AllocsPerRun(20, func() {
			if _, err := Validate(b, lim); err != nil {
				t.Fatal(err)
			}
		})
		if n > 10 {
			t.Errorf("compression %d: %v allocations for 4,096 records", c, n)
		}
	}
}
