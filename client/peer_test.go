package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// network is a place for clients to dial in memory; the test is the broker.
type network struct {
	t     *testing.T
	dials chan net.Conn
	// refuse, if set, says why an address cannot be dialed.
	refuse func(addr string) error
	// producer is the one whose batches place has read.
	producer batch.ProducerID
	hello    *quirev1.HelloResponse
}

func newNetwork(t *testing.T) *network {
	return &network{
		t: t, dials: make(chan net.Conn, 16),
		hello: &quirev1.HelloResponse{Version: wire.Version, Broker: "test", MaxInFlight: 1024},
	}
}

func (n *network) dial(_ context.Context, _, addr string) (net.Conn, error) {
	if n.refuse != nil {
		if err := n.refuse(addr); err != nil {
			return nil, err
		}
	}
	near, far := net.Pipe()
	n.dials <- far
	return near, nil
}

// client makes a client that has not connected yet, and closes it at the end.
func (n *network) client(opts ...Option) *Client {
	n.t.Helper()
	opts = append([]Option{WithDialer(n.dial), WithLazyDial()}, opts...)
	c, err := Dial(n.t.Context(), "broker:1", opts...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// peer is the broker's end of one connection.
type peer struct {
	n  *network
	t  *testing.T
	nc net.Conn
	r  *wire.Reader

	last uint64 // the request that place read
}

// accept waits for a client and shakes hands.
func (n *network) accept() *peer {
	n.t.Helper()
	p := &peer{n: n, t: n.t, nc: <-n.dials}
	p.r = wire.NewReader(p.nc, wire.MaxFrame)
	if err := p.r.ReadPreface(); err != nil {
		n.t.Fatal(err)
	}
	f := p.next(wire.TypeHelloRequest)
	p.send(wire.TypeHelloResponse, f.ID, n.hello)
	n.t.Cleanup(p.hangUp)
	return p
}

func (p *peer) hangUp() { _ = p.nc.Close() }

// next reads a frame and checks its type.
func (p *peer) next(want wire.Type) wire.Frame {
	p.t.Helper()
	f, err := p.r.Next()
	if err != nil {
		p.t.Fatalf("read %v: %v", want, err)
	}
	if f.Type != want {
		p.t.Fatalf("the client sent %v, want %v", f.Type, want)
	}
	f.Message = bytes.Clone(f.Message)
	return f
}

// ended checks that the client has closed the connection and sends nothing
// more.
func (p *peer) ended() {
	p.t.Helper()
	if f, err := p.r.Next(); !errors.Is(err, io.EOF) {
		p.t.Fatalf("the client sent %v (%v), want the end", f.Type, err)
	}
}

func (p *peer) send(typ wire.Type, id uint64, m wire.Message, payload ...[]byte) {
	p.t.Helper()
	bufs, err := wire.Encode(typ, id, m, payload...)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.nc.Write(slices.Concat(bufs...)); err != nil {
		p.t.Fatalf("send %v: %v", typ, err)
	}
}

func (p *peer) refuse(id uint64, code status.Code, message string) {
	p.t.Helper()
	p.send(wire.TypeError, id, &quirev1.Error{Code: string(code), Message: message})
}

// produce reads a produce request and gives its id and the values of its
// records.
func (p *peer) produce() (uint64, []string) {
	p.t.Helper()
	f := p.next(wire.TypeProduceRequest)
	return f.ID, values(p.t, f.Payload)
}

// place reads a produce request and says where its records are in the order of
// their producer.
func (p *peer) place() string {
	p.t.Helper()
	f := p.next(wire.TypeProduceRequest)
	p.last = f.ID
	h, err := batch.ProducerOf(f.Payload)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.n.producer == (batch.ProducerID{}) {
		p.n.producer = h.ID
	}
	if h.ID != p.n.producer {
		p.t.Fatalf("a batch of producer %x, those before were of %x", h.ID, p.n.producer)
	}
	return fmt.Sprintf("%s after %d, settled %d", strings.Join(values(p.t, f.Payload), " "), h.Prev, h.Floor)
}

func (p *peer) ack(id uint64) {
	p.t.Helper()
	p.send(wire.TypeProduceResponse, id, &quirev1.ProduceResponse{AppendTimeUs: 1_000_000})
}

// fetch reads a fetch request.
func (p *peer) fetch() (uint64, *quirev1.FetchRequest) {
	p.t.Helper()
	f := p.next(wire.TypeFetchRequest)
	var m quirev1.FetchRequest
	if err := f.Unmarshal(&m); err != nil {
		p.t.Fatal(err)
	}
	return f.ID, &m
}

// subscribe reads a subscribe request, after the fetch that finds its cursor
// if that is asked for.
func (p *peer) subscribe() (uint64, *quirev1.SubscribeRequest) {
	p.t.Helper()
	f := p.next(wire.TypeSubscribeRequest)
	var m quirev1.SubscribeRequest
	if err := f.Unmarshal(&m); err != nil {
		p.t.Fatal(err)
	}
	return f.ID, &m
}

func (p *peer) credit() (uint64, *quirev1.Credit) {
	p.t.Helper()
	f := p.next(wire.TypeCredit)
	var m quirev1.Credit
	if err := f.Unmarshal(&m); err != nil {
		p.t.Fatal(err)
	}
	return f.ID, &m
}

// deliver sends the records with the given values that stand from offset base
// on.
func (p *peer) deliver(id uint64, base int, vals ...string) {
	p.t.Helper()
	p.send(wire.TypeDelivery, id, deliveryFrom(base, vals...), stored(p.t, base, batch.None, vals...))
}

func deliveryFrom(base int, vals ...string) *quirev1.Delivery {
	size := len(stored(nil, base, batch.None, vals...))
	return &quirev1.Delivery{
		Slices: []*quirev1.Slice{{Size: uint32(size), Take: uint32(len(vals))}},
		Start:  tokenAt(base), Cursor: tokenAt(base + len(vals)),
	}
}

// atEnd answers a fetch that found nothing.
func (p *peer) atEnd(id uint64, offset int) {
	p.t.Helper()
	p.send(wire.TypeDelivery, id, &quirev1.Delivery{Cursor: tokenAt(offset), AtEnd: true})
}

// tokenAt is the cursor at an offset of a topic of one range.
func tokenAt(offset int) string {
	return lineage.Cursor{
		Topic: ident.TopicID{1},
		Entries: []lineage.Entry{{
			Band:  keyspace.Full(),
			Place: lineage.Place{Range: 1, Epoch: 1, Offset: ident.Offset(offset)},
		}},
	}.Encode()
}

// offset is what tokenAt was given.
func offset(t *testing.T, token string) int {
	t.Helper()
	c, err := lineage.Decode(token)
	if err != nil {
		t.Fatalf("cursor %q: %v", token, err)
	}
	return int(c.Entries[0].Place.Offset)
}

// stored is a batch as the broker stores it.
func stored(t *testing.T, base int, comp batch.Compression, vals ...string) []byte {
	b := batch.NewBuilder(batch.Options{Compression: comp})
	for _, v := range vals {
		err := b.AddRecord(&record.Record{Key: []byte("k"), Value: []byte(v), Time: time.Unix(7, 0)})
		if err != nil && t != nil {
			t.Fatal(err)
		}
	}
	out := b.Finish()
	batch.Stamp{Epoch: 1, Base: ident.Offset(base), AppendTime: 9}.Apply(out)
	return out
}

// values are the values of a batch's records.
func values(t *testing.T, b []byte) (vals []string) {
	t.Helper()
	var r batch.Reader
	if err := r.Reset(b); err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		vals = append(vals, string(r.Record().Value))
	}
	return vals
}

func rec(value string) record.Record { return record.Record{Key: []byte("k"), Value: []byte(value)} }

func numbered(from, n int) (vals []string) {
	for i := range n {
		vals = append(vals, fmt.Sprint(from+i))
	}
	return vals
}

// wantCode checks the code of an error.
func wantCode(t *testing.T, err error, want status.Code) {
	t.Helper()
	if got := status.CodeOf(err); got != want {
		t.Fatalf("error %v has code %q, want %q", err, got, want)
	}
}

func want[T any](t *testing.T, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}
