package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/producers"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// rng is a leaf range as its primary serves it. A range of which this process
// has no grant yet has no segment; the first append asks for one, and whatever
// comes meanwhile waits in order. So it does while a segment is rolled, and
// while the range is split or merged: then what waited goes to the children.
type rng struct {
	b    *Broker
	t    *topic
	id   ident.RangeID
	band keyspace.Band

	mu sync.Mutex
	// seg takes the appends; nil until there is a grant.
	seg   *segment.Segment
	bytes int64
	first ident.Timestamp // when seg got its first records; 0 while it has none
	// producers is what the range knows of producers; nil until it is recalled
	// from the log. handed is behind the last batch that seg was handed. carried
	// says that what was known stands in seg, up to carryEnd; it is to stand there
	// again when seg has carryNext bytes.
	producers        *producers.State
	handed, carryEnd ident.Offset
	carried          bool
	carryNext        int64
	// opening: a goroutine opens the next segment or ends the range, and
	// appends wait. idle, if somebody waits for it, is closed when it is done.
	opening bool
	idle    chan struct{}
	next    succession
	waiting []pending
	// ended is why the range takes no appends; errMoved after a split or merge.
	ended error
}

// errMoved: the range was split or merged. Its appends go to others now.
var errMoved = errors.New("the range has moved")

// pending is one append on its way.
type pending struct {
	batch []byte
	// span is that of its keys, once it is located: no valid band without any.
	span    keyspace.Band
	located bool
	// numbered is set if the batch has a producer's sequences.
	numbered *numbered
	records  int
	began    time.Time
	done     func(ProduceResult, error)
}

// size is what the append takes while it waits.
func (p *pending) size() int64 {
	n := int64(len(p.batch))
	if p.numbered != nil {
		n += numberedBytes * int64(len(p.numbered.records))
	}
	return n
}

// succession says why the next segment is opened.
type succession uint8

const (
	// open: there is none yet.
	succeedOpen succession = iota
	// roll: the present one is full or old.
	succeedRoll
	// regrant: the next one must have another durability.
	succeedRegrant
)

func newRange(t *topic, cr *catalog.Range) *rng { return &rng{b: t.b, t: t, id: cr.ID, band: cr.Band} }

// catalogRange is the range as the catalog has it.
func (r *rng) catalogRange() *catalog.Range {
	cr, ok := r.t.info().Range(r.id)
	if !ok {
		// It has ended and is forgotten already.
		return &catalog.Range{ID: r.id, Band: r.band}
	}
	return cr
}

// Produce appends one batch. It never blocks: done is called once, perhaps
// before Produce returns, perhaps from another goroutine, and must be quick.
// Two calls one after the other for one topic are appended in that order. The
// errors are topic_not_found, batch_corrupt, batch_too_large,
// record_too_large, not_supported, disk_full, overloaded, which all mean that
// nothing was appended, and store_failed, which leaves it unknown. Of a batch
// with a producer's sequences they are also those of producers.Judge, and
// range_moved, as a *Refusal where that has more to say.
func (b *Broker) Produce(req ProduceRequest, done func(ProduceResult, error)) {
	began := time.Now()
	t, err := b.lookup(req.Topic)
	if err != nil {
		b.metrics.produceErrors.Inc()
		done(ProduceResult{}, err)
		return
	}
	state := t.state.Load()
	p := pending{batch: req.Batch, began: began, done: done, span: nowhere}
	limits := batch.Limits{MaxValue: int(state.info.Settings.MaxValueBytes)}
	if p.located = len(state.leaves) > 1; p.located {
		limits.Span = &p.span
	}
	h, err := batch.ParseHeader(req.Batch)
	if err == nil && h.HasProducer {
		p.located = true
		p.numbered, err = number(req.Batch, &limits, &p.span)
	}
	if err == nil {
		h, err = batch.Validate(req.Batch, limits)
	}
	if err != nil {
		p.numbered.release()
		b.metrics.produceErrors.Inc()
		done(ProduceResult{}, invalidBatch(err))
		return
	}
	p.records = int(h.Count)
	if cuts := state.hint(req.Bands, p.span); cuts != nil {
		p.done = func(res ProduceResult, err error) {
			res.Cuts = cuts
			done(res, err)
		}
	}
	t.append(p)
}

// invalidBatch gives a batch's fault its code.
func invalidBatch(err error) error {
	switch {
	case status.CodeOf(err) != status.Internal:
		return err
	case errors.Is(err, batch.ErrTooLarge):
		return status.New(status.BatchTooLarge, "the batch is refused: %w", err)
	case errors.Is(err, batch.ErrVersion):
		return status.New(status.VersionMismatch, "the batch is refused: %w", err)
	}
	return status.New(status.BatchCorrupt, "the batch is refused: %w", err)
}

// append appends or keeps a batch, or says why neither.
func (r *rng) append(p pending) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended != nil:
		return r.ended
	case r.seg == nil || r.opening || len(r.waiting) > 0:
		return r.wait(p, succeedOpen)
	}
	err := r.hand(p)
	if errors.Is(err, segment.ErrSealed) {
		return r.wait(p, succeedOpen)
	}
	if err == nil && r.bytes >= r.rollBytes() {
		r.succeed(succeedRoll)
	}
	return err
}

// hand stamps the batch behind the segment's tail and hands it in.
func (r *rng) hand(p pending) error {
	now := r.b.clock.timestamp()
	for {
		err := r.tryHand(&p, now)
		if !errors.Is(err, segment.ErrNotAtTail) {
			return err
		}
		// A full disk has moved the tail back since it was looked at.
	}
}

func (r *rng) tryHand(p *pending, now ident.Timestamp) error {
	tail := r.seg.Tail()
	at := max(now, tail.LastTime)
	if tail.Base < r.handed || !r.carried || r.bytes >= r.carryNext {
		if err := r.ready(tail, at); err != nil {
			return err
		}
		tail = r.seg.Tail()
	}
	if p.numbered != nil {
		if answered, err := r.judge(p, at); answered || err != nil {
			return err
		}
	}
	one := *p
	if err := r.put(p.batch, p.records, tail, at, func(err error) { r.appended(&one, at, err) }); err != nil {
		return err
	}
	if r.first == 0 {
		r.first = at
	}
	if p.numbered != nil {
		r.accept(p.numbered, tail.Base, at)
	}
	return nil
}

// put stamps a batch and hands it to the segment, behind the tail.
func (r *rng) put(b []byte, records int, tail segment.Tail, at ident.Timestamp, done func(error)) error {
	batch.Stamp{
		Epoch: r.seg.Epoch(), Base: tail.Base, UserBefore: tail.UserBefore, Chain: tail.Chain, AppendTime: at,
	}.Apply(b)
	if err := r.seg.Append(b, done); err != nil {
		return err
	}
	r.bytes += int64(len(b))
	r.handed = tail.Base + ident.Offset(records)
	return nil
}

// appended is called by the store when an append has its outcome.
func (r *rng) appended(p *pending, at ident.Timestamp, err error) {
	m := r.b.metrics
	if err != nil {
		m.produceErrors.Inc()
		p.done(ProduceResult{}, err)
		return
	}
	m.produce.Observe(time.Since(p.began).Seconds())
	m.produceRecords.Add(float64(p.records))
	m.produceBytes.Add(float64(len(p.batch)))
	p.done(ProduceResult{AppendTime: at}, nil)
	r.t.news.tell()
}

// wait keeps an append until the next segment is open.
func (r *rng) wait(p pending, why succession) error {
	if r.b.waitingBytes.Add(p.size()) > r.b.cfg.WaitingBytes {
		r.b.waitingBytes.Add(-p.size())
		r.b.metrics.Limit("waiting_bytes")
		return status.New(status.Overloaded, "too many batches wait for a segment to be opened")
	}
	r.waiting = append(r.waiting, p)
	r.succeed(why)
	return nil
}

// succeed has the next segment opened.
func (r *rng) succeed(why succession) {
	r.next = max(r.next, why)
	if r.opening || r.ended != nil {
		return
	}
	r.opening = r.b.spawn(r.open)
	if !r.opening {
		go r.release(errClosed)
	}
}

// rest says that nobody opens a segment any more. The caller has the lock.
func (r *rng) rest() {
	r.opening, r.next = false, succeedOpen
	if r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// open opens the next segment and hands it what waits. Without one, what
// waits is refused, and the next append tries again.
func (r *rng) open() {
	r.mu.Lock()
	why := r.next
	r.mu.Unlock()
	if err := r.goOn(why); err != nil {
		r.release(err)
	}
}

// goOn opens the next segment and hands it what waits. Without one it changes
// nothing. Only one goroutine calls it at a time: the one that opening is set
// for.
func (r *rng) goOn(why succession) error {
	r.mu.Lock()
	known := r.producers
	r.mu.Unlock()
	seg, err := r.advance(why)
	if err == nil && known == nil {
		known, err = r.t.recall(r.t.info(), r.catalogRange())
	}
	if err != nil {
		return err
	}
	info := seg.Info()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest()
	if r.ended != nil {
		return nil
	}
	r.producers = known
	if r.seg != seg {
		r.forgetFrom(seg.Tail().Base)
		r.carried, r.handed = false, seg.Tail().Base
	}
	r.seg, r.bytes, r.first = seg, info.Bytes, info.FirstTime
	waiting := r.waiting
	r.waiting = nil
	if tail := seg.Tail(); len(waiting) == 0 && !r.carried {
		// What is known shall not depend on the segments before any longer. If that
		// fails now, the next append tries again.
		_ = r.ready(tail, max(r.b.clock.timestamp(), tail.LastTime))
	}
	for _, p := range waiting {
		r.b.waitingBytes.Add(-p.size())
		if err := r.hand(p); err != nil {
			r.b.refuse(&p, err)
		}
	}
	r.checkDurability()
	return nil
}

// release answers what waits with err. What waited at a range that has moved has
// been handed over.
func (r *rng) release(err error) {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = nil
	r.rest()
	r.mu.Unlock()
	for _, p := range waiting {
		r.b.waitingBytes.Add(-p.size())
		r.b.refuse(&p, err)
	}
	r.t.news.tell()
}

// end ends the range: its topic was deleted.
func (r *rng) end(err error) {
	r.mu.Lock()
	r.ended = err
	r.mu.Unlock()
	r.release(err)
}

// advance brings the range to an open segment of this process: it creates the
// one that the catalog granted, or seals the present one and has the next
// granted (after a restart, or for another durability) or rolled. It is safe
// to begin again after any failure.
func (r *rng) advance(why succession) (*segment.Segment, error) {
	const attempts = 10
	var err error
	for range attempts {
		var seg *segment.Segment
		seg, err = r.step(why)
		if err == nil {
			return seg, nil
		}
		if !errors.Is(err, catalog.ErrConflict) {
			return nil, err
		}
		r.t.refresh()
	}
	return nil, status.New(status.Unavailable, "the range keeps changing: %w", err)
}

func (r *rng) step(why succession) (*segment.Segment, error) {
	cr := r.catalogRange()
	if cr.Sealed() {
		return nil, errMoved
	}
	open := *cr.Open
	mine := cr.Owner == r.b.owner
	seg, there := r.b.store.Segment(open.ID)
	switch {
	case mine && !there:
		return r.create(open, cr.LastTime)
	case mine && why == succeedOpen && !seg.Info().Sealed:
		return seg, nil
	}
	seal, err := r.seal(open)
	if err != nil {
		return nil, err
	}
	var cmd catalog.Command = catalog.Roll{
		Topic: r.t.id, Range: r.id, Epoch: cr.Epoch, Version: cr.Version, Open: open.ID, Seal: seal,
	}
	if !mine || why == succeedRegrant || seal.End == open.Base {
		cmd = catalog.Grant{
			Topic: r.t.id, Range: r.id, Epoch: cr.Epoch, Version: cr.Version, Open: open.ID, Seal: seal, Owner: r.b.owner,
		}
	}
	res, err := r.b.propose(cmd)
	if err != nil {
		return nil, err
	}
	r.t.refresh()
	return r.create(res.Opened, max(cr.LastTime, seal.LastTime))
}

// seal seals the open segment in the store, if it is there, and says how it
// ended.
func (r *rng) seal(open catalog.OpenSegment) (catalog.Seal, error) {
	seg, ok := r.b.store.Segment(open.ID)
	if !ok {
		return catalog.EmptySeal(open), nil
	}
	info, err := seg.Seal()
	if err != nil || info.End() == open.Base {
		return catalog.EmptySeal(open), err
	}
	return catalog.Seal{
		End: info.End(), Digest: info.Tail.Chain, Users: info.Users(),
		Bytes: uint64(info.Bytes), LastTime: info.Tail.LastTime,
	}, nil
}

func (r *rng) create(open catalog.OpenSegment, clock ident.Timestamp) (*segment.Segment, error) {
	return r.b.store.Create(segment.Meta{
		ID: open.ID, Range: r.id, Epoch: open.Epoch, Base: open.Base, UserBefore: open.UserBefore, Chain: open.Chain,
		NotBefore: clock, Durability: r.durability(),
	})
}

// durability is what the topic asks of its next segment.
func (r *rng) durability() segment.Durability {
	fsync := r.t.info().Settings.Fsync
	interval, _ := fsync.Interval()
	return segment.Durability{Weak: fsync != catalog.FsyncAlways, Interval: interval}
}

// altered takes over changed settings.
func (r *rng) altered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkDurability()
}

// checkDurability has the segment succeeded if it was opened before the topic's
// durability was changed.
func (r *rng) checkDurability() {
	if r.seg != nil && r.seg.Info().Durability != r.durability() {
		r.succeed(succeedRegrant)
	}
}

// news wakes the readers of a topic.
type news struct {
	mu      sync.Mutex
	changed chan struct{}
	watched atomic.Bool
}

// tell wakes the readers that wait for more.
func (n *news) tell() {
	if !n.watched.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
		n.watched.Store(false)
	}
}

// watch gives a channel that is closed at the next change. It is taken before
// a reader looks, so that no change is missed.
func (n *news) watch() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
		n.watched.Store(true)
	}
	return n.changed
}
