package control

import (
	"errors"
	"slices"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
)

// beginAnew goes on after a full disk has refused a record. Raft cannot take back
// what it has handed out, but it can lose it in a crash, and this is one, of the
// host alone: nothing that rests on the refused record has left the store, and
// the log does not have it. So the groups begin again with what is durable. The
// state machines stay: what they applied was durable.
//
// The log took nothing behind the refused record, and all of it is answered.
func (d *Driver) beginAnew() {
	why := d.refused
	d.refused = nil
	// What has become committed with the last durable record counts. It may come in
	// several portions.
	for d.err == nil && d.host.HasReady() {
		r := d.host.Ready()
		d.deliver(&consensus.Ready{Committed: r.Committed, Outcomes: r.Outcomes})
	}
	if d.err != nil {
		return
	}
	d.cfg.Log.Warn("the disk is full: the control plane's log took no record", "err", why)
	host, err := consensus.New(d.cfg.Host)
	d.must(err)
	for _, id := range d.order {
		p := d.replicas[id]
		d.refuse(p, why)
		if !p.onDisk {
			continue
		}
		s, err := d.host.Durable(id, p.meta.Index)
		d.must(err)
		s.Meta = p.meta
		d.must(host.Restore(id, s))
		p.leading, p.leader, p.campaigned = false, ident.StoreID{}, false
	}
	if d.err != nil {
		return
	}
	for _, id := range slices.Clone(d.order) {
		if !d.replicas[id].onDisk {
			d.drop(id) // it joined a moment ago, and will be asked again
			d.forget = append(d.forget, id)
		}
	}
	d.host, d.waitingBatch = host, 0
	d.log.tail = d.log.seg.Tail() // behind what it took
	clear(d.lazy)
	if d.opening {
		d.fail(why)
	}
}

// refuse answers the proposals of a group after its log was refused. Of the only
// member nobody else can have the command; with others, the refused record may
// have reached them.
func (d *Driver) refuse(p *replica, why error) {
	if p.alone() {
		p.endAll(why, why)
		return
	}
	p.endAll(errors.Join(errUnknown(p.id), why), why)
}
