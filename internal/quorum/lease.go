package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
)

const (
	// maxExceptions bounds the ranges that a grant names as not granted. A store
	// that would have to name more grants nothing to that holder.
	maxExceptions = 1024
	// maxHolders bounds whom a store grants anything. What it has excepted for a
	// holder is only forgotten when that process is Gone.
	maxHolders = 4096
)

// LeaseConfig is what Leases are made of. A zero number means its default.
type LeaseConfig struct {
	Self catalog.Owner
	// Duration is how long a grant holds. All stores have the same. Default 1 s.
	Duration time.Duration
	// Margin is what a holder subtracts, for clocks that run at different speeds.
	// Default a tenth of Duration.
	Margin time.Duration

	broken rule
}

// Leases are what one process grants to others and holds of others (R9): for all
// ranges at once, per pair of processes. A store grants that it will answer no
// fence against the holder before the grant has run out on its own clock; the
// holder counts from when it asked, so that it stops first.
type Leases struct {
	cfg     LeaseConfig
	started Instant
	granted map[catalog.Owner]*grant
	held    map[ident.StoreID]*holding
	// serving is in which epoch this process is the primary of a range.
	serving map[ident.RangeID]ident.Epoch
}

// grant is what a process was granted.
type grant struct {
	until  Instant
	except []fencedRange // by range
}

// fencedRange is an exception, and until when what was granted before it may be
// valid.
type fencedRange struct {
	Exception
	until Instant
}

// holding is what a store has granted to this process.
type holding struct {
	by     ident.Incarnation // the process that has granted it
	until  Instant
	sent   Instant // of the newest renewal that was granted
	except []Exception
}

// Exception is a range that a grant does not hold for in the epochs below one.
type Exception struct {
	Range ident.RangeID
	Epoch ident.Epoch
}

// Renewal asks a store to grant or renew.
type Renewal struct {
	Holder catalog.Owner
	// Sent is the holder's clock, which the grant gives back.
	Sent Instant
	// Dropped are exceptions that the holder has heard of, and that are nothing to
	// it any more: it has dropped the range, or has it in a later epoch.
	Dropped []Exception
}

// LeaseGrant is the answer: a grant of all ranges but the excepted ones.
type LeaseGrant struct {
	Holder  catalog.Owner
	Grantor catalog.Owner
	Sent    Instant
	Except  []Exception
}

// NewLeases are those of a process that starts now.
func NewLeases(now Instant, cfg LeaseConfig) (*Leases, error) {
	if cfg.Duration == 0 {
		cfg.Duration = time.Second
	}
	if cfg.Margin == 0 {
		cfg.Margin = cfg.Duration / 10
	}
	if cfg.Duration < 0 || cfg.Margin < 0 || cfg.Margin >= cfg.Duration {
		return nil, fmt.Errorf("quorum: a lease of %v with a margin of %v", cfg.Duration, cfg.Margin)
	}
	return &Leases{
		cfg: cfg, started: now, granted: map[catalog.Owner]*grant{}, held: map[ident.StoreID]*holding{},
		serving: map[ident.RangeID]ident.Epoch{},
	}, nil
}

// Renewal is what to send to a store whose lease is wanted.
func (l *Leases) Renewal(now Instant, to ident.StoreID) Renewal {
	r := Renewal{Holder: l.cfg.Self, Sent: now}
	if h := l.held[to]; h != nil {
		for _, e := range h.except {
			if epoch, ok := l.serving[e.Range]; !ok || epoch >= e.Epoch {
				r.Dropped = append(r.Dropped, e)
			}
		}
	}
	return r
}

// Grant answers a Renewal; ok says whether there is an answer.
func (l *Leases) Grant(now Instant, r Renewal) (a LeaseGrant, ok bool) {
	g := l.grantOf(r.Holder)
	if g == nil {
		return a, false
	}
	g.except = slices.DeleteFunc(g.except, func(e fencedRange) bool { return slices.Contains(r.Dropped, e.Exception) })
	if len(g.except) > maxExceptions {
		return a, false
	}
	g.until = max(g.until, now.Add(l.cfg.Duration))
	a = LeaseGrant{Holder: r.Holder, Grantor: l.cfg.Self, Sent: r.Sent}
	if l.cfg.broken != ruleException {
		for _, e := range g.except {
			a.Except = append(a.Except, e.Exception)
		}
	}
	return a, true
}

func (l *Leases) grantOf(holder catalog.Owner) *grant {
	g := l.granted[holder]
	if g == nil && len(l.granted) < maxHolders {
		g = &grant{}
		l.granted[holder] = g
	}
	return g
}

// Gone says that a process has ended: nothing has to be remembered of it.
func (l *Leases) Gone(holder catalog.Owner) { delete(l.granted, holder) }

// Granted takes a grant.
func (l *Leases) Granted(now Instant, g LeaseGrant) {
	if g.Holder != l.cfg.Self {
		return
	}
	h := l.held[g.Grantor.Store]
	if h == nil {
		h = &holding{}
		l.held[g.Grantor.Store] = h
	}
	if g.Sent < h.sent {
		return // a newer one may name more exceptions
	}
	from, margin := g.Sent, l.cfg.Margin
	if l.cfg.broken == ruleLeaseSend {
		from = now
	}
	if l.cfg.broken == ruleLeaseMargin {
		margin = 0
	}
	h.by, h.sent, h.until, h.except = g.Grantor.Process, g.Sent, from.Add(l.cfg.Duration-margin), g.Except
}

func (l *Leases) serve(rng ident.RangeID, e ident.Epoch) {
	if l != nil {
		l.serving[rng] = e
	}
}

func (l *Leases) leave(rng ident.RangeID) {
	if l != nil {
		delete(l.serving, rng)
	}
}

// fence makes the range an exception of what the holder is granted from now on,
// and says until when what it was granted before may be valid.
func (l *Leases) fence(now Instant, x Exception, claimant, holder catalog.Owner) Instant {
	switch {
	case l == nil, l.cfg.broken == ruleLeaseWait:
		return now
	case holder.Store == claimant.Store:
		return now // it is the claimant, or was before it: the claimant has its store's lock
	}
	// What this process's predecessor has granted is not known.
	until := max(now, l.started.Add(l.cfg.Duration))
	if l.cfg.broken == ruleLeaseStart {
		until = now
	}
	if holder == l.cfg.Self {
		return until // it knows of the promise itself
	}
	g := l.grantOf(holder)
	if g == nil {
		return until // it was never granted anything, and will not be
	}
	i, ok := slices.BinarySearchFunc(g.except, x.Range, func(e fencedRange, r ident.RangeID) int {
		return cmp.Compare(e.Range, r)
	})
	switch {
	case !ok:
		g.except = slices.Insert(g.except, i, fencedRange{x, g.until})
	case g.except[i].Epoch < x.Epoch:
		g.except[i] = fencedRange{x, g.until}
	}
	return max(until, g.except[i].until)
}

// holds says whether a quorum of the open segment's stores has granted the range to
// this process. Its own store has as long as it has promised nothing else. A grant
// only counts of the process that has followed this primary as well: one that has
// started since may have promised another epoch before, of which it has no exception
// in memory, and would then not follow.
func (l *Leases) holds(now Instant, rng ident.RangeID, epoch ident.Epoch, s *stream) bool {
	n := 0
	for i := range s.peers {
		p := &s.peers[i]
		h := l.held[p.store]
		switch {
		case p.store.IsZero():
		case p.store == l.cfg.Self.Store:
			n++
		case h != nil && now < h.until && (h.by == p.by || l.cfg.broken == ruleLeaseProcess) &&
			!slices.ContainsFunc(h.except, func(e Exception) bool { return e.Range == rng && e.Epoch > epoch }):
			n++
		}
	}
	return n >= s.seg.Quorum()
}
