package control

import (
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// lazyHard is a hard state that need not be durable yet.
type lazyHard = raftpb.HardState

// handed is a batch of the host on its way to the disk.
type handed struct {
	number uint64
	parts  []consensus.Persist
}

// persist hands what the host wants to be durable to the log, in one step that
// rides on the store's next commit round. It does not wait.
//
// A batch without Sync has commit indexes only. A record of its own would make
// the disk sync once more for each command, for what nothing rests on; so they
// wait for the next record. A crash loses them as it may lose what is written and
// not synced, which is all that such a batch asks for.
func (d *Driver) persist(r *consensus.Ready) {
	if r.Batch == 0 {
		return
	}
	if !r.Sync {
		for _, p := range r.Persist {
			d.lazy[p.Group] = p.Hard
		}
		d.storedWithRest(r.Batch)
		return
	}
	b := handed{number: r.Batch, parts: r.Persist}
	w := recordWriter{}
	var last []byte
	// The last record of the step is the one whose answer counts: records are
	// answered in their order, and a refusal takes all behind it along.
	w.emit = func(v []byte) error {
		if err := d.emit(last, nil); err != nil {
			return err
		}
		last = append(last[:0], v...)
		return nil
	}
	for _, id := range d.forget {
		w.forget(id)
	}
	d.forget = nil
	for _, p := range r.Persist {
		d.write(&w, &p)
	}
	for _, id := range d.order {
		if h, ok := d.lazy[id]; ok {
			w.hard(id, h)
		}
	}
	clear(d.lazy)
	err := w.finish()
	if err == nil && len(last) == 0 {
		d.storedWithRest(r.Batch) // it only waits for those before it
		return
	}
	if err == nil {
		err = d.emit(last, &b)
	}
	switch {
	case err == nil:
	case errors.Is(err, segment.ErrNotAtTail) && d.outstanding > 0:
		// A record before this one was refused; its answer is on the way.
		d.refused = errDropped
	default:
		d.fail(err)
	}
}

// storedWithRest makes a batch known that has no record, once all before it are
// answered.
func (d *Driver) storedWithRest(batch uint64) {
	if d.outstanding > 0 {
		d.waitingBatch = batch
		return
	}
	d.must(d.host.Stored(batch))
}

var errDropped = status.New(status.DiskFull, "a record of the control plane's log was refused because the disk is full")

// write writes what one group wants to be durable.
func (d *Driver) write(w *recordWriter, p *consensus.Persist) {
	r := d.replicas[p.Group]
	if r == nil || r.self != p.Self {
		return // removed meanwhile
	}
	if !r.named {
		r.named = true
		w.self(p.Group, p.Self)
	}
	if s := p.Snapshot; s != nil {
		for b := s.Data; len(b) > 0; {
			n := min(len(b), pieceBytes)
			w.piece(p.Group, b[:n])
			b = b[n:]
		}
		w.snapshot(p.Group, s.Meta, uint64(len(s.Data)), xxh3.Hash(s.Data))
	}
	w.entries(p.Group, p.Entries)
	if h, ok := d.lazy[p.Group]; ok && raftIsEmpty(p.Hard) {
		w.hard(p.Group, h)
	} else {
		w.hard(p.Group, p.Hard)
	}
	delete(d.lazy, p.Group)
}

// emit appends one record; b is the batch that it ends, or nil.
func (d *Driver) emit(v []byte, b *handed) error {
	if len(v) == 0 {
		return nil
	}
	err := d.log.append(v, func(err error) {
		d.inbox.post(func() { d.answered(b, err) })
	})
	if err == nil {
		d.outstanding++
	}
	return err
}

// answered hears from the disk.
func (d *Driver) answered(b *handed, err error) {
	d.outstanding--
	switch {
	case d.err != nil:
		return
	case err == nil:
		if b != nil {
			d.stored(b)
		}
	case status.CodeOf(err) == status.DiskFull:
		if d.refused == nil || errors.Is(d.refused, errDropped) {
			d.refused = err
		}
	default:
		d.fail(err)
	}
	if d.refused != nil && d.outstanding == 0 && d.err == nil {
		d.beginAnew()
	}
}

// stored makes a durable batch known: first to the state machines that it
// replaces, then to the host.
func (d *Driver) stored(b *handed) {
	for _, part := range b.parts {
		r := d.replicas[part.Group]
		if r == nil || r.self != part.Self {
			continue
		}
		r.onDisk = true
		if s := part.Snapshot; s != nil {
			if err := r.restore(s.Meta, s.Data); err != nil {
				d.fail(fmt.Errorf("install the snapshot of %s at %d: %w", part.Group, s.Meta.Index, err))
				return
			}
			d.voidRoll()
		}
	}
	number := b.number
	if d.outstanding == 0 {
		number = max(number, d.waitingBatch)
	}
	d.must(d.host.Stored(number))
}
