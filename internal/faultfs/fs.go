package faultfs

import (
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Create implements vfs.FS.
func (f *FS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open(Create, name, true, func() (*node, error) {
		dir, base, n, err := f.slot(name)
		if err != nil {
			return nil, err
		}
		if n != nil && n.isDir() {
			return nil, syscall.EISDIR
		}
		return f.create(dir, base, clean(name)), nil
	})
}

// Open implements vfs.FS.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.open(Open, name, false, func() (*node, error) { return f.lookup(name) }, opts...)
}

// OpenReadWrite implements vfs.FS. It counts as a change, because it makes
// the file if there is none.
func (f *FS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.open(Create, name, true, func() (*node, error) {
		dir, base, n, err := f.slot(name)
		switch {
		case err != nil:
			return nil, err
		case n == nil:
			return f.create(dir, base, clean(name)), nil
		case n.isDir():
			return nil, syscall.EISDIR
		}
		return n, nil
	}, opts...)
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	return f.open(Open, name, false, func() (*node, error) {
		n, err := f.lookup(name)
		if err == nil && !n.isDir() {
			err = syscall.ENOTDIR
		}
		return n, err
	})
}

func (f *FS) open(
	kind Kind, name string, write bool, get func() (*node, error), opts ...vfs.OpenOption,
) (vfs.File, error) {
	var n *node
	err := f.do(Op{Kind: kind, Path: clean(name)}, func() error {
		found, err := get()
		if err == nil {
			n = found
			n.opens++
			f.settle(n)
		}
		return err
	})
	if err != nil {
		f.forget(n)
		return nil, err
	}
	h := &file{fs: f, n: n, path: clean(name), write: write}
	for _, o := range opts {
		o.Apply(h)
	}
	return h, nil
}

// forget gives back the handle of an open whose answer was lost.
func (f *FS) forget(n *node) {
	if n == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.opens--
	f.settle(n)
}

// Link implements vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	return f.do(Op{Kind: Link, Path: clean(oldname), To: clean(newname)}, func() error {
		n, err := f.lookup(oldname)
		if err != nil {
			return err
		}
		dir, base, old, err := f.slot(newname)
		switch {
		case err != nil:
			return err
		case old != nil:
			return fs.ErrExist
		case n.isDir():
			return syscall.EPERM
		}
		f.set(entry{dir, base, n})
		return nil
	})
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.do(Op{Kind: Remove, Path: clean(name)}, func() error { return f.remove(name) })
}

// RemoveAll implements vfs.FS. Each name in it may survive a crash by itself.
func (f *FS) RemoveAll(name string) error {
	return f.do(Op{Kind: Remove, Path: clean(name)}, func() error { return f.removeAll(name) })
}

// Rename implements vfs.FS. A crash shows the old name or the new one, never
// both or none, unless other changes of these names are pending.
func (f *FS) Rename(oldname, newname string) error {
	return f.do(Op{Kind: Rename, Path: clean(oldname), To: clean(newname)}, func() error {
		return f.rename(oldname, newname)
	})
}

// ReuseForWrite implements vfs.FS: the old bytes stay.
func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return f.OpenReadWrite(newname, category)
}

// MkdirAll implements vfs.FS. A new directory is durable once its parent is
// synced.
func (f *FS) MkdirAll(dir string, _ os.FileMode) error {
	return f.do(Op{Kind: Mkdir, Path: clean(dir)}, func() error { return f.mkdirAll(dir) })
}

// Lock implements vfs.FS. Locks end with the machine.
func (f *FS) Lock(name string) (io.Closer, error) {
	at := clean(name)
	err := f.do(Op{Kind: Lock, Path: at}, func() error {
		dir, base, n, err := f.slot(name)
		switch {
		case err != nil:
			return err
		case f.locked[at]:
			return syscall.EAGAIN
		case n == nil:
			f.create(dir, base, at)
		}
		f.locked[at] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &lock{fs: f, path: at}, nil
}

type lock struct {
	fs   *FS
	path string
}

// Close releases the lock. It always succeeds, as the end of a process does.
func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locked, l.path)
	return nil
}

// List implements vfs.FS; the names are sorted.
func (f *FS) List(dir string) ([]string, error) {
	var names []string
	err := f.do(Op{Kind: List, Path: clean(dir)}, func() error {
		n, err := f.lookup(dir)
		switch {
		case err != nil:
			return err
		case !n.isDir():
			return syscall.ENOTDIR
		}
		names = sortedNames(n.children)
		return nil
	})
	return names, err
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	var info vfs.FileInfo
	err := f.do(Op{Kind: Stat, Path: clean(name)}, func() error {
		n, err := f.lookup(name)
		if err == nil {
			info = n.info(path.Base(clean(name)))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// GetDiskUsage implements vfs.FS. Without a capacity the disk has a tebibyte.
func (f *FS) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	var u vfs.DiskUsage
	err := f.do(Op{Kind: Usage, Path: clean(name)}, func() error {
		total := f.cfg.Capacity
		if total == 0 {
			total = 1 << 40
		}
		used := f.used - f.limbo
		u = vfs.DiskUsage{
			AvailBytes: uint64(max(0, total-used)),
			TotalBytes: uint64(total),
			UsedBytes:  uint64(used),
		}
		return nil
	})
	return u, err
}

// PathBase implements vfs.FS.
func (*FS) PathBase(p string) string { return path.Base(p) }

// PathJoin implements vfs.FS.
func (*FS) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements vfs.FS.
func (*FS) PathDir(p string) string { return path.Dir(p) }

// Unwrap implements vfs.FS.
func (*FS) Unwrap() vfs.FS { return nil }

// info is what Stat tells.
type info struct {
	name string
	size int64
	dir  bool
	mod  time.Time
}

func (n *node) info(name string) info { return info{name, n.size, n.isDir(), n.mod} }

func (i info) Name() string           { return i.name }
func (i info) Size() int64            { return i.size }
func (i info) ModTime() time.Time     { return i.mod }
func (i info) IsDir() bool            { return i.dir }
func (i info) Sys() any               { return nil }
func (i info) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
