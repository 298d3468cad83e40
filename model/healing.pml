/*
 * Healing of one sealed segment (R10): three stores hold it, one of them only a part,
 * disks are lost, and two healers put stores in the place of others at the same time.
 * A command of a healer may arrive late. The switches are described in README.md.
 */

#define STORES 5
#define END 2			/* the end that the seal recorded */

#ifndef LOSSES
#define LOSSES 3
#endif

byte I1;			/* see range.pml */

byte tail[STORES];		/* what a store holds */
byte lost;			/* stores whose disk was lost, as bits */
byte members = 7;
byte version;
byte losses = LOSSES;

#define BIT(x, i) (((x) >> (i)) & 1)
#define COUNT(x) (BIT(x, 0) + BIT(x, 1) + BIT(x, 2) + BIT(x, 3) + BIT(x, 4))
#define WHOLE ((tail[0] == END) | (tail[1] == END) << 1 | (tail[2] == END) << 2 | (tail[3] == END) << 3 | (tail[4] == END) << 4)

/* R10: a copy is verified against the end (and, where there are bytes, the digest). */
#ifdef NO_R10_VERIFY
#define R10_VERIFY true
#else
#define R10_VERIFY (tail[to] == END)
#endif

/* R10: the command compares the version of the set that the healer saw. */
#ifdef NO_R10_COMPARE
#define R10_COMPARE true
#else
#define R10_COMPARE (version == known)
#endif

/* The set is as it was read, with one store in the place of another. What is no
 * member any more is deleted. */
#define REMOVED(i) if :: !BIT(members, i) && BIT(before, i) -> tail[i] = 0 :: else fi;

#define LOST_MEMBER(i) \
	:: atomic { !busy && BIT(members & lost, i) -> from = i; set = members; known = version; busy = 1 }
#define COPY(i) \
	:: atomic { busy && BIT(set, i) && !BIT(lost, i) && !BIT(lost, to) && tail[to] < tail[i] -> tail[to]++ }

proctype Healer(byte to) {
	byte from, set, known, before;
	bit busy, asked;
	do
	LOST_MEMBER(0) LOST_MEMBER(1) LOST_MEMBER(2) LOST_MEMBER(3) LOST_MEMBER(4)
	COPY(0) COPY(1) COPY(2)
	:: atomic { busy && !asked && R10_VERIFY -> asked = 1 }
	:: atomic { asked && R10_COMPARE ->
		before = members;
		members = set & ~(1 << from) | 1 << to;
		version++;
		REMOVED(0) REMOVED(1) REMOVED(2) REMOVED(3) REMOVED(4)
		before = 0;
		assert(I1 || COUNT(WHOLE & members) >= 1);
		break }
	od
}

/* A disk is lost, as long as a majority of the present members keeps its own. */
#define LOSS(i) \
	:: atomic { losses > 0 && !BIT(lost, i) && COUNT((lost | 1 << (i)) & members) <= 1 -> \
		losses--; \
		lost = lost | 1 << (i); \
		tail[i] = 0; \
		assert(I1 || COUNT(WHOLE & members) >= 1) }

proctype Faults() {
	do
	LOSS(0) LOSS(1) LOSS(2) LOSS(3) LOSS(4)
	od
}

init {
	atomic {
		tail[0] = END;
		tail[1] = END;
		tail[2] = END - 1;
		run Healer(3); run Healer(4);
		run Faults()
	}
}
