package quorum

import (
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

// maxPatience is how long a silent store is left alone at the most.
const maxPatience = 2 * time.Second

// peer is how far one store is with a stream.
type peer struct {
	store ident.StoreID // zero is a vacant slot
	// known: it has told its tail. durable is that, next is what it is sent next.
	known   bool
	durable Tail
	next    ident.Offset
	// sent is how many bytes of the segment lie before next.
	sent uint64
	// probing: one message at a time, until it is answered; again: the next one
	// at once.
	probing, again bool
	// out: it refuses for good; it does not count.
	out bool
	// sealed: it has the whole segment and has sealed it.
	sealed bool
	// loading: a read of what it is to be sent is on its way.
	loading bool
	commit  ident.Offset // that it was told and has confirmed
	// seq is of the last message to it; answers up to rewound do not move next
	// back any more.
	seq, rewound    uint64
	sentAt, heardAt Instant
	// told and confirm are the last reads that it was asked to confirm, and that
	// it has confirmed.
	told, confirm uint64
	// by is the process that last followed in this epoch.
	by ident.Incarnation
}

// pump sends each store of a stream what it is due.
func (r *Range) pump(s *stream) {
	for i := range s.peers {
		p := &s.peers[i]
		if p.store.IsZero() || p.out || p.sealed {
			continue
		}
		r.pumpPeer(s, p)
	}
}

func (r *Range) pumpPeer(s *stream, p *peer) {
	// A sealed segment is told when all of it is there, or when its store has
	// said nothing yet and may have more than all of it.
	if s.sealed != nil && p.known && p.durable.End >= s.tail.End {
		if r.due(p) {
			m := r.message(Seal, s, p)
			m.Seal = *s.sealed
			r.send(m)
		}
		return
	}
	if p.loading && r.now >= p.sentAt.Add(5*r.cfg.Retry) {
		p.loading = false
	}
	quiet := r.now >= max(p.sentAt, p.heardAt).Add(r.cfg.Retry)
	if p.known && !p.probing && p.next > p.durable.End && quiet {
		p.rewind(p.durable.End)
	}
	if !p.known || p.probing {
		if !r.due(p) {
			return
		}
		if !p.known || !r.sendFrom(s, p) {
			r.sendEmpty(s, p)
		}
		return
	}
	for !p.probing && !p.loading && p.next < s.tail.End && int64(p.sent-p.durable.Bytes) < int64(r.cfg.MaxInflightBytes) {
		if !r.sendFrom(s, p) {
			break
		}
	}
	wait := r.cfg.Heartbeat
	if p.heardAt < p.sentAt {
		wait = r.patience(p)
	}
	behind := p.commit < s.commit.End || p.confirm < r.confirm && s == r.out
	if behind && r.now >= p.sentAt.Add(wait) || p.told < r.confirm && s == r.out {
		r.sendEmpty(s, p)
	}
}

// due says whether a store is to be asked again.
func (r *Range) due(p *peer) bool {
	return p.again || p.seq == 0 || r.now >= p.sentAt.Add(r.patience(p))
}

// patience is how long an answer is waited for: the longer, the longer the store
// has been silent.
func (r *Range) patience(p *peer) time.Duration {
	return min(max(r.cfg.Retry, time.Duration(r.now-p.heardAt)/4), maxPatience)
}

// rewind goes back to an offset and probes from there.
func (p *peer) rewind(to ident.Offset) {
	p.next, p.probing, p.rewound, p.sent = to, true, p.seq, p.durable.Bytes
}

// message begins a message of a stream.
func (r *Range) message(k Kind, s *stream, p *peer) Message {
	p.seq++
	p.sentAt, p.again, p.told = r.now, false, r.confirm
	return Message{
		Kind: k, From: r.cfg.Self.Store, To: p.store, Range: r.cfg.Range, Epoch: r.epoch, Owner: r.cfg.Self,
		Segment: s.seg, Seq: p.seq, Commit: s.commit.End, Confirm: r.confirm,
	}
}

// sendEmpty asks for the tail and tells the commit offset. It begins where the
// next batches will, so that a store that has not got there says so.
func (r *Range) sendEmpty(s *stream, p *peer) {
	m := r.message(Append, s, p)
	m.At, m.Chain = s.seg.Base, s.seg.Chain
	if t, ok := s.tailAt(p.next); ok && p.known {
		m.At, m.Chain = t.End, t.Chain
	}
	r.send(m)
}

// sendFrom sends the batches from next on, as many as a message holds, or has
// them read. False means that there was nothing to send now.
func (r *Range) sendFrom(s *stream, p *peer) bool {
	if p.next >= s.tail.End || p.loading {
		return p.loading
	}
	if p.next < s.start.End {
		return r.sendOld(s, p)
	}
	i := s.find(p.next)
	if i == s.entries.len() {
		return r.sendOld(s, p) // sealed past what was in memory here
	}
	from := s.before(i)
	if from.End != p.next {
		p.out = true // its tail is none of the ends of the batches
		return false
	}
	n, size := 0, 0
	for i+n < s.entries.len() && s.entries.at(i+n).tail.End <= s.tail.End {
		l := len(s.entries.at(i + n).batch)
		if n > 0 && size+l > r.cfg.MaxMessageBytes {
			break
		}
		n, size = n+1, size+l
	}
	m := r.message(Append, s, p)
	m.At, m.Chain = from.End, from.Chain
	m.Batches = make([][]byte, n)
	for k := range n {
		m.Batches[k] = s.entries.at(i + k).batch
	}
	last := s.entries.at(i + n - 1).tail
	p.next, p.sent = last.End, last.Bytes
	r.send(m)
	return true
}

// sendOld has batches read that are not in memory. They are sent when they are
// there, one message at a time.
func (r *Range) sendOld(s *stream, p *peer) bool {
	source := s.holder(r.cfg.Self.Store, p)
	if source == r.cfg.Self.Store {
		p.loading = r.load(pendingLoad{segment: s.seg.ID, from: p.next, to: p.store})
	} else {
		m := r.message(Fetch, s, p)
		m.To, m.At, m.Seq = source, p.next, uint64(slotOf(s, p.store))
		r.send(m)
		p.loading = true
	}
	if p.loading {
		p.sentAt, p.probing = r.now, true
	}
	return p.loading
}

func slotOf(s *stream, id ident.StoreID) int {
	for i := range s.peers {
		if s.peers[i].store == id {
			return i
		}
	}
	return -1
}

// fetched are batches that another store has read for a stream.
func (r *Range) fetched(m *Message) {
	s := r.streamOf(m.Segment.ID)
	if s != nil && m.Owner == r.cfg.Self && m.Epoch == r.epoch && m.Seq < uint64(len(s.peers)) {
		r.passOn(s.seg.ID, s.peers[m.Seq].store, m.At, m.Batches)
	}
}

// passOn sends a store batches that were read for it.
func (r *Range) passOn(id ident.SegmentID, to ident.StoreID, at ident.Offset, batches [][]byte) {
	s := r.streamOf(id)
	if s == nil {
		return
	}
	p := s.peer(to)
	if p == nil || !p.loading {
		return
	}
	p.loading = false
	n, end, chain := 0, at, uint64(0)
	for _, b := range batches {
		h, err := batch.Check(b)
		if err != nil || h.Base != end || h.End() > s.tail.End {
			break
		}
		if n == 0 {
			chain = h.Chain
		}
		n, end = n+1, h.End()
	}
	if n == 0 || p.next != at {
		return
	}
	m := r.message(Append, s, p)
	m.At, m.Chain, m.Batches = at, chain, batches[:n:n]
	p.next = end
	r.send(m)
}

// streamOf finds the stream of a segment.
func (r *Range) streamOf(id ident.SegmentID) *stream {
	if s := r.out; s != nil && s.seg.ID == id {
		return s
	}
	for _, s := range r.finishing {
		if s.seg.ID == id {
			return s
		}
	}
	return nil
}

// appended takes what a store says of its tail.
func (r *Range) appended(m *Message) {
	s := r.streamOf(m.Segment.ID)
	if s == nil || m.Owner != r.cfg.Self || m.Epoch != r.epoch {
		return
	}
	p := s.peer(m.From)
	if p == nil {
		return
	}
	p.heardAt = r.now
	switch m.Refusal {
	case Below:
		r.challenged(s, p, m.Promise)
		return
	case Diverged, CannotVouch:
		p.out = true
		if p.store == r.cfg.Self.Store && s == r.out {
			r.stepDown(Deposed)
		} else {
			r.hopeless(s)
		}
		return
	case Closed:
		if m.Tail == (Tail{}) {
			p.out = true // it knows nothing of it any more
			return
		}
	case Full:
		p.probing = true
	}
	if !r.noteTail(s, p, m.Tail) {
		p.out = true
		r.hopeless(s)
		return
	}
	p.commit = max(p.commit, m.Commit)
	if m.Refusal == OK {
		p.by = m.By
		p.confirm = max(p.confirm, m.Confirm)
	}
	switch {
	case m.Refusal == Gap && m.Seq > p.rewound && m.Next < p.next:
		p.rewind(max(m.Next, p.durable.End))
		p.again = true
	case m.Refusal == OK && m.Seq > p.rewound:
		p.probing = false
	}
	r.progress(s)
}

// noteTail compares a store's tail with what is known here of the chain. Below
// what is in memory nothing can be compared, and nothing there is open any more.
func (r *Range) noteTail(s *stream, p *peer, t Tail) bool {
	if mine, ok := s.tailAt(t.End); ok && mine.Chain != t.Chain || t.End < s.seg.Base {
		return false
	}
	if t.End > s.tail.End && s == r.out && r.state == Serving {
		return false // this process offered nothing there
	}
	if !p.known || t.End > p.durable.End {
		p.durable = t
	}
	p.known = true
	if p.next < p.durable.End {
		p.next, p.sent = p.durable.End, p.durable.Bytes
	}
	return true
}

// sealedAt takes that a store has sealed a segment.
func (r *Range) sealedAt(m *Message) {
	s := r.streamOf(m.Segment.ID)
	if s == nil || s.sealed == nil || m.Owner != r.cfg.Self || m.Tail.End != s.tail.End || m.Tail.Chain != s.tail.Chain {
		return
	}
	if p := s.peer(m.From); p != nil {
		p.heardAt, p.sealed, p.known, p.durable = r.now, true, true, m.Tail
	}
}

// finish begins to bring a sealed segment to all of its stores.
func (r *Range) finish(s *stream, seal catalog.Seal) {
	if seal.End == s.seg.Base {
		return // it is retired
	}
	s.tail, s.sealed = s.seg.sealedTail(seal), &seal
	s.commit = s.tail
	for i := range s.peers {
		if p := &s.peers[i]; p.next > s.tail.End {
			p.next, p.sent = s.tail.End, s.tail.Bytes
		}
	}
	r.finishing = append(r.finishing, s)
	if len(r.finishing) > r.cfg.MaxFinishing {
		r.giveUp(r.finishing[0])
		r.finishing = r.finishing[1:]
	}
}

// giveUp leaves a sealed segment to healing, unless it is everywhere.
func (r *Range) giveUp(s *stream) {
	if !s.finished(true) {
		r.next.Incomplete = append(r.next.Incomplete, s.seg.ID)
	}
}

// finished says whether all stores have the segment, or all that are going to.
func (s *stream) finished(whole bool) bool {
	for i := range s.peers {
		if p := &s.peers[i]; !p.sealed && (whole || !p.store.IsZero() && !p.out) {
			return false
		}
	}
	return true
}
