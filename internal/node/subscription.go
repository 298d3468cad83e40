package node

import (
	"context"
	"sync"
	"time"

	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/status"
)

const (
	// maxQueue bounds the records that may wait for a slow subscriber before
	// its overflow policy acts.
	maxQueue = 10_000
	// pushBytes is about how much one delivery pushes.
	pushBytes = 1 << 20
)

// Subscription pushes a topic to one reader. What waits for the reader is not
// held in memory: it is a stretch of the log, which the overflow policy
// shortens when the reader's window stays shut.
type Subscription struct {
	b        *Broker
	t        *topic
	filter   Filter
	overflow Overflow
	queue    uint64

	// Owned by the caller of Next.
	at  lineage.Cursor
	gap *Gap
	// shut: the window was found shut since the last delivery.
	shut bool
	// dropped is what drop-newest leaves out once the reader gets there.
	dropped *hole

	mu      sync.Mutex
	records int64
	bytes   int64
	granted chan struct{}

	closeOnce sync.Once
	closed    chan struct{}
}

// hole is a stretch that a reader skips, after so many more records.
type hole struct {
	after uint64
	to    lineage.Cursor
}

// Subscribe begins to push a topic. Nothing is delivered before Grant.
// The errors are those of Fetch.
func (b *Broker) Subscribe(_ context.Context, req SubscribeRequest) (*Subscription, error) {
	t, err := b.lookup(req.Topic)
	if err != nil {
		return nil, b.cursorOutlives(req.Start, err)
	}
	if err := req.Filter.check(); err != nil {
		return nil, err
	}
	if req.Overflow > OverflowDisconnect {
		return nil, status.New(status.InvalidArgument, "unknown overflow policy: %d", req.Overflow)
	}
	at, gap, err := t.resolve(req.Start)
	if err != nil {
		return nil, err
	}
	return &Subscription{
		b: b, t: t, filter: req.Filter, overflow: req.Overflow, queue: uint64(bounded(req.QueueRecords, maxQueue)),
		at: at, gap: gap, granted: make(chan struct{}, 1), closed: make(chan struct{}),
	}, nil
}

// Grant lets the broker push so many more records and bytes. It never blocks.
func (s *Subscription) Grant(records, bytes uint64) {
	const most = 1 << 40
	s.mu.Lock()
	s.records = min(s.records+int64(min(records, most)), most)
	s.bytes = min(s.bytes+int64(min(bytes, most)), most)
	s.mu.Unlock()
	select {
	case s.granted <- struct{}{}:
	default:
	}
}

// credit gives what the window admits; zero when it is shut.
func (s *Subscription) credit() bounds {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records <= 0 || s.bytes <= 0 {
		return bounds{}
	}
	return bounds{int(min(s.records, maxFetchRecords)), int(min(s.bytes, pushBytes))}
}

// spend takes a delivery off the window. A batch is delivered whole, so the
// bytes may go below zero.
func (s *Subscription) spend(records, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records -= int64(records)
	s.bytes -= int64(bytes)
}

// Next waits for records and for room in the window, and gives what is to be
// pushed. One caller at a time. It ends with canceled when ctx ends or the
// subscription is closed, with slow_consumer if the policy says so, and with
// cursor_topic_gone when the topic is deleted.
func (s *Subscription) Next(ctx context.Context) (Delivery, error) {
	for {
		changed := s.t.news.watch()
		room := s.credit()
		if room.records == 0 {
			if err := s.windowShut(); err != nil {
				return Delivery{}, err
			}
		} else {
			d, ok, err := s.push(room)
			if ok || err != nil {
				return d, err
			}
		}
		select {
		case <-changed:
		case <-s.granted:
		case <-ctx.Done():
			return Delivery{}, status.New(status.Canceled, "the subscription was canceled: %w", ctx.Err())
		case <-s.closed:
			return Delivery{}, status.New(status.Canceled, "the subscription was closed")
		case <-s.b.ctx.Done():
			return Delivery{}, errClosed
		}
	}
}

// windowShut notes that the reader has no room, and disconnects it if that is
// its policy and its queue is full.
func (s *Subscription) windowShut() error {
	if err := s.t.over(); err != nil {
		return err
	}
	s.shut = true
	if s.overflow == OverflowDisconnect && s.waiting() > s.queue {
		return status.New(status.SlowConsumer, "more than %d records waited for the subscriber", s.queue)
	}
	return nil
}

func (s *Subscription) waiting() uint64 { return s.t.ahead(s.at) }

// push reads what the window admits. It says false when there is nothing.
func (s *Subscription) push(room bounds) (Delivery, bool, error) {
	began := time.Now()
	s.drop()
	if s.dropped != nil {
		if s.dropped.after > 0 {
			room.records = int(min(uint64(room.records), s.dropped.after))
		} else {
			s.skipTo(s.dropped.to)
			s.dropped = nil
		}
	}
	st, err := s.t.read(s.at, room, s.filter)
	if err != nil {
		return Delivery{}, false, err
	}
	s.at = st.next
	if s.dropped != nil {
		s.dropped.after -= min(s.dropped.after, st.passed)
	}
	st.gap = s.gap.plus(st.gap)
	if st.records == 0 && st.gap == nil {
		return Delivery{}, false, nil
	}
	s.gap = nil
	s.spend(st.records, st.bytes)
	s.b.metrics.fetch.Observe(time.Since(began).Seconds())
	return s.t.delivery(&st), true, nil
}

// drop applies the overflow policy once the window opens again.
func (s *Subscription) drop() {
	if !s.shut {
		return
	}
	s.shut = false
	if s.waiting() <= s.queue {
		return
	}
	switch s.overflow {
	case OverflowDropOldest:
		s.skipTo(s.t.newest(s.queue))
	case OverflowDropNewest:
		if s.dropped == nil {
			s.dropped = &hole{after: s.queue}
		}
		s.dropped.to = s.t.end()
	}
}

// skipTo moves the reader on, which makes a gap.
func (s *Subscription) skipTo(to lineage.Cursor) {
	if s.t.ahead(s.at) <= s.t.ahead(to) {
		return
	}
	before, ok := s.t.usersAhead(s.at)
	after, ok2 := s.t.usersAhead(to)
	s.gap = s.gap.plus(&Gap{Reason: GapOverflow, Records: before - min(before, after), Known: ok && ok2})
	s.at = to
}

// Close ends the subscription; Next then returns canceled. It is idempotent.
func (s *Subscription) Close() { s.closeOnce.Do(func() { close(s.closed) }) }
