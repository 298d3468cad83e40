package control

import (
	"fmt"
	"slices"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/status"
)

// deliver gives the state machines and the callers what is theirs.
func (d *Driver) deliver(r *consensus.Ready) {
	for _, c := range r.Committed {
		d.apply(c)
	}
	for _, o := range r.Outcomes {
		if p := d.replicas[o.Group]; p != nil {
			p.end(o.Token, outcomeError(o))
		}
	}
	for _, o := range r.Roles {
		if p := d.replicas[o.Group]; p != nil {
			p.leading, p.leader, p.term = o.Leading, o.Store, o.Term
			p.campaigned = p.campaigned && !o.Leading
		}
	}
	for _, id := range r.SnapshotsWanted {
		d.offer(id)
	}
	for _, s := range r.Strangers {
		d.stranger(s)
	}
}

func outcomeError(o consensus.Outcome) error {
	switch o.Result {
	case consensus.Decided:
		return nil
	case consensus.Refused:
		return status.New(status.Unavailable, "%s: the command was not taken", o.Group)
	}
	return errUnknown(o.Group)
}

func errUnknown(id consensus.GroupID) error {
	return status.New(status.Unknown, "%s: the leadership was lost before it was known whether the command is committed", id)
}

// apply carries out committed entries.
func (d *Driver) apply(c consensus.Committed) {
	p := d.replicas[c.Group]
	if p == nil || d.err != nil {
		return
	}
	for _, e := range c.Entries {
		if e.Index <= p.meta.Index {
			continue // a snapshot has it
		}
		if err := p.apply(e); err != nil {
			d.fail(fmt.Errorf("apply entry %d of %s: %w", e.Index, c.Group, err))
			return
		}
		if e.Kind == consensus.MembersChange {
			// The host makes the change when it is told so.
			d.must(d.host.Applied(c.Group, e.Index))
			m, err := d.host.Members(c.Group)
			d.must(err)
			p.meta.Membership = m
		}
	}
	d.must(d.host.Applied(c.Group, p.meta.Index))
}

// must stops the driver on what the host never says of what it is told rightly.
func (d *Driver) must(err error) {
	if err != nil {
		d.fail(status.New(status.Internal, "%w", err))
	}
}

func (d *Driver) send(ms []consensus.Message) {
	if d.cfg.Transport == nil {
		return
	}
	for _, m := range ms {
		d.cfg.Transport.Send(m.To, consensus.EncodeMessage(m))
	}
}

// offer gives the host a snapshot for members that are behind.
func (d *Driver) offer(id consensus.GroupID) {
	p := d.replicas[id]
	if p == nil {
		return
	}
	var b []byte
	for piece := range p.payload() {
		b = append(b, piece...)
	}
	if err := d.host.OfferSnapshot(id, p.meta.Index, b); err != nil {
		d.cfg.Log.Warn("a member that is behind gets no snapshot", "group", id, "err", err)
	}
}

// stranger becomes the member that another store takes this one for.
func (d *Driver) stranger(s consensus.Stranger) {
	if d.cfg.Admit == nil || !d.cfg.Admit(s) {
		return
	}
	if d.replicas[s.Group] != nil {
		// A store is given another number only after it was removed.
		d.must(d.host.Remove(s.Group))
		d.drop(s.Group)
		d.forget = append(d.forget, s.Group)
	}
	if err := d.host.Join(s.Group, s.Self); err != nil {
		d.cfg.Log.Warn("cannot join a group", "group", s.Group, "err", err)
		return
	}
	d.add(newReplica(s.Group, s.Self, d.cfg.Machine(s.Group)))
}

func (d *Driver) add(p *replica) {
	d.replicas[p.id] = p
	i, _ := slices.BinarySearch(d.order, p.id)
	d.order = slices.Insert(d.order, i, p.id)
	d.voidRoll()
}

func (d *Driver) drop(id consensus.GroupID) {
	d.replicas[id].endAll(errUnknown(id), errClosed)
	delete(d.replicas, id)
	d.order = slices.DeleteFunc(d.order, func(o consensus.GroupID) bool { return o == id })
	delete(d.lazy, id)
	d.voidRoll()
}

// trim forgets the beginning of long logs in memory. The disk has it until the
// next roll, which needs what is behind its snapshots.
func (d *Driver) trim() {
	if d.rolling != nil || d.err != nil {
		return
	}
	for _, id := range d.order {
		entries, bytes, err := d.host.LogSize(id)
		if err != nil || bytes < 2*d.cfg.KeepBytes {
			continue
		}
		keep := uint64(entries) * uint64(d.cfg.KeepBytes) / uint64(bytes)
		if p := d.replicas[id]; p.meta.Index > keep {
			// What is gone already, or of before a snapshot, is refused.
			_ = d.host.Compact(id, p.meta.Index-keep)
		}
	}
}
