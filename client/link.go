package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/quirelog/quire/status"
)

// Pauses between rounds of the address list while no broker answers. They
// double from the first to the last, each shortened by a random part, so that
// many clients of one broker do not come back in step.
const (
	minPause = 20 * time.Millisecond
	maxPause = 2 * time.Second
)

// link holds a client's one connection and makes it again on demand. Nothing
// is dialed while nobody asks for a connection.
type link struct {
	cfg   *config
	ctx   context.Context
	tasks *tasks

	mu      sync.Mutex
	conn    *conn  // nil before the first; perhaps broken
	running *round // the round under way, nil if none
	// first is the address to begin the next round with: the one that
	// answered last, or its successor after it failed.
	first int
	// pause is how long the next round waits before it begins, from since on.
	pause time.Duration
	since time.Time
}

// round is one attempt to connect, over the whole list of addresses.
type round struct {
	done chan struct{}
	// conn or err is set when done is closed.
	conn *conn
	err  error
}

func newLink(ctx context.Context, cfg *config, tasks *tasks) *link {
	return &link{cfg: cfg, ctx: ctx, tasks: tasks}
}

// once gives the connection, and makes one round if there is none.
func (l *link) once(ctx context.Context) error {
	cn, r, err := l.join()
	if cn != nil || err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return contextError(ctx, "connecting to "+strings.Join(l.cfg.addrs, ","))
	case <-l.ctx.Done():
		return closedError("client")
	}
}

// present gives the connection that there is, or nil.
func (l *link) present() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil || l.conn.broken() {
		return nil
	}
	return l.conn
}

// get gives a connection that works as far as is known. It waits for one until
// ctx ends or patience is over.
func (l *link) get(ctx context.Context, p *patience) (*conn, error) {
	cn, r, err := l.join()
	if cn != nil || err != nil {
		return cn, err
	}
	defer p.spend(time.Now())
	timer := p.timer(l.cfg.reconnectTimeout)
	defer timer.stop()
	var failure error = status.New(status.Unavailable, "no broker answered at %s in time",
		strings.Join(l.cfg.addrs, ","))
	for {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, contextError(ctx, "waiting for a connection")
		case <-l.ctx.Done():
			return nil, closedError("client")
		case <-timer.c:
			return nil, failure
		}
		if r.err == nil {
			// It may have broken since; the caller would notice and come again.
			return r.conn, nil
		}
		if final(r.err) {
			return nil, r.err
		}
		failure = r.err
		if cn, r, err = l.join(); cn != nil || err != nil {
			return cn, err
		}
	}
}

// join gives the present connection, or else the round that will make one.
func (l *link) join() (*conn, *round, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, nil, closedError("client")
	}
	if l.conn != nil && !l.conn.broken() {
		return l.conn, nil, nil
	}
	if l.running != nil {
		return nil, l.running, nil
	}
	r := &round{done: make(chan struct{})}
	wait := time.Until(l.since.Add(l.pause))
	if !l.tasks.run(func() { l.run(r, wait) }) {
		return nil, nil, closedError("client")
	}
	l.running = r
	return nil, r, nil
}

// run makes the round r and notes for the next one what came of it.
func (l *link) run(r *round, wait time.Duration) {
	pause(l.ctx, wait)
	l.mu.Lock()
	first := l.first
	l.mu.Unlock()

	at, cn, err := l.connect(first)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.since = nil, time.Now()
	if err == nil {
		// A broker that answers and then hangs up at once is asked again no
		// faster than this.
		l.pause = minPause
		l.conn, l.first = cn, at
	} else {
		l.pause = min(max(2*l.pause, minPause), maxPause)
		l.pause -= time.Duration(rand.Int64N(int64(l.pause) / 4))
		l.first = at
	}
	r.conn, r.err = cn, err
	close(r.done)
}

// connect tries each address once, beginning with the one at first, and says
// which one answered, or was tried last.
func (l *link) connect(first int) (at int, cn *conn, err error) {
	for i := range l.cfg.addrs {
		at = (first + i) % len(l.cfg.addrs)
		var e error
		if cn, e = dialConn(l.ctx, l.cfg, l.cfg.addrs[at], l.tasks); e == nil {
			return at, cn, nil
		}
		// Of several reasons, one that says more than "no answer" is kept.
		if err == nil || !final(err) {
			err = e
		}
	}
	if status.CodeOf(err) == status.Internal {
		err = &status.Error{
			Code:    status.Unavailable,
			Message: fmt.Sprintf("no broker answered at %s: %v", strings.Join(l.cfg.addrs, ","), err),
			Err:     err,
		}
	}
	return (at + 1) % len(l.cfg.addrs), nil, err
}

// final says whether connecting again would fail in the same way.
func final(err error) bool {
	switch status.CodeOf(err) {
	case status.ProtocolViolation, status.VersionMismatch, status.InvalidArgument:
		return true
	}
	return false
}
