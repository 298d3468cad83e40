package catalog

import (
	"fmt"
	"strings"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/status"
)

func (c CreateTopic) apply(s *State) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	if t, ok := s.byID[c.ID]; ok {
		if t.Name != c.Name {
			return Result{}, fmt.Errorf("%w: topic %v is %s, not %s", ErrConflict, c.ID, t.Name, c.Name)
		}
		res := Result{Repeated: true, Topic: t}
		if open := t.Ranges[0].Open; open != nil {
			res.Opened = *open
		}
		return res, nil
	}
	if d, ok := s.gone[c.ID]; ok {
		return Result{}, fmt.Errorf("%w: topic %s %v was created and has been deleted", ErrConflict, d.Name, c.ID)
	}
	if forgotten := s.deletions - uint64(len(s.tombstones)); c.Deletions < forgotten || c.Deletions > s.deletions {
		return Result{}, fmt.Errorf("%w: name %s was free at deletion %d, remembered are %d to %d",
			ErrConflict, c.Name, c.Deletions, forgotten, s.deletions)
	}
	if _, ok := s.byName[c.Name]; ok {
		return Result{}, status.New(status.TopicExists, "topic %s exists", c.Name.Short())
	}
	scope, ok := s.namespace(c.Name)
	if !ok {
		return Result{}, status.New(status.NotSupported,
			"there is no namespace %s/%s, and this version cannot create one", c.Name.Tenant, c.Name.Namespace)
	}
	if s.Len() >= MaxTopics {
		return Result{}, status.New(status.LimitReached, "there are %d topics, the most that a catalog holds", s.Len())
	}

	r := &Range{
		ID: s.nextRange, Band: keyspace.Full(), Epoch: 1, Owner: c.Owner, Version: 1,
		Open: &OpenSegment{ID: s.nextSegment, Epoch: 1, Store: c.Owner.Store},
	}
	t := &Topic{
		// The scope's own strings are shared by its topics, and the clone does
		// not keep alive whatever the name was cut from.
		ID: c.ID, Name: Name{scope.Tenant, scope.Namespace, strings.Clone(c.Name.Topic)},
		Type: c.Type, Settings: c.Settings, Version: 1, Created: c.Created, Ranges: []*Range{r},
	}
	s.nextRange++
	s.nextSegment++
	s.put(t)
	return Result{Topic: t, Opened: *r.Open}, nil
}

func (c CreateTopic) check() error {
	switch {
	case c.ID.IsZero():
		return fmt.Errorf("%w: create %s: no topic id", ErrMalformed, c.Name)
	case c.Owner.Store.IsZero() || c.Owner.Process.IsZero():
		return fmt.Errorf("%w: create %s: no owner", ErrMalformed, c.Name)
	case !c.Type.Valid():
		return fmt.Errorf("%w: create %s: topic type %d", ErrMalformed, c.Name, c.Type)
	}
	if err := c.Name.check(); err != nil {
		return err
	}
	return checkSettings(c.Type, c.Settings)
}

// checkSettings says whether settings are in bounds and fit the type.
func checkSettings(t TopicType, settings Settings) error {
	if err := settings.Check(); err != nil {
		return err
	}
	if t != Log && settings.Weak() {
		return status.New(status.InvalidArgument, "a %v topic needs ack=quorum and fsync=always, not ack=%v and fsync=%v",
			t, settings.Ack, settings.Fsync)
	}
	return nil
}

func (c AlterTopic) apply(s *State) (Result, error) {
	if c.Token.IsZero() {
		return Result{}, fmt.Errorf("%w: alter topic %v: no token", ErrMalformed, c.Topic)
	}
	t, err := s.find(c.Topic)
	if err != nil {
		return Result{}, err
	}
	if t.Token == c.Token {
		return Result{Repeated: true, Topic: t}, nil
	}
	if t.Version != c.Version {
		return Result{}, fmt.Errorf("%w: topic %s has version %d, not %d", ErrConflict, t.Name, t.Version, c.Version)
	}
	if err := checkSettings(t.Type, c.Settings); err != nil {
		return Result{}, err
	}
	next := *t
	next.Settings, next.Token, next.Version = c.Settings, c.Token, t.Version+1
	s.put(&next)
	return Result{Topic: &next}, nil
}

func (c OpenSession) apply(s *State) (Result, error) {
	t, err := s.find(c.Topic)
	if err != nil {
		return Result{}, err
	}
	if t.Sessions != c.Sessions {
		return Result{}, fmt.Errorf("%w: topic %s has had %d sessions, not %d", ErrConflict, t.Name, t.Sessions, c.Sessions)
	}
	next := *t
	next.Sessions++
	s.put(&next)
	return Result{Topic: &next}, nil
}

func (c DeleteTopic) apply(s *State) (Result, error) {
	if _, ok := s.gone[c.Topic]; ok {
		return Result{Repeated: true}, nil
	}
	t, err := s.find(c.Topic)
	if err != nil {
		return Result{}, err
	}
	var retired []Retired
	for _, r := range t.Ranges {
		retired = appendRetired(retired, t.ID, r.Segments)
		if r.Open != nil {
			retired = append(retired, Retired{Segment: r.Open.ID, Topic: t.ID, Store: r.Open.Store})
		}
	}
	if err := s.roomToRetire(len(retired)); err != nil {
		return Result{}, err
	}
	s.remove(t)
	s.retire(retired)
	s.bury(Tombstone{ID: t.ID, Name: t.Name, Deleted: c.Deleted})
	return Result{Retired: retired}, nil
}

// find gives the topic of an incarnation, or the error that there is none.
func (s *State) find(id ident.TopicID) (*Topic, error) {
	if t, ok := s.byID[id]; ok {
		return t, nil
	}
	if d, ok := s.gone[id]; ok {
		return nil, status.New(status.TopicNotFound, "topic %s was deleted at %s", d.Name.Short(), when(d.Deleted))
	}
	return nil, status.New(status.TopicNotFound, "there is no topic of identity %v", id)
}
