package quorum

import "github.com/quirelog/quire/internal/ident"

// waitingRead waits until a quorum has confirmed that this is still the primary.
type waitingRead struct {
	id, confirm uint64
	commit      ident.Offset
	until       Instant
}

// Commit is the commit offset of the open segment, for a read under the lease. The
// reader looks up there first and then asks Leased: in the other order the lease
// may have run out, and the range have moved on, before the look-up (R9).
func (r *Range) Commit() (ident.Offset, bool) {
	if r.state != Serving && !(r.state == Frozen && r.cfg.breaks(ruleLeaseFrozen)) || r.out == nil {
		return 0, false
	}
	return r.out.commit.End, true
}

// Leased says whether a read that has looked up to an offset of the open segment
// is current. Frozen, nothing is: the range may go on elsewhere already.
func (r *Range) Leased(now Instant) bool {
	r.pass(now)
	if _, ok := r.Commit(); !ok || r.cfg.Leases == nil || r.promise > r.epoch {
		return false
	}
	return r.cfg.Leases.holds(r.now, r.cfg.Range, r.epoch, r.out)
}

// ReadQuorum asks a quorum whether this is still the primary; the answer is a
// Read. It needs no clock that can be trusted.
func (r *Range) ReadQuorum(now Instant, id uint64) error {
	r.pass(now)
	switch {
	case r.state == Frozen:
		return ErrFrozen
	case r.state != Serving:
		return ErrNotPrimary
	case len(r.reads) >= r.cfg.MaxReads:
		return ErrOverloaded
	}
	if r.cfg.breaks(ruleConfirm) {
		r.next.Reads = append(r.next.Reads, Read{id, true, r.out.commit.End})
		return nil
	}
	r.confirm++
	r.reads = append(r.reads, waitingRead{id, r.confirm, r.out.commit.End, r.now.Add(10 * r.cfg.Retry)})
	return nil
}

// checkReads answers the reads that a quorum has confirmed.
func (r *Range) checkReads(s *stream, quorum int) {
	for len(r.reads) > 0 {
		w := r.reads[0]
		n := 0
		for i := range s.peers {
			if p := &s.peers[i]; !p.store.IsZero() && !p.out && p.confirm >= w.confirm {
				n++
			}
		}
		if n < quorum {
			return
		}
		r.next.Reads = append(r.next.Reads, Read{w.id, true, w.commit})
		r.reads = r.reads[1:]
	}
}

func (r *Range) expireReads() {
	for len(r.reads) > 0 && r.now >= r.reads[0].until {
		r.next.Reads = append(r.next.Reads, Read{ID: r.reads[0].id})
		r.reads = r.reads[1:]
	}
}

func (r *Range) failReads() {
	for _, w := range r.reads {
		r.next.Reads = append(r.next.Reads, Read{ID: w.id})
	}
	r.reads = nil
}
