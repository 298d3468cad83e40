package client

import (
	"bufio"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/record"
)

// serve answers every produce at once, on a socket of the loopback.
func serve(b *testing.B) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go answer(nc)
		}
	}()
	return ln.Addr().String()
}

// answer reads past the batches, so that what is measured is the client.
func answer(nc net.Conn) {
	defer nc.Close()
	r := bufio.NewReaderSize(nc, 256<<10)
	if _, err := r.Discard(len(wire.Preface)); err != nil {
		return
	}
	for {
		head, err := r.Peek(16)
		if err != nil {
			return
		}
		typ, id := wire.Type(binary.LittleEndian.Uint16(head[4:])), binary.LittleEndian.Uint64(head[8:])
		if _, err := r.Discard(4 + int(binary.LittleEndian.Uint32(head))); err != nil {
			return
		}
		var reply []byte
		if typ == wire.TypeHelloRequest {
			reply, err = wire.AppendFrame(nil, wire.TypeHelloResponse, id, &quirev1.HelloResponse{Version: wire.Version}, 0)
		} else {
			reply, err = wire.AppendFrame(nil, wire.TypeProduceResponse, id, &quirev1.ProduceResponse{AppendTimeUs: 1}, 0)
		}
		if err == nil {
			_, err = nc.Write(reply)
		}
		if err != nil {
			return
		}
	}
}

func dialBench(b *testing.B) *Client {
	c, err := Dial(b.Context(), serve(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func benchRecord() record.Record {
	return record.Record{Key: make([]byte, 16), Value: make([]byte, 256), Time: time.Now()}
}

// BenchmarkSend is the way of a record through a producer to a broker that
// answers at once, callbacks included.
func BenchmarkSend(b *testing.B) {
	p := dialBench(b).NewProducer("orders")
	r := benchRecord()
	var acked atomic.Int64
	done := func(err error) {
		if err == nil {
			acked.Add(1)
		}
	}
	b.SetBytes(256)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Send(b.Context(), r, done); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	if acked.Load() != int64(b.N) {
		b.Fatalf("%d of %d records were acknowledged", acked.Load(), b.N)
	}
}

// BenchmarkProduce is one record a request, one request at a time.
func BenchmarkProduce(b *testing.B) {
	c := dialBench(b)
	r := benchRecord()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Produce(b.Context(), "orders", r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProduceParallel is one record a request, 64 requests at a time.
func BenchmarkProduceParallel(b *testing.B) {
	c := dialBench(b)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := benchRecord()
		for pb.Next() {
			if _, err := c.Produce(b.Context(), "orders", r); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkDecode is the way of a delivered record to its reader.
func BenchmarkDecode(b *testing.B) {
	builder := batch.NewBuilder(batch.Options{})
	r := benchRecord()
	const records = 4000
	for range records {
		if err := builder.AddRecord(&r); err != nil {
			b.Fatal(err)
		}
	}
	one := builder.Finish()
	d := delivery{slices: []slice{{batch: one, take: records}}, records: records}
	w := walker{topic: "orders"}
	b.SetBytes(256)
	b.ReportAllocs()
	left := 0
	for b.Loop() {
		if left == 0 {
			w.reset(&d)
			left = records
		}
		left--
		if _, _, ok, err := w.next(); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
