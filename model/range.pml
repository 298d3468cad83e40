/*
 * One range: append, commit, roll, fence, recovery, seal, cancel, split, with
 * primaries that do not know that they were deposed, processes that restart,
 * disks that are lost, and commands whose answers are late or lost.
 *
 * The rules have the names that the protocol gives them (R1 …, S1, C1). Each has a
 * switch that takes it away, and README.md says what breaks then. Invariants have
 * the numbers of the design: assert(I4 || x) says that x holds, or I4 is broken.
 *
 * The network is what was ever said. A message is never taken out: whoever may
 * receive it may do so at any time, again, before or after any other, or never. So
 * loss, delay, reordering and repetition need no state and no step of their own.
 *
 * Everything is a bit of shared state and a list of steps; a step is atomic. What a
 * step may look at is said where it is: a store sees its own disk and messages, a
 * primary its own memory and messages, the catalog its own state and commands.
 */

/*
 * Bounds, and what else a configuration may have:
 *   SPLITS   a proposal may be a split
 *   COUNTS   the replica count is changed while a segment is open
 *   VACANT   the first segment has fewer stores than N
 *   READS    followers are read
 *   LEASES   reads under leases: of the first primary, with 2 of the second as well
 *   LATE     only the last primary appends
 * With four stores the second segment is on stores 0, 1 and 3.
 */
#ifndef STORES
#define STORES 3
#endif
#ifndef EPOCHS
#define EPOCHS 2	/* grants, the first and those of children included */
#endif
#ifndef SEGMENTS
#define SEGMENTS 2
#endif
#ifndef OFFSETS
#define OFFSETS 1	/* records that fit a segment, at most 3 */
#endif
#ifndef BATCHES
#define BATCHES OFFSETS	/* what users send to one primary */
#endif
#ifndef CRASHES
#define CRASHES 1	/* of processes, each restarts */
#endif
#ifndef LOSSES
#define LOSSES 0	/* of disks; more than one is no longer a minority */
#endif
#ifndef ROLLS
#define ROLLS 0		/* proposals of a roll or split by one primary, at most 2 */
#endif
#ifndef CANCELS
#define CANCELS 0	/* cancels by one primary, at most 1 */
#endif
#ifndef RETRIES
#define RETRIES 0	/* recoveries that one grant begins again, at most 1 */
#endif

/* The invariants, by their numbers. They are never set. */
byte I1, I2, I3, I4, I5, I6, I7, I16;

/* What must be reachable, so that a model that does nothing is noticed: each is an
 * acknowledgement. With a switch of these the assertion must be broken. */
#if defined(REACH_RECOVERY)
#define REACHED (e == 2 && ME.seg == 1)
#elif defined(REACH_RECOVERED)	/* in a segment whose predecessor was extended */
#define REACHED (e == 2 && end[0] == 3)
#elif defined(REACH_THIRD)
#define REACHED (e == 3 && writer[0] == 1 && ME.seg == 1)
#elif defined(REACH_ROLL)
#define REACHED (e == 1 && ME.seg == 1 && end[0] == 2)
#elif defined(REACH_CANCEL)
#define REACHED (version > 0)
#elif defined(REACH_CHILD)
#define REACHED (ME.seg > parent && end[parent] == 2)
#elif defined(REACH_OTHER_END)	/* after a seal with the end of the first attempt */
#define REACHED (e == 2 && ME.cut[0] + 1 == end[0] && ME.kind[1] && ME.cut[1] != ME.cut[0])
#elif defined(REACH_LOSS)
#define REACHED (e == 2 && gone[0] != 0 && gone[1] == 0)
#elif defined(REACH_COUNT)
#define REACHED (slots[ME.seg] == 1)
#elif defined(REACH_LEASE)
#define REACHED (e == 2 && CURRENT(holds[2]))
#elif defined(REACH_SET)
#define REACHED (ME.seg == 1 && BIT(dur[AT(3, 1)], 0))
#else
#define REACHED false
#endif
byte reached;			/* never set */

/* --- the catalog ------------------------------------------------------------- */

byte epoch = 1;			/* of the last grant */
byte open = 0;			/* the open segment; SEGMENTS when there is none */
byte version = 0;		/* raised by cancels only: see README.md */
byte end[SEGMENTS];		/* 0 while a segment is open, else its end and 1 */
byte writer[SEGMENTS];		/* the epoch that a segment was opened under */
byte members[SEGMENTS];		/* the stores of a segment, as bits */
byte slots[SEGMENTS];		/* N: how many stores it was opened for */
byte base[SEGMENTS];		/* the offset of its first record in its range */
byte parent = SEGMENTS;		/* the last segment of the parent, once it is split */
byte replicas = 3;		/* the setting; it counts for the next segment */

/* --- the stores --------------------------------------------------------------- */

#define AT(i, s) ((i)*SEGMENTS + (s))
byte has[STORES*SEGMENTS];	/* records that a store accepted, a bit each */
byte dur[STORES*SEGMENTS];	/* those of them that are on stable storage */
byte said[STORES*SEGMENTS];	/* the longest tail that it answered to the writer */
byte promise[STORES*2];		/* by range: the lowest epoch that it still takes */
byte kept[STORES*2];		/* the promise that is on stable storage */
byte gone[SEGMENTS];		/* stores that are not the ones that held it: C1 */

/* --- the primaries, by epoch ---------------------------------------------------- */

#define NONE 0			/* not granted */
#define FENCE 1			/* asks the stores of the open segment */
#define COPY 2			/* brings them to the longest tail */
#define SEALING 3		/* proposed the seal */
#define SERVE 4
#define FROZEN 5		/* proposed a roll or split: rule R4 */
#define STOPPED 6
typedef Primary {
	byte phase;
	byte place;		/* its store */
	byte seg;
	byte next;		/* the offset that it gives to the next record */
	byte commit;
	byte batch;		/* the next of its users' batches */
	byte acked;		/* how many of them it has answered */
	byte tails[STORES];	/* answers to its fence: tail and 1 */
	byte quorum;		/* the stores that it recovers from, as bits */
	byte level;		/* those that it knows to have the tail */
	byte tail;
	byte retried;
	/* Its proposals: once made, they may be applied at any time. */
	byte kind[2];
	byte which[2];
	byte at[2];
	byte cut[2];
	byte cancel;		/* of which version, and 1 */
};
Primary p[EPOCHS+1];

#define ROLL 1
#define SPLIT 2
#define RECOVER 3

/* --- what was said ---------------------------------------------------------------- */

byte offered[SEGMENTS];		/* how many appends of the segment were sent */
byte content[SEGMENTS*OFFSETS];	/* the batch in each of them */

byte told[SEGMENTS];		/* the commit offset that its primary told followers */
#ifdef LEASES
byte lease[EPOCHS+1];		/* stores whose grant to an epoch's primary still runs */
byte holds[EPOCHS+1];		/* those of them that it knows of and counts on */
#endif

/* --- what only the invariants look at ---------------------------------------------- */

byte answered[SEGMENTS];		/* the end of what was acknowledged in a segment */
byte seen[SEGMENTS];		/* the end of what a reader was given */
byte lost[SEGMENTS];		/* the stores that lost it */
byte named[EPOCHS+1];		/* offsets of the range that an epoch acknowledged */

byte crashes = CRASHES;
byte losses = LOSSES;

/* --- small words -------------------------------------------------------------------- */

#define RANGE(s) ((s) > parent)	/* 0: the range, 1: the child that is followed */
#define BIT(x, i) (((x) >> (i)) & 1)
#define MASK(n) ((1 << (n)) - 1)
#define LEN(x) (((x) >= 4) -> 3 : (((x) >= 2) -> 2 : (x)))
#if STORES == 3
#define CLEAR(x, s) x[AT(0, s)] = 0; x[AT(1, s)] = 0; x[AT(2, s)] = 0;
#define CLEAR_TAILS(e) p[e].tails[0] = 0; p[e].tails[1] = 0; p[e].tails[2] = 0;
#define COUNT(x) (BIT(x, 0) + BIT(x, 1) + BIT(x, 2))
#define HOLD(s, o) (BIT(dur[AT(0, s)], o) | BIT(dur[AT(1, s)], o) << 1 | BIT(dur[AT(2, s)], o) << 2)
#define SAID(s, n) ((said[AT(0, s)] >= (n)) | (said[AT(1, s)] >= (n)) << 1 | (said[AT(2, s)] >= (n)) << 2)
#else
#define CLEAR(x, s) x[AT(0, s)] = 0; x[AT(1, s)] = 0; x[AT(2, s)] = 0; x[AT(3, s)] = 0;
#define CLEAR_TAILS(e) p[e].tails[0] = 0; p[e].tails[1] = 0; p[e].tails[2] = 0; p[e].tails[3] = 0;
#define COUNT(x) (BIT(x, 0) + BIT(x, 1) + BIT(x, 2) + BIT(x, 3))
#define HOLD(s, o) (BIT(dur[AT(0, s)], o) | BIT(dur[AT(1, s)], o) << 1 | BIT(dur[AT(2, s)], o) << 2 | BIT(dur[AT(3, s)], o) << 3)
#define SAID(s, n) ((said[AT(0, s)] >= (n)) | (said[AT(1, s)] >= (n)) << 1 | (said[AT(2, s)] >= (n)) << 2 | (said[AT(3, s)] >= (n)) << 3)
#endif

/* The majority of the N that the segment was opened with. */
#define MAJORITY(s) (slots[s]/2 + 1)

/* R3: appends and recovery count by the N of the segment, vacant slots included. */
#if defined(NO_R3_FIXED)
#define QUORUM(s) (replicas/2 + 1)
#elif defined(NO_R3_VACANT)
#define QUORUM(s) (COUNT(members[s])/2 + 1)
#else
#define QUORUM(s) MAJORITY(s)
#endif

/* A store speaks for a segment when it is one of its members, and still the same. */
#define SPEAKS(i, s) (BIT(members[s], i) && !BIT(gone[s], i))

/* Records below n are on a majority, or were, before a minority lost its disks. */
#define DURABLE(s, o) (COUNT((HOLD(s, o) | lost[s]) & members[s]) >= MAJORITY(s))

/* --- a store -------------------------------------------------------------------------- */

/* Accept: the append at offset o of segment s arrives. R2: not below the promise, and
 * at the tail. (Its chain is not in the model: README.md.) */
#ifdef NO_R2_PROMISE
#define R2_PROMISE(i, s) true
#else
#define R2_PROMISE(i, s) (writer[s] >= promise[i*2 + RANGE(s)])
#endif
#ifdef NO_R2_TAIL
#define R2_TAIL(i, s, o) (!BIT(has[AT(i, s)], o))
#else
#define R2_TAIL(i, s, o) (LEN(has[AT(i, s)]) == (o))
#endif
#define ACCEPT(s, o) \
	:: atomic { (o) < offered[s] && MATTERS(s) && SPEAKS(i, s) && R2_PROMISE(i, s) && R2_TAIL(i, s, o) -> \
		has[AT(i, s)] = has[AT(i, s)] | (1 << (o)); \
		assert(I3 || has[AT(i, s)] == MASK(LEN(has[AT(i, s)]))) }

#define UNSYNCED(i, s) (has[AT(i, s)] != dur[AT(i, s)])
#define SYNC(s) \
	if \
	:: UNSYNCED(i, s) -> \
		dur[AT(i, s)] = has[AT(i, s)]; \
		if :: WRITING(s) -> said[AT(i, s)] = LEN(dur[AT(i, s)]) :: else fi \
	:: else \
	fi;
/* Whether anybody still looks at the answers, or at the segment at all. */
#define WRITING(s) (p[writer[s]].phase != STOPPED)
#define MATTERS(s) (end[s] == 0 || WRITING(s))

/* An exact retransmission is answered again, but not below the promise: R2. */
#ifdef NO_R2_AGAIN
#define AGAIN(s) \
	:: atomic { SPEAKS(i, s) && offered[s] >= LEN(dur[AT(i, s)]) && said[AT(i, s)] < LEN(dur[AT(i, s)]) -> \
		said[AT(i, s)] = LEN(dur[AT(i, s)]) }
#else
#define AGAIN(s)
#endif

/* Fence: R6. From here on the store takes nothing older. */
#ifdef NO_R6_CREATE
#define R6_CREATE(i, s) (has[AT(i, s)] != 0)
#else
#define R6_CREATE(i, s) true
#endif
#define FENCED(e) \
	:: atomic { p[e].phase == FENCE && SPEAKS(i, p[e].seg) && promise[i*2 + RANGE(p[e].seg)] < (e) && \
		R6_CREATE(i, p[e].seg) -> \
		promise[i*2 + RANGE(p[e].seg)] = e }

/* The answer to the fence: R6, it waits until the promise and everything accepted
 * before are durable, and includes them. */
#ifdef NO_R6_DURABLE
#define R6_DURABLE(i, e, s) (promise[i*2 + RANGE(s)] == (e) && !UNSYNCED(i, s))
#elif defined(NO_R6_CREATE)
#define R6_DURABLE(i, e, s) (!UNSYNCED(i, s) && \
	(has[AT(i, s)] == 0 && kept[i*2 + RANGE(s)] < (e) || kept[i*2 + RANGE(s)] == (e) && promise[i*2 + RANGE(s)] == (e)))
#else
#define R6_DURABLE(i, e, s) (promise[i*2 + RANGE(s)] == (e) && kept[i*2 + RANGE(s)] == (e) && R6_TAIL(i, s))
#endif
/* R9: the store answers when its grants to the one that may serve by them have run
 * out: the writer of the open segment, not just whoever was granted before. */
#if !defined(LEASES) || defined(NO_R9_FENCE)
#define R9_FENCE(i, e) true
#elif defined(NO_R9_WRITER)
#define R9_FENCE(i, e) (!BIT(lease[(e) - 1], i))
#else
#define R9_FENCE(i, e) (!BIT(lease[writer[p[e].seg]], i))
#endif
#ifdef NO_R6_TAIL
#define R6_TAIL(i, s) true
#else
#define R6_TAIL(i, s) (!UNSYNCED(i, s))
#endif
#define ANSWER(e) \
	:: atomic { p[e].phase == FENCE && SPEAKS(i, p[e].seg) && R6_DURABLE(i, e, p[e].seg) && R9_FENCE(i, e) && \
		p[e].tails[i] != LEN(dur[AT(i, p[e].seg)]) + 1 -> \
		p[e].tails[i] = LEN(dur[AT(i, p[e].seg)]) + 1 }


/* A store that answered is brought to the longest tail: R7. The bytes come from one
 * that has them; they are durable when the store says so. */
#define COPIED(e) \
	:: atomic { p[e].phase == COPY && BIT(p[e].quorum, i) && !BIT(p[e].level, i) && SPEAKS(i, p[e].seg) && \
		promise[i*2 + RANGE(p[e].seg)] == (e) && \
		HOLD(p[e].seg, p[e].tail - 1) & p[e].quorum & ~gone[p[e].seg] -> \
		has[AT(i, p[e].seg)] = has[AT(i, p[e].seg)] | MASK(p[e].tail); \
		dur[AT(i, p[e].seg)] = has[AT(i, p[e].seg)]; \
		kept[i*2] = promise[i*2]; kept[i*2 + 1] = promise[i*2 + 1]; \
		p[e].level = p[e].level | (1 << i) }

#if SEGMENTS == 1
#define BY_SEGMENT(STEP) STEP(0)
#define BY_APPEND(STEP) BY_OFFSET(STEP, 0)
#define SOME(TEST) (TEST(i, 0))
#elif SEGMENTS == 2
#define BY_SEGMENT(STEP) STEP(0) STEP(1)
#define BY_APPEND(STEP) BY_OFFSET(STEP, 0) BY_OFFSET(STEP, 1)
#define SOME(TEST) (TEST(i, 0) || TEST(i, 1))
#else
#define BY_SEGMENT(STEP) STEP(0) STEP(1) STEP(2)
#define BY_APPEND(STEP) BY_OFFSET(STEP, 0) BY_OFFSET(STEP, 1) BY_OFFSET(STEP, 2)
#define SOME(TEST) (TEST(i, 0) || TEST(i, 1) || TEST(i, 2))
#endif
#if OFFSETS == 1
#define BY_OFFSET(STEP, s) STEP(s, 0)
#elif OFFSETS == 2
#define BY_OFFSET(STEP, s) STEP(s, 0) STEP(s, 1)
#else
#define BY_OFFSET(STEP, s) STEP(s, 0) STEP(s, 1) STEP(s, 2)
#endif
#if EPOCHS == 2
#define BY_GRANT(STEP) STEP(2)
#elif EPOCHS == 3
#define BY_GRANT(STEP) STEP(2) STEP(3)
#endif

/* Read: a follower serves what it has on stable storage and knows to be committed.
 * R8: a commit offset names its segment; what is below the promise is ignored. */
#ifdef READS
#define SEALED(s) (end[s] > 0)
#define COMMITTED(s, o) (SEALED(s) && (o) + 1 < end[s] || (o) < answered[s])
#ifdef NO_R8_PROMISE
#define R8_PROMISE(i, s) true
#else
#define R8_PROMISE(i, s) (writer[s] >= promise[i*2 + RANGE(s)])
#endif
#if defined(NO_R8_SEGMENT)
#define R8_COMMIT(i, s, o) (base[s] + (o) < base[0] + told[0] && R8_PROMISE(i, 0) || \
	base[s] + (o) < base[1] + told[1] && R8_PROMISE(i, 1))
#elif defined(NO_R8_COMMIT)
#define R8_COMMIT(i, s, o) true
#else
#define R8_COMMIT(i, s, o) ((o) < told[s] && R8_PROMISE(i, s))
#endif
#define READ(s, o) \
	:: atomic { SPEAKS(i, s) && BIT(dur[AT(i, s)], o) && R8_COMMIT(i, s, o) && !COMMITTED(s, o) -> \
		assert(I5 || COMMITTED(s, o)) }
#else
#define READ(s, o)
#endif

/* A lease for the primary of epoch e, as far as this range goes. R9: after a promise
 * the range is an exception in what is renewed. */
#ifdef LEASES
#ifdef NO_R9_EXCEPTION
#define R9_EXCEPTION(i, e) true
#else
#define R9_EXCEPTION(i, e) (promise[i*2] <= (e))
#endif
#define RENEW(e) \
	:: atomic { p[e].phase == SERVE && R9_EXCEPTION(i, e) && !BIT(lease[e], i) -> lease[e] = lease[e] | (1 << i) }
/* The holder counts from when it asked, the store from when it was asked: the holder's
 * time is over first. */
#ifdef NO_R9_CLOCK
#define R9_CLOCK(i, e) true
#else
#define R9_CLOCK(i, e) (!BIT(holds[e], i))
#endif
#define RUN_OUT(e) \
	:: atomic { BIT(lease[e], i) && R9_CLOCK(i, e) -> lease[e] = lease[e] & ~(1 << i) }
#define LEASE_STEPS(e) RENEW(e) RUN_OUT(e)
#else
#define LEASE_STEPS(e)
#endif
#if LEASES > 1
#define BY_HOLDER(STEP) STEP(1) STEP(2)
#else
#define BY_HOLDER(STEP) STEP(1)
#endif

proctype Store(byte i) {
	do
	BY_APPEND(READ)
	BY_HOLDER(LEASE_STEPS)
	BY_APPEND(ACCEPT)
	/* Sync: what was accepted is on stable storage, and answered to the writer. */
	:: atomic { SOME(UNSYNCED) -> BY_SEGMENT(SYNC) }
	/* Promises are durable by a write of their own. */
	:: atomic { kept[i*2] != promise[i*2] || kept[i*2 + 1] != promise[i*2 + 1] ->
		kept[i*2] = promise[i*2];
		kept[i*2 + 1] = promise[i*2 + 1] }
	BY_SEGMENT(AGAIN)
	BY_GRANT(FENCED)
	BY_GRANT(ANSWER)
	BY_GRANT(COPIED)
	od
}

/* --- a primary ---------------------------------------------------------------------------- */

#define ME p[e]

#ifdef NO_R4_FREEZE
#define APPENDS (ME.phase == SERVE || ME.phase == FROZEN)
#else
#define APPENDS (ME.phase == SERVE)
#endif

/* Where only the last primary's records matter, the others' make no states. */
#ifdef LATE
#define WRITES(e) ((e) == EPOCHS)
#else
#define WRITES(e) true
#endif

/* Tails that a fence got, as the recovery uses them. */
#define TAIL(i) (ME.tails[i] - 1)
#define LONGER(a, b) ((a) > (b) -> (a) : (b))
#define SHORTER(a, b) ((a) < (b) -> (a) : (b))
#ifdef NO_R7_LONGEST
#define R7_LONGEST(a, b) SHORTER(a, b)
#else
#define R7_LONGEST(a, b) LONGER(a, b)
#endif
#define LEVEL(i) ((TAIL(i) >= ME.tail) << (i))

#if RETRIES > 0
#define FORGET_TAILS
#else
#define FORGET_TAILS CLEAR_TAILS(e)
#endif

/* Recover: Qa stores have answered. Any of them, since answers may be lost. */
#define FROM2(a, b) \
	:: atomic { ME.phase == FENCE && QUORUM(ME.seg) == 2 && ME.tails[a] && ME.tails[b] -> \
		ME.tail = R7_LONGEST(TAIL(a), TAIL(b)); \
		ME.quorum = (1 << (a)) | (1 << (b)); \
		ME.level = LEVEL(a) | LEVEL(b); \
		FORGET_TAILS \
		ME.phase = COPY }
#ifdef NO_R7_QUORUM
#define ENOUGH true
#else
#define ENOUGH (QUORUM(ME.seg) == 1)
#endif
#define FROM1(a) \
	:: atomic { ME.phase == FENCE && ENOUGH && ME.tails[a] -> \
		ME.tail = TAIL(a); \
		ME.quorum = 1 << (a); \
		ME.level = ME.quorum; \
		FORGET_TAILS \
		ME.phase = COPY }

#ifdef NO_R7_COPY
#define R7_COPY true
#else
#define R7_COPY (ME.level == ME.quorum)
#endif

#define PROPOSE(what, upto) \
	if \
	:: ME.kind[0] == 0 -> \
		ME.kind[0] = what; ME.which[0] = ME.seg; ME.at[0] = version; ME.cut[0] = upto \
	:: else -> \
		ME.kind[1] = what; ME.which[1] = ME.seg; ME.at[1] = version; ME.cut[1] = upto \
	fi

/* The proposal that a primary waits for. */
#define LAST (ME.kind[1] != 0)

#ifdef NO_R4_COMMIT
#define R4_COMMIT ME.next
#else
#define R4_COMMIT ME.commit
#endif

inline serve() {
	ME.seg = open;
	ME.next = 0;
	ME.commit = 0;
	CLEAR_TAILS(e)
	ME.quorum = 0; ME.level = 0; ME.tail = 0; ME.retried = 0;
	ME.phase = SERVE
}

#ifdef LEASES
#define RENEWED(i) \
	:: atomic { ME.phase == SERVE && BIT(lease[e] & ~holds[e], i) -> holds[e] = holds[e] | (1 << (i)) }
#define OVER(i) \
	:: atomic { BIT(holds[e], i) -> holds[e] = holds[e] & ~(1 << (i)) }
#if STORES == 3
#define BY_STORE(STEP) STEP(0) STEP(1) STEP(2)
#else
#define BY_STORE(STEP) STEP(0) STEP(1) STEP(2) STEP(3)
#endif
#ifdef NO_R9_FROZEN
#define R9_FROZEN (ME.phase == SERVE || ME.phase == FROZEN)
#else
#define R9_FROZEN (ME.phase == SERVE)
#endif
#define CURRENT(x) (COUNT((x) & members[ME.seg]) >= QUORUM(ME.seg))
#if defined(NO_R9_QUORUM)
#define R9_COUNT (holds[e] != 0)
#elif defined(NO_R9_SET)
#define R9_COUNT (COUNT(holds[e]) >= QUORUM(ME.seg))
#elif defined(NO_R9_ORDER)
bit checked[EPOCHS+1];		/* a lease was checked before the read began */
#define R9_COUNT (checked[e])
#else
#define R9_COUNT CURRENT(holds[e])
#endif
/* Something was acknowledged that this primary does not see. */
#if SEGMENTS == 2
#define BEHIND (ME.commit < answered[ME.seg] || ME.seg == 0 && answered[1] > 0)
#else
#define BEHIND (ME.commit < answered[ME.seg] || ME.seg < 1 && answered[1] > 0 || ME.seg < 2 && answered[2] > 0)
#endif
#endif

/* What nobody looks at any more is made the same, so that it makes no states. */
#define TIDY(s) \
	if \
	:: !MATTERS(s) -> \
		CLEAR(has, s) \
		CLEAR(dur, s) \
		CLEAR(said, s) \
	:: else -> \
		if \
		:: !WRITING(s) -> CLEAR(said, s) \
		:: else \
		fi \
	fi;
inline stop(x) {
	p[x].phase = STOPPED;
	p[x].place = 0; p[x].seg = 0; p[x].next = 0; p[x].commit = 0; p[x].batch = 0; p[x].acked = 0;
	CLEAR_TAILS(x)
	p[x].quorum = 0; p[x].level = 0; p[x].tail = 0; p[x].retried = 0;
#ifdef LEASES
	holds[x] = 0;
#endif
	BY_SEGMENT(TIDY)
}

proctype Process(byte e) {
	do
	/* Append: offsets are given in order. */
	:: atomic { APPENDS && WRITES(e) && ME.next < OFFSETS && ME.batch <= BATCHES ->
		assert(I2 || writer[ME.seg] == e);
		assert(I2 || offered[ME.seg] == ME.next);
		content[ME.seg*OFFSETS + ME.next] = ME.batch;
		ME.batch++;
		ME.next++;
		offered[ME.seg] = ME.next }
#ifdef NO_R1_STOP
	/* A local write fails, and the primary goes on with the next record. */
	:: atomic { ME.phase == SERVE && ME.next > ME.commit && ME.next > LEN(has[AT(ME.place, ME.seg)]) ->
		ME.next-- }
#endif
	/* Commit: Qa stores have answered a tail; the record is acknowledged. */
	:: atomic { APPENDS && ME.commit < ME.next &&
		COUNT(SAID(ME.seg, ME.commit + 1) & members[ME.seg]) >= QUORUM(ME.seg) ->
		assert(I1 || DURABLE(ME.seg, ME.commit));
		assert(I6 || (parent == SEGMENTS || ME.seg > parent || ME.commit < end[ME.seg] - 1));
		assert(I4 || end[ME.seg] == 0 || ME.commit < end[ME.seg] - 1);
		assert(I7 || content[ME.seg*OFFSETS + ME.commit] == ME.acked + 1);
		assert(I16 || !BIT(named[e], base[ME.seg] + ME.commit));
		named[e] = named[e] | (1 << (base[ME.seg] + ME.commit));
		ME.commit++;
		ME.acked++;
#ifdef READS
		told[ME.seg] = LONGER(told[ME.seg], ME.commit);
#endif
		answered[ME.seg] = LONGER(answered[ME.seg], ME.commit);
		assert(reached || !(REACHED)) }

#ifdef LEASES
	/* A renewal is answered; the holder's time runs out. */
	BY_STORE(RENEWED)
	BY_STORE(OVER)
	/* R9: a read that must be current. Qa stores of the open segment have granted. */
	:: atomic { R9_FROZEN && R9_COUNT && BEHIND -> assert(I5 || !BEHIND) }
#ifdef NO_R9_ORDER
	:: atomic { R9_FROZEN && CURRENT(holds[e]) && !checked[e] -> checked[e] = 1 }
#endif
#endif

#ifdef NO_R9_LOCK
	/* Another process of its store voids the leases of one that still runs. */
	:: atomic { ME.phase == SERVE && e == 1 && lease[1] != 0 -> lease[1] = 0 }
#endif

	/* R4: freeze, then propose the end. */
#if ROLLS > 0
	:: atomic { ME.phase == SERVE && ME.kind[ROLLS - 1] == 0 ->
		PROPOSE(ROLL, R4_COMMIT);
		ME.phase = FROZEN }
#ifdef SPLITS
	:: atomic { ME.phase == SERVE && ME.kind[ROLLS - 1] == 0 && parent == SEGMENTS ->
		PROPOSE(SPLIT, R4_COMMIT);
#ifndef NO_S1_ATOMIC
		ME.phase = FROZEN
#endif
		}
#endif
	/* R4: the outcome is read linearizably. The segment was sealed: go on in its
	 * successor, with the uncommitted batches first. */
	:: atomic { ME.phase == FROZEN && epoch == e && open != ME.seg && open < SEGMENTS ->
		serve();
#ifndef NO_R4_ORDER
		ME.batch = ME.acked + 1
#endif
		}
	/* The range has another primary, or other ranges continue it. */
	:: atomic { ME.phase == FROZEN && (epoch != e || open == SEGMENTS) -> stop(e) }
	/* R4: a cancel was committed, so the proposal can no longer be. */
	:: atomic { ME.phase == FROZEN && epoch == e && open == ME.seg && version > ME.at[LAST] ->
		ME.phase = SERVE }
#ifdef NO_R4_UNKNOWN
	/* The answer is missing, and the segment is still open. */
	:: atomic { ME.phase == FROZEN && epoch == e && open == ME.seg -> ME.phase = SERVE }
#endif
#if CANCELS > 0
	:: atomic { ME.phase == FROZEN && ME.cancel == 0 -> ME.cancel = ME.at[LAST] + 1 }
#endif
#endif

	/* R7: the longest tail among Qa. */
#ifdef NO_R7_QUORUM
	FROM1(0) FROM1(1) FROM1(2)
#endif
#ifdef COUNTS
	FROM1(0) FROM1(1)
#endif
	FROM2(0, 1) FROM2(0, 2) FROM2(1, 2)
#if STORES > 3
	FROM2(0, 3) FROM2(1, 3) FROM2(2, 3)
#endif
	/* R7: Qa hold it: propose the seal. */
	:: atomic { ME.phase == COPY && R7_COPY && ME.kind[RETRIES] == 0 ->
		PROPOSE(RECOVER, ME.tail);
		ME.phase = SEALING }
#ifdef NO_R7_WAIT
	/* Serve what was recovered before the seal is known to be committed. */
	:: atomic { ME.phase == SEALING && seen[ME.seg] < ME.tail && end[ME.seg] == 0 -> seen[ME.seg] = ME.tail }
#endif
#if RETRIES > 0
	/* R7: an outcome is missing, or a store that was asked: begin again. */
	:: atomic { (ME.phase == COPY || ME.phase == SEALING) && ME.retried < RETRIES ->
		ME.retried++;
		ME.quorum = 0; ME.level = 0; ME.tail = 0;
		ME.phase = FENCE }
#endif
	/* R7: the seal is known to be committed, whichever end it has. */
	:: atomic { ME.phase == SEALING && epoch == e && open != ME.seg && open < SEGMENTS ->
#ifdef NO_R7_SEALED
		assert(I16 || ME.tail == end[ME.seg] - 1);
#endif
		serve() }
	:: atomic { ME.phase >= FENCE && ME.phase <= SEALING && (epoch != e || open == SEGMENTS) ->
		stop(e) }
	od
}

/* --- the catalog -------------------------------------------------------------------------- */

inline grant(e, i) {
	p[e].place = i;
	p[e].seg = open;
	p[e].batch = 1;
	p[e].phase = FENCE
}

inline opens(who) {
	if
	:: open + 1 < SEGMENTS ->
		base[open + 1] = base[open] + LONGER(end[open], 1) - 1;
		open++;
		writer[open] = who;
#ifdef COUNTS
		slots[open] = replicas;
		if
		:: replicas == 1 -> members[open] = 1 << p[who].place
		:: else -> members[open] = MASK(STORES)
		fi
#else
		slots[open] = 3;
#if STORES > 3
		members[open] = 11	/* another set: stores 0, 1 and 3 */
#else
		members[open] = MASK(3)
#endif
#endif
	:: else -> open = SEGMENTS
	fi
}

/* R4: the command compares epoch, open segment and version. */
#ifdef NO_R4_EPOCH
#define R4_EPOCH(e) true
#else
#define R4_EPOCH(e) (epoch == (e))
#endif
#ifdef NO_R4_SEGMENT
#define R4_SEGMENT(e, k) true
#else
#define R4_SEGMENT(e, k) (open == p[e].which[k])
#endif
#ifdef NO_R4_VERSION
#define R4_VERSION(e, k) true
#else
#define R4_VERSION(e, k) (version == p[e].at[k])
#endif

#define HELD(s, n, o) ((n) <= (o) || DURABLE(s, o))
#if OFFSETS == 1
#define ALL_HELD(s, n) HELD(s, n, 0)
#elif OFFSETS == 2
#define ALL_HELD(s, n) (HELD(s, n, 0) && HELD(s, n, 1))
#else
#define ALL_HELD(s, n) (HELD(s, n, 0) && HELD(s, n, 1) && HELD(s, n, 2))
#endif

/* I4: the end is at or above what was acknowledged; I5: and what was read. I1: what
 * it makes committed is on a majority. */
#define SEAL(n) \
	assert(I4 || answered[open] <= (n)); \
	assert(I5 || seen[open] <= (n)); \
	assert(I1 || ALL_HELD(open, n)); \
	end[open] = (n) + 1

/* A command that is applied now. When the segment is not compared, the end is below
 * the base of a later one: its first offset. */
#define CUT(e, k) (open == p[e].which[k] -> p[e].cut[k] : 0)
#ifdef NO_S1_ATOMIC
/* The children are there before the parent is sealed. */
#define PARENT_SEALED(n)
#else
#define PARENT_SEALED(n) SEAL(n);
#endif
#define APPLY(e, k) \
	:: atomic { p[e].kind[k] != 0 && p[e].kind[k] != SPLIT && open < SEGMENTS && \
		R4_EPOCH(e) && R4_SEGMENT(e, k) && R4_VERSION(e, k) -> \
		SEAL(CUT(e, k)); \
		opens(e); \
		BY_SEGMENT(TIDY) }
/* S1: one command seals the parent and opens what continues it. Of the children the
 * model follows one; its epoch is above the parent's. */
#define APPLY_SPLIT(e, k) \
	:: atomic { p[e].kind[k] == SPLIT && open + 1 < SEGMENTS && epoch < EPOCHS && \
		R4_EPOCH(e) && R4_SEGMENT(e, k) && R4_VERSION(e, k) -> \
		PARENT_SEALED(CUT(e, k)) \
		parent = open; \
		epoch++; \
		grant(epoch, 1); \
		opens(epoch); \
		p[epoch].seg = open; \
		p[epoch].phase = SERVE; \
		base[open] = 0; \
		BY_SEGMENT(TIDY) }

/* R4: a cancel compares the epoch and raises the version. */
#ifdef NO_R4_CANCEL_EPOCH
#define R4_CANCEL_EPOCH(e) true
#else
#define R4_CANCEL_EPOCH(e) (epoch == (e))
#endif
#define APPLY_CANCEL(e) \
	:: atomic { p[e].cancel != 0 && R4_CANCEL_EPOCH(e) && version == p[e].cancel - 1 -> version++ }

#define APPLY_ALL(e) APPLY(e, 0) APPLY(e, 1)
#define SPLIT_ALL(e) APPLY_SPLIT(e, 0) APPLY_SPLIT(e, 1)

proctype Catalog() {
	do
	/* R1: a grant, whenever the control plane thinks so. The second store stands for
	 * the third as well. */
	:: atomic { epoch < EPOCHS && open < SEGMENTS -> epoch++; grant(epoch, 0) }
	:: atomic { epoch < EPOCHS && open < SEGMENTS -> epoch++; grant(epoch, 1) }
#if EPOCHS > 2
	:: atomic { epoch == 2 && open < SEGMENTS -> epoch++; grant(epoch, 2) }
#endif
	APPLY_ALL(1)
	BY_GRANT(APPLY_ALL)
#ifdef SPLITS
	SPLIT_ALL(1)
	BY_GRANT(SPLIT_ALL)
#endif
#if CANCELS > 0
	APPLY_CANCEL(1)
	BY_GRANT(APPLY_CANCEL)
#endif
#ifdef COUNTS
	:: atomic { replicas == 3 -> replicas = 1 }
#endif
	od
}

/* --- what goes wrong ------------------------------------------------------------------------ */

inline kill(e, i) {
	if
	:: p[e].phase != NONE && p[e].phase != STOPPED && p[e].place == i ->
#ifdef NO_R1_INCARNATION
		/* The process goes on with what its disk has. */
		if
		:: p[e].phase == SERVE || p[e].phase == FROZEN ->
			p[e].next = LEN(has[AT(i, p[e].seg)]);
			p[e].commit = SHORTER(p[e].commit, p[e].next);
			p[e].acked = p[e].commit;
			p[e].phase = SERVE
		:: else -> stop(e)
		fi
#else
		stop(e)	/* R1 */
#endif
	:: else
	fi
}

inline kill_all(i) {
	kill(1, i);
	kill(2, i);
#if EPOCHS > 2
	kill(3, i);
#endif
}

#define FORGET(s) has[AT(i, s)] = dur[AT(i, s)];

#if EPOCHS > 2
#define RUNS(x, e) (p[e].place == (x) && p[e].phase != NONE && p[e].phase != STOPPED)
#else
#define RUNS(x, e) ((e) < 3 && p[(e) % 3].place == (x) && p[(e) % 3].phase != NONE && p[(e) % 3].phase != STOPPED)
#endif
#define UNSAVED(x, s) || UNSYNCED(x, s)
#if SEGMENTS == 2
#define DIRTY(x) (promise[(x)*2] != kept[(x)*2] || promise[(x)*2 + 1] != kept[(x)*2 + 1] UNSAVED(x, 0) UNSAVED(x, 1))
#else
#define DIRTY(x) (promise[(x)*2] != kept[(x)*2] || promise[(x)*2 + 1] != kept[(x)*2 + 1] UNSAVED(x, 0) UNSAVED(x, 1) UNSAVED(x, 2))
#endif

/* R9: a store that starts does not know what it granted, and answers no fence until
 * all that it may have granted has run out: as if it knew. */
#ifdef NO_R9_START
#define R9_START(i) lease[1] = lease[1] & ~(1 << i);
#else
#define R9_START(i)
#endif

/* A process crashes and is started again: what was not durable is lost. */
#define CRASH(x) \
	:: atomic { crashes > 0 && (RUNS(x, 1) || RUNS(x, 2) || RUNS(x, 3) || DIRTY(x)) -> \
		crashes--; i = x; \
		BY_SEGMENT(FORGET) \
		promise[i*2] = kept[i*2]; promise[i*2 + 1] = kept[i*2 + 1]; \
		R9_START(i) \
		kill_all(i); \
		i = 0 }

/* A disk is lost. C1: its store comes back as another, which is no member of what was
 * opened before. R6: one that finds its segment damaged does not vouch for it. */
#if defined(NO_C1)
#define LOSE(s) has[AT(i, s)] = 0; dur[AT(i, s)] = 0; lost[s] = lost[s] | (1 << i);
#define EMPTY promise[i*2] = 0; promise[i*2 + 1] = 0; kept[i*2] = 0; kept[i*2 + 1] = 0;
#elif defined(NO_R6_DAMAGED)
#define LOSE(s) has[AT(i, s)] = 0; dur[AT(i, s)] = 0; lost[s] = lost[s] | (1 << i);
#define EMPTY
#else
#define LOSE(s) \
	has[AT(i, s)] = 0; dur[AT(i, s)] = 0; \
	if :: s <= open -> lost[s] = lost[s] | (1 << i); gone[s] = gone[s] | (1 << i) :: else fi;
#define EMPTY promise[i*2] = 0; promise[i*2 + 1] = 0; kept[i*2] = 0; kept[i*2 + 1] = 0;
#endif
#define LOSS(x) \
	:: atomic { losses > 0 -> \
		losses--; i = x; \
		BY_SEGMENT(LOSE) \
		EMPTY \
		kill_all(i); \
		i = 0 }

#ifdef NO_R10_SEALED
/* A store that lost its disk is made a member of the open segment again, with what
 * another one has. */
#define HEAL(x, y) \
	:: atomic { open < SEGMENTS && BIT(gone[open], x) && SPEAKS(y, open) -> \
		gone[open] = gone[open] & ~(1 << (x)); \
		has[AT(x, open)] = dur[AT(y, open)]; dur[AT(x, open)] = dur[AT(y, open)] }
#else
#define HEAL(x, y)
#endif

proctype Faults() {
	byte i = 0;
	do
	HEAL(0, 1) HEAL(0, 2) HEAL(1, 0) HEAL(1, 2) HEAL(2, 0) HEAL(2, 1)
	CRASH(0) CRASH(1) CRASH(2)
	LOSS(0) LOSS(1) LOSS(2)
	od
}

init {
	atomic {
		writer[0] = 1;
		slots[0] = 3;
#ifdef VACANT
		if :: members[0] = MASK(1) :: members[0] = MASK(2) fi;
#else
		members[0] = MASK(3);
#endif
		p[1].phase = SERVE;
		p[1].batch = 1;
		run Store(0); run Store(1); run Store(2);
#if STORES > 3
		run Store(3);
#endif
		run Process(1); run Process(2);
#if EPOCHS > 2
		run Process(3);
#endif
		run Catalog();
		run Faults()
	}
}
