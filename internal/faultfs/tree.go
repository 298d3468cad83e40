package faultfs

import (
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// node is a file or a directory.
type node struct {
	// path is where it was made; its chances are drawn by it.
	path string
	// children, nil for a file, is what lookups see; disk is what is durable.
	children, disk map[string]*node
	content
	rng *rand.Rand
	mod time.Time
	// links counts the names that lookups see, claims the names that a crash
	// may bring back: durable ones and those of pending changes. opens counts
	// handles. Without any of them the space is free.
	links, claims, opens int
	// blocks is what the file holds; limbo says that it is counted there.
	blocks int64
	limbo  bool
}

func newDir(at string) *node {
	return &node{path: at, children: map[string]*node{}, disk: map[string]*node{}}
}

func (n *node) isDir() bool { return n.children != nil }

// change is one operation on names that no sync covers yet; it survives a
// crash whole or not at all.
type change []entry

// entry gives a name in a directory to a node, or to none.
type entry struct {
	dir  *node
	name string
	to   *node
}

// clean gives the one form of a path: slashes, no leading one, empty for the
// root.
func clean(name string) string {
	c := path.Clean("/" + name)
	return strings.TrimPrefix(c, "/")
}

// find looks a path up; the node is nil if the last name does not exist.
func (f *FS) find(name string) (dir *node, base string, n *node, err error) {
	rest := clean(name)
	if rest == "" {
		return nil, "", f.root, nil
	}
	dir = f.root
	for {
		head, tail, more := strings.Cut(rest, "/")
		n = dir.children[head]
		if !more {
			return dir, head, n, nil
		}
		switch {
		case n == nil:
			return nil, "", nil, fs.ErrNotExist
		case !n.isDir():
			return nil, "", nil, syscall.ENOTDIR
		}
		dir, rest = n, tail
	}
}

// lookup finds an existing node.
func (f *FS) lookup(name string) (*node, error) {
	_, _, n, err := f.find(name)
	if err == nil && n == nil {
		err = fs.ErrNotExist
	}
	return n, err
}

// slot finds where a name that is not the root's may be set.
func (f *FS) slot(name string) (dir *node, base string, n *node, err error) {
	dir, base, n, err = f.find(name)
	if err == nil && dir == nil {
		err = fs.ErrInvalid
	}
	return dir, base, n, err
}

// set changes names in what lookups see, and leaves the change pending.
func (f *FS) set(ch ...entry) {
	for _, e := range ch {
		old := e.dir.children[e.name]
		if e.to == nil {
			delete(e.dir.children, e.name)
		} else {
			e.dir.children[e.name] = e.to
			e.to.links++
			e.to.claims++
		}
		if old != nil {
			old.links--
			f.settle(old)
		}
	}
	f.pending = append(f.pending, ch)
}

// commit makes a pending change durable.
func (f *FS) commit(ch change) {
	for _, e := range ch {
		old := e.dir.disk[e.name]
		if e.to == nil {
			delete(e.dir.disk, e.name)
		} else {
			e.dir.disk[e.name] = e.to
		}
		if old != nil {
			old.claims--
			f.settle(old)
		}
	}
}

// syncDir commits what is pending for a directory, if stored says so. The
// names of a failed sync stay pending, unlike the sectors of one: they are
// written through the file system's own journal, which either comes through
// or takes the whole file system down.
func (f *FS) syncDir(dir *node, stored func() bool) {
	kept := f.pending[:0]
	for _, ch := range f.pending {
		if slices.ContainsFunc(ch, func(e entry) bool { return e.dir == dir }) && stored() {
			f.commit(ch)
		} else {
			kept = append(kept, ch)
		}
	}
	clear(f.pending[len(kept):])
	f.pending = kept
}

// create gives a name to a new file; one that existed goes first.
func (f *FS) create(dir *node, base, at string) *node {
	if dir.children[base] != nil {
		f.set(entry{dir, base, nil})
	}
	n := &node{path: at, rng: chance(f.cfg.Seed, at), mod: time.Now()}
	f.set(entry{dir, base, n})
	return n
}

func (f *FS) remove(name string) error {
	dir, base, n, err := f.slot(name)
	switch {
	case err != nil:
		return err
	case n == nil:
		return fs.ErrNotExist
	case len(n.children) > 0:
		return syscall.ENOTEMPTY
	}
	f.set(entry{dir, base, nil})
	return nil
}

func (f *FS) rename(oldname, newname string) error {
	dir, base, n, err := f.slot(oldname)
	if err != nil {
		return err
	}
	if n == nil {
		return fs.ErrNotExist
	}
	toDir, toBase, to, err := f.slot(newname)
	switch {
	case err != nil:
		return err
	case to == n:
		return nil
	case to != nil && (to.isDir() || n.isDir()):
		return fs.ErrExist
	}
	f.set(entry{toDir, toBase, n}, entry{dir, base, nil})
	return nil
}

func (f *FS) mkdirAll(name string) error {
	at := f.root
	for part := range strings.SplitSeq(clean(name), "/") {
		if part == "" {
			continue
		}
		next := at.children[part]
		switch {
		case next == nil:
			next = newDir(path.Join(at.path, part))
			f.set(entry{at, part, next})
		case !next.isDir():
			return syscall.ENOTDIR
		}
		at = next
	}
	return nil
}

func (f *FS) removeAll(name string) error {
	dir, base, n, err := f.slot(name)
	if err != nil || n == nil {
		return nil //nolint:nilerr // what is not there needs no removing, as with os.RemoveAll
	}
	f.removeTree(dir, base, n)
	return nil
}

func (f *FS) removeTree(dir *node, base string, n *node) {
	for _, name := range sortedNames(n.children) {
		f.removeTree(n, name, n.children[name])
	}
	f.set(entry{dir, base, nil})
}

func sortedNames(m map[string]*node) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
