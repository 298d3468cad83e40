package segment

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Batches is what a read gave.
type Batches struct {
	// List has whole batches. The bytes are shared and must not be changed.
	List [][]byte

	chunks []*chunk
}

// Release gives back the memory of the batches, which must not be touched any
// more. It may be called more than once, also of copies, and need not be
// called at all: what is not released is left to the garbage collector.
func (b *Batches) Release() {
	for _, c := range b.chunks {
		c.release()
	}
}

// chunk is memory into which a part of a file is read.
type chunk struct{ bytes atomic.Pointer[[]byte] }

// The memory of chunks is used again: making a fresh one costs as much as
// reading it from the page cache. There is a pool for each power of two.
const (
	minChunkBits = 18
	maxChunkBits = 24
)

var chunkPools [maxChunkBits + 1]sync.Pool

// newChunk gives a chunk and n bytes of it, whose content is arbitrary.
func newChunk(n int) (*chunk, []byte) {
	class := max(bits.Len(uint(n-1)), minChunkBits)
	c := &chunk{}
	if class > maxChunkBits {
		return c, make([]byte, n)
	}
	b, ok := chunkPools[class].Get().(*[]byte)
	if !ok {
		fresh := make([]byte, 1<<class)
		b = &fresh
	}
	c.bytes.Store(b)
	return c, (*b)[:n:n]
}

func (c *chunk) release() {
	if b := c.bytes.Swap(nil); b != nil {
		chunkPools[bits.Len(uint(len(*b)-1))].Put(b)
	}
}
