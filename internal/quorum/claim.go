package quorum

import "fmt"

// claim is what the stores of the open segment have promised.
type claim struct {
	answers []Message // by slot; Kind zero where there is none
	askedAt Instant
}

// Claim wants the range, as a view has it. If the view says that it is this
// process's, and this process has not begun to append there, it serves at once.
// Otherwise it fences the epoch of the view by promises for the next one, repairs
// what it finds, and proposes to be granted that epoch with the seal of what it
// found: one command decides both, so that no grant exists that has nothing to
// append to. A claim may be made while another one goes on; the catalog decides.
func (r *Range) Claim(now Instant, v View) error {
	r.pass(now)
	switch {
	case r.state == Stopped:
		return ErrFailed
	case r.state != Idle:
		return fmt.Errorf("quorum: claim of range %v, which is %v here", r.cfg.Range, r.state)
	case v.Range.ID != r.cfg.Range || v.Range.Open == nil:
		return fmt.Errorf("quorum: claim of range %v with a view of %v without open segment", r.cfg.Range, v.Range.ID)
	case len(v.Replicas) == 0 || len(v.Replicas) > MaxReplicas:
		return fmt.Errorf("quorum: claim of range %v with %d replicas", r.cfg.Range, len(v.Replicas))
	}
	r.resolve(&v)
	r.view = v
	if r.mine(&v) {
		r.serve(granted)
		return nil
	}
	r.become(claimed, WhyNot)
	r.epoch = v.Range.Epoch + 1
	seg := v.open()
	r.out = newStream(r.now, seg, seg.start(), r.cfg.Self.Store)
	r.claim = claim{answers: make([]Message, len(seg.Replicas)), askedAt: r.now}
	r.askFences()
	return nil
}

// mine says whether the open segment may be appended to by this process.
func (r *Range) mine(v *View) bool {
	if r.cfg.breaks(ruleIncarnation) {
		return v.Range.Owner.Store == r.cfg.Self.Store && r.taken < v.Range.Epoch
	}
	return v.Range.Owner == r.cfg.Self && r.taken < v.Range.Epoch
}

func (r *Range) askFences() {
	r.claim.askedAt = r.now
	for i, id := range r.out.seg.Replicas {
		if id.IsZero() || r.claim.answers[i].Kind == Fenced && r.claim.answers[i].Refusal != Below {
			continue
		}
		r.send(Message{
			Kind: Fence, From: r.cfg.Self.Store, To: id, Range: r.cfg.Range, Epoch: r.epoch, Owner: r.cfg.Self,
			Segment: r.out.seg, Holder: r.view.Range.Owner,
		})
	}
}

// fenced takes a promise. One that comes late, when a quorum has promised
// already, is a store more that can be repaired.
func (r *Range) fenced(m *Message) {
	s := r.out
	if r.state != Fencing && r.state != Repairing || m.Owner != r.cfg.Self || m.Epoch != r.epoch || m.Segment.ID != s.seg.ID {
		return
	}
	i := slotOf(s, m.From)
	switch {
	case i < 0:
		return
	case m.Refusal == Below || m.Refusal == Closed:
		r.stepDown(Stale)
		return
	case m.Refusal == CannotVouch:
		s.peers[i].out = true
		r.claim.answers[i] = *m
		r.hopeless(s)
		return
	case m.Refusal != OK:
		return
	}
	r.claim.answers[i] = *m
	if r.state == Repairing {
		if p := &s.peers[i]; !p.known {
			p.out = !r.noteTail(s, p, m.Tail)
			r.progress(s)
		}
		return
	}
	n := 0
	for i := range r.claim.answers {
		if a := &r.claim.answers[i]; a.Kind == Fenced && a.Refusal == OK {
			n++
		}
	}
	if n >= s.seg.Quorum() || r.cfg.breaks(ruleQuorumAsk) && n >= s.seg.Quorum()-1 {
		r.repair()
	}
}

// repair takes the longest tail among a quorum (R7). All tails are of one chain,
// so that it has all that any quorum can have committed.
func (r *Range) repair() {
	longest := -1
	for i := range r.claim.answers {
		a := &r.claim.answers[i]
		better := longest < 0 || a.Tail.End > r.claim.answers[longest].Tail.End
		if r.cfg.breaks(ruleLongest) {
			better = longest < 0 || a.From == r.cfg.Self.Store
		}
		if a.Kind == Fenced && a.Refusal == OK && better {
			longest = i
		}
	}
	best := &r.claim.answers[longest]
	seg := r.out.seg
	r.out = newStream(r.now, seg, best.Tail, best.From)
	for i := range r.claim.answers {
		a, p := &r.claim.answers[i], &r.out.peers[i]
		if a.Kind != Fenced {
			continue
		}
		p.out = a.Refusal != OK || !r.noteTail(r.out, p, a.Tail)
		p.next, p.sent = min(p.durable.End, best.Tail.End), p.durable.Bytes
	}
	r.become(fenced, WhyNot)
	r.checkRepaired()
}

// checkRepaired proposes the seal when a quorum holds what is to be sealed.
func (r *Range) checkRepaired() {
	s := r.out
	if s.holders(s.tail.End) < s.seg.Quorum() && !r.cfg.breaks(ruleRepair) {
		return
	}
	r.become(repaired, WhyNot)
	r.propose(ProposeTake, s.tail)
	if r.cfg.breaks(ruleServe) {
		r.serveEarly()
	}
}

// serveEarly is what ruleServe forbids.
func (r *Range) serveEarly() {
	v := r.view
	next := *v.Range
	next.Epoch, next.Owner = r.epoch, r.cfg.Self
	open := *next.Open
	open.Epoch, open.Base, open.Chain = r.epoch, r.out.tail.End, r.out.tail.Chain
	open.ID++
	next.Open = &open
	v.Range = &next
	r.view = v
	r.serve(opened)
}

// again asks those that have not answered.
func (r *Range) again() {
	switch {
	case r.state == Fencing && r.now >= r.claim.askedAt.Add(r.cfg.Retry):
		r.askFences()
	case r.state == Frozen && r.now >= r.proposal.askedAt.Add(2*r.cfg.Retry):
		r.proposal.askedAt = r.now
		r.next.Look = true
	}
}
