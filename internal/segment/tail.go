package segment

import (
	"sort"
	"sync"

	"github.com/quirelog/quire/internal/ident"
)

// cached is a batch in memory.
type cached struct {
	base, end ident.Offset
	batch     []byte
}

// tailCache is the newest batches of one segment, oldest first.
type tailCache struct {
	batches []cached
	head    int
}

func (c *tailCache) live() []cached { return c.batches[c.head:] }

func (c *tailCache) pop() {
	c.batches[c.head] = cached{}
	c.head++
	if c.head > 64 && c.head > len(c.batches)/2 {
		c.batches = append(c.batches[:0], c.batches[c.head:]...)
		c.head = 0
	}
}

// tails bounds the tail caches of all segments together; the oldest batch
// goes first, whichever segment it is of.
type tails struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	order []tailRef
	head  int
}

type tailRef struct {
	seg  *Segment
	base ident.Offset
	size int
}

func (t *tails) add(g *Segment, c cached) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.cache.batches = append(g.cache.batches, c)
	t.order = append(t.order, tailRef{g, c.base, len(c.batch)})
	t.bytes += int64(len(c.batch))
	for t.bytes > t.limit && t.head < len(t.order) {
		r := t.order[t.head]
		t.order[t.head] = tailRef{}
		t.head++
		t.bytes -= int64(r.size)
		if live := r.seg.cache.live(); len(live) > 0 && live[0].base == r.base {
			r.seg.cache.pop()
		}
	}
	if t.head > 1024 && t.head > len(t.order)/2 {
		n := copy(t.order, t.order[t.head:])
		clear(t.order[n:])
		t.order, t.head = t.order[:n], 0
	}
}

// drop forgets what is cached of g.
func (t *tails) drop(g *Segment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.cache = tailCache{}
}

// get gives the batches from the one that holds the offset on, at least one
// and then as many as the limit admits; none if it is not cached.
func (t *tails) get(g *Segment, from, end ident.Offset, limit Limit) [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	live := g.cache.live()
	if len(live) == 0 || from < live[0].base {
		return nil
	}
	i := sort.Search(len(live), func(i int) bool { return live[i].end > from })
	var out [][]byte
	stop := from + ident.Offset(limit.Records)
	for bytes := 0; i < len(live) && live[i].end <= end; i++ {
		if bytes += len(live[i].batch); len(out) > 0 && (bytes > limit.Bytes || live[i].base >= stop) {
			break
		}
		out = append(out, live[i].batch)
	}
	return out
}
