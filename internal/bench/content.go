package bench

import (
	"encoding/binary"
	"math/bits"
)

// KeySize is the size of every key.
const KeySize = 16

// MinPayload is the smallest value: it has to hold the record's number.
const MinPayload = 8

// Plan says who writes where: each worker writes its records one after the
// other. With at least as many workers as topics a worker stays with one topic;
// with fewer each worker goes round all of them.
type Plan struct {
	Workers, Topics int
}

// Topic is where a worker's n-th record goes.
func (p Plan) Topic(worker int, n uint64) int {
	if p.Workers >= p.Topics {
		return worker % p.Topics
	}
	return int((uint64(worker) + n*uint64(p.Workers)) % uint64(p.Topics))
}

// share says that a worker is the i-th of so many that write to its topics.
func (p Plan) share(worker int) (i, of int) {
	if p.Workers < p.Topics {
		return worker, p.Workers
	}
	topic := worker % p.Topics
	return worker / p.Topics, (p.Workers-topic-1)/p.Topics + 1
}

// ID is the number of a record: the worker that wrote it, and how many it had
// written before.
type ID struct {
	Worker int
	N      uint64
}

const (
	numberBits = 40
	maxWorkers = 1 << (64 - numberBits)
)

// Content makes records and recognises them. Keys are drawn uniformly from a
// fixed set, values are random bytes that nothing can compress; both follow
// from the seed and the record's ID. The workers of a topic share the keys out
// among them, so that the order of a key is the order of one worker.
//
// It is safe for concurrent use.
type Content struct {
	plan    Plan
	seed    uint64
	payload int
	keys    [][]byte
	// shares are the keys of each worker, worked out once: each record that is
	// checked needs them.
	shares []share
}

// share says which keys are a worker's: first, first+of, and so on, so many as
// own says. lane is the worker's lane where there are fewer keys than workers,
// and -1 where each key has one.
type share struct{ first, of, own, lane int }

// NewContent makes the content of a run with values of payload bytes and so
// many distinct keys in each topic.
func NewContent(seed uint64, payload, keys int, plan Plan) *Content {
	c := &Content{plan: plan, seed: seed, payload: payload, keys: make([][]byte, keys)}
	flat := make([]byte, keys*KeySize)
	fill(flat, seed^keySeed)
	for i := range c.keys {
		c.keys[i] = flat[i*KeySize : (i+1)*KeySize : (i+1)*KeySize]
	}
	c.shares = make([]share, plan.Workers)
	for w := range c.shares {
		c.shares[w] = shareOf(plan, w, keys)
	}
	return c
}

func shareOf(plan Plan, worker, keys int) share {
	i, of := plan.share(worker)
	if keys < of {
		return share{first: i % keys, of: 1, own: 1, lane: i}
	}
	return share{first: i, of: of, own: (keys-i-1)/of + 1, lane: -1}
}

// Record writes the value of a record into value, which has the payload's size,
// and returns its key, which must not be changed.
func (c *Content) Record(id ID, value []byte) (key []byte) {
	x := c.scramble(id)
	binary.LittleEndian.PutUint64(value, x)
	fill(value[MinPayload:], x)
	return c.keys[c.key(id.Worker, x)]
}

// identify finds the ID that a value was made of.
func (c *Content) identify(value []byte) (id ID, x uint64) {
	x = binary.LittleEndian.Uint64(value)
	y := x
	y ^= y >> 32
	y *= unmix
	y ^= y >> 32
	y -= c.seed
	return ID{Worker: int(y >> numberBits), N: y & (1<<numberBits - 1)}, x
}

// scramble hides an ID in a word that looks random. It can be undone.
func (c *Content) scramble(id ID) uint64 {
	x := uint64(id.Worker)<<numberBits | id.N
	x += c.seed
	x ^= x >> 32
	x *= mix
	return x ^ x>>32
}

// key draws the index of a worker's key.
func (c *Content) key(worker int, x uint64) int {
	s := &c.shares[worker]
	draw, _ := bits.Mul64(word(x^keySeed), uint64(s.own))
	return int(draw)*s.of + s.first
}

// lane is what has an order within a topic: a key, or, where several workers
// have to share one, the worker.
func (c *Content) lane(worker, key int) int {
	if lane := c.shares[worker].lane; lane >= 0 {
		return lane
	}
	return key
}

// lanes is how many there may be in a topic.
func (c *Content) lanes() int { return max(len(c.keys), c.plan.Workers) }

// same says whether b is what fill made of x.
func same(b []byte, x uint64) bool {
	diff := uint64(0)
	for len(b) >= 8 {
		x += step
		diff |= binary.LittleEndian.Uint64(b) ^ word(x)
		b = b[8:]
	}
	var tail [8]byte
	binary.LittleEndian.PutUint64(tail[:], word(x+step))
	for i := range b {
		diff |= uint64(b[i] ^ tail[i])
	}
	return diff == 0
}

// fill writes random bytes that follow from x.
func fill(b []byte, x uint64) {
	for len(b) >= 8 {
		x += step
		binary.LittleEndian.PutUint64(b, word(x))
		b = b[8:]
	}
	var tail [8]byte
	binary.LittleEndian.PutUint64(tail[:], word(x+step))
	copy(b, tail[:])
}

// word is the mixing step of wyrand: one multiplication for eight bytes, so
// that making and checking payloads costs little beside sending them.
func word(x uint64) uint64 {
	hi, lo := bits.Mul64(x, x^0xe7037ed1a0b428db)
	return hi ^ lo
}

const (
	step    = 0xa0761d6478bd642f
	keySeed = 0x589965cc75374cc3
	mix     = 0x9e3779b97f4a7c15
	// unmix is the inverse of mix modulo 2^64.
	unmix = 0xf1de83e19937733d
)
