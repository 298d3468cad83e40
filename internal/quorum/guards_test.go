package quorum

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// guards are the rules that the simulation needs, each with a name as it stands
// in docs/evidence.md and the first seed that catches a range without it.
var guards = []guard{
	{ruleIncarnation, "R1 a grant is one process's", 2},
	{rulePromise, "R2 what is below the promise is refused", 1},
	{ruleTail, "R2 what does not begin at the tail is refused", 1},
	{ruleFixedCount, "R3 N is the segment's", 1},
	{ruleDurableAck, "I1 what is only accepted does not count", 1},
	{ruleQuorumAck, "I13 an append is answered when a quorum has it", 1},
	{ruleFreeze, "R4 nothing is committed while the outcome is open", 2},
	{ruleUnknown, "R4 an unknown outcome does not unfreeze", 2},
	{ruleSealCommit, "R4 the end is the commit offset", 2},
	{ruleReadSeal, "R4 how the segment ended is read from the catalog", 48},
	{ruleReturn, "R4 what was not committed is offered again in its order", 2},
	{ruleDurablePromise, "R6 the promise is durable before the answer", 108},
	{ruleFenceTail, "R6 the tail has what was accepted before", 236},
	{ruleDamaged, "R6 a damaged copy does not count", 15},
	{ruleLongest, "R7 the longest tail is taken", 4},
	{ruleRepair, "R7 a quorum has it before it is sealed", 1},
	{ruleServe, "R7 nothing is served before the seal is committed", 1},
	{ruleCut, "R7 what lies past the seal is discarded", 2},
	{ruleQuorumAsk, "R7 a quorum is asked", 9},
	{ruleNamedCommit, "R8 a commit offset is its segment's", 2},
	{ruleReadToCommit, "R8 a follower serves what is committed", 1},
	{ruleLeaseWait, "R9 a fence waits until the grants have run out", 7},
	{ruleLeaseSend, "R9 the holder counts from the send", 794},
	{ruleException, "R9 a renewal names the ranges that were fenced", 15},
	{ruleLeaseStart, "R9 a starting node answers no fence for a while", 49},
	{ruleLeaseFrozen, "R9 frozen, there is no read under the lease", 5},
	{ruleConfirm, "R9 a read without lease asks a quorum", 91},
	{ruleSealed, "I4 a sealed segment takes nothing", 344},
}

// searchVariable has the seeds of all guards looked for again.
const searchVariable = "QUIRE_QUORUM_SEARCH"

// searched is how many seeds may pass before a rule that is not kept is noticed.
const searched = 1000

// TestTheSimulationNoticesEachRuleThatIsNotKept takes one rule away at a time. A
// simulation that has changed may need other seeds: the failure says how to find
// them.
func TestTheSimulationNoticesEachRuleThatIsNotKept(t *testing.T) {
	evidence, err := os.ReadFile("../../docs/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guards {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(searchVariable) != "" {
				g.search(t)
				return
			}
			if _, err := run(g.seed, g.rule, false); err == nil {
				t.Errorf("seed %d does not notice it any more; %s=1 go test ./internal/quorum -run %s -v looks for another one",
					g.seed, searchVariable, t.Name())
			}
			if row := fmt.Sprintf("| %s | %d |", g.name, g.seed); !strings.Contains(string(evidence), row) {
				t.Errorf("docs/evidence.md does not have %q", row)
			}
		})
	}
}

type guard struct {
	rule rule
	name string
	seed uint64
}

func (g *guard) search(t *testing.T) {
	for seed := uint64(1); seed <= searched; seed++ {
		if _, err := run(seed, g.rule, false); err != nil {
			what, _, _ := strings.Cut(err.Error(), "\n")
			t.Logf("| %s | %d | %.90s", g.name, seed, what)
			return
		}
	}
	t.Errorf("| %s | none of %d seeds", g.name, searched)
}
