package faultfs

import (
	"io"
	"math/rand/v2"
)

const (
	// SectorSize is what the disk writes all or nothing of, unless sectors
	// tear.
	SectorSize = 512
	// BlockSize is what space is allocated in.
	BlockSize      = 4096
	sectorsPerPage = BlockSize / SectorSize
)

type block = [BlockSize]byte

// page is one block of a file, in the cache and on the disk. Blocks are
// shared between the two, and between file systems that were cloned from one
// another; nil stands for zeros. A block is written in place only while owned.
type page struct {
	now, disk *block
	// dirty sectors are newer in the cache and go with the next sync. Lost
	// ones differ as well, but the cache calls them clean: a sync failed.
	dirty, lost uint8
	// owned: nothing else refers to now.
	owned bool
	// held: space is allocated; stable: it still is after a crash.
	held, stable bool
}

// content is what a file holds.
type content struct {
	pages []page
	// size is what reads see, diskSize what is durable. grown is the size that
	// the next sync makes durable.
	size, diskSize, grown int64
	// The pages from lo up to hi may need a sync.
	lo, hi int
}

// touch notes that the page i needs a sync.
func (c *content) touch(i int) {
	if c.lo >= c.hi {
		c.lo, c.hi = i, i+1
		return
	}
	c.lo, c.hi = min(c.lo, i), max(c.hi, i+1)
}

func (c *content) settled() { c.lo, c.hi = 0, 0 }

// grow makes room in the table for the page i.
func (c *content) grow(i int) *page {
	for len(c.pages) <= i {
		c.pages = append(c.pages, page{})
	}
	return &c.pages[i]
}

// read copies what the cache has at off into p.
func (c *content) read(p []byte, off int64) (int, error) {
	if off >= c.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), c.size-off))
	for done := 0; done < n; {
		i, at := int((off+int64(done))/BlockSize), int((off+int64(done))%BlockSize)
		part := p[done:min(n, done+BlockSize-at)]
		if i < len(c.pages) && c.pages[i].now != nil {
			copy(part, c.pages[i].now[at:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// write puts p at off into the cache. hold allocates the space of one more
// page or refuses; the write ends there. older says with which chance in
// percent a sector that was dirty had already reached the disk.
func (c *content) write(p []byte, off int64, hold func() error, rng *rand.Rand, older int) (int, error) {
	for done := 0; done < len(p); {
		i, at := int((off+int64(done))/BlockSize), int((off+int64(done))%BlockSize)
		part := p[done:min(len(p), done+BlockSize-at)]
		pg := c.grow(i)
		if !pg.held {
			if err := hold(); err != nil {
				return done, err
			}
			pg.held = true
		}
		pg.write(part, at, rng, older)
		c.touch(i)
		done += len(part)
		if end := off + int64(done); end > c.diskSize {
			c.grown = max(c.grown, end)
		}
		c.size = max(c.size, off+int64(done))
	}
	return len(p), nil
}

func (pg *page) write(part []byte, at int, rng *rand.Rand, older int) {
	mask := sectorMask(at, len(part))
	for s := range sectorsPerPage {
		if pg.dirty&mask&(1<<s) != 0 && hit(rng, older) {
			pg.store(1 << s)
		}
	}
	pg.dirty |= mask
	pg.lost &^= mask
	if isZero(part) && (pg.now == nil || len(part) == BlockSize) {
		pg.now, pg.owned = nil, false
		return
	}
	pg.own()
	copy(pg.now[at:], part)
}

// own makes now a block that may be written in place.
func (pg *page) own() {
	if pg.owned {
		return
	}
	b := new(block)
	if pg.now != nil {
		*b = *pg.now
	}
	pg.now, pg.owned = b, true
}

// store brings the sectors of mask to the disk.
func (pg *page) store(mask uint8) {
	if mask == 0xff || (pg.dirty|pg.lost)&^mask == 0 {
		pg.disk, pg.owned = pg.now, false
		return
	}
	b := new(block)
	if pg.disk != nil {
		*b = *pg.disk
	}
	for s := range sectorsPerPage {
		if mask&(1<<s) != 0 {
			copySector(b, pg.now, s, SectorSize)
		}
	}
	pg.disk = b
}

// sync makes everything dirty durable, and the size.
func (c *content) sync() {
	for i := c.lo; i < c.hi; i++ {
		pg := &c.pages[i]
		pg.stable = pg.held
		if pg.dirty != 0 {
			pg.store(pg.dirty)
			pg.dirty = 0
		}
	}
	c.diskSize = max(c.diskSize, c.grown)
	c.grown = 0
	c.settled()
}

// failSync makes everything dirty clean and stores it only by chance.
func (c *content) failSync(rng *rand.Rand, keeps int) {
	for i := c.lo; i < c.hi; i++ {
		pg := &c.pages[i]
		kept := drawSectors(pg.dirty, rng, keeps)
		if kept != 0 {
			pg.store(kept)
		}
		pg.lost |= pg.dirty &^ kept
		pg.dirty = 0
		pg.stable = pg.stable || pg.held && kept != 0
	}
	if hit(rng, keeps) {
		c.diskSize = max(c.diskSize, c.grown)
	}
	c.grown = 0
	c.settled()
}

// writeBack stores dirty sectors of the first end bytes by chance; they stay
// dirty, because nobody may rely on it.
func (c *content) writeBack(end int64, rng *rand.Rand, percent int) {
	for i := c.lo; i < c.hi && int64(i)*BlockSize < end; i++ {
		if kept := drawSectors(c.pages[i].dirty, rng, percent); kept != 0 {
			c.pages[i].store(kept)
		}
	}
}

// evict drops what the cache calls clean, so that reads see the disk again.
func (c *content) evict() {
	for i := range c.pages {
		pg := &c.pages[i]
		for s := range sectorsPerPage {
			if pg.lost&(1<<s) != 0 {
				pg.own()
				copySector(pg.now, pg.disk, s, SectorSize)
			}
		}
		pg.lost = 0
	}
}

func drawSectors(mask uint8, rng *rand.Rand, percent int) uint8 {
	var kept uint8
	for s := range sectorsPerPage {
		if mask&(1<<s) != 0 && hit(rng, percent) {
			kept |= 1 << s
		}
	}
	return kept
}

// copySector copies the first n bytes of the sector s; a nil source is zeros.
func copySector(dst, src *block, s, n int) {
	part := dst[s*SectorSize:][:n]
	if src == nil {
		clear(part)
		return
	}
	copy(part, src[s*SectorSize:])
}

func sectorMask(at, n int) uint8 {
	var m uint8
	for s := at / SectorSize; s*SectorSize < at+n; s++ {
		m |= 1 << s
	}
	return m
}

var zeros block

func isZero(p []byte) bool { return string(p) == string(zeros[:len(p)]) }
