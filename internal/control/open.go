package control

import (
	"errors"
	"fmt"
	"iter"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// load begins the groups with what the newest whole log says, or founds them,
// and deletes the other logs.
func (d *Driver) load() error {
	info, h, err := d.newest()
	if err != nil {
		return fmt.Errorf("read the raft log: %w", err)
	}
	if h == nil {
		err = d.found()
	} else {
		err = d.resume(info, h)
	}
	if err != nil {
		return err
	}
	for _, id := range d.order {
		if p := d.replicas[id]; p.alone() {
			p.campaigned = true
			if err := d.host.Campaign(id); err != nil {
				return err
			}
		}
	}
	return d.deleteOthers()
}

// newest finds the newest log that is whole and reads it. A log without its whole
// head is of a process that ended while it began it; the one before it has all.
func (d *Driver) newest() (info segment.Info, h *history, err error) {
	logs := logSegments(d.store)
	for i := len(logs) - 1; i >= 0; i-- {
		h, err = replay(d.store, logs[i])
		if errors.Is(err, errBeforeRaft) && d.cfg.adopt != nil {
			h, err = nil, d.cfg.adopt(d.store, logs[i])
		}
		switch {
		case err == nil:
			return logs[i], h, nil
		case !errors.Is(err, errUnfinished):
			return info, nil, err
		case logs[i].Lost > 0:
			// What was repaired away may have been the rest of the head, and all that
			// was acknowledged since.
			return info, nil, status.New(status.DataCorrupt, "the control plane's log %v lost its beginning in a repair: %w", logs[i].ID, err)
		}
	}
	return info, nil, nil
}

// found begins the groups of the configuration in the first log.
func (d *Driver) found() error {
	head, err := newHead(d.store, d.cfg.Clock)
	if err != nil {
		return fmt.Errorf("begin the raft log: %w", err)
	}
	states := map[consensus.GroupID]consensus.State{}
	for _, id := range d.cfg.Groups {
		if len(d.cfg.Voters) == 0 {
			break
		}
		s, err := consensus.Founded(d.store.Identity(), d.cfg.Voters)
		if err != nil {
			return head.discard(err)
		}
		p := newReplica(id, s.Self, d.cfg.Machine(id))
		p.meta = s.Meta
		head.group(id, s.Self, s.Meta, p.payload())
		head.rest(id, s.Hard, nil)
		states[id] = s
		d.add(p)
	}
	if err := head.finish(); err != nil {
		return head.discard(fmt.Errorf("begin the raft log: %w", err))
	}
	d.began(head.log, head.log.bytes)
	return d.restore(states)
}

// resume begins the groups with what a log says, and goes on with the log unless
// it was ended by a repair.
func (d *Driver) resume(info segment.Info, h *history) error {
	states := map[consensus.GroupID]consensus.State{}
	for id, g := range h.groups {
		if info.Lost > 0 && len(g.Meta.Membership.Members) != 1 {
			return status.New(status.DataCorrupt,
				"%s: the log lost its end in a repair, and with it what this store promised the other members; it can only come back as a new store", id)
		}
		p := newReplica(id, g.Self, d.cfg.Machine(id))
		if g.Meta.Index > 0 {
			if err := p.restore(g.Meta, g.payload); err != nil {
				return fmt.Errorf("%s: the snapshot at %d: %w", id, g.Meta.Index, err)
			}
		}
		states[id] = g.State
		d.add(p)
	}
	if !info.Sealed && info.Lost == 0 {
		seg, ok := d.store.Segment(info.ID)
		if !ok {
			return fmt.Errorf("segment %v is gone", info.ID)
		}
		d.began(newLog(seg, d.cfg.Clock), h.head)
		d.log.bytes, d.rollAt = h.bytes, d.rollAt+h.head
		return d.restore(states)
	}
	head, err := newHead(d.store, d.cfg.Clock)
	if err != nil {
		return fmt.Errorf("begin the next raft log: %w", err)
	}
	for _, id := range d.order {
		s, g := states[id], h.groups[id]
		head.group(id, s.Self, s.Meta, one(g.payload))
		head.rest(id, s.Hard, s.Entries)
	}
	if err := head.finish(); err != nil {
		return head.discard(fmt.Errorf("begin the next raft log: %w", err))
	}
	d.began(head.log, head.log.bytes)
	return d.restore(states)
}

func one(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { yield(b) }
}

// began goes on with a log that holds all, and has so many bytes of snapshots.
func (d *Driver) began(log *segmentLog, snapshots int64) {
	d.log = log
	d.rollAt = log.bytes + max(d.cfg.RollBytes, snapshots)
	for _, p := range d.replicas {
		p.onDisk, p.named = true, true
	}
}

// restore gives the groups to the host.
func (d *Driver) restore(states map[consensus.GroupID]consensus.State) error {
	for _, id := range d.order {
		s := states[id]
		if err := d.host.Restore(id, s); err != nil {
			return err
		}
		if p := d.replicas[id]; p.alone() {
			// The entry of the leadership that is to come has all before it.
			p.until = s.Meta.Index + uint64(len(s.Entries)) + 1
		}
	}
	return nil
}

// deleteOthers deletes all logs but the present one. On a full disk they stay for
// the next attempt.
func (d *Driver) deleteOthers() error {
	var old []ident.SegmentID
	for _, info := range logSegments(d.store) {
		if info.ID != d.log.seg.Info().ID {
			old = append(old, info.ID)
		}
	}
	err := d.store.Delete(old...)
	if status.CodeOf(err) == status.DiskFull {
		d.cfg.Log.Warn("old logs of the control plane are not deleted yet", "err", err)
		return nil
	}
	return err
}
