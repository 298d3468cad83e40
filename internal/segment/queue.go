package segment

import (
	"sync"
	"time"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

type opKind uint8

const (
	opAppend opKind = iota
	opConfirm
	opCreate
	opSeal
	opCut
	opDelete
)

// op is one piece of work for the writer.
type op struct {
	kind  opKind
	seg   *Segment
	term  uint64
	batch []byte
	tip   tip // append: the segment's tip behind the batch
	cut   ident.Offset
	done  func(error)
	at    time.Time
	err   error
}

// queue holds what waits for the next round.
type queue struct {
	mu     sync.Mutex
	ops    []op
	bytes  int64
	limit  int64
	closed error
	wake   chan struct{}
}

// submit hands an op to the writer. It never blocks. A critical segment bounds
// by itself what it hands in, and is not turned away for what others do.
func (s *Store) submit(o op) error {
	o.at = time.Now()
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return q.closed
	}
	if o.kind == opAppend && !o.seg.meta.Critical && q.bytes+int64(len(o.batch)) > q.limit {
		s.cfg.Observer.Limit("queue_bytes")
		return status.New(status.Overloaded, "%d bytes wait for the disk, at most %d may", q.bytes, q.limit)
	}
	q.ops = append(q.ops, o)
	q.bytes += int64(len(o.batch))
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// do submits through f and waits for the outcome.
func (s *Store) do(f func(done func(error)) error) error {
	ch := make(chan error, 1)
	if err := f(func(err error) { ch <- err }); err != nil {
		return err
	}
	return <-ch
}

// take moves up to limit bytes of waiting ops to into. At least one op is
// taken if any waits.
func (q *queue) take(into []op, limit int) []op {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.ops) && (n == 0 || bytes+len(q.ops[n].batch) <= limit) {
		bytes += len(q.ops[n].batch)
		n++
		// A cut has a round of its own: what is before it must be readable.
		if q.ops[n-1].kind == opCut || n < len(q.ops) && q.ops[n].kind == opCut {
			break
		}
	}
	into = append(into, q.ops[:n]...)
	rest := copy(q.ops, q.ops[n:])
	clear(q.ops[rest:])
	q.ops = q.ops[:rest]
	q.bytes -= int64(bytes)
	return into
}

// close refuses what comes later with err and gives what still waits.
func (q *queue) close(err error) []op {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = err
	}
	ops := q.ops
	q.ops, q.bytes = nil, 0
	return ops
}
