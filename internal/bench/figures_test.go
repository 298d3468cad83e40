package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/quirelog/quire/status"
)

func TestQuantilesAreThoseOfAllWorkers(t *testing.T) {
	l := NewLatencies()
	for i := range 1000 {
		l.Add(i, time.Duration(i+1)*time.Microsecond)
	}
	q := l.Quantiles()
	near := func(got, want float64) bool { return got > want*0.998 && got < want*1.002 }
	if !near(q.P50, 500) || !near(q.P99, 990) || !near(q.P999, 999) || !near(q.Max, 1000) {
		t.Errorf("of 1 to 1000 µs: %+v", q)
	}
}

func TestATimeBeyondTheBoundsIsKeptAtTheBound(t *testing.T) {
	l := NewLatencies()
	l.Add(0, time.Hour)
	if q := l.Quantiles(); q.Max < micros(maxLatency)*0.99 {
		t.Errorf("an hour is kept as %g µs", q.Max)
	}
}

const metricsText = `# HELP quire_fsync_seconds Time of one fsync or fdatasync.
# TYPE quire_fsync_seconds histogram
quire_fsync_seconds_bucket{kind="journal",le="+Inf"} 17
quire_fsync_seconds_count{kind="journal"} 17
quire_fsync_seconds_count{kind="direct"} 3
quire_fsync_seconds_count{kind="meta"} 5
process_cpu_seconds_total 1.5
quire_produce_bytes_total 4e+06
`

func TestSyncsOfARunAreCountedByReason(t *testing.T) {
	after, err := parseMeters(strings.NewReader(metricsText))
	if err != nil {
		t.Fatal(err)
	}
	u := usage{before: meters{meterCPU: 0.5, meterSyncs("journal"): 7}, after: after}
	by, all := u.syncs()
	if all != 13 || by["journal"] != 10 || by["direct"] != 3 || by["checkpoint"] != 0 {
		t.Errorf("%d syncs: %v", all, by)
	}
	if u.cpu() != time.Second {
		t.Errorf("%s of CPU time, want 1s", u.cpu())
	}
	if got := u.flushBytes(); got != 4_000_000/13 {
		t.Errorf("%d bytes a flush", got)
	}
}

func TestMetricsThatAreNoneAreAnError(t *testing.T) {
	if _, err := parseMeters(strings.NewReader("<html> <body>\n")); err == nil {
		t.Error("a page of something else was read as metrics")
	}
}

func TestSettingsOutOfBoundsAreRefused(t *testing.T) {
	tests := []struct {
		shape  string
		change func(*Settings)
		want   string
	}{
		{Produce, func(s *Settings) { s.Payload = 7 }, "--payload"},
		{Produce, func(s *Settings) { s.Payload = 2 << 20 }, "--payload"},
		{Produce, func(s *Settings) { s.Keys = 0 }, "--keys"},
		{Produce, func(s *Settings) { s.InFlight = 257 }, "--in-flight"},
		{Produce, func(s *Settings) { s.Topics = 0 }, "--topics"},
		{Produce, func(s *Settings) { s.Compression = "gzip" }, "--compression"},
		{Produce, func(s *Settings) { s.Rate = -1 }, "--rate"},
		{Produce, func(s *Settings) { s.Duration = 0 }, "how much to write"},
		{Fetch, func(s *Settings) { s.Readers = 0 }, "--readers"},
		{Fetch, func(s *Settings) { s.Cold, s.OwnBroker = true, false }, "--cold"},
		{Fanout, func(s *Settings) { s.Subscribers = 0 }, "--subscribers"},
		{Fanout, func(s *Settings) { s.Topics = 2 }, "one topic"},
		{Recovery, func(s *Settings) { s.OwnBroker = false }, "without --addr"},
	}
	for _, tt := range tests {
		s := Defaults(tt.shape)
		s.OwnBroker = true
		if err := s.complete(tt.shape); err != nil {
			t.Errorf("%s: the defaults: %v", tt.shape, err)
		}
		tt.change(&s)
		err := s.complete(tt.shape)
		if status.CodeOf(err) != status.UsageError || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.shape, err, tt.want)
		}
	}
}

func TestTheFloorIsMeasured(t *testing.T) {
	syncs, answered := NewLatencies(), NewLatencies()
	dir := t.TempDir()
	n, err := syncFloor(t.Context(), dir, syncs, answered)
	if err != nil || n == 0 || syncs.Quantiles().P50 <= 0 || answered.Quantiles().P50 <= 0 {
		t.Errorf("%d syncs, %+v, answered %+v, %v", n, syncs.Quantiles(), answered.Quantiles(), err)
	}
	if perSecond, err := growingFloor(t.Context(), dir, 64<<10); err != nil || perSecond <= 0 {
		t.Errorf("%g bytes/s, %v", perSecond, err)
	}
	if perSecond, err := streamingFloor(t.Context(), dir); err != nil || perSecond <= 0 {
		t.Errorf("%g bytes/s, %v", perSecond, err)
	}
	trips := NewLatencies()
	if err := loopbackFloor(trips); err != nil || trips.Quantiles().P50 <= 0 {
		t.Errorf("%+v, %v", trips.Quantiles(), err)
	}
}
