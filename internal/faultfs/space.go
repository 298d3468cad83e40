package faultfs

import "syscall"

// hold allocates one block for n, if there is space.
func (f *FS) hold(n *node) error {
	if err := f.reserve(1); err != nil {
		return err
	}
	n.blocks++
	f.used += BlockSize
	return nil
}

// reserve says whether so many more blocks fit. Space of removed files counts
// as taken until their removal is durable; running short of it makes all
// names durable, as a journaling file system does.
func (f *FS) reserve(blocks int64) error {
	if f.cfg.Capacity == 0 || f.used+blocks*BlockSize <= f.cfg.Capacity {
		return nil
	}
	for _, ch := range f.pending {
		f.commit(ch)
	}
	f.pending = nil
	if f.used+blocks*BlockSize > f.cfg.Capacity {
		return syscall.ENOSPC
	}
	return nil
}

// preallocate allocates the blocks of a span, all or none, and keeps the
// size.
func (f *FS) preallocate(n *node, off, length int64) error {
	if off < 0 || length <= 0 {
		return syscall.EINVAL
	}
	first, last := int(off/BlockSize), int((off+length-1)/BlockSize)
	n.grow(last)
	var missing int64
	for i := first; i <= last; i++ {
		if !n.pages[i].held {
			missing++
		}
	}
	if err := f.reserve(missing); err != nil {
		return err
	}
	n.blocks += missing
	f.used += missing * BlockSize
	for i := first; i <= last; i++ {
		n.pages[i].held = true
	}
	n.touch(first)
	n.touch(last)
	return nil
}

// settle follows what became of a node's space after its names or handles
// changed.
func (f *FS) settle(n *node) {
	limbo := n.links == 0 && n.opens == 0
	if limbo != n.limbo {
		n.limbo = limbo
		if limbo {
			f.limbo += n.blocks * BlockSize
		} else {
			f.limbo -= n.blocks * BlockSize
		}
	}
	if !limbo || n.claims != 0 {
		return
	}
	f.limbo -= n.blocks * BlockSize
	f.used -= n.blocks * BlockSize
	n.blocks, n.pages = 0, nil
	for _, child := range n.disk {
		child.claims--
		f.settle(child)
	}
	n.disk = nil
}
