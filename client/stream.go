package client

import (
	"errors"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// errEnd says that an iteration is over.
var errEnd = errors.New("end")

// credit is what a subscription lets its broker send.
type credit struct{ records, bytes int }

// stream is a subscription on one connection. Its deliveries wait here until
// the iterator takes them; how many can wait is bounded by the credit.
type stream struct {
	cn    *conn
	id    uint64
	since time.Time

	mu sync.Mutex
	// queue has deliveries, bytes is their weight.
	queue []delivery
	bytes int
	limit int
	err   error         // why no more come
	more  chan struct{} // has a token when the queue or err changed
}

// answer is the handler's.
func (st *stream) answer(f wire.Frame) (bool, error) {
	var m quirev1.Delivery
	if err := expect(f, wire.TypeDelivery, &m); err != nil {
		return false, err
	}
	d, err := deliveryOf(&m, f.Payload)
	if err != nil {
		return false, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		return false, nil // it was canceled, and this crossed the cancel
	}
	if st.bytes > st.limit {
		return false, status.New(status.ProtocolViolation, "the broker sent more than the subscription's window")
	}
	st.queue = append(st.queue, d)
	st.bytes += d.bytes
	signal(st.more)
	return false, nil
}

// fail is the handler's.
func (st *stream) fail(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err == nil {
		st.err = err
		signal(st.more)
	}
}

// cancel asks the broker to stop and drops what waits.
func (st *stream) cancel() {
	st.mu.Lock()
	running := st.err == nil
	if running {
		st.err = errEnd
	}
	st.queue, st.bytes = nil, 0
	st.mu.Unlock()
	if running {
		st.cn.cancel(st.id)
	}
}

// take gives the next delivery, or why there are no more, or neither if there
// is nothing yet.
func (st *stream) take() (*delivery, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.queue) == 0 {
		return nil, st.err
	}
	d := st.queue[0]
	st.queue[0] = delivery{}
	st.queue = st.queue[1:]
	st.bytes -= d.bytes
	return &d, nil
}

// longStream is how long a stream must have lived to show that the broker
// served it, although no record may have come.
const longStream = time.Second

// open subscribes on the present connection, at resume.
func (s *Subscription) open() (*stream, error) {
	for {
		cn, err := s.c.link.get(s.ctx, &s.patience)
		if err != nil {
			return nil, err
		}
		st := &stream{cn: cn, since: time.Now(), limit: s.cfg.bytes + wire.MaxFrame, more: make(chan struct{}, 1)}
		st.id, err = cn.start(s.ctx, wire.TypeSubscribeRequest, s.request(), nil, st)
		if _, broken := asBroken(err); broken {
			continue
		}
		s.owed = credit{}
		return st, err
	}
}

func (s *Subscription) request() *quirev1.SubscribeRequest {
	return &quirev1.SubscribeRequest{
		Topic:        s.topic,
		Start:        startOf(Cursor(s.resume)),
		Filter:       s.cfg.filter,
		Overflow:     quirev1.Overflow(s.cfg.overflow) + quirev1.Overflow_OVERFLOW_BLOCK,
		QueueRecords: uint32(s.cfg.queueRecords),
		Credit:       &quirev1.Credit{Records: uint64(s.cfg.records), Bytes: uint64(s.cfg.bytes)},
	}
}

// take waits for the next delivery, on another connection if need be. It gives
// nothing when the subscription is closed.
func (s *Subscription) take() (*delivery, error) {
	for {
		st := s.stream
		d, err := st.take()
		switch {
		case d != nil:
			s.patience.calm()
			s.consumed(credit{bytes: d.bytes})
			return d, nil
		case err == nil:
			s.grant()
			select {
			case <-st.more:
			case <-s.closed:
				return nil, nil
			}
		case err == errEnd:
			return nil, nil
		default:
			if err := s.reopen(err); err != nil {
				return nil, err
			}
		}
	}
}

// reopen subscribes again after a stream has failed, if that makes sense.
func (s *Subscription) reopen(why error) error {
	if time.Since(s.stream.since) >= longStream {
		s.patience.calm()
	}
	broken, is := asBroken(why)
	switch {
	case is && final(broken.cause):
		return broken.cause
	case !is && !s.patience.bear(s.ctx, why, s.c.cfg.reconnectTimeout):
		return why
	}
	st, err := s.open()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.stream = st
	s.mu.Unlock()
	if s.ended() {
		st.cancel() // shut may have seen the stream before
	}
	return nil
}

// consumed notes credit to give back, and gives it back when it is worth a
// frame.
func (s *Subscription) consumed(c credit) {
	s.owed.records += c.records
	s.owed.bytes += c.bytes
	if s.owed.records >= (s.cfg.records+3)/4 || s.owed.bytes >= (s.cfg.bytes+3)/4 {
		s.grant()
	}
}

// grant gives back the credit that is owed.
func (s *Subscription) grant() {
	if s.owed == (credit{}) {
		return
	}
	st := s.stream
	st.cn.tell(wire.TypeCredit, st.id, &quirev1.Credit{
		Records: uint64(s.owed.records), Bytes: uint64(s.owed.bytes),
	})
	s.owed = credit{}
}
