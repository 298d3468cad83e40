package consensus

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3"

	"github.com/quirelog/quire/internal/ident"
)

// node is a driver: a host with a disk that loses what is not synced, and with
// the state machines.
type node struct {
	sim      *sim
	number   int
	store    ident.StoreID
	host     *Host            // nil while it is down
	lost     bool             // the disk is gone for ever
	named    map[GroupID]bool // some change would make it a member
	disk     map[GroupID]*state
	unsynced []unsynced
	machines map[GroupID]*machine
	queue    []work // what is to be applied
	reads    []reading
}

// state is what is on disk of a group.
type state struct {
	State
	Data []byte
}

type unsynced struct {
	batch   uint64
	sync    bool
	persist []Persist
}

type work struct {
	group    GroupID
	snapshot *Snapshot
	entries  []Entry
}

type reading struct {
	group GroupID
	id    uint64
	floor uint64 // what the answer must have seen
	index uint64 // from which on it may be answered, or zero
}

// machine is a register that remembers who wrote it: the sum chains all entries.
type machine struct {
	index, sum uint64
}

func (m *machine) apply(e Entry) {
	m.index = e.Index
	m.sum = m.sum*1099511628211 + e.Term*31 + uint64(e.Kind)
	for _, b := range slices.Concat(e.Token[:], e.Data) {
		m.sum = (m.sum ^ uint64(b)) * 1099511628211
	}
}

// encode pads, so that a snapshot takes several chunks.
func (m *machine) encode() []byte {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, m.index), m.sum)
	return append(b, make([]byte, 10+m.index%150)...)
}

func decodeMachine(b []byte) *machine {
	if len(b) == 0 {
		return &machine{index: 1}
	}
	return &machine{index: binary.BigEndian.Uint64(b), sum: binary.BigEndian.Uint64(b[8:])}
}

// start begins a life with what is on disk.
func (n *node) start() {
	h, err := New(Config{
		Store: n.store, Random: rand.NewPCG(n.sim.rng.Uint64(), 1),
		MaxChunkBytes: 50, MaxMessageBytes: 1000, MaxTransfers: 2, MaxInflight: 20,
	})
	n.sim.must(err)
	n.host = h
	n.machines = map[GroupID]*machine{}
	for _, id := range n.sim.groups {
		if d := n.disk[id]; d != nil {
			n.sim.must(h.Restore(id, d.State))
			n.machines[id] = decodeMachine(d.Data)
			if d.Meta.Index == 0 {
				n.machines[id] = &machine{}
			}
		}
	}
}

// crash loses what is not synced, but for what the disk has written by chance.
func (n *node) crash() {
	n.sim.counts.Crashes++
	for range n.sim.rng.IntN(len(n.unsynced) + 1) {
		n.write(n.unsynced[0])
	}
	for t, where := range n.sim.waiting {
		if where == n {
			delete(n.sim.waiting, t) // nobody is there to hear of it
		}
	}
	n.host, n.unsynced, n.queue, n.reads, n.machines = nil, nil, nil, nil, nil
}

// write puts the first of what is not synced on the disk.
func (n *node) write(u unsynced) {
	for _, p := range u.persist {
		d := n.disk[p.Group]
		if d == nil {
			d = &state{}
			n.disk[p.Group] = d
		}
		d.Self = p.Self
		if p.Snapshot != nil {
			d.Meta, d.Data, d.Entries = p.Snapshot.Meta, p.Snapshot.Data, nil
		}
		for _, e := range p.Entries {
			if e.Index > d.Meta.Index {
				d.Entries = append(d.Entries[:e.Index-d.Meta.Index-1:e.Index-d.Meta.Index-1], e)
			}
		}
		if !raft.IsEmptyHardState(p.Hard) {
			d.Hard = p.Hard
		}
	}
	n.unsynced = n.unsynced[1:]
}

// sync makes durable what is there and says so.
func (n *node) sync() {
	if len(n.unsynced) == 0 {
		return
	}
	last := n.unsynced[len(n.unsynced)-1].batch
	for len(n.unsynced) > 0 {
		n.write(n.unsynced[0])
	}
	n.sim.must(n.host.Stored(last))
	n.process()
}

// process does what Ready says, but for the disk and the state machines, which
// take their time.
func (n *node) process() {
	for n.host.HasReady() {
		r := n.host.Ready()
		if r.Batch > 0 {
			n.unsynced = append(n.unsynced, unsynced{r.Batch, r.Sync, r.Persist})
			for _, p := range r.Persist {
				if p.Snapshot != nil {
					n.queue = append(n.queue, work{group: p.Group, snapshot: p.Snapshot})
				}
			}
		}
		for _, c := range r.Committed {
			n.queue = append(n.queue, work{group: c.Group, entries: c.Entries})
			n.sim.oracle.committed(n, c)
		}
		n.sim.send(r.Messages)
		for _, o := range r.Outcomes {
			n.sim.oracle.outcome(n, o)
		}
		for _, o := range r.Roles {
			n.sim.oracle.role(n, o)
		}
		for _, a := range r.Reads {
			n.answer(a)
		}
		for _, s := range r.Strangers {
			n.stranger(s)
		}
		for _, id := range r.SnapshotsWanted {
			n.apply(1 << 20)
			n.offer(id)
		}
		// A batch without Sync may be said to be stored when it is only written; it
		// stays among what a crash may lose.
		if all := n.unsynced; r.Batch > 0 && !slices.ContainsFunc(all, func(u unsynced) bool { return u.sync }) {
			n.sim.must(n.host.Stored(r.Batch))
		}
	}
}

func (n *node) offer(id GroupID) {
	if m := n.machines[id]; m != nil && n.host.groups[id] != nil {
		n.sim.must(n.host.OfferSnapshot(id, m.index, m.encode()))
	}
}

// stranger asks the truth whether this store belongs to the group.
func (n *node) stranger(s Stranger) {
	m := n.sim.oracle.groups[s.Group].members()
	if id, ok := m.Find(n.store); !ok || id != s.Self {
		return
	}
	n.forget(s.Group)
	n.sim.counts.Joins++
	n.sim.must(n.host.Join(s.Group, s.Self))
	n.machines[s.Group] = &machine{}
}

// forget removes a group in which this store is no more.
func (n *node) forget(id GroupID) {
	if n.host.groups[id] == nil {
		return
	}
	n.sim.must(n.host.Remove(id))
	delete(n.disk, id)
	delete(n.machines, id)
	n.queue = slices.DeleteFunc(n.queue, func(w work) bool { return w.group == id })
	for i := range n.unsynced {
		n.unsynced[i].persist = slices.DeleteFunc(slices.Clone(n.unsynced[i].persist), func(p Persist) bool { return p.Group == id })
	}
}

// apply does some of the queued work.
func (n *node) apply(some int) {
	for ; some > 0 && len(n.queue) > 0; some-- {
		w := n.queue[0]
		n.queue = n.queue[1:]
		m := n.machines[w.group]
		if w.snapshot != nil {
			m = decodeMachine(w.snapshot.Data)
			n.machines[w.group] = m
			n.sim.oracle.installed(n, w.group, w.snapshot, m)
		}
		for _, e := range w.entries {
			m.apply(e)
			n.sim.oracle.applied(n, w.group, m)
			if e.Kind == MembersChange {
				n.sim.must(n.host.Applied(w.group, e.Index))
				n.sim.oracle.membersAt(n, w.group, e.Index)
			}
		}
		n.sim.must(n.host.Applied(w.group, m.index))
	}
	n.serve()
	n.process()
}

// serve answers the reads whose index is applied.
func (n *node) serve() {
	n.reads = slices.DeleteFunc(n.reads, func(r reading) bool {
		m := n.machines[r.group]
		if m == nil || r.index == 0 || m.index < r.index {
			return m == nil
		}
		n.sim.oracle.served(n, r, m)
		return true
	})
}

func (n *node) answer(a Read) {
	i := slices.IndexFunc(n.reads, func(r reading) bool { return r.id == a.ID })
	if i < 0 {
		panic(fmt.Sprintf("node %d: an answer to no read", n.number))
	}
	if a.Err != nil {
		n.sim.counts.FailedReads++
		n.reads = slices.Delete(n.reads, i, i+1)
		return
	}
	if g := n.host.groups[a.Group]; g != nil && a.Index > g.handed {
		panic(fmt.Sprintf("node %d: a read of %d, which is not handed out", n.number, a.Index))
	}
	n.reads[i].index = a.Index
	n.serve()
}

// compact stores a state machine and cuts the log, often not to the end.
func (n *node) compact(id GroupID) {
	early := n.sim.rng.IntN(2) == 0
	if !early {
		n.sync()
	}
	n.apply(1 << 20)
	m := n.machines[id]
	if early && m != nil && n.host.groups[id] != nil {
		// What the disk has not finished does not make the host say another truth.
		if meta, err := n.host.Meta(id, m.index-min(m.index, uint64(n.sim.rng.IntN(6)))); err == nil {
			n.sim.oracle.meta(n, id, meta)
			_ = n.host.Compact(id, meta.Index)
		}
		return
	}
	if m == nil || len(n.unsynced) > 0 || n.host.groups[id] == nil || m.index == 0 {
		return
	}
	meta, err := n.host.Meta(id, m.index)
	n.sim.must(err)
	n.sim.oracle.meta(n, id, meta)
	d := n.disk[id]
	d.Entries = slices.Clone(d.Entries[meta.Index-d.Meta.Index:])
	d.Meta, d.Data = meta, m.encode()
	_ = n.host.Compact(id, m.index-uint64(n.sim.rng.IntN(6))) // what is gone already is refused
	n.sim.counts.Compactions++
}
