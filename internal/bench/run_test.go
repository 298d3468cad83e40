package bench

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/internal/daemon"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// serve runs a broker in this process and gives the options that lead to it.
// The scripts of the command line run those that are processes of their own.
func serve(t *testing.T) Options {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, stop := context.WithCancel(context.Background())
	dir := t.TempDir() // before the cleanup, so that it is there when the broker stops
	ready, ended := make(chan [2]net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			Node:   node.Config{Dir: dir, Log: log, Registry: registry},
			Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0",
			Ready: func(native, http net.Addr) { ready <- [2]net.Addr{native, http} },
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-ready:
		return Options{Addr: a[0].String(), Metrics: a[1].String()}
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	panic("not reached")
}

// few are the settings of a short run.
func few(shape string, change func(*Settings)) Settings {
	s := Defaults(shape)
	s.Seed, s.Records, s.Duration, s.Keys = 42, 500, 0, 20
	if change != nil {
		change(&s)
	}
	return s
}

func TestRunsCountWhatTheyCheck(t *testing.T) {
	opts := serve(t)
	tests := []struct {
		name  string
		shape string
		s     Settings
		want  uint64
	}{
		{"batched", Produce, few(Produce, nil), 500},
		{"one in flight", Produce, few(Produce, func(s *Settings) { s.Batched, s.InFlight = false, 1 }), 500},
		{"unbatched", Produce, few(Produce, func(s *Settings) { s.Batched, s.InFlight, s.Connections = false, 16, 2 }), 500},
		{"many topics", Produce, few(Produce, func(s *Settings) { s.Topics = 20 }), 500},
		{"many topics, few writers", Produce, few(Produce, func(s *Settings) { s.Batched, s.InFlight, s.Topics = false, 3, 20 }), 500},
		{"several producers", Produce, few(Produce, func(s *Settings) { s.Connections = 3 }), 500},
		{"compressed, a tight buffer", Produce, few(Produce, func(s *Settings) {
			s.Compression, s.Buffer, s.BatchBytes, s.Linger = "s2", 4096, 2048, time.Millisecond
		}), 500},
		{"one key", Produce, few(Produce, func(s *Settings) { s.Batched, s.InFlight, s.Keys = false, 8, 1 }), 500},
		{"fetch", Fetch, few(Fetch, func(s *Settings) { s.Readers, s.Topics, s.Probes = 2, 3, 20 }), 1000},
		{"fanout", Fanout, few(Fanout, func(s *Settings) { s.Subscribers, s.Ahead = 3, 16 }), 1500},
		{"fanout, unbatched", Fanout, few(Fanout, func(s *Settings) {
			s.Batched, s.InFlight, s.Subscribers, s.Ahead = false, 8, 2, 4
		}), 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Run(t.Context(), tt.shape, tt.s, opts)
			if err != nil {
				t.Fatal(err)
			}
			if r.Operations != tt.want || !r.Verified || r.Errors != 0 {
				t.Errorf("%d operations, verified %v, %d errors; want %d, all verified",
					r.Operations, r.Verified, r.Errors, tt.want)
			}
			if r.PerSecond <= 0 || r.BytesPerSecond <= r.PerSecond || r.P50 <= 0 || r.Max < r.P50 {
				t.Errorf("figures: %+v", r)
			}
			if tt.shape != Fetch && *r.Fdatasyncs == 0 {
				t.Errorf("syncs: %v", r.Syncs)
			}
		})
	}
	if left := topics(t, opts.Addr); len(left) > 0 {
		t.Errorf("the runs left the topics %v", left)
	}
}

// topics are the names of the broker's topics.
func topics(t *testing.T, addr string) (names []string) {
	t.Helper()
	c := dial(t, addr)
	for topic, err := range c.Topics(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, topic.Name)
	}
	return names
}

func dial(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestDurableShapesAreSetAgainstTheFloor(t *testing.T) {
	opts := serve(t)
	opts.Dir = t.TempDir()
	r, err := Run(t.Context(), Produce, few(Produce, nil), opts)
	if err != nil {
		t.Fatal(err)
	}
	f := r.Floor
	if f == nil || f.SyncP50 <= 0 || f.AnsweredP50 <= 0 || f.Growing <= 0 || f.FlushBytes < 256 || f.LoopbackP50 <= 0 {
		t.Fatalf("floor: %+v", f)
	}
	if *r.P50ToSync <= 0 || *r.P50ToAnswered <= 0 || *r.BytesToFloor <= 0 {
		t.Errorf("ratios: %g and %g", *r.P50ToSync, *r.BytesToFloor)
	}
	r, err = Run(t.Context(), Produce, few(Produce, func(s *Settings) { s.Batched, s.InFlight = false, 4 }), opts)
	if err != nil || r.Floor.AnsweredRate <= 0 || r.RateToAnswered == nil || *r.RateToAnswered <= 0 {
		t.Errorf("unbatched, with several in flight: %+v, %v", r.Floor, err)
	}
	r, err = Run(t.Context(), Produce, few(Produce, func(s *Settings) { s.Fsync = "1s" }), opts)
	if err != nil || r.Floor != nil {
		t.Errorf("without a sync for each write: floor %+v, %v", r.Floor, err)
	}
}

func TestARunThatLosesARecordFails(t *testing.T) {
	opts := serve(t)
	for _, shape := range []string{Produce, Fetch} {
		r, err := newRun(shape, few(shape, nil), opts)
		if err != nil {
			t.Fatal(err)
		}
		r.ledger.Sending(0) // this one nobody writes
		result, err := r.run(t.Context())
		if status.CodeOf(err) != status.DataCorrupt || result == nil || result.Verified {
			t.Errorf("%s: %v, result %+v", shape, err, result)
		}
	}
}

func TestASubscriberThatGetsWhatNobodyWroteEndsTheRun(t *testing.T) {
	opts := serve(t)
	c := dial(t, opts.Addr)
	told := false
	opts.Tell = func(what string) {
		if !strings.HasPrefix(what, "writing") {
			return
		}
		told = true
		for _, name := range topics(t, opts.Addr) {
			if _, err := c.Produce(t.Context(), name, record.Record{Value: make([]byte, 256)}); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := Run(t.Context(), Fanout, few(Fanout, func(s *Settings) { s.Subscribers = 2 }), opts)
	if status.CodeOf(err) != status.DataCorrupt || !told {
		t.Errorf("%v, want a record that was not written", err)
	}
}

func TestAFixedRateIsKept(t *testing.T) {
	opts := serve(t)
	const rate = 1000
	s := few(Produce, func(s *Settings) { s.Records, s.Rate, s.Verify = 200, rate, false })
	r, err := Run(t.Context(), Produce, s, opts)
	if err != nil {
		t.Fatal(err)
	}
	if r.Seconds < 199.0/rate {
		t.Errorf("200 records at %d a second were written in %g s", rate, r.Seconds)
	}
	if r.Verified {
		t.Error("verified, although nothing was compared")
	}
}

func TestInterruptedRunsLeaveNothing(t *testing.T) {
	opts := serve(t)
	ctx, stop := context.WithCancel(t.Context())
	opts.Tell = func(what string) {
		if what == "writing" {
			stop()
		}
	}
	s := few(Produce, func(s *Settings) { s.Records, s.Duration = 0, time.Hour })
	if r, err := Run(ctx, Produce, s, opts); err == nil || r != nil {
		t.Errorf("%v, %v", r, err)
	}
	if left := topics(t, opts.Addr); len(left) > 0 {
		t.Errorf("the run left the topics %v", left)
	}
}

func TestNobodyAtTheAddress(t *testing.T) {
	_, err := Run(t.Context(), Produce, few(Produce, nil), Options{Addr: "127.0.0.1:1"})
	if status.CodeOf(err) != status.Unavailable {
		t.Errorf("%v, want %s", err, status.Unavailable)
	}
}
