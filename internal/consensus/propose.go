package consensus

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// proposal waits for its outcome.
type proposal struct {
	token       Token
	index, term uint64
	bytes       int
}

// NotLeaderError is the cause of a refusal: somebody else leads, or nobody.
type NotLeaderError struct {
	Group GroupID
	// Leader is zero if none is known.
	Leader ident.StoreID
}

func (e *NotLeaderError) Error() string {
	if e.Leader.IsZero() {
		return fmt.Sprintf("group %s has no leader that is known here", e.Group)
	}
	return fmt.Sprintf("group %s is led by store %s", e.Group, e.Leader)
}

func (g *group) notLeader() error {
	return status.New(status.Unavailable, "%w", &NotLeaderError{Group: g.id, Leader: g.leader()})
}

func invalid(id GroupID, format string, args ...any) error {
	return status.New(status.InvalidArgument, "group %s: %s", id, fmt.Sprintf(format, args...))
}

func (h *Host) leadingGroup(id GroupID) (*group, error) {
	g, err := h.find(id)
	if err == nil && !g.leading() {
		err = g.notLeader()
	}
	return g, err
}

// Propose asks for data to become a command of the group's log. An error is a
// refusal, and the proposal has no effect: the cause may be a *NotLeaderError;
// status.Overloaded says that a limit of Config is reached. Without an error,
// exactly one Outcome with the token follows. A token that is in flight already
// is not proposed again; the one outcome is that of both. Data is copied.
func (h *Host) Propose(id GroupID, token Token, data []byte) error {
	g, err := h.leadingGroup(id)
	switch {
	case err != nil:
		return err
	case len(data) > h.cfg.MaxProposalBytes:
		return status.New(status.LimitReached, "group %s: a proposal of %d bytes, at most %d", id, len(data), h.cfg.MaxProposalBytes)
	case g.tokens[token]:
		return nil
	}
	return g.propose(token, raftpb.Entry{Type: raftpb.EntryNormal, Data: encodeEntry(token, data)})
}

func (g *group) propose(token Token, e raftpb.Entry) error {
	cfg := &g.h.cfg
	switch {
	case len(g.inflight) >= cfg.MaxInflight:
		return status.New(status.Overloaded, "group %s: %d proposals in flight, the limit", g.id, len(g.inflight))
	case g.inflightBytes+len(e.Data) > cfg.MaxInflightBytes && len(g.inflight) > 0:
		return status.New(status.Overloaded, "group %s: %d bytes of proposals in flight, at most %d", g.id, g.inflightBytes, cfg.MaxInflightBytes)
	case g.log.bytes > cfg.MaxLogBytes:
		return status.New(status.Overloaded, "group %s: a log of %d bytes, at most %d; it must be compacted", g.id, g.log.bytes, cfg.MaxLogBytes)
	}
	// Raft writes term and index into this slice, and turns a change of members
	// that it will not take now into an empty entry.
	es := []raftpb.Entry{e}
	err := g.rn.Step(raftpb.Message{Type: raftpb.MsgProp, From: uint64(g.self), Entries: es})
	g.observe()
	switch {
	case errors.Is(err, raft.ErrProposalDropped):
		return status.New(status.Unavailable, "group %s is handing over its leadership", g.id)
	case err != nil:
		return status.New(status.Internal, "group %s: propose: %w", g.id, err)
	case es[0].Type != e.Type:
		return status.New(status.ConditionFailed, "group %s: another change of members is not finished", g.id)
	}
	g.inflight = append(g.inflight, proposal{token: token, index: es[0].Index, term: es[0].Term, bytes: len(e.Data)})
	g.inflightBytes += len(e.Data)
	g.tokens[token] = true
	return nil
}

// decided ends the proposal that a committed entry is, if it is one of this
// leadership. Entries come in order, so it is the first that waits.
func (g *group) decided(e raftpb.Entry) {
	if len(g.inflight) == 0 || g.inflight[0].index != e.Index {
		return
	}
	p := g.inflight[0]
	g.inflight = g.inflight[1:]
	g.inflightBytes -= p.bytes
	delete(g.tokens, p.token)
	if p.term != e.Term {
		panic("two entries at one index in one leadership")
	}
	g.outcome(p, Decided, e.Index)
}

func (g *group) outcome(p proposal, r Result, index uint64) {
	g.h.next.Outcomes = append(g.h.next.Outcomes, Outcome{
		Group: g.id, Token: p.token, Result: r, Index: index, Leader: g.leader(),
	})
}
