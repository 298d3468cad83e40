//go:build strace

package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSyncsAreThoseThatStraceSees compares the syncs of a result with the calls
// that the kernel saw. It needs strace and the right to trace, so it has a tag
// of its own:
//
//	go test -tags strace -run TestSyncsAreThoseThatStraceSees ./internal/bench
func TestSyncsAreThoseThatStraceSees(t *testing.T) {
	dir := t.TempDir()
	quire, trace := filepath.Join(dir, "quire"), filepath.Join(dir, "trace")
	if out, err := exec.Command("go", "build", "-o", quire, "../../cmd/quire").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var began, ended time.Time
	opts := Options{
		// With -D the broker is the process that the run started, and strace a
		// grandchild: signals reach the broker. The run ends when both have
		// closed their stderr, and then the trace is complete.
		Program: []string{"strace", "-D", "-f", "-ttt", "-e", "trace=fdatasync", "-o", trace, quire, "serve"},
		Env:     os.Environ(),
		Dir:     dir,
		Tell: func(what string) {
			switch what {
			case "writing":
				began = time.Now()
			case "reading back and comparing":
				ended = time.Now()
			}
		},
	}
	for _, tt := range []struct {
		name   string
		change func(*Settings)
	}{
		{"journal", func(s *Settings) { s.Batched, s.InFlight, s.Records = false, 4, 2000 }},
		{"direct", func(s *Settings) { s.Records, s.Payload, s.BatchBytes, s.Buffer = 5000, 64<<10, 256<<10, 1<<20 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Run(t.Context(), Produce, few(Produce, tt.change), opts)
			if err != nil {
				t.Fatal(err)
			}
			calls := callsBetween(t, trace, began, ended)
			t.Logf("%d records, %d fdatasyncs counted %v, %d traced", r.Operations, *r.Fdatasyncs, r.Syncs, calls)
			// What was acknowledged last may be marked a moment after the
			// count was taken, while the floor is measured.
			const late = 3
			if got := *r.Fdatasyncs; got < 100 || calls < got || calls > got+late {
				t.Errorf("%d fdatasyncs are in the result, strace saw %d", got, calls)
			}
		})
	}
}

// callsBetween counts the calls in the trace that began in that time.
func callsBetween(t *testing.T, trace string, began, ended time.Time) (n uint64) {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // pid, time, call
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "fdatasync(") {
			continue
		}
		seconds, err := time.ParseDuration(fields[1] + "s")
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if at := time.Unix(0, int64(seconds)); !at.Before(began) && !at.After(ended) {
			n++
		}
	}
	return n
}
