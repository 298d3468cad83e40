package node

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/status"
)

// SplitTopic splits a range of a topic in two: at a key, if one is given, and
// else the largest one where that halves what was appended to it last, or at the
// middle of its band if nothing says where that is. Appends in flight are carried
// over to the new ranges, readers go on with them when they have read the old
// one. The errors are topic_not_found, invalid_argument when the range cannot
// be split there, limit_reached, disk_full, and unavailable when the ranges
// keep changing.
func (b *Broker) SplitTopic(ctx context.Context, name string, key []byte) error {
	t, err := b.lookup(name)
	if err != nil {
		return err
	}
	var at ident.Position // decided before the range is frozen
	return t.reshape(ctx, func(state *topicState) ([]*rng, error) {
		if key != nil {
			at = keyspace.PositionOf(key)
			return []*rng{state.leaf(at)}, nil
		}
		r := state.largest()
		at = t.halving(r)
		return []*rng{r}, nil
	}, func(ends []catalog.Ending, ranges []*catalog.Range) (catalog.Command, error) {
		if err := t.info().RoomToSplit(); err != nil {
			return nil, err
		}
		if band := ranges[0].Band; at <= band.First || at > band.Last {
			return nil, status.New(status.InvalidArgument,
				"topic %q cannot be split there: the key begins its range", t.name.Short())
		}
		return catalog.Split{Topic: t.id, Ending: ends[0], At: at}, nil
	})
}

// MergeTopic merges the two neighbouring ranges of a topic that have the fewest
// bytes. The errors are those of SplitTopic.
func (b *Broker) MergeTopic(ctx context.Context, name string) error {
	t, err := b.lookup(name)
	if err != nil {
		return err
	}
	return t.reshape(ctx, func(state *topicState) ([]*rng, error) {
		if len(state.leaves) == 1 {
			return nil, status.New(status.InvalidArgument, "topic %q has one range: there is nothing to merge", t.name.Short())
		}
		return state.smallestPair(), nil
	}, func(ends []catalog.Ending, _ []*catalog.Range) (catalog.Command, error) {
		return catalog.Merge{Topic: t.id, Left: ends[0], Right: ends[1]}, nil
	})
}

// RestripeTopic begins a new segment in every range of a topic that takes
// appends, where segments are placed today. Appends in flight wait for it. The
// errors are those of SplitTopic.
func (b *Broker) RestripeTopic(ctx context.Context, name string) error {
	t, err := b.lookup(name)
	if err != nil {
		return err
	}
	for _, r := range t.state.Load().leaves {
		err := r.freeze(ctx)
		if errors.Is(err, errMoved) && t.over() == nil {
			continue // what continues it is new
		}
		if err != nil {
			return err
		}
		if err := r.goOn(succeedRoll); err != nil {
			r.thaw()
			return err
		}
	}
	return nil
}

// reshape ends ranges and has others continue them (R4): it freezes those that
// pick names, seals what they have open, proposes the command, and when the
// outcome is known lets what waited go on, in the new ranges or in the old ones.
func (t *topic) reshape(
	ctx context.Context, pick func(*topicState) ([]*rng, error),
	command func([]catalog.Ending, []*catalog.Range) (catalog.Command, error),
) error {
	const attempts = 20
	var err error
	for range attempts {
		if err := t.over(); err != nil {
			return err
		}
		var ranges []*rng
		if ranges, err = pick(t.state.Load()); err != nil {
			return err
		}
		if err = t.reshapeOnce(ctx, ranges, command); err == nil {
			return nil
		}
		if !errors.Is(err, catalog.ErrConflict) && !errors.Is(err, errMoved) {
			return err
		}
		t.refresh()
	}
	return status.New(status.Unavailable, "the topic's ranges keep changing: %w", err)
}

func (t *topic) reshapeOnce(
	ctx context.Context, ranges []*rng, command func([]catalog.Ending, []*catalog.Range) (catalog.Command, error),
) error {
	// Two that want the same ranges take them in the same order.
	for i, r := range ranges {
		if err := r.freeze(ctx); err != nil {
			for _, frozen := range ranges[:i] {
				frozen.thaw()
			}
			return err
		}
	}
	err := t.endRanges(ranges, command)
	if err != nil {
		for _, r := range ranges {
			r.thaw()
		}
		return err
	}
	t.refresh() // hands over what waits
	return nil
}

// endRanges proposes the end of ranges that are frozen. After an error they
// are as they were, but for a sealed segment, or have ended by another command.
func (t *topic) endRanges(
	ranges []*rng, command func([]catalog.Ending, []*catalog.Range) (catalog.Command, error),
) error {
	for _, r := range ranges {
		// The new ranges are to be this process's, and two that are merged have
		// to be one's.
		if r.catalogRange().Owner != t.b.owner {
			if _, err := r.advance(succeedOpen); err != nil {
				return err
			}
		}
	}
	info := t.info()
	var ends []catalog.Ending
	var before []*catalog.Range
	for _, r := range ranges {
		cr, ok := info.Range(r.id)
		if !ok || cr.Sealed() {
			return errMoved
		}
		before = append(before, cr)
		ends = append(ends, catalog.Ending{Range: cr.ID, Epoch: cr.Epoch, Version: cr.Version, Open: cr.Open.ID})
	}
	// What cannot be is refused before anything is sealed.
	if _, err := command(ends, before); err != nil {
		return err
	}
	for i, r := range ranges {
		var err error
		if ends[i].Seal, err = r.seal(*before[i].Open); err != nil {
			return err
		}
	}
	cmd, err := command(ends, before)
	if err != nil {
		return err
	}
	_, err = t.b.propose(cmd)
	return err
}

// freeze stops the range's appends: they wait. It waits itself while the range
// opens a segment or is reshaped by somebody else.
func (r *rng) freeze(ctx context.Context) error {
	for {
		r.mu.Lock()
		switch {
		case r.ended != nil:
			defer r.mu.Unlock()
			return r.ended
		case !r.opening:
			r.opening = true
			r.mu.Unlock()
			return nil
		case r.idle == nil:
			r.idle = make(chan struct{})
		}
		idle := r.idle
		r.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return status.New(status.Canceled, "the change of the topic's ranges was canceled: %w", ctx.Err())
		case <-r.b.ctx.Done():
			return errClosed
		}
	}
}

// thaw goes on after a reshaping that was not made: in the open segment, or if
// that was sealed or is to have a successor meanwhile, in the next.
func (r *rng) thaw() {
	r.mu.Lock()
	idle := len(r.waiting) == 0 && r.next == succeedOpen
	if idle {
		r.rest()
	}
	r.mu.Unlock()
	if idle {
		return
	}
	if !r.b.spawn(r.open) {
		r.release(errClosed)
	}
}

// largest is the leaf with the most bytes, of equal ones that with the widest
// band.
func (s *topicState) largest() *rng {
	return slices.MaxFunc(s.leaves, func(a, b *rng) int {
		return cmp.Or(cmp.Compare(a.stored(), b.stored()), cmp.Compare(a.band.Last-a.band.First, b.band.Last-b.band.First))
	})
}

// smallestPair are the neighbouring leaves with the fewest bytes, of several.
func (s *topicState) smallestPair() []*rng {
	best := 0
	sum := func(i int) uint64 { return s.leaves[i].stored() + s.leaves[i+1].stored() }
	for i := 1; i+1 < len(s.leaves); i++ {
		if sum(i) < sum(best) {
			best = i
		}
	}
	return s.leaves[best : best+2]
}

// stored sums the bytes of the range.
func (r *rng) stored() uint64 {
	cr, ok := r.t.info().Range(r.id)
	if !ok {
		return 0
	}
	return r.t.rangeBytes(cr)
}
