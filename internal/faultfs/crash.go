package faultfs

import (
	"math/rand/v2"
	"slices"
)

// CrashOptions say how much of what no sync covered survives.
type CrashOptions struct {
	// Seed decides about each sector and name.
	Seed uint64
	// Survive is the chance in percent of each unsynced sector, size and name
	// change to be on the disk.
	Survive int
	// Mixed lets each file draw whether all, none or Survive percent of what
	// it did not sync is there.
	Mixed bool
	// Torn is the chance in percent that a surviving sector has only its first
	// bytes. Disks promise that sectors are whole; default 0.
	Torn int
}

// Crash returns the disk as a power cut at this moment might leave it, as a
// file system of its own: no handles, no locks, no faults, everything in it
// durable. The system that crashed is not changed and may go on.
func (f *FS) Crash(o CrashOptions) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := New(f.cfg)
	c.cfg.Seed = o.Seed
	names := f.survivingNames(o)
	seen := map[*node]*node{}
	var copyNode func(n *node, at string) *node
	copyNode = func(n *node, at string) *node {
		if m := seen[n]; m != nil {
			return m
		}
		m := n.crash(o, at)
		seen[n] = m
		c.used += m.blocks * BlockSize
		for _, name := range sortedNames(names(n)) {
			child := copyNode(names(n)[name], at+"/"+name)
			child.links++
			child.claims++
			m.children[name], m.disk[name] = child, child
		}
		return m
	}
	c.root = copyNode(f.root, "")
	c.root.links, c.root.claims = 1, 1
	return c
}

// survivingNames draws which pending changes of names are on the disk.
func (f *FS) survivingNames(o CrashOptions) func(dir *node) map[string]*node {
	after := map[*node]map[string]*node{}
	rng := chance(o.Seed, "/")
	survive := o.draw(rng)
	for _, ch := range f.pending {
		if !hit(rng, survive) {
			continue
		}
		for _, e := range ch {
			if after[e.dir] == nil {
				after[e.dir] = map[string]*node{}
				for name, n := range e.dir.disk {
					after[e.dir][name] = n
				}
			}
			if e.to == nil {
				delete(after[e.dir], e.name)
			} else {
				after[e.dir][e.name] = e.to
			}
		}
	}
	return func(dir *node) map[string]*node {
		if m, ok := after[dir]; ok {
			return m
		}
		return dir.disk
	}
}

// draw gives the chance to survive in one file.
func (o CrashOptions) draw(rng *rand.Rand) int {
	if !o.Mixed {
		return o.Survive
	}
	return [...]int{0, o.Survive, 100}[rng.IntN(3)]
}

// crash is what a power cut leaves of one node, without its children.
func (n *node) crash(o CrashOptions, at string) *node {
	if n.isDir() {
		return newDir(at)
	}
	m := &node{path: at, rng: chance(o.Seed, at), mod: n.mod}
	rng := chance(o.Seed, n.path)
	survive := o.draw(rng)
	m.size = n.crashSize(rng, survive)
	m.diskSize = m.size
	m.pages = make([]page, len(n.pages))
	for i := range n.pages {
		from, to := &n.pages[i], &m.pages[i]
		b, written := from.crash(rng, survive, o.Torn)
		if end := m.size - int64(i)*BlockSize; end < BlockSize {
			b = cut(b, int(max(0, end)))
		}
		to.now, to.disk = b, b
		to.held = from.stable || from.held && (written || hit(rng, survive))
		to.stable = to.held
		if to.held {
			m.blocks++
		}
	}
	return m
}

// crashSize draws a size between the durable and the cached one.
func (n *node) crashSize(rng *rand.Rand, survive int) int64 {
	if n.grown <= n.diskSize {
		return n.diskSize
	}
	switch {
	case !hit(rng, survive):
		return n.diskSize
	case survive == 100 || rng.IntN(2) == 0:
		return n.grown
	default:
		return n.diskSize + rng.Int64N(n.grown-n.diskSize)
	}
}

// crash composes what the disk has of a page, and says whether anything
// unsynced is in it.
func (pg *page) crash(rng *rand.Rand, survive, torn int) (b *block, written bool) {
	if pg.dirty == 0 {
		return pg.disk, false
	}
	kept := drawSectors(pg.dirty, rng, survive)
	if kept == pg.dirty && pg.lost == 0 && torn == 0 {
		pg.owned = false
		return pg.now, true
	}
	b = new(block)
	if pg.disk != nil {
		*b = *pg.disk
	}
	for s := range sectorsPerPage {
		if kept&(1<<s) == 0 {
			continue
		}
		n := SectorSize
		if hit(rng, torn) {
			n = rng.IntN(SectorSize)
		}
		copySector(b, pg.now, s, n)
	}
	return b, kept != 0
}

// cut clears what lies past the end of the file in its last page.
func cut(b *block, end int) *block {
	if b == nil || end == 0 {
		return nil
	}
	c := *b
	clear(c[end:])
	return &c
}

// Clone copies the running system: cache, disk and what is pending, without
// handles, locks and faults. Later changes of one do not show in the other.
func (f *FS) Clone() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := New(f.cfg)
	seen := map[*node]*node{}
	var copyNode func(n *node) *node
	copyNode = func(n *node) *node {
		if n == nil {
			return nil
		}
		if m := seen[n]; m != nil {
			return m
		}
		m := n.clone(f.cfg.Seed)
		seen[n] = m
		c.used += m.blocks * BlockSize
		for _, name := range sortedNames(n.children) {
			m.children[name] = copyNode(n.children[name])
		}
		for _, name := range sortedNames(n.disk) {
			m.disk[name] = copyNode(n.disk[name])
		}
		return m
	}
	c.root = copyNode(f.root)
	for _, ch := range f.pending {
		ch = slices.Clone(ch)
		for i, e := range ch {
			ch[i] = entry{copyNode(e.dir), e.name, copyNode(e.to)}
		}
		c.pending = append(c.pending, ch)
	}
	for _, m := range seen {
		c.settle(m)
	}
	return c
}

func (n *node) clone(seed uint64) *node {
	if n.isDir() {
		m := newDir(n.path)
		m.links, m.claims = n.links, n.claims
		return m
	}
	for i := range n.pages {
		n.pages[i].owned = false
	}
	m := &node{
		path: n.path, content: n.content, rng: chance(seed, n.path), mod: n.mod,
		links: n.links, claims: n.claims, blocks: n.blocks,
	}
	m.pages = slices.Clone(n.pages)
	return m
}
