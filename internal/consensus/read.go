package consensus

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"

	"github.com/quirelog/quire/status"
)

// read waits for its index, and then for the index to be handed out.
type read struct {
	number uint64
	id     uint64
	sent   bool
	known  bool
	index  uint64
	age    int
}

// ReadIndex asks from which index on the group's state machine may answer a
// linearizable read; the Read with the same id says it. Any member may ask. The
// driver chooses the id; raft's context is made here and never used twice, by no
// store and in no life of one (C5).
func (h *Host) ReadIndex(group GroupID, id uint64) error {
	g, err := h.find(group)
	switch {
	case err != nil:
		return err
	case g.seen.Lead == raft.None:
		return g.notLeader()
	case len(g.reads) >= h.cfg.MaxReads:
		return status.New(status.Overloaded, "group %s: %d reads wait, the limit", group, len(g.reads))
	}
	h.reads++
	g.reads = append(g.reads, read{number: h.reads, id: id})
	g.sendReads()
	return nil
}

// settled says whether this leader may answer reads. Raft makes a leader wait
// until it has committed an entry of its own term, except if it is alone: then it
// answers at once, with a commit index that may be of before its restart and
// below what it acknowledged. So we wait.
func (g *group) settled() bool {
	m := g.membership()
	if len(m.State.Voters) != 1 || m.Joint() {
		return true
	}
	term, err := g.log.Term(g.seen.Commit)
	return err == nil && term == g.seen.Term
}

func (g *group) sendReads() {
	if g.leading() && !g.settled() {
		return
	}
	for i := range g.reads {
		r := &g.reads[i]
		if r.sent {
			continue
		}
		r.sent = true
		context := binary.BigEndian.AppendUint64(slices.Clone(g.h.nonce[:]), r.number)
		g.rn.ReadIndex(context)
	}
	g.observe()
}

// readAt takes raft's answer.
func (g *group) readAt(s raft.ReadState) {
	n := len(g.h.nonce)
	if len(s.RequestCtx) != n+8 || !slices.Equal(s.RequestCtx[:n], g.h.nonce[:]) {
		return
	}
	number := binary.BigEndian.Uint64(s.RequestCtx[n:])
	for i := range g.reads {
		if r := &g.reads[i]; r.number == number && !r.known {
			r.known, r.index = true, s.Index
		}
	}
}

// answerReads hands out the reads whose entries have been handed out.
func (g *group) answerReads() {
	g.reads = slices.DeleteFunc(g.reads, func(r read) bool {
		if !r.known || r.index > g.handed {
			return false
		}
		g.h.next.Reads = append(g.h.next.Reads, Read{Group: g.id, ID: r.id, Index: r.index})
		return true
	})
}

// ageReads ends the reads that raft has dropped: it says nothing about them.
func (g *group) ageReads() {
	if len(g.reads) == 0 {
		return
	}
	for i := range g.reads {
		g.reads[i].age++
	}
	g.endReads(func(r read) bool { return r.age > 2*g.h.cfg.ElectionTicks })
	g.sendReads()
}

func (g *group) failReads() { g.endReads(func(read) bool { return true }) }

func (g *group) endReads(which func(read) bool) {
	g.reads = slices.DeleteFunc(g.reads, func(r read) bool {
		if !which(r) {
			return false
		}
		err := status.New(status.Unavailable, "group %s: the read was not answered", g.id)
		g.h.next.Reads = append(g.h.next.Reads, Read{Group: g.id, ID: r.id, Err: err})
		return true
	})
}
