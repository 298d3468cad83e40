package segment

import (
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// space watches how much the disk has left, so that appends are refused while
// there is still room for what may not fail.
type space struct {
	fs  vfs.FS
	dir string
	min int64

	mu      sync.Mutex
	checked time.Time
	scarce  bool
}

// spaceInterval is how long an answer of the file system is believed.
const spaceInterval = 250 * time.Millisecond

// low says whether appends are refused for lack of space. It recovers by
// itself when a quarter more than the minimum is free.
func (s *space) low() bool {
	if s.min < 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.checked) < spaceInterval {
		return s.scarce
	}
	s.checked = time.Now()
	need := s.min
	if s.scarce {
		need += need / 4
	}
	usage, err := s.fs.GetDiskUsage(s.dir)
	s.scarce = err == nil && usage.AvailBytes < uint64(need)
	return s.scarce
}

// exhausted notes that the disk refused a write.
func (s *space) exhausted() {
	if s.min < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked, s.scarce = time.Now(), true
}

// ballast is a file that holds space back for the day the disk is full: it is
// given up for replay and for deletions, which free more than they need.
type ballast struct {
	fs   vfs.FS
	path string
	size int64
	min  int64

	mu   sync.Mutex
	held bool
}

// find notes whether a ballast is there from before.
func (b *ballast) find() {
	_, err := b.fs.Stat(b.path)
	b.held = err == nil
}

// restore makes the ballast if it is not there and the disk has room for it
// and as much again as must stay free.
func (b *ballast) restore() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held || b.size <= 0 {
		return nil
	}
	if usage, err := b.fs.GetDiskUsage(b.path); err == nil && usage.AvailBytes < uint64(b.size+2*max(b.min, 0)) {
		return nil
	}
	f, err := b.fs.Create(b.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make the ballast: %w", err)
	}
	err = f.Preallocate(0, b.size)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = b.fs.Remove(b.path)
		return fmt.Errorf("make the ballast: %w", err)
	}
	b.held = true
	return nil
}

// release gives the space back. It says whether there was any to give.
func (b *ballast) release() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.held {
		return false
	}
	b.held = false
	return b.fs.Remove(b.path) == nil
}
