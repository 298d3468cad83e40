package control

import (
	"iter"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// ErrRepeated refuses a command whose token was applied before. What the first
// one did is in the state.
var ErrRepeated = status.New(status.ConditionFailed, "a command with this token was applied before")

// replica is this store's member of a group: its state machine, and who waits.
type replica struct {
	id      consensus.GroupID
	self    consensus.PeerID
	machine Machine
	tokens  tokens
	// meta is where the machine stands.
	meta consensus.Meta
	// onDisk: something of the group is durable, so that it is there after a
	// restart. named: the present log says who we are.
	onDisk, named bool

	leading bool
	leader  ident.StoreID
	term    uint64
	// campaigned: a campaign of the only member is under way.
	campaigned bool
	// until is the index that Open waits for.
	until uint64

	// queue are the proposals that the host has not taken yet.
	queue []*proposal
	// waiting are those that it has, by token.
	waiting map[consensus.Token][]*proposal
}

func newReplica(id consensus.GroupID, self consensus.PeerID, m Machine) *replica {
	return &replica{
		id: id, self: self, machine: m, tokens: newTokens(), waiting: map[consensus.Token][]*proposal{},
	}
}

// alone says whether this store is the only member: nobody else is to be waited
// for, or told.
func (p *replica) alone() bool {
	m := &p.meta.Membership
	return len(m.Members) == 1 && m.Members[0].ID == p.self && m.Voter(p.self)
}

func (p *replica) payload() iter.Seq[[]byte] { return payload(&p.tokens, p.machine) }

// restore replaces the state by a snapshot.
func (p *replica) restore(m consensus.Meta, b []byte) error {
	t, err := openPayload(b, p.machine)
	if err != nil {
		return err
	}
	p.tokens, p.meta = t, m
	return nil
}

// apply carries out a committed entry, and answers those who wait for it.
func (p *replica) apply(e consensus.Entry) error {
	p.meta.Index, p.meta.Term = e.Index, e.Term
	if e.Kind != consensus.Command {
		return nil
	}
	var answer any
	refused := error(nil)
	if p.tokens.seen[e.Token] {
		refused = ErrRepeated
	} else {
		var err error
		if answer, err = p.machine.Apply(e.Data); err != nil {
			return err
		}
		p.tokens.add(e.Token)
	}
	for _, w := range p.waiting[e.Token] {
		w.answer, w.err = answer, refused
	}
	return nil
}

// end answers all who wait for a token; nil leaves the answers as apply gave
// them.
func (p *replica) end(t consensus.Token, err error) {
	for _, w := range p.waiting[t] {
		if err != nil {
			w.answer, w.err = nil, err
		}
		close(w.done)
	}
	delete(p.waiting, t)
}

// endAll answers those whom the host has with one error, and those whom it has
// not with another.
func (p *replica) endAll(taken, queued error) {
	for t := range p.waiting {
		p.end(t, taken)
	}
	for _, w := range p.queue {
		w.err = queued
		close(w.done)
	}
	p.queue = nil
}
