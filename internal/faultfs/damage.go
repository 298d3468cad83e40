package faultfs

import (
	"io/fs"
	"slices"
	"strings"
)

// FileInfo describes one file to a test.
type FileInfo struct {
	Path string
	Size int64
}

// Files lists all files that lookups see, by path.
func (f *FS) Files() []FileInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []FileInfo
	var walk func(dir *node, at string)
	walk = func(dir *node, at string) {
		for name, n := range dir.children {
			if n.isDir() {
				walk(n, at+name+"/")
			} else {
				out = append(out, FileInfo{at + name, n.size})
			}
		}
	}
	walk(f.root, "")
	slices.SortFunc(out, func(a, b FileInfo) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// FlipBit inverts one bit of a file, in the cache and on the disk, as decay
// does.
func (f *FS) FlipBit(path string, offset int64, bit uint) error {
	return f.damage(path, func(n *node) error {
		return n.alter(offset, func(b *byte) { *b ^= 1 << (bit % 8) })
	})
}

// Overwrite puts bytes into a file, in the cache and on the disk.
func (f *FS) Overwrite(path string, offset int64, p []byte) error {
	return f.damage(path, func(n *node) error {
		for i, v := range p {
			if err := n.alter(offset+int64(i), func(b *byte) { *b = v }); err != nil {
				return err
			}
		}
		return nil
	})
}

// Truncate cuts a file to size bytes, in the cache and on the disk.
func (f *FS) Truncate(path string, size int64) error {
	return f.damage(path, func(n *node) error {
		if size < 0 || size > n.size {
			return fs.ErrInvalid
		}
		n.size, n.diskSize = size, min(n.diskSize, size)
		n.grown = min(n.grown, size)
		for i := range n.pages {
			if end := size - int64(i)*BlockSize; end < BlockSize {
				pg := &n.pages[i]
				pg.now, pg.owned = cut(pg.now, int(max(0, end))), false
				pg.disk = cut(pg.disk, int(max(0, end)))
			}
		}
		return nil
	})
}

// RemoveFile takes a file away, durably.
func (f *FS) RemoveFile(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.remove(path); err != nil {
		return wrap(Op{Kind: Remove, Path: clean(path)}, err)
	}
	for _, ch := range f.pending {
		f.commit(ch)
	}
	f.pending = nil
	return nil
}

// EvictCache drops what the cache calls clean, as memory pressure does: reads
// see the disk where a failed sync left it.
func (f *FS) EvictCache() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var walk func(n *node)
	walk = func(n *node) {
		n.evict()
		for _, child := range n.children {
			walk(child)
		}
	}
	walk(f.root)
}

// damage changes a file behind everybody's back.
func (f *FS) damage(path string, change func(*node) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.lookup(path)
	if err == nil && n.isDir() {
		err = fs.ErrInvalid
	}
	if err == nil {
		err = change(n)
	}
	return wrap(Op{Kind: Write, Path: clean(path)}, err)
}

// alter changes one byte in both images.
func (n *node) alter(offset int64, change func(*byte)) error {
	if offset < 0 || offset >= n.size {
		return fs.ErrInvalid
	}
	pg := n.grow(int(offset / BlockSize))
	shared := pg.now == pg.disk
	pg.own()
	change(&pg.now[offset%BlockSize])
	if shared {
		pg.disk, pg.owned = pg.now, false
		return nil
	}
	b := new(block)
	if pg.disk != nil {
		*b = *pg.disk
	}
	change(&b[offset%BlockSize])
	pg.disk = b
	return nil
}
