package node

import (
	"sync"
	"time"

	"github.com/quirelog/quire/internal/ident"
)

// maxJump is how far the time of day may move against the monotonic clock
// before it is not believed.
const maxJump = time.Minute

// clock is the time of day with a watch on its jumps. Retention by age stops
// while the time of day is more than a minute from where the monotonic clock
// says it should be, since nothing that it would delete could be had back; it
// goes on when the clock has come back, or after a restart.
type clock struct {
	now   func() time.Time
	start time.Time
	// base is the time of day at start.
	base time.Time

	mu      sync.Mutex
	unsound bool
}

func (c *clock) init(now func() time.Time) {
	c.now, c.start, c.base = now, time.Now(), now()
}

// timestamp is the time of day.
func (c *clock) timestamp() ident.Timestamp { return ident.TimestampOf(c.now()) }

// check gives the time of day and says whether it may be believed.
func (c *clock) check() (ident.Timestamp, bool) {
	now := c.now()
	jump := now.Round(0).Sub(c.base.Round(0)) - time.Since(c.start)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsound = jump.Abs() > maxJump
	return ident.TimestampOf(now), !c.unsound
}
