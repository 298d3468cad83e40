package control

import (
	"errors"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// maxQueue bounds the proposals of a group that wait until the host has room.
const maxQueue = 65_536

// proposal is a command, or a change of members, on its way.
type proposal struct {
	token  consensus.Token
	data   []byte
	change *consensus.Change

	answer any
	err    error
	done   chan struct{}
}

// Propose makes a command durable on a majority of a group's members, and gives
// what the state machine here answered. The token makes it idempotent: a command
// with one that was applied before is refused with ErrRepeated. Errors of code
// unknown_outcome and store_failed leave open whether the command is, or will be,
// applied; with any other it is not. The cause of status.Unavailable may be a
// *consensus.NotLeaderError.
func (d *Driver) Propose(id consensus.GroupID, token consensus.Token, command []byte) (any, error) {
	p := &proposal{token: token, data: command}
	return d.propose(id, p)
}

// ChangeMembers makes a change of members; see consensus.Host.
func (d *Driver) ChangeMembers(id consensus.GroupID, c consensus.Change) error {
	_, err := d.propose(id, &proposal{token: consensus.Token(ident.NewIncarnation()), change: &c})
	return err
}

func (d *Driver) propose(id consensus.GroupID, p *proposal) (any, error) {
	p.done = make(chan struct{})
	if !d.inbox.post(func() { d.enqueue(id, p) }) {
		return nil, errClosed
	}
	<-p.done
	return p.answer, p.err
}

func (d *Driver) enqueue(id consensus.GroupID, p *proposal) {
	r := d.replicas[id]
	switch {
	case d.err != nil:
		p.err = d.err
	case d.closing:
		p.err = errClosed
	case r == nil:
		p.err = status.New(status.Unavailable, "%s is not on this store", id)
	case len(r.queue) >= maxQueue:
		p.err = status.New(status.Overloaded, "%s: %d commands wait, at most %d may", id, len(r.queue), maxQueue)
	default:
		r.queue = append(r.queue, p)
		return
	}
	close(p.done)
}

// pump gives the host the proposals that wait, as many as it takes.
func (d *Driver) pump(r *replica) {
	for len(r.queue) > 0 {
		p := r.queue[0]
		err := d.hand(r, p)
		var other *consensus.NotLeaderError
		switch {
		case status.CodeOf(err) == status.Overloaded:
			return // outcomes make room
		case errors.As(err, &other) && r.alone():
			// The only member leads as soon as the disk has its vote.
			if !r.campaigned {
				r.campaigned = true
				d.must(d.host.Campaign(r.id))
			}
			return
		}
		r.queue[0] = nil
		r.queue = r.queue[1:]
		if err != nil {
			p.err = err
			close(p.done)
			continue
		}
		r.waiting[p.token] = append(r.waiting[p.token], p)
	}
	r.queue = nil
}

func (d *Driver) hand(r *replica, p *proposal) error {
	if p.change != nil {
		return d.host.ChangeMembers(r.id, p.token, *p.change)
	}
	return d.host.Propose(r.id, p.token, p.data)
}

// Receive takes a frame of another store, which the caller vouches for. A frame
// that is none, or not for this store, is an error; one for which there is no room
// is dropped. The frame is the driver's then.
func (d *Driver) Receive(from ident.StoreID, frame []byte) error {
	m, err := consensus.DecodeMessage(frame)
	if err != nil {
		return err
	}
	if m.From != from || m.To != d.cfg.Host.Store || from == m.To {
		return status.New(status.ProtocolViolation, "store %s sent a frame from %s to %s to %s", from, m.From, m.To, d.cfg.Host.Store)
	}
	d.inbox.postFrame(len(frame), func() {
		if d.err == nil {
			d.must(d.host.Step(m))
		}
	})
	return nil
}
