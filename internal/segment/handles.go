package segment

import (
	"container/list"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// handles keeps the segment files open that are in use, and some more.
type handles struct {
	s     *Store
	limit int

	mu   sync.Mutex
	open map[*Segment]*handle
	idle *list.List // of *Segment, least recently used first
}

type handle struct {
	f    vfs.File
	uses int
	elem *list.Element
	// gone: the segment was deleted while a reader used the file.
	gone bool
}

// errForgotten refuses to open the file of a segment that was deleted, which
// would make it again.
var errForgotten = fmt.Errorf("the segment was deleted: %w", ErrOutOfRange)

func newHandles(s *Store, limit int) *handles {
	return &handles{s: s, limit: limit, open: map[*Segment]*handle{}, idle: list.New()}
}

// get opens the file of g, making it if the segment has never been written,
// and keeps it open until put.
func (h *handles) get(g *Segment) (vfs.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.open[g]; o != nil {
		if o.elem != nil {
			h.idle.Remove(o.elem)
			o.elem = nil
		}
		o.uses++
		return o.f, nil
	}
	if g.forgotten.Load() {
		return nil, errForgotten
	}
	h.evict()
	f, err := h.s.fs.OpenReadWrite(h.s.path(g.path), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", g.path, err)
	}
	h.open[g] = &handle{f: f, uses: 1}
	return f, nil
}

func (h *handles) put(g *Segment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.open[g]
	if o == nil {
		return // the store was closed meanwhile
	}
	if o.uses--; o.uses > 0 {
		return
	}
	if o.gone {
		_ = o.f.Close()
		delete(h.open, g)
		return
	}
	o.elem = h.idle.PushBack(g)
}

// evictLook bounds how many idle files one eviction looks at.
const evictLook = 64

// evict closes idle files down to the limit. A file with bytes that it does
// not hold durably stays open, since the error of its writeback would be lost
// with the descriptor.
func (h *handles) evict() {
	e := h.idle.Front()
	for look := 0; e != nil && look < evictLook && len(h.open) >= h.limit; look++ {
		g, next := e.Value.(*Segment), e.Next()
		if g.dirtyFrom.Load() == 0 {
			_ = h.open[g].f.Close()
			h.idle.Remove(e)
			delete(h.open, g)
			g.dropIndex()
		}
		e = next
	}
	if len(h.open) >= h.limit {
		h.s.cfg.Observer.Limit("open_files")
	}
}

// drop closes the file of g, which was deleted, now or when its last reader
// puts it back.
func (h *handles) drop(g *Segment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.open[g]
	if o == nil {
		return
	}
	if o.uses > 0 {
		o.gone = true
		return
	}
	_ = o.f.Close()
	h.idle.Remove(o.elem)
	delete(h.open, g)
}

func (h *handles) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first error
	for g, o := range h.open {
		if err := o.f.Close(); err != nil && first == nil {
			first = err
		}
		delete(h.open, g)
	}
	h.idle.Init()
	return first
}
