package quorum

import (
	"fmt"
	"time"

	"github.com/quirelog/quire/internal/ident"
)

// freeze is a proposal whose outcome is not known. Its seal is that of r.out.
type freeze struct {
	Proposal
	tail    Tail
	askedAt Instant
}

// Roll ends the open segment and goes on in another one. An empty segment is not
// rolled but replaced under a new epoch (R5), and so is any after Regrant.
func (r *Range) Roll(now Instant) error {
	r.pass(now)
	if r.state != Serving {
		return fmt.Errorf("quorum: roll of range %v, which is %v here", r.cfg.Range, r.state)
	}
	r.become(freezing, WhyNot)
	r.propose(r.rollKind(r.frozenAt()), r.frozenAt())
	return nil
}

// Regrant rolls under a new epoch: the stores that have promised one that nobody
// was granted follow this process again.
func (r *Range) Regrant(now Instant) error {
	r.regrant = r.state == Serving
	return r.Roll(now)
}

// End freezes the range for a split or a merge. The proposal is an Ending, which
// the driver puts into its command. If it gives that up, it calls Cancel.
func (r *Range) End(now Instant) error {
	r.pass(now)
	if r.state != Serving {
		return fmt.Errorf("quorum: end of range %v, which is %v here", r.cfg.Range, r.state)
	}
	r.become(freezing, WhyNot)
	r.propose(ProposeEnd, r.frozenAt())
	return nil
}

// Cancel has a range that is frozen for its end go on, if it did not end. A
// command that was proposed may still arrive, so that only another one that is
// committed, a roll, unfreezes: it raises the version that the first one compares.
func (r *Range) Cancel(now Instant) {
	r.pass(now)
	if r.state == Frozen && r.proposal.Kind == ProposeEnd {
		r.propose(r.rollKind(r.proposal.tail), r.proposal.tail)
	}
}

// frozenAt is where the segment is to end: at the commit offset (R4).
func (r *Range) frozenAt() Tail {
	if r.cfg.breaks(ruleSealCommit) {
		return r.out.tail
	}
	return r.out.commit
}

func (r *Range) rollKind(t Tail) ProposalKind {
	if r.regrant || t.End == r.out.seg.Base {
		return ProposeTake
	}
	return ProposeRoll
}

// propose hands out a command. One that is handed out again compares the same.
func (r *Range) propose(k ProposalKind, t Tail) {
	v := r.view.Range
	r.proposals++
	r.proposal = freeze{
		Proposal: Proposal{
			Serial: r.proposals, Kind: k, Epoch: v.Epoch, Version: v.Version, Open: v.Open.ID, Seal: r.out.seg.seal(t),
		},
		tail: t, askedAt: r.now,
	}
	r.next.Proposal = r.proposal.Proposal
}

// Outcome is the answer of a Proposal. One that is unknown is looked up.
func (r *Range) Outcome(now Instant, o Outcome) {
	r.pass(now)
	if r.state != Frozen || o.Serial != r.proposal.Serial {
		return
	}
	if o.Verdict == Unknown {
		if r.cfg.breaks(ruleUnknown) && r.proposal.Kind != ProposeTake {
			r.state = Serving
			return
		}
		r.next.Look = true
		return
	}
	r.judge(&o.View, o.Verdict == No)
}

// Looked is the answer of a Look.
func (r *Range) Looked(now Instant, v View) {
	r.pass(now)
	r.resolve(&v)
	if r.state == Frozen {
		r.judge(&v, false)
	}
}

// judge decides by the catalog what became of the proposal.
func (r *Range) judge(v *View, refused bool) {
	p, now := &r.proposal, v.Range
	was := r.view.Range
	target := p.Epoch
	if p.Kind == ProposeTake {
		target++
	}
	switch {
	case now.Version < was.Version:
		// A view from before; the driver owes a newer one.
	case now.Open == nil:
		r.over(v)
	case now.Version == was.Version && now.Epoch == was.Epoch && now.Open.ID == p.Open:
		// Not applied, or not yet. Only a command that was applied unfreezes.
		r.repropose(refused)
	case now.Owner == r.cfg.Self && now.Epoch == target && now.Version == was.Version+1:
		r.goOn(v)
	default:
		r.stepDown(Deposed)
		r.resolve(v)
	}
}

// repropose proposes the same once more. An end that was refused is given up.
func (r *Range) repropose(refused bool) {
	if r.proposal.Kind == ProposeEnd && refused {
		r.propose(r.rollKind(r.proposal.tail), r.proposal.tail)
		return
	}
	if r.now >= r.proposal.askedAt.Add(r.cfg.Retry) || refused {
		r.propose(r.proposal.Kind, r.proposal.tail)
	}
}

// goOn begins the next segment. What was not committed in the last one is
// returned, in its order, before anything else is taken. How that one ended is
// read from the catalog: an older proposal of this process, made before it gave up
// and claimed the range again, may have come first, and with another end.
func (r *Range) goOn(v *View) {
	s := r.out
	seal := v.sealOf(&s.seg)
	if r.cfg.breaks(ruleReadSeal) {
		seal = r.proposal.Seal
	}
	r.giveBack(s, seal.End)
	r.finish(s, seal)
	r.view = *v
	r.serve(opened)
}

// over ends the range. The stores are still told of its last segment.
func (r *Range) over(v *View) {
	s := r.out
	seal := v.sealOf(&s.seg)
	// Only what this process ended goes on where its own appends left off: others
	// may have been primary since, and what they appended comes first.
	own := v.Range.Owner == r.cfg.Self && v.Range.Epoch == r.epoch && v.Range.Version == r.view.Range.Version+1
	r.view = *v
	if own {
		r.become(ended, WhyNot)
		r.settle(s, seal.End, Returned)
		r.finish(s, seal)
	} else {
		r.become(ended, Deposed)
		r.settle(s, seal.End, Dropped)
	}
	r.out = nil
	r.failReads()
	r.cfg.Leases.leave(r.cfg.Range)
}

// giveBack returns what lies behind the end of a segment.
func (r *Range) giveBack(s *stream, end ident.Offset) {
	r.settle(s, end, Returned)
	s.entries.cut(s.find(end))
	s.answered = s.entries.len()
}

// settle answers all that has no answer: the segment ended at an offset, and what
// lies behind that has a fate.
func (r *Range) settle(s *stream, end ident.Offset, rest Fate) {
	for i := s.answered; i < s.entries.len(); i++ {
		e := s.entries.at(i)
		switch {
		case e.tail.End <= end:
			r.answer(e, Committed, s.before(i).End)
		case r.cfg.breaks(ruleReturn):
			r.answer(s.entries.at(s.entries.len()-1-(i-s.answered)), rest, 0)
		default:
			r.answer(e, rest, 0)
		}
	}
	s.answered = s.entries.len()
}

// orphanTime is how long the fate of appends is waited for whose primary stepped
// down.
const orphanTime = 10 * time.Second

// orphans are appends without an answer of a segment that this process does not
// write any more. How the catalog sealed it decides them.
type orphans struct {
	segment ident.SegmentID
	entries []orphanEntry
	until   Instant
	lookAt  Instant
}

type orphanEntry struct {
	token     uint64
	base, end ident.Offset
}

func (r *Range) orphan(s *stream) {
	r.lose()
	for i := s.answered; i < s.entries.len(); i++ {
		e := s.entries.at(i)
		r.orphans.entries = append(r.orphans.entries, orphanEntry{e.token, s.before(i).End, e.tail.End})
	}
	r.orphans.segment, r.orphans.until, r.orphans.lookAt = s.seg.ID, r.now.Add(orphanTime), r.now
	r.next.Look = r.next.Look || len(r.orphans.entries) > 0
}

// resolve answers the orphans if a view says how their segment ended.
func (r *Range) resolve(v *View) {
	if len(r.orphans.entries) == 0 {
		return
	}
	seal, ok := v.sealed(r.orphans.segment)
	if !ok {
		return
	}
	for _, o := range r.orphans.entries {
		f := Dropped
		if o.end <= seal.End {
			f = Committed
		}
		r.next.Results = append(r.next.Results, Result{o.token, f, o.base})
	}
	r.orphans.entries = nil
}

// lose answers the orphans without knowing.
func (r *Range) lose() {
	for _, o := range r.orphans.entries {
		r.next.Results = append(r.next.Results, Result{o.token, Lost, o.base})
	}
	r.orphans.entries = nil
}

func (r *Range) expireOrphans() {
	switch {
	case len(r.orphans.entries) == 0:
	case r.now >= r.orphans.until:
		r.lose()
	case r.now >= r.orphans.lookAt.Add(5*r.cfg.Retry):
		r.orphans.lookAt, r.next.Look = r.now, true
	}
}
