package segment_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/segment"
)

// tally counts what the histories went through, so that a harness that has
// gone blind is noticed.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) count(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

// Round, Synced and Limit make a tally the observer of the stores.

func (t *tally) Round(r segment.RoundStats) {
	if r.Journal {
		t.count("journal round")
	}
	if r.Direct > 0 {
		t.count("direct round")
	}
}

func (t *tally) Synced(kind segment.SyncKind, _ time.Duration) { t.count(kind.String() + " sync") }

func (t *tally) Limit(name string) { t.count(name) }

func (t *tally) String() string {
	var b strings.Builder
	for _, k := range sortedKeys(t.counts) {
		fmt.Fprintf(&b, "%s %d, ", k, t.counts[k])
	}
	return strings.TrimSuffix(b.String(), ", ")
}
