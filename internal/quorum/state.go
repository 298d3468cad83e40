package quorum

import "fmt"

// State is what a Range is as a primary. As a follower it has none: a store
// follows at all times.
type State uint8

// The states.
const (
	// Idle: somebody else's, or nobody's.
	Idle State = iota
	// Fencing: it wants the range and waits for the promises of a quorum.
	Fencing
	// Repairing: it brings a quorum to the longest tail.
	Repairing
	// Frozen: it proposed to seal the open segment and does not know the outcome.
	Frozen
	// Serving: it appends.
	Serving
	// Ended: the range was split or merged.
	Ended
	// Stopped: the store has failed.
	Stopped
)

func (s State) String() string {
	return [...]string{"idle", "fencing", "repairing", "frozen", "serving", "ended", "stopped"}[s]
}

// Why says why a Range became idle, or ended by another's command.
type Why uint8

// The reasons.
const (
	// WhyNot: there is none to give.
	WhyNot Why = iota
	// Deposed: the catalog has another owner, or a quorum promised another epoch.
	Deposed
	// Stale: the view that a claim was made with is old.
	Stale
	// Resigned: the driver called Resign.
	Resigned
	// NoSpace: the primary's own store is full (R1).
	NoSpace
)

// event is what moves a primary from one state to another.
type event uint8

const (
	granted   event = iota // the view says that the range is this process's
	claimed                // the driver wants the range
	fenced                 // a quorum promised
	repaired               // a quorum has the longest tail
	freezing               // the driver wants the segment or the range to end
	opened                 // the proposal opened the next segment
	ended                  // the range has no open segment any more
	deposed                // the grant is not worth anything any more
	storeDied              // the store failed
)

// transition is the whole life of a primary.
func (s State) transition(e event) State {
	switch {
	case e == storeDied:
		return Stopped
	case s == Stopped || s == Ended:
		return s
	case e == deposed:
		return Idle
	case e == ended:
		return Ended
	case s == Idle && e == granted:
		return Serving
	case s == Idle && e == claimed:
		return Fencing
	case s == Fencing && e == fenced:
		return Repairing
	case s == Repairing && e == repaired:
		return Frozen
	case s == Serving && e == freezing:
		return Frozen
	case s == Frozen && e == opened:
		return Serving
	}
	panic(fmt.Sprintf("quorum: event %d in state %v", e, s))
}

// become moves to the next state and tells the driver.
func (r *Range) become(e event, why Why) {
	next := r.state.transition(e)
	if next == r.state {
		return
	}
	r.state = next
	r.next.Changed, r.next.State, r.next.Why = true, next, why
}
