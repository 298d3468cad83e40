package control

import (
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/zeebo/xxh3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/segment"
)

// headWindow is how many records of a head may wait for the disk.
const headWindow = 8

// head writes the beginning of a log: of each group its snapshot and what its
// log has behind it. It is one step, so that a log without its whole head says
// nothing. Its methods wait for the disk.
type head struct {
	store *segment.Store
	log   *segmentLog
	w     recordWriter
	open  chan error
	wait  int
	err   error
}

func newHead(store *segment.Store, clock func() time.Time) (*head, error) {
	log, err := createLog(store, clock)
	if err != nil {
		return nil, err
	}
	h := &head{store: store, log: log, open: make(chan error, headWindow+1)}
	h.w.emit = h.append
	return h, nil
}

func (h *head) append(v []byte) error {
	h.settle(headWindow)
	if h.err != nil {
		return h.err
	}
	if err := h.log.append(v, func(err error) { h.open <- err }); err != nil {
		return err
	}
	h.wait++
	return nil
}

// settle waits until at most n records are not answered.
func (h *head) settle(n int) {
	for ; h.wait > n; h.wait-- {
		if err := <-h.open; h.err == nil {
			h.err = err
		}
	}
}

// group writes where a group's state machine stands.
func (h *head) group(id consensus.GroupID, self consensus.PeerID, m consensus.Meta, payload iter.Seq[[]byte]) {
	h.w.self(id, self)
	if m.Index == 0 {
		return // a member that has nothing yet
	}
	var sum xxh3.Hasher
	total := 0
	for b := range payload {
		for c := range slices.Chunk(b, recordBytes) {
			h.w.piece(id, c)
		}
		_, _ = sum.Write(b) // a hash takes everything
		total += len(b)
		if h.w.err != nil {
			return
		}
	}
	h.w.snapshot(id, m, uint64(total), sum.Sum64())
}

// rest writes what a group's log has behind its snapshot.
func (h *head) rest(id consensus.GroupID, hard raftpb.HardState, es []raftpb.Entry) {
	h.w.entries(id, es)
	h.w.hard(id, hard)
}

// finish ends the head and waits until it is durable.
func (h *head) finish() error {
	h.w.begun()
	err := h.w.finish()
	h.settle(0)
	if err == nil {
		err = h.err
	}
	return err
}

// discard takes the log back, after all that was handed in is answered.
func (h *head) discard(why error) error {
	h.settle(0)
	return errors.Join(why, h.store.Delete(h.log.seg.Info().ID))
}
