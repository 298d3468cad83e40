package quorum

// rule is one of the design's rules, or a part of one, that this package keeps
// and that a test can take away. In a program it is always ruleNone.
type rule uint8

const (
	ruleNone rule = iota
	// R1
	ruleIncarnation  // a grant is one process's
	ruleLocalFailure // a primary whose own write failed stops
	// R2
	rulePromise    // what is below the promise is refused
	ruleTail       // what does not begin at the tail is refused
	ruleChain      // what does not continue the chain is refused
	ruleRepetition // a retransmission is answered again
	// R3, I1
	ruleFixedCount // N is the segment's, whoever is alive
	ruleDurableAck // what is only accepted does not count
	ruleQuorumAck  // an append is answered when a quorum has it
	// R4
	ruleFreeze     // nothing is committed while the outcome is open
	ruleUnknown    // an unknown outcome does not unfreeze
	ruleSealCommit // the end is the commit offset
	ruleReadSeal   // how the segment ended is read, not remembered
	ruleReturn     // what was not committed is offered again, in its order
	// R6
	ruleDurablePromise // the promise is durable before the answer
	ruleFenceTail      // the tail has what was accepted before
	ruleDamaged        // a damaged copy does not count
	// R7
	ruleLongest   // the longest tail is taken
	ruleRepair    // a quorum has it before it is sealed
	ruleServe     // nothing is served before the seal is committed
	ruleCut       // what lies past the seal is discarded
	ruleQuorumAsk // a quorum is asked
	// R8
	ruleNamedCommit  // a commit offset is its segment's
	ruleReadToCommit // a follower serves what is committed
	// R9
	ruleLeaseWait    // a fence waits until the grants have run out
	ruleLeaseSend    // the holder counts from the send
	ruleLeaseMargin  // and subtracts a margin
	ruleException    // a renewal names the ranges that were fenced
	ruleLeaseProcess // a grant counts with an answer of the same process
	ruleLeaseStart   // a starting node answers no fence for a while
	ruleLeaseFrozen  // frozen, there is no read under the lease
	ruleConfirm      // a read without lease asks a quorum
	// I4, S1
	ruleSealed // a sealed segment takes nothing
	rules
)

// breaks says whether a rule is taken away.
func (c *Config) breaks(r rule) bool { return c.broken == r }
