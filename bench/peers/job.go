package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/quirelog/quire/internal/bench"
)

// jobCommand is the argument with which this program starts itself as a
// generator, followed by the job as JSON.
const jobCommand = "jetstream"

// job is one run of JetStream.
type job struct {
	Way     string `json:"way"`
	Payload int    `json:"payload_bytes"`
	// InFlight is how many requests (sync), messages (async, for each
	// connection) or batches (atomic) are under way.
	InFlight    int    `json:"in_flight,omitempty"`
	Connections int    `json:"connections"`
	Subscribers int    `json:"subscribers,omitempty"`
	Ahead       uint64 `json:"ahead,omitempty"`

	Always   bool          `json:"always,omitempty"`
	Records  uint64        `json:"records,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	Seed     uint64        `json:"seed,omitempty"`
	Server   string        `json:"server,omitempty"`
	Dir      string        `json:"dir,omitempty"`
}

// The stream has one subject, and the key is the beginning of the data: a
// subject for each key, which is how JetStream would offer what a key offers,
// costs it more.
const (
	streamName = "bench"
	subject    = "bench"
	keys       = 10_000
)

// runJob runs the job that the text describes and prints its result.
func runJob(ctx context.Context, text string, stdout io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	r, err := j.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(r)
}

// peer is a running job.
type peer struct {
	job
	server  *server
	conns   []jetstream.JetStream
	stream  jetstream.Stream
	content *bench.Content
	ledger  *bench.Ledger
	times   *bench.Latencies
	plan    bench.Plan
	began   time.Time

	// What follows is of a fan-out: the gate between the writer and the
	// subscribers, when messages were sent, the times of deliveries, and how
	// many each subscriber gets, once that is known.
	gate       *bench.Gate
	sentAt     stamps
	deliveries *bench.Latencies
	target     atomic.Uint64
}

// run runs the job in a directory of its own.
func (j job) run(ctx context.Context) (*bench.Result, error) {
	dir, err := os.MkdirTemp(j.Dir, "jetstream-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p, err := j.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.measure(ctx)
}

// start starts a server with its data in dir, and connects.
func (j job) start(ctx context.Context, dir string) (p *peer, err error) {
	p = &peer{job: j, times: bench.NewLatencies(), plan: bench.Plan{Workers: j.workers(), Topics: 1}}
	p.content = bench.NewContent(j.Seed, j.Payload, keys, p.plan)
	p.ledger = bench.NewLedger(p.plan.Workers)
	if p.server, err = serve(ctx, j.Server, dir, j.Always); err != nil {
		return nil, err
	}
	if err := p.connect(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// close ends the connections and the server.
func (p *peer) close() {
	for _, js := range p.conns {
		js.Conn().Close()
	}
	p.server.stop()
}

// workers is how many write, each its own records.
func (j job) workers() int {
	if j.Way == waySync || j.Way == wayAtomic {
		return j.InFlight
	}
	return j.Connections
}

// connect makes the connections and the stream.
func (p *peer) connect(ctx context.Context) error {
	for range p.Connections {
		if err := p.dial(); err != nil {
			return err
		}
	}
	var err error
	p.stream, err = p.conns[0].CreateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{subject}, Storage: jetstream.FileStorage, Replicas: 1,
		AllowAtomicPublish: p.Way == wayAtomic, AllowBatchPublish: p.Way == wayFast,
	})
	return err
}

func (p *peer) dial() error {
	conn, err := nats.Connect(p.server.url)
	if err != nil {
		return err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*max(p.InFlight, 1)))
	if err != nil {
		conn.Close()
		return err
	}
	p.conns = append(p.conns, js)
	return nil
}

// measure runs the load, checks it and makes the result.
func (p *peer) measure(ctx context.Context) (*bench.Result, error) {
	before, _, err := p.server.usage()
	if err != nil {
		return nil, err
	}
	operations, took, err := p.work(ctx)
	if err != nil {
		return nil, err
	}
	after, memory, err := p.server.usage()
	if err != nil {
		return nil, err
	}
	r := &bench.Result{Shape: bench.Produce, Quantiles: p.times.Quantiles(), Memory: &memory}
	r.Count(operations, took, float64(p.Payload+bench.KeySize))
	cpu := float64((after - before).Microseconds()) / float64(max(operations, 1))
	r.CPU = &cpu
	var first error
	if r.Errors, first = p.ledger.Errors(); first != nil {
		return nil, fmt.Errorf("%d messages failed, the first: %w", r.Errors, first)
	}
	if p.Subscribers == 0 {
		if err := p.verify(ctx); err != nil {
			return nil, err
		}
	}
	r.Verified = true
	return r, nil
}

// work writes, and counts what is measured.
func (p *peer) work(ctx context.Context) (operations uint64, took time.Duration, err error) {
	if p.Subscribers > 0 {
		return p.fanout(ctx)
	}
	p.began = time.Now()
	err = p.write(ctx)
	return p.ledger.Acked(), time.Since(p.began), err
}
