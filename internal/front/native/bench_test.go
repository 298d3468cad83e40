package native

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"testing"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
)

// benchPeer is a connected client over loopback TCP.
func benchPeer(b *testing.B, addr string) (net.Conn, *wire.Reader) {
	b.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = nc.Close() })
	hello := &quirev1.HelloRequest{MaxVersion: 1}
	first, err := wire.AppendFrame([]byte(wire.Preface), wire.TypeHelloRequest, 1, hello, 0)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := nc.Write(first); err != nil {
		b.Fatal(err)
	}
	r := wire.NewReader(nc, wire.MaxFrame)
	if _, err := r.Next(); err != nil {
		b.Fatal(err)
	}
	return nc, r
}

// BenchmarkProducePipelined is the cost of a produce of 300 bytes with many in
// flight, client and server together, on a broker that answers at once.
func BenchmarkProducePipelined(b *testing.B) {
	_, addr := serveTCP(b, &fakeBroker{}, Config{})
	nc, r := benchPeer(b, addr)
	const window = 64
	frames := make([]byte, 0, window*400)
	payload := make([]byte, 300)
	m := &quirev1.ProduceRequest{Topic: "orders"}
	for id := range uint64(window) {
		var err error
		frames, err = wire.AppendFrame(frames, wire.TypeProduceRequest, id+2, m, len(payload))
		if err != nil {
			b.Fatal(err)
		}
		frames = append(frames, payload...)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%window == 0 {
			if _, err := nc.Write(frames); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProduceOneInFlight is a round trip.
func BenchmarkProduceOneInFlight(b *testing.B) {
	_, addr := serveTCP(b, &fakeBroker{}, Config{})
	nc, r := benchPeer(b, addr)
	m := &quirev1.ProduceRequest{Topic: "orders"}
	bufs, err := wire.Encode(wire.TypeProduceRequest, 2, m, make([]byte, 300))
	if err != nil {
		b.Fatal(err)
	}
	frame := bytes.Join(bufs, nil)
	for b.Loop() {
		if _, err := nc.Write(frame); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPush is a subscription with deliveries of 256 KiB.
func BenchmarkPush(b *testing.B) {
	const size = 256 << 10
	d := deliveryOf(size, "c")
	broker := &fakeBroker{subscribe: func(context.Context, node.SubscribeRequest) (Subscription, error) {
		return repeatingSubscription{d}, nil
	}}
	_, addr := serveTCP(b, broker, Config{})
	nc, r := benchPeer(b, addr)
	m := &quirev1.SubscribeRequest{Topic: "orders"}
	frame, err := wire.AppendFrame(nil, wire.TypeSubscribeRequest, 2, m, 0)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := nc.Write(frame); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

type repeatingSubscription struct{ d node.Delivery }

func (repeatingSubscription) Grant(uint64, uint64) {}
func (repeatingSubscription) Close()               {}

func (s repeatingSubscription) Next(ctx context.Context) (node.Delivery, error) {
	return s.d, ctx.Err()
}

// BenchmarkIdleConnection reports what a connection costs that has shaken
// hands and asks for nothing: heap and stacks of the server.
func BenchmarkIdleConnection(b *testing.B) {
	const conns = 2000
	_, addr := serveTCP(b, &fakeBroker{}, Config{})
	for b.Loop() {
		before := memory()
		for range conns {
			benchPeer(b, addr)
		}
		// The client's reader is garbage; its socket is some hundred bytes.
		b.ReportMetric(float64(memory()-before)/conns, "bytes/connection")
	}
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
