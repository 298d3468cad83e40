package client

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// samples are records of every shape.
func samples() []record.Record {
	at := time.Date(2016, 1, 2, 3, 4, 5, 6000, time.UTC)
	return []record.Record{
		{Value: []byte("without key"), Time: at},
		{Key: []byte{}, Value: []byte("empty key"), Time: at.Add(time.Second)},
		{Key: []byte("k"), Value: []byte{}, Time: at},
		{
			Key: []byte("k"), Value: []byte("v"), Time: at.Add(-time.Hour),
			Headers: []record.Header{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{}}},
		},
		{
			Key: []byte("k"), Value: []byte("w"), Time: at,
			Headers: []record.Header{{Key: "a", Value: []byte("2")}, {Key: "c", Value: []byte("3")}, {Key: "a", Value: []byte("4")}},
		},
	}
}

// It runs in no bubble: the coders of zstd outlive it.
func TestFetchedRecordsAreThoseThatWereProduced(t *testing.T) {
	for _, comp := range []batch.Compression{batch.None, batch.S2, batch.Zstd} {
		t.Run(fmt.Sprint(comp), func(t *testing.T) {
			n := newNetwork(t)
			c := n.client()
			recs := samples()
			recs = append(recs, record.Record{Value: []byte(strings.Repeat("compress me ", 100)), Time: recs[0].Time})
			b := batch.NewBuilder(batch.Options{Compression: comp})
			var payload []byte
			d := &quirev1.Delivery{Start: tokenAt(0), Cursor: tokenAt(2 * len(recs)), AtEnd: true}
			for i := range 2 {
				for j := range recs {
					if err := b.AddRecord(&recs[j]); err != nil {
						t.Fatal(err)
					}
				}
				one := b.Finish()
				batch.Stamp{Epoch: 1, Base: ident.Offset(i * len(recs)), AppendTime: 5_000_000}.Apply(one)
				payload = append(payload, one...)
				d.Slices = append(d.Slices, &quirev1.Slice{Size: uint32(len(one)), Take: uint32(len(recs))})
			}
			var got Fetched
			fetched := background(func() (err error) {
				got, err = c.Fetch(t.Context(), "orders", Start())
				return err
			})
			p := n.accept()
			id, _ := p.fetch()
			p.send(wire.TypeDelivery, id, d, payload)
			if err := <-fetched; err != nil {
				t.Fatal(err)
			}
			for i := range recs {
				recs[i].AppendTime = time.Unix(5, 0).UTC()
				if recs[i].Value == nil {
					recs[i].Value = []byte{}
				}
			}
			wanted := slices.Concat(recs, recs)
			if !reflect.DeepEqual(got.Records, wanted) {
				t.Errorf("got\n%v\nwant\n%v", got.Records, wanted)
			}
			if got.Cursor != tokenAt(2*len(recs)) || !got.AtEnd || got.Gap != nil {
				t.Errorf("got %v %v %v", got.Cursor, got.AtEnd, got.Gap)
			}
		})
	}
}

func TestAppendingToAFetchedRecordLeavesItsNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		var got Fetched
		fetched := background(func() (err error) {
			got, err = c.Fetch(t.Context(), "orders", Start())
			return err
		})
		p := n.accept()
		id, _ := p.fetch()
		p.deliver(id, 0, "a", "b", "c")
		if err := <-fetched; err != nil {
			t.Fatal(err)
		}
		_ = append(got.Records[0].Value, "overwritten"...)
		_ = append(got.Records[0].Key, "overwritten"...)
		want(t, string(got.Records[1].Key)+string(got.Records[1].Value), "kb")
	})
}

func TestAFetchAsksForWhatItsOptionsSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		at := time.Unix(3, 4000)
		ask := func(from From, opts ...FetchOption) *quirev1.FetchRequest {
			done := background(func() error {
				_, err := c.Fetch(t.Context(), "orders", from, opts...)
				return err
			})
			p := n.accept()
			defer p.hangUp()
			id, req := p.fetch()
			p.atEnd(id, 0)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			return req
		}
		req := ask(Start())
		if !req.Start.GetBeginning() || req.Filter != nil || req.MaxRecords != 0 || req.MaxBytes != 0 || req.WaitMs != 0 {
			t.Errorf("without options: %v", req)
		}
		want(t, ask(End()).Start.GetEnd(), true)
		want(t, ask(At(at)).Start.GetTimeUs(), int64(3_000_004))
		want(t, ask(Cursor("c1")).Start.GetCursor(), "c1")
		req = ask(Start(), MaxRecords(7), MaxBytes(8), Wait(1500*time.Microsecond), Key([]byte("x")))
		want(t, []uint32{req.MaxRecords, req.MaxBytes, req.WaitMs}, []uint32{7, 8, 2})
		want(t, string(req.Filter.GetKey()), "x")
		want(t, string(ask(Start(), KeyPrefix([]byte("p"))).Filter.GetKeyPrefix()), "p")
		if _, ok := ask(Start(), Key(nil)).Filter.GetBy().(*quirev1.Filter_Key); !ok {
			t.Error("an empty key is no filter")
		}
	})
}

func TestAFetchOptionOutOfBoundsIsRefused(t *testing.T) {
	c := newNetwork(t).client() // nobody accepts
	for _, opt := range []FetchOption{
		MaxRecords(MaxFetchRecords + 1), MaxRecords(-1), MaxBytes(MaxFetchBytes + 1), Wait(MaxWait + 1), Wait(-1),
		Key(make([]byte, record.MaxKey+1)), KeyPrefix(make([]byte, record.MaxKey+1)),
	} {
		_, err := c.Fetch(t.Context(), "orders", Start(), opt)
		wantCode(t, err, status.InvalidArgument)
	}
}

func TestANameThatFitsIntoNoRequestIsRefusedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := n.client()
		done := background(func() error {
			_, err := c.Fetch(t.Context(), strings.Repeat("x", maxMessage), Start())
			return err
		})
		b := n.accept()
		wantCode(t, <-done, status.FrameTooLarge)
		done = background(func() error {
			_, err := c.Fetch(t.Context(), "orders", Start())
			return err
		})
		id, _ := b.fetch()
		b.atEnd(id, 0)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestADeliveryThatMakesNoSenseIsRefused(t *testing.T) {
	good := stored(t, 0, batch.None, "a", "b")
	damaged := slices.Clone(good)
	damaged[len(damaged)-1] ^= 1
	size := uint32(len(good))
	for _, test := range []struct {
		name    string
		slices  []*quirev1.Slice
		payload []byte
		code    status.Code
	}{
		{"more records than there are", []*quirev1.Slice{{Size: size, Take: 3}}, good, status.ProtocolViolation},
		{"records behind the last", []*quirev1.Slice{{Size: size, Skip: 2, Take: 1}}, good, status.ProtocolViolation},
		{"more bytes than there are", []*quirev1.Slice{{Size: size + 1, Take: 1}}, good, status.ProtocolViolation},
		{"bytes of no slice", []*quirev1.Slice{{Size: size, Take: 1}}, append(slices.Clone(good), 0), status.ProtocolViolation},
		{"absurd counts", []*quirev1.Slice{{Size: size, Take: 1 << 31}}, good, status.ProtocolViolation},
		{"half a batch", []*quirev1.Slice{{Size: size / 2, Take: 1}}, good[:size/2], status.DataCorrupt},
		{"a flipped bit", []*quirev1.Slice{{Size: size, Take: 2}}, damaged, status.DataCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := deliveryOf(&quirev1.Delivery{Slices: test.slices}, test.payload)
			if err == nil {
				_, err = d.all("orders")
			}
			wantCode(t, err, test.code)
		})
	}
}
