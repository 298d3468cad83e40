package quorum

import (
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
)

// cutOffAfter is how long a primary may be without a quorum before it says so.
const cutOffAfter = 5 * time.Second

// serve begins to append to the open segment of the view, which this process was
// granted and in which it has offered nothing yet.
func (r *Range) serve(e event) {
	r.become(e, WhyNot)
	r.epoch, r.taken = r.view.Range.Epoch, r.view.Range.Epoch
	r.cfg.Leases.serve(r.cfg.Range, r.epoch)
	seg := r.view.open()
	r.out = newStream(r.now, seg, seg.start(), r.cfg.Self.Store)
	r.claim, r.proposal, r.regrant = claim{}, freeze{}, false
	r.quorumAt, r.cutOff = r.now, false
}

// Append hands in one batch, which the driver has validated, and whose bytes
// nobody else touches from then on. It is stamped with its place, and with at as
// its append time unless that would run back. Its Result comes with a Ready.
func (r *Range) Append(now Instant, at ident.Timestamp, token uint64, b []byte) error {
	r.pass(now)
	switch {
	case r.state == Stopped:
		return ErrFailed
	case r.state == Frozen:
		return ErrFrozen
	case r.state != Serving:
		return ErrNotPrimary
	case r.out.uncommitted()+len(b) > r.cfg.MaxUncommittedBytes && r.out.uncommitted() > 0:
		return ErrOverloaded
	}
	s := r.out
	stamp := batch.Stamp{
		Epoch: s.seg.Epoch, Base: s.tail.End, UserBefore: s.seg.UserBefore + s.tail.Users, Chain: s.tail.Chain,
		AppendTime: max(at, s.tail.LastTime),
	}
	stamp.Apply(b)
	h, err := batch.ParseHeader(b)
	if err != nil {
		return err
	}
	s.push(&h, b, token)
	if r.cfg.breaks(ruleQuorumAck) {
		r.next.Results = append(r.next.Results, Result{token, Committed, h.Base})
	}
	return nil
}

// Size is how many bytes the open segment has, and its commit offset.
func (r *Range) Size() (bytes uint64, commit ident.Offset) {
	if r.out == nil {
		return 0, 0
	}
	return r.out.tail.Bytes, r.out.commit.End
}

// progress looks what a stream's newest answer has changed.
func (r *Range) progress(s *stream) {
	switch {
	case s != r.out:
		s.shrink(r.cfg.MaxRetainedBytes)
		r.dropFinished()
	case r.state == Repairing:
		r.checkRepaired()
	case r.state == Serving, r.state == Frozen && r.cfg.breaks(ruleFreeze):
		r.advance(s)
	}
}

// quorum is how many stores have to have a batch of a segment (R3).
func (r *Range) quorum(s *stream) int {
	if !r.cfg.breaks(ruleFixedCount) {
		return s.seg.Quorum()
	}
	alive := 0
	for i := range s.peers {
		if p := &s.peers[i]; p.known && r.now < p.heardAt.Add(4*r.cfg.Retry) {
			alive++
		}
	}
	return alive/2 + 1
}

// advance moves the commit offset to what a quorum has, and answers.
func (r *Range) advance(s *stream) {
	q := r.quorum(s)
	end := min(s.quorumEnd(q), s.tail.End)
	r.noteQuorum(s, q)
	r.checkReads(s, q)
	if end <= s.commit.End {
		return
	}
	t, ok := s.tailAt(end)
	if !ok {
		return
	}
	s.commit = t
	for s.answered < s.entries.len() && s.entries.at(s.answered).tail.End <= end {
		e := s.entries.at(s.answered)
		r.answer(e, Committed, s.before(s.answered).End)
		s.answered++
	}
	s.shrink(r.cfg.MaxRetainedBytes)
}

func (r *Range) answer(e *entry, f Fate, base ident.Offset) {
	if r.cfg.breaks(ruleQuorumAck) && f == Committed {
		return
	}
	r.next.Results = append(r.next.Results, Result{e.token, f, base})
}

// noteQuorum remembers when a quorum was last heard of.
func (r *Range) noteQuorum(s *stream, q int) {
	since := r.now.Add(-2 * r.cfg.Retry)
	n := 0
	for i := range s.peers {
		if p := &s.peers[i]; p.known && !p.out && p.heardAt >= since {
			n++
		}
	}
	if n >= q || s.uncommitted() == 0 {
		r.quorumAt, r.cutOff = r.now, false
	}
}

// checkCutOff tells the driver of a primary whose appends nobody answers (R1).
func (r *Range) checkCutOff() {
	if r.state != Serving {
		return
	}
	if r.out.uncommitted() == 0 {
		r.quorumAt = r.now
	}
	if !r.cutOff && r.now >= r.quorumAt.Add(cutOffAfter) {
		r.cutOff, r.next.CutOff = true, true
	}
}

// challenged takes that a store has promised a higher epoch than this primary's.
// It may be one that was never granted: then the others still make a quorum, and
// a new grant for this process wins that store back.
func (r *Range) challenged(s *stream, p *peer, promise ident.Epoch) {
	if promise <= r.epoch {
		return
	}
	switch {
	case s != r.out:
		p.out = true
		r.dropFinished()
	case r.state == Repairing:
		r.stepDown(Deposed)
	default:
		p.out = true
		r.next.Challenged = true
		r.hopeless(s)
	}
}

// hopeless gives up when a quorum can't be had any more.
func (r *Range) hopeless(s *stream) {
	if s != r.out {
		r.dropFinished()
		return
	}
	able := 0
	for i := range s.peers {
		if p := &s.peers[i]; !p.out && !p.store.IsZero() {
			able++
		}
	}
	if able < s.seg.Quorum() && (r.state == Serving || r.state == Fencing || r.state == Repairing) {
		r.stepDown(Deposed)
	}
}

func (r *Range) dropFinished() {
	kept := r.finishing[:0]
	for _, s := range r.finishing {
		if s.finished(false) {
			r.giveUp(s)
		} else {
			kept = append(kept, s)
		}
	}
	clear(r.finishing[len(kept):])
	r.finishing = kept
}

// Resign gives the grant up. What is not committed becomes Lost, unless the
// catalog tells in time how the segment ended.
func (r *Range) Resign(now Instant) {
	r.pass(now)
	if r.state != Stopped && r.state != Ended {
		r.stepDown(Resigned)
	}
}

// stepDown ends whatever this process was doing as a primary.
func (r *Range) stepDown(why Why) {
	if r.state == Idle || r.state == Stopped || r.state == Ended {
		return
	}
	if s := r.out; s != nil {
		r.orphan(s)
	}
	r.become(deposed, why)
	r.standDown()
}

// standDown forgets what only a primary has.
func (r *Range) standDown() {
	r.cfg.Leases.leave(r.cfg.Range)
	r.failReads()
	for _, s := range r.finishing {
		r.giveUp(s)
	}
	r.out, r.finishing = nil, nil
	r.claim, r.proposal, r.regrant = claim{}, freeze{}, false
}
