package segment_test

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// templates are batches to stamp, by size class: what fits many times into a
// journal block, what fills some, what goes the direct way. Their values are
// random, so that a lost sector shows, but every eighth is zeros, so that a
// lost sector does not.
var templates = sync.OnceValue(func() [3][][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var t [3][][]byte
	for class, largest := range [3]int{600, 6000, 40_000} {
		for i := range 16 {
			t[class] = append(t[class], template(rng, largest/8+rng.IntN(largest), i%8 == 7, i%5 == 4))
		}
	}
	return t
})

// template builds a batch of one to four records with size bytes of values.
func template(rng *rand.Rand, size int, zeros, control bool) []byte {
	var o batch.Options
	if control {
		o.Kind = batch.Control
	}
	b := batch.NewBuilder(o)
	records := 1 + rng.IntN(4)
	for range records {
		value := make([]byte, size/records)
		for i := range value {
			if !zeros {
				value[i] = byte(rng.Uint32())
			}
		}
		if err := b.Add(&batch.Record{Key: []byte{'k', byte(rng.IntN(256))}, Value: value, Time: 1}); err != nil {
			panic(err)
		}
	}
	return b.Finish()
}

// nextBatch draws a batch that continues the tail.
func nextBatch(rng *rand.Rand, epoch ident.Epoch, t segment.Tail) []byte {
	class := [...]int{0, 0, 0, 1, 1, 2}[rng.IntN(6)]
	of := templates()[class]
	b := slices.Clone(of[rng.IntN(len(of))])
	batch.Stamp{
		Epoch: epoch, Base: t.Base, UserBefore: t.UserBefore, Chain: t.Chain,
		AppendTime: t.LastTime + ident.Timestamp(rng.IntN(3)),
	}.Apply(b)
	return b
}
