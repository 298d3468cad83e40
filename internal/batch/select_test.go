package batch

import (
	"bytes"
	"errors"
	"testing"
)

func all([]byte, bool) bool { return true }

func TestSelectFromASelectionKeepsTheOffsets(t *testing.T) {
	sparse := golden(t, "sparse")
	out, n, err := Select(sparse, 0, 3, all)
	if err != nil || n != 3 || !bytes.Equal(out, sparse) {
		t.Fatalf("%d records, other bytes: %v", n, err)
	}
	out, n, err = Select(sparse, 2, 1, all)
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	h, err := Check(out)
	if err != nil || h.Base != 1004 || h.UserBefore != 994 {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestSelectKeepsOriginals(t *testing.T) {
	out, n, err := Select(golden(t, "restated"), 3, 2, all)
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	var r Reader
	if err := r.Reset(out); err != nil || !r.Next() {
		t.Fatal(err, r.Err())
	}
	if v := r.Record(); v.Original.Epoch != 2 || v.Original.Offset != 60 || v.AppendTime != v.Original.AppendTime {
		t.Fatalf("%+v", v)
	}
	if h := r.Header(); h.Kind != Restated || h.UserBefore != goldenStamp.UserBefore {
		t.Fatalf("%+v", *h)
	}
}

func TestSelectFromTheLargestBatchIsRead(t *testing.T) {
	b := NewBuilder(Options{Compression: S2})
	short := Record{Value: make([]byte, 124)} // a longer head needs a longer length
	for b.Count() < MaxRecords-1 {
		if err := b.Add(&short); err != nil {
			t.Fatal(err)
		}
	}
	last := Record{Value: make([]byte, MaxSize-b.Size()-6)}
	if err := b.Add(&last); err != nil || b.Size() != MaxSize {
		t.Fatal(err, b.Size())
	}
	out, n, err := Select(b.Finish(), 0, MaxRecords, all)
	if err != nil || n != MaxRecords {
		t.Fatal(n, err)
	}
	if len(out) <= MaxSize {
		t.Fatalf("%d bytes show nothing", len(out))
	}
	if readAll(t, out) != MaxRecords {
		t.Fatal("not all are there")
	}
}

func TestSelectRefusesADamagedBatch(t *testing.T) {
	b := golden(t, "plain")
	b[len(b)-1] ^= 1
	for name, b := range map[string][]byte{
		"a flipped bit": b,
		"a bad record":  wrap(Header{Count: 1}, []byte{3, 0, 0}),
	} {
		if out, n, err := Select(b, 0, 10, all); !errors.Is(err, ErrCorrupt) || out != nil || n != 0 {
			t.Errorf("%s: %d records, %v", name, n, err)
		}
	}
}
