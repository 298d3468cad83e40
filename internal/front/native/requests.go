package native

import (
	"context"
	"math"
	"sync"

	"github.com/quirelog/quire/status"
)

// requests are those of a connection that have no answer yet.
type requests struct {
	limit int

	mu      sync.Mutex
	open    map[uint64]*request
	pending int           // requests whose last answer is not queued
	settled chan struct{} // made by last, closed when none is pending
}

// request is one that can be told something while it is in flight.
type request struct {
	// cancel ends it early. It is nil for one that cannot be.
	cancel context.CancelCauseFunc
	// window is that of a subscription; nil for others.
	window *window
}

// uncancelable stands for all requests that run to their end.
var uncancelable = &request{}

// begin takes a request in. Too many are limit_reached and end that request;
// an id that is in use is a protocol_violation and ends the connection.
func (r *requests) begin(id uint64, req *request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, used := r.open[id]; used {
		return status.New(status.ProtocolViolation, "request id %d is in use", id)
	}
	if len(r.open) >= r.limit {
		return status.New(status.LimitReached, "the connection has %d requests in flight, which is the most", r.limit)
	}
	if r.open == nil {
		r.open = map[uint64]*request{}
	}
	r.open[id] = req
	r.pending++
	return nil
}

// end forgets a request. It comes before its last answer is queued, since the
// client may use the id again as soon as it has that.
func (r *requests) end(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, id)
}

// settle says that the last answer of a request is queued. It comes after
// that, since the connection may end when all are.
func (r *requests) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
	if r.settled != nil && r.pending == 0 {
		close(r.settled)
		r.settled = nil
	}
}

// get is the request id, if it is in flight.
func (r *requests) get(id uint64) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[id]
}

// last gives a channel that is closed when the last answers to all requests
// are queued. None may begin after it.
func (r *requests) last() <-chan struct{} {
	settled := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == 0 {
		close(settled)
	} else {
		r.settled = settled
	}
	return settled
}

// window passes credit on to a subscription, and keeps what arrives before the
// subscription is made.
type window struct {
	mu             sync.Mutex
	sub            Subscription
	records, bytes uint64
}

// grant adds credit.
func (w *window) grant(records, bytes uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sub != nil {
		w.sub.Grant(records, bytes)
		return
	}
	w.records, w.bytes = sum(w.records, records), sum(w.bytes, bytes)
}

// attach gives the subscription what has been granted so far.
func (w *window) attach(sub Subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sub = sub
	sub.Grant(w.records, w.bytes)
}

// sum adds without running over.
func sum(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
