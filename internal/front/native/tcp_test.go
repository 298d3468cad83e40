package native

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// serveTCP is serve on a loopback port.
func serveTCP(t testing.TB, b Broker, cfg Config) (*Server, string) {
	t.Helper()
	srv, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return srv, ln.Addr().String()
}

func dialTCP(t *testing.T, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &peer{t, nc, wire.NewReader(nc, wire.MaxFrame)}
}

// Large and small batches arrive as they were, in the order of the message.
func TestDeliveriesArriveWholeOverTCP(t *testing.T) {
	var slices []node.Slice
	for i, n := range []int{3, 70_000, 1, 2 << 20, 5000, 1 << 20} {
		slices = append(slices, node.Slice{Batch: bytes.Repeat([]byte{byte('a' + i)}, n), Take: 1})
	}
	b := &fakeBroker{fetch: func(context.Context, node.FetchRequest) (node.Delivery, error) {
		return node.Delivery{Slices: slices, Cursor: "c"}, nil
	}}
	_, addr := serveTCP(t, b, Config{})
	p := dialTCP(t, addr)
	p.hello()
	const fetches = 20
	for id := range uint64(fetches) {
		p.send(wire.TypeFetchRequest, id+2, &quirev1.FetchRequest{})
		p.produce(1000+id, "between them")
	}
	deliveries := 0
	for range 2 * fetches {
		f, m := p.next()
		d, ok := m.(*quirev1.Delivery)
		if !ok {
			continue
		}
		deliveries++
		for i, sl := range d.Slices {
			if !bytes.Equal(f.Payload[:sl.Size], slices[i].Batch) {
				t.Fatalf("batch %d of delivery %d is not what was sent", i, f.ID)
			}
			f.Payload = f.Payload[sl.Size:]
		}
	}
	if deliveries != fetches {
		t.Errorf("%d deliveries, want %d", deliveries, fetches)
	}
}

// A client that is still sending can finish, and then reads the refusal.
func TestRefusalOfAHugeFrameArrives(t *testing.T) {
	_, addr := serveTCP(t, &fakeBroker{}, Config{})
	p := dialTCP(t, addr)
	p.hello()
	frame := make([]byte, 8<<20)
	copy(frame, "\x00\x00\x40\x01\x14\x00\x00\x00\x09") // it says 20 MiB, produce, id 9
	p.write(frame)
	p.expectError(9, status.FrameTooLarge)
	p.expectEnd()
}

func TestMetricsCountWhatHappens(t *testing.T) {
	reg := prometheus.NewRegistry()
	b := &fakeBroker{}
	_, addr := serveTCP(t, b, Config{Registerer: reg, MaxInFlight: 1})
	p := dialTCP(t, addr)
	p.hello()
	p.produce(2, "batch")
	p.expect(wire.TypeProduceResponse, 2, nil)
	p.send(wire.TypeDeleteTopicRequest, 3, &quirev1.DeleteTopicRequest{Name: "none"})
	p.expectError(3, status.TopicNotFound)
	p.poll(4)
	p.produce(5, "too many")
	p.expectError(5, status.LimitReached)
	p.send(wire.TypeCancel, 4, &quirev1.Cancel{})
	p.expectError(4, status.Canceled)

	want := map[string]float64{
		"DeleteTopicRequest topic_not_found": 1,
		"FetchRequest canceled":              1,
		"ProduceRequest limit_reached":       1,
		"ProduceRequest ok":                  1,
		"requests_in_flight":                 1,
		"quire_native_connections":           1,
		"quire_native_accepted_total":        1,
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			switch len(m.Label) {
			case 2:
				name = m.Label[1].GetValue() + " " + m.Label[0].GetValue()
			case 1:
				name = m.Label[0].GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %v, want %v", name, got[name], n)
		}
	}
	if got["quire_native_received_bytes_total"] == 0 || got["quire_native_sent_bytes_total"] == 0 {
		t.Errorf("no bytes counted: %v", got)
	}
	if _, err := New(b, Config{Registerer: reg}); err == nil {
		t.Error("a second server registered the same metrics")
	}
}
