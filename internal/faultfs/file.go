package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// file is an open handle.
type file struct {
	fs    *FS
	n     *node
	path  string
	pos   int64
	write bool
	done  bool
}

var _ vfs.File = (*file)(nil)

// run admits one operation on the handle and performs it.
func (h *file) run(op Op, effect func(Fault) error) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	op.Path = h.path
	if h.done {
		return wrap(op, fs.ErrClosed)
	}
	fault, err := h.fs.admit(&op)
	if err != nil {
		return wrap(op, err)
	}
	err = effect(fault)
	h.fs.trace(op, err)
	return err
}

// partial is what a transfer of all bytes becomes under a fault.
func (t Fault) partial(all []byte) []byte {
	if t.Err == nil || t.Done {
		return all
	}
	return all[:min(t.Bytes, len(all))]
}

func (h *file) Read(p []byte) (int, error) {
	n, err := h.readAt(p, h.pos)
	h.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (h *file) ReadAt(p []byte, off int64) (int, error) { return h.readAt(p, off) }

func (h *file) Write(p []byte) (int, error) {
	n, err := h.writeAt(p, h.pos)
	h.pos += int64(n)
	return n, err
}

func (h *file) WriteAt(p []byte, off int64) (int, error) { return h.writeAt(p, off) }

func (h *file) readAt(p []byte, off int64) (n int, err error) {
	op := Op{Kind: Read, Path: h.path, Offset: off, Len: int64(len(p))}
	err = h.run(op, func(fault Fault) error {
		if h.n.isDir() || off < 0 {
			return wrap(op, fs.ErrInvalid)
		}
		n, err = h.n.read(fault.partial(p), off)
		c := h.fs.counters(h.path)
		c.Reads++
		c.BytesRead += int64(n)
		if fault.Err != nil {
			return wrap(op, fault.Err)
		}
		return err // io.EOF stays bare
	})
	return n, err
}

func (h *file) writeAt(p []byte, off int64) (n int, err error) {
	op := Op{Kind: Write, Path: h.path, Offset: off, Len: int64(len(p))}
	err = h.run(op, func(fault Fault) error {
		if !h.write || off < 0 {
			return wrap(op, fs.ErrPermission)
		}
		f := h.fs
		n, err = h.n.write(fault.partial(p), off, func() error { return f.hold(h.n) }, h.n.rng, f.cfg.WriteBack)
		h.n.mod = time.Now()
		c := f.counters(h.path)
		c.Writes++
		c.BytesWritten += int64(n)
		if err == nil {
			err = fault.Err
		}
		return wrap(op, err)
	})
	return n, err
}

func (h *file) Sync() error     { return h.sync(Sync) }
func (h *file) SyncData() error { return h.sync(SyncData) }

func (h *file) sync(kind Kind) error {
	if h.n.isDir() {
		kind = SyncDir
	}
	op := Op{Kind: kind, Path: h.path}
	return h.run(op, func(fault Fault) error {
		f := h.fs
		f.counters(h.path).Syncs++
		ok := fault.Err == nil || fault.Done
		switch {
		case h.n.isDir():
			rng := chance(f.cfg.Seed, h.path)
			f.syncDir(h.n, func() bool { return ok || hit(rng, f.cfg.FailedSyncKeeps) })
		case ok:
			h.n.sync()
		default:
			h.n.failSync(h.n.rng, f.cfg.FailedSyncKeeps)
		}
		return wrap(op, fault.Err)
	})
}

// SyncTo stores part of the prefix by chance and promises nothing, unless the
// file system was told to make it a full sync.
func (h *file) SyncTo(length int64) (full bool, err error) {
	if h.n.isDir() {
		return false, nil
	}
	if h.fs.cfg.FullSyncTo {
		return true, h.sync(SyncTo)
	}
	op := Op{Kind: SyncTo, Path: h.path, Len: length}
	err = h.run(op, func(fault Fault) error {
		if fault.Err == nil || fault.Done {
			h.n.writeBack(length, h.n.rng, h.fs.cfg.WriteBack)
		}
		return wrap(op, fault.Err)
	})
	return false, err
}

// Preallocate allocates space and keeps the size. What was reserved is kept
// over a crash once the file is synced.
func (h *file) Preallocate(off, length int64) error {
	if h.n.isDir() {
		return nil
	}
	op := Op{Kind: Preallocate, Path: h.path, Offset: off, Len: length}
	return h.run(op, func(fault Fault) error {
		err := fault.Err
		if err == nil || fault.Done {
			if e := h.fs.preallocate(h.n, off, length); e != nil {
				err = e
			}
		}
		return wrap(op, err)
	})
}

func (h *file) Stat() (info vfs.FileInfo, err error) {
	op := Op{Kind: Stat, Path: h.path}
	err = h.run(op, func(fault Fault) error {
		info = h.n.info(path.Base(h.path))
		return wrap(op, fault.Err)
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// Close gives the handle back even when it returns an error.
func (h *file) Close() error {
	op := Op{Kind: Close, Path: h.path}
	return h.run(op, func(fault Fault) error {
		h.done = true
		h.n.opens--
		h.fs.settle(h.n)
		return wrap(op, fault.Err)
	})
}

// Prefetch is advice, and not taken.
func (h *file) Prefetch(int64, int64) error { return nil }

// Fd says that there is no descriptor below.
func (h *file) Fd() uintptr { return vfs.InvalidFd }
