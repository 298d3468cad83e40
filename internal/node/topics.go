package node

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/status"
)

// topic is one incarnation of a topic as this broker serves it.
type topic struct {
	b    *Broker
	id   ident.TopicID
	name catalog.Name
	// state is the topic as the catalog had it last. Only refresh replaces it,
	// under refreshMu, so that it never goes back.
	state     atomic.Pointer[topicState]
	refreshMu sync.Mutex
	sessionMu sync.Mutex
	// gone is why the topic takes and gives nothing more; nil while it is there.
	gone atomic.Pointer[status.Error]
	// turn goes round the ranges, so that fetches do not begin with the same.
	turn atomic.Uint64
	// trimming: retention proposes what may go.
	trimming atomic.Bool
	news     news
}

// topicState is what follows from one look at the catalog.
type topicState struct {
	info  *catalog.Topic
	graph lineage.Graph
	// leaves are the ranges that take appends, in the order of their bands.
	leaves []*rng
	// cuts are where the leaves begin, but for the first; a lone 0 if there is
	// one.
	cuts []ident.Position
}

func newTopic(b *Broker, info *catalog.Topic) *topic {
	t := &topic{b: b, id: info.ID, name: info.Name}
	t.state.Store(t.stateOf(info, nil))
	return t
}

// stateOf makes the state of a topic, with the ranges that were served before.
func (t *topic) stateOf(info *catalog.Topic, before []*rng) *topicState {
	s := &topicState{info: info, graph: graphOf(info)}
	served := make(map[ident.RangeID]*rng, len(before))
	for _, r := range before {
		served[r.id] = r
	}
	for _, cr := range info.Ranges {
		if cr.Sealed() {
			continue
		}
		r := served[cr.ID]
		if r == nil {
			r = newRange(t, cr)
		}
		s.leaves = append(s.leaves, r)
	}
	slices.SortFunc(s.leaves, func(a, b *rng) int { return cmp.Compare(a.band.First, b.band.First) })
	for _, r := range s.leaves[1:] {
		s.cuts = append(s.cuts, r.band.First)
	}
	if s.cuts == nil {
		s.cuts = []ident.Position{0}
	}
	return s
}

// graphOf is the lineage of a topic's ranges.
func graphOf(info *catalog.Topic) lineage.Graph {
	g := lineage.Graph{Next: info.Ranges[len(info.Ranges)-1].ID + 1}
	for _, cr := range info.Ranges {
		r := lineage.Range{
			ID: cr.ID, Band: cr.Band, First: cr.Epoch, Start: cr.Start, StartEpoch: epochAt(cr, cr.Start),
			StartHidden: uint64(cr.Start) - cr.UserBefore,
			End:         cr.End(), Sealed: cr.Sealed(), Children: cr.Children,
		}
		if len(cr.Segments) > 0 {
			r.First = cr.Segments[0].Epoch
		}
		g.Ranges = append(g.Ranges, r)
	}
	return g
}

// info is the topic as the catalog had it last.
func (t *topic) info() *catalog.Topic { return t.state.Load().info }

// over is why the topic is no more, or nil.
func (t *topic) over() error {
	if err := t.gone.Load(); err != nil {
		return err
	}
	return nil
}

// readable is the range of a frontier's entry, if it can be read now.
func (s *topicState) readable(e *lineage.Entry) *catalog.Range {
	if !s.graph.Readable(e) {
		return nil
	}
	cr, _ := s.info.Range(e.Place.Range)
	return cr
}

// leaf is the range that takes the appends of a position.
func (s *topicState) leaf(p ident.Position) *rng {
	i, ok := slices.BinarySearchFunc(s.leaves, p, func(r *rng, p ident.Position) int {
		return cmp.Compare(r.band.First, p)
	})
	if !ok {
		i--
	}
	return s.leaves[i]
}

func (t *topic) describe() TopicInfo {
	info := t.info()
	return TopicInfo{
		Name: info.Name.Short(), ID: info.ID, Type: info.Type, Settings: info.Settings, Created: info.Created,
	}
}

// CreateTopic creates a topic. Settings that are not named have their
// defaults. The errors are invalid_name, invalid_argument, topic_exists,
// not_supported for types that this version does not serve, limit_reached,
// disk_full.
func (b *Broker) CreateTopic(_ context.Context, name string, typ catalog.TopicType, settings map[string]string) (TopicInfo, error) {
	n, err := catalog.ParseName(name)
	if err != nil {
		return TopicInfo{}, err
	}
	if typ != catalog.Log {
		return TopicInfo{}, status.New(status.NotSupported, "topics of type %v are not served by this version", typ)
	}
	parsed, err := catalog.ParseSettings(settings)
	if err != nil {
		return TopicInfo{}, err
	}
	if err := b.supports(parsed); err != nil {
		return TopicInfo{}, err
	}
	cmd := catalog.CreateTopic{
		ID: ident.NewIncarnation(), Name: n, Type: typ, Settings: parsed, Created: b.clock.timestamp(), Owner: b.owner,
	}
	topics := 0
	b.control.View(func(s *catalog.State) { cmd.Deletions, topics = s.Deletions(), s.Len() })
	if topics >= b.cfg.MaxTopics {
		b.metrics.Limit("topics")
		return TopicInfo{}, status.New(status.LimitReached, "there are %d topics, which is the most", topics)
	}
	res, err := b.propose(cmd)
	if err != nil {
		return TopicInfo{}, err
	}
	t := newTopic(b, res.Topic)
	b.mu.Lock()
	b.topics[t.id] = t
	b.mu.Unlock()
	return t.describe(), nil
}

// supports refuses settings that a broker of one node cannot keep.
func (b *Broker) supports(s catalog.Settings) error {
	if s.Replicas > 1 {
		return status.New(status.NotSupported, "replicas=%d: this version runs on one node; use 1 or auto", s.Replicas)
	}
	return nil
}

// maxList is the most topics that one listing gives.
const maxList = 1000

// ListTopics lists topics whose names come after the given one, in order; at
// most limit of them (0: 1,000, which is the most). It says whether there are
// more. Internal topics are listed only if asked for.
func (b *Broker) ListTopics(_ context.Context, internal bool, after string, limit int) ([]TopicInfo, bool, error) {
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	var from catalog.Name
	if after != "" {
		var err error
		if from, err = catalog.ParseInternalName(after); err != nil {
			return nil, false, err
		}
	}
	var list []TopicInfo
	more := false
	b.control.View(func(s *catalog.State) {
		for t := range s.After(from) {
			if t.Name.IsInternal() && !internal {
				continue
			}
			if len(list) == limit {
				more = true
				return
			}
			list = append(list, TopicInfo{
				Name: t.Name.Short(), ID: t.ID, Type: t.Type, Settings: t.Settings, Created: t.Created,
			})
		}
	})
	return list, more, nil
}

// DescribeTopic shows a topic as an operator sees it.
func (b *Broker) DescribeTopic(_ context.Context, name string) (TopicDescription, error) {
	t, err := b.lookup(name)
	if err != nil {
		return TopicDescription{}, err
	}
	return TopicDescription{TopicInfo: t.describe(), Ranges: t.describeRanges()}, nil
}

// AlterTopic changes the settings that are named. A changed fsync policy
// applies from the next segment, which is opened at once.
func (b *Broker) AlterTopic(_ context.Context, name string, changes map[string]string) (TopicInfo, error) {
	if len(changes) == 0 {
		return TopicInfo{}, status.New(status.InvalidArgument, "no setting is named")
	}
	// Another change may come between the reading and the command; the
	// command then conflicts and is decided anew.
	const attempts = 10
	var err error
	for range attempts {
		var t *topic
		if t, err = b.lookup(name); err != nil {
			return TopicInfo{}, err
		}
		info := t.info()
		var settings catalog.Settings
		if settings, err = info.Settings.With(changes); err != nil {
			return TopicInfo{}, err
		}
		if err = b.supports(settings); err != nil {
			return TopicInfo{}, err
		}
		if settings == info.Settings {
			return t.describe(), nil
		}
		_, err = b.propose(catalog.AlterTopic{
			Topic: info.ID, Version: info.Version, Token: ident.NewIncarnation(), Settings: settings,
		})
		if err == nil {
			t.altered()
			return t.describe(), nil
		}
		if !errors.Is(err, catalog.ErrConflict) {
			return TopicInfo{}, err
		}
		t.refresh()
	}
	return TopicInfo{}, status.New(status.Overloaded, "topic %q keeps changing: %w", name, err)
}

// refresh takes the topic's present state from the catalog. What a command
// answered is not taken over instead: answers to two commands may be looked at
// in another order than they were applied.
func (t *topic) refresh() {
	t.refreshMu.Lock()
	defer t.refreshMu.Unlock()
	before := t.state.Load()
	info := before.info
	t.b.control.View(func(s *catalog.State) {
		if now, ok := s.Topic(t.id); ok {
			info = now
		}
	})
	if info == before.info {
		return
	}
	next := t.stateOf(info, before.leaves)
	hand := t.handOver(before, next)
	t.state.Store(next)
	hand()
}

// altered takes over changed settings.
func (t *topic) altered() {
	t.refresh()
	for _, r := range t.state.Load().leaves {
		r.altered()
	}
}

// DeleteTopic deletes a topic and all its records.
func (b *Broker) DeleteTopic(_ context.Context, name string) error {
	t, err := b.lookup(name)
	if err != nil {
		return err
	}
	if _, err := b.propose(catalog.DeleteTopic{Topic: t.id, Deleted: b.clock.timestamp()}); err != nil {
		return err
	}
	t.gone.Store(status.New(status.CursorTopicGone, "topic %q was deleted", t.name.Short()))
	b.mu.Lock()
	delete(b.topics, t.id)
	for name, other := range b.names {
		if other == t {
			delete(b.names, name)
		}
	}
	b.mu.Unlock()
	for _, r := range t.state.Load().leaves {
		r.end(t.over())
	}
	t.news.tell()
	return nil
}

// segmentsOf lists the catalog's segments of a range, oldest first.
func segmentsOf(r *catalog.Range) []catalog.OpenSegment {
	list := make([]catalog.OpenSegment, 0, len(r.Segments)+1)
	for i := range r.Segments {
		list = append(list, r.Segments[i].OpenSegment)
	}
	if r.Open != nil {
		list = append(list, *r.Open)
	}
	return slices.Clip(list)
}
