package control

import (
	"iter"
	"sync/atomic"

	"github.com/quirelog/quire/internal/consensus"
)

// roll is the beginning of the next log. A task writes the snapshots while the
// groups go on; then the groups hold still for two commit rounds, in which the
// present log comes to rest and the next one gets what it has behind the
// snapshots. Only then is the present log deleted.
type roll struct {
	metas map[consensus.GroupID]consensus.Meta
	head  *head
	// void: the groups are others than those whose snapshots are written. The task
	// reads it to end early.
	void atomic.Bool
	// held: the groups hold still.
	held bool
	// resting: the task has the rest, and works at it.
	resting bool
}

// retryRoll is how much more is written before a roll that failed is tried again.
const retryRoll = 1 << 20

// held says that nothing may be handed to the log now.
func (d *Driver) held() bool { return d.rolling != nil && d.rolling.held }

func (d *Driver) voidRoll() {
	if d.rolling != nil {
		d.rolling.void.Store(true)
	}
}

// mayRoll moves a roll on, or begins one.
func (d *Driver) mayRoll() {
	r := d.rolling
	switch {
	case r != nil && r.held && !r.resting && d.outstanding == 0:
		d.finishRoll()
	case r == nil && d.log.bytes >= d.rollAt && d.err == nil && d.refused == nil && !d.closing:
		d.beginRoll()
	}
}

func (d *Driver) beginRoll() {
	r := &roll{metas: map[consensus.GroupID]consensus.Meta{}}
	type snapshot struct {
		id     consensus.GroupID
		self   consensus.PeerID
		meta   consensus.Meta
		pieces iter.Seq[[]byte]
	}
	var all []snapshot
	for _, id := range d.order {
		p := d.replicas[id]
		r.metas[id] = p.meta
		all = append(all, snapshot{id, p.self, p.meta, p.payload()})
	}
	d.rolling = r
	d.tasks.Go(func() {
		h, err := newHead(d.store, d.cfg.Clock)
		if err == nil {
			for _, s := range all {
				if r.void.Load() {
					break
				}
				h.group(s.id, s.self, s.meta, s.pieces)
			}
			if err = h.w.err; err != nil {
				err = h.discard(err)
			}
		}
		d.inbox.post(func() { d.snapshotsWritten(h, err) })
	})
}

// snapshotsWritten goes on after the task.
func (d *Driver) snapshotsWritten(h *head, err error) {
	r := d.rolling
	r.head = h
	switch {
	case err != nil:
		d.endRoll(err)
	case r.void.Load() || d.err != nil || d.closing:
		d.abandonRoll()
	default:
		r.held = true
	}
}

// abandonRoll takes the next log back and goes on with the present one.
func (d *Driver) abandonRoll() {
	r := d.rolling
	r.held, r.resting = false, false
	d.tasks.Go(func() {
		err := r.head.discard(nil)
		d.inbox.post(func() { d.endRoll(err) })
	})
}

// endRoll ends a roll that came to nothing. It is tried again later, and at the
// next start what is left of it is deleted.
func (d *Driver) endRoll(err error) {
	if err != nil {
		d.cfg.Log.Warn("the control plane's log is not rolled yet", "bytes", d.log.bytes, "err", err)
	}
	d.rolling = nil
	d.rollAt = d.log.bytes + retryRoll
}

// finishRoll has the rest written. All that was handed to the present log is
// answered, and nothing more comes.
func (d *Driver) finishRoll() {
	r := d.rolling
	type rest struct {
		id consensus.GroupID
		consensus.State
	}
	var all []rest
	for _, id := range d.order {
		s, err := d.host.Durable(id, r.metas[id].Index)
		if err != nil {
			r.void.Store(true)
			break
		}
		all = append(all, rest{id, s})
	}
	if r.void.Load() || d.closing || d.err != nil {
		d.abandonRoll()
		return
	}
	r.resting = true
	d.tasks.Go(func() {
		for _, s := range all {
			r.head.rest(s.id, s.Hard, s.Entries)
		}
		snapshots := r.head.log.bytes
		err := r.head.finish()
		if err != nil {
			err = r.head.discard(err)
		}
		d.inbox.post(func() { d.rolled(snapshots, err) })
	})
}

// rolled goes on with the next log, and lets go of the present one.
func (d *Driver) rolled(snapshots int64, err error) {
	if err != nil {
		d.endRoll(err)
		return
	}
	old := d.log.seg.Info().ID
	d.began(d.rolling.head.log, snapshots)
	d.waitingBatch = 0
	clear(d.lazy) // the host has them among what is durable
	d.rolling = nil
	d.cfg.Log.Debug("the control plane's log is rolled", "bytes", d.log.bytes)
	d.tasks.Go(func() {
		if err := d.store.Delete(old); err != nil {
			d.cfg.Log.Warn("an old log of the control plane is not deleted yet", "err", err)
		}
	})
}
