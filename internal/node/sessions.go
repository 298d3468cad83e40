package node

import (
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/producers"
	"github.com/quirelog/quire/status"
)

// OpenProducer begins a session of a producer that a user has named, and gives
// its id and the session. From the first batch of the session on, a range takes
// nothing of the sessions before. The errors are topic_not_found, invalid_name,
// disk_full and unavailable when too many are begun.
func (b *Broker) OpenProducer(topic, name string) (id batch.ProducerID, session uint64, err error) {
	t, err := b.lookup(topic)
	if err != nil {
		return id, 0, err
	}
	if name == "" || len(name) > MaxProducerName {
		return id, 0, status.New(status.InvalidName, "the name of a producer has 1 to %d bytes, not %d", MaxProducerName, len(name))
	}
	digest := xxh3.HashString128(name).Bytes()
	t.sessionMu.Lock() // those of this process do not get in each other's way
	defer t.sessionMu.Unlock()
	const attempts = 10
	for range attempts {
		var info *catalog.Topic
		b.control.View(func(s *catalog.State) { info, _ = s.Topic(t.id) })
		if info == nil {
			return id, 0, t.over()
		}
		var res catalog.Result
		if res, err = b.propose(catalog.OpenSession{Topic: t.id, Sessions: info.Sessions}); err == nil {
			return producers.ChosenID(digest), res.Topic.Sessions, nil
		}
		if !errors.Is(err, catalog.ErrConflict) {
			return id, 0, err
		}
	}
	return id, 0, status.New(status.Unavailable, "too many producers begin: %w", err)
}

// MaxProducerName bounds the bytes of a producer's name.
const MaxProducerName = 255

// CloseProducer forgets a producer whose id nobody chose: it sends nothing more.
// It waits for nothing, and a producer that is not known is none.
func (b *Broker) CloseProducer(topic string, id batch.ProducerID, session uint64) error {
	t, err := b.lookup(topic)
	if err != nil {
		return err
	}
	for _, r := range t.state.Load().leaves {
		r.closeProducer(id, session)
	}
	return nil
}

func (r *rng) closeProducer(id batch.ProducerID, session uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seg == nil || r.opening || r.ended != nil || r.producers == nil || !r.producers.Closes(id, session) {
		return // it expires
	}
	tail := r.seg.Tail()
	at := max(r.b.clock.timestamp(), tail.LastTime)
	rec := producers.CloseRecord(id, session)
	if err := r.ready(tail, at); err == nil && r.control(&rec, at) == nil {
		r.producers.Close(id, session)
	}
}
