package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quirelog/quire/status"
)

// patience is how long one request or subscription has waited for a broker
// that serves it, and how often it was refused.
type patience struct {
	// tries is how often a request is made in all while the broker has too
	// much to do; 0 is as often as there is time for.
	tries int

	waited  time.Duration
	refused int
}

// calm forgets the trouble: there was an answer.
func (p *patience) calm() { *p = patience{tries: p.tries} }

// refusedTries are the tries of a single request, whose caller should know
// soon that the broker has too much to do. A broker that cannot serve at all
// is given as long as one that cannot be reached.
const refusedTries = 5

// passing says whether a refusal had no effect and may be gone in a moment.
func passing(err error) bool {
	switch status.CodeOf(err) {
	case status.Overloaded, status.Unavailable:
		return true
	}
	return soon(err)
}

// soon says whether a refused batch may well be taken as it is sent next: cut
// otherwise, or when those before it have arrived.
func soon(err error) bool {
	switch status.CodeOf(err) {
	case status.RangeMoved, status.OutOfOrder, status.WindowFull:
		return true
	}
	return false
}

// bear says whether a request that was refused with err shall be made again,
// after a pause that grows from firstRefused to lastRefused; the first soonTries
// need none if they may help.
func (p *patience) bear(ctx context.Context, err error, limit time.Duration) bool {
	p.refused++
	switch {
	case !passing(err):
		return false
	case p.tries > 0 && p.refused >= p.tries && status.CodeOf(err) != status.Unavailable:
		return false
	case limit > 0 && p.waited >= limit:
		return false
	}
	defer p.spend(time.Now())
	if p.refused <= soonTries && soon(err) {
		return true
	}
	d := min(firstRefused<<min(p.refused-1, 10), lastRefused)
	pause(ctx, d-time.Duration(rand.Int64N(int64(d)/4)))
	return true
}

const (
	soonTries    = 3
	firstRefused = 10 * time.Millisecond
	lastRefused  = time.Second
)

// spend counts the time since begin.
func (p *patience) spend(begin time.Time) { p.waited += time.Since(begin) }

// timer fires when patience is over, and never if limit is 0.
func (p *patience) timer(limit time.Duration) deadline {
	if limit == 0 {
		return deadline{}
	}
	t := time.NewTimer(limit - p.waited)
	return deadline{c: t.C, t: t}
}

// deadline is a timer that may be none.
type deadline struct {
	c <-chan time.Time
	t *time.Timer
}

func (d deadline) stop() {
	if d.t != nil {
		d.t.Stop()
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
