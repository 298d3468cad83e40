package quorum

import (
	"slices"
	"sort"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// stream brings a segment to the stores of its slots: the open one as it grows,
// the one that is repaired, one that was sealed and has slower stores.
type stream struct {
	seg Segment
	// tail is behind all that there is to send, commit behind what is committed.
	tail, commit Tail
	// entries are in memory: those that are not committed, and some before them.
	// start is the tail that the first of them follows.
	entries fifo[entry]
	start   Tail
	// answered are the entries that have their result, from the head on.
	answered int
	peers    []peer
	// source is the store that has what is not in memory.
	source ident.StoreID
	// sealed is how it ended in the catalog, if it did.
	sealed *catalog.Seal
}

// entry is a batch in memory.
type entry struct {
	tail  Tail // behind it
	batch []byte
	token uint64
}

func newStream(now Instant, seg Segment, tail Tail, source ident.StoreID) *stream {
	s := &stream{seg: seg, tail: tail, commit: seg.start(), start: tail, source: source}
	for _, id := range seg.Replicas {
		s.peers = append(s.peers, peer{store: id, next: seg.Base, durable: seg.start(), heardAt: now})
	}
	return s
}

func (s *stream) peer(id ident.StoreID) *peer {
	if i := slices.IndexFunc(s.peers, func(p peer) bool { return p.store == id }); i >= 0 && !id.IsZero() {
		return &s.peers[i]
	}
	return nil
}

// reconnect has a store asked at once.
func (s *stream) reconnect(now Instant, id ident.StoreID) {
	if p := s.peer(id); p != nil {
		p.commit, p.heardAt, p.probing, p.again = 0, now, true, true
	}
}

// before is the tail that the entry i follows.
func (s *stream) before(i int) Tail {
	if i == 0 {
		return s.start
	}
	return s.entries.at(i - 1).tail
}

// find is the entry that begins at an offset or after it.
func (s *stream) find(at ident.Offset) int {
	return sort.Search(s.entries.len(), func(i int) bool { return s.entries.at(i).tail.End > at })
}

// tailAt is the tail at an end of a batch that is in memory.
func (s *stream) tailAt(at ident.Offset) (Tail, bool) {
	if at < s.start.End || at > s.tail.End {
		return Tail{}, false
	}
	if at == s.tail.End {
		return s.tail, true
	}
	t := s.before(s.find(at))
	return t, t.End == at
}

// uncommitted counts the bytes that are not committed.
func (s *stream) uncommitted() int { return int(s.tail.Bytes - s.commit.Bytes) }

// push puts a batch behind the tail.
func (s *stream) push(h *batch.Header, b []byte, token uint64) {
	s.tail = s.tail.after(h, b)
	s.entries.push(entry{s.tail, b, token})
}

// holders counts the slots whose stores have at least what lies before an offset.
func (s *stream) holders(at ident.Offset) int {
	n := 0
	for i := range s.peers {
		if p := &s.peers[i]; p.known && !p.out && p.durable.End >= at {
			n++
		}
	}
	return n
}

// quorumEnd is the greatest offset before which a quorum of this many has all.
func (s *stream) quorumEnd(quorum int) ident.Offset {
	var ends [MaxReplicas]ident.Offset
	n := 0
	for i := range s.peers {
		if p := &s.peers[i]; p.known && !p.out {
			ends[n] = p.durable.End
			n++
		}
	}
	if n < quorum {
		return s.seg.Base
	}
	slices.Sort(ends[:n])
	return ends[n-quorum]
}

// holder is a store that has what is not in memory: this one if it has all of it,
// or else those that have it in turn.
func (s *stream) holder(self ident.StoreID, p *peer) ident.StoreID {
	if s.source == self {
		return self
	}
	if me := s.peer(self); me != nil && me.known && !me.out && me.durable.End >= s.tail.End {
		s.source = self
		return self
	}
	for i := range s.peers {
		q := &s.peers[(int(p.seq)+i)%len(s.peers)]
		if q.known && !q.out && q.durable.End >= s.tail.End && q != p {
			return q.store
		}
	}
	return s.source
}

// shrink lets go of entries that are answered and that all stores have, or that
// are over the limit.
func (s *stream) shrink(limit int) {
	all := s.tail.End
	for i := range s.peers {
		if p := &s.peers[i]; !p.store.IsZero() && !p.out {
			all = min(all, p.durable.End)
		}
	}
	for s.answered > 0 {
		t := s.entries.at(0).tail
		if t.End > all && int(s.commit.Bytes-s.start.Bytes) <= limit {
			return
		}
		s.entries.pop()
		s.start = t
		s.answered--
	}
}
