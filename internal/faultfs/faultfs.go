// Package faultfs is a file system in memory that lies the way disks lie. It
// models a page cache over a disk: what reads see and what would be there
// after a power cut are kept apart, and only syncs bring the second up to the
// first. Crash gives one of the disks that a power cut could leave behind.
// Faults are data: an Injector is asked about each operation and may refuse
// it, shorten it, fail it after it took effect, or stop the machine there.
//
// What always holds: bytes and names that a sync reported as stable are in
// every crash image; what no sync covered may be there, be lost, or be there
// in part, sector by sector and name by name; after a failed sync the cache
// calls its dirty sectors clean although the disk never got them, and reads
// still show them, as Linux does. All chance comes from seeds and from names,
// never from the order in which files are visited.
//
// Only tests and fault drills import it.
package faultfs

import (
	"errors"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrCrashed is what every operation returns once the machine has stopped.
var ErrCrashed = errors.New("faultfs: the machine has stopped")

// Config says how a file system behaves. The zero value is a disk without
// bounds and without mischief.
type Config struct {
	// Seed decides all that is left to chance while the system runs.
	Seed uint64
	// Capacity bounds the allocated bytes, counted in blocks of 4 KiB.
	// Default 0: no bound.
	Capacity int64
	// WriteBack is the chance in percent that a dirty sector had already
	// reached the disk when it is overwritten, so that a crash may show the
	// older of two unsynced versions. Default 0.
	WriteBack int
	// FailedSyncKeeps is the chance in percent that a sector or a name reached
	// the disk although its sync failed. Default 0: a failed sync stores
	// nothing.
	FailedSyncKeeps int
	// FullSyncTo makes SyncTo a full sync that says so. By default it
	// promises nothing, and stores what WriteBack leaves to chance.
	FullSyncTo bool
	// Trace, if not nil, is told of each operation and how it ended. It is
	// called with the file system locked and must not call back.
	Trace func(op Op, err error)
}

// FS is the file system. It is safe for concurrent use.
type FS struct {
	mu      sync.Mutex
	cfg     Config
	root    *node
	pending []change // name changes that no sync covers, oldest first
	locked  map[string]bool
	counts  map[string]*Counters

	// used is all allocated bytes; limbo is the part of it that belongs to
	// files that are removed, though a crash could still bring them back.
	used, limbo int64

	inject  Injector
	crashAt int64
	frozen  bool
	ops     int64
	changes int64
}

var _ vfs.FS = (*FS)(nil)

// New makes an empty file system.
func New(cfg Config) *FS {
	f := &FS{
		cfg:     cfg,
		root:    newDir("/"),
		locked:  map[string]bool{},
		counts:  map[string]*Counters{},
		crashAt: -1,
	}
	f.root.links, f.root.claims = 1, 1
	return f
}

// SetInjector installs the function that decides about faults; nil removes
// it.
func (f *FS) SetInjector(in Injector) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inject = in
}

// SetCapacity changes the bound on allocated bytes, as when somebody frees or
// fills space beside the store; 0 removes it.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cfg.Capacity = bytes
}

// CrashAt stops the machine in place of the change number n, counted from the
// making of the file system (see Changes). Negative: never.
func (f *FS) CrashAt(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAt = n
}

// Freeze stops the machine now: every later operation returns ErrCrashed.
func (f *FS) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

// Frozen says whether the machine has stopped.
func (f *FS) Frozen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen
}

// Changes counts the operations so far that could change what a crash leaves
// behind.
func (f *FS) Changes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// Counters count what was done to one path.
type Counters struct {
	Reads, Writes, Syncs int64
	// BytesRead and BytesWritten count what took effect.
	BytesRead, BytesWritten int64
}

// Count gives the counters of the files that were opened as path.
func (f *FS) Count(path string) Counters {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.counts[clean(path)]; c != nil {
		return *c
	}
	return Counters{}
}

// TotalCount gives the sum of the counters of all files.
func (f *FS) TotalCount() Counters {
	f.mu.Lock()
	defer f.mu.Unlock()
	var t Counters
	for _, c := range f.counts {
		t.Reads += c.Reads
		t.Writes += c.Writes
		t.Syncs += c.Syncs
		t.BytesRead += c.BytesRead
		t.BytesWritten += c.BytesWritten
	}
	return t
}

func (f *FS) counters(path string) *Counters {
	c := f.counts[path]
	if c == nil {
		c = &Counters{}
		f.counts[path] = c
	}
	return c
}

// chance is the source of everything random about one name, so that two files
// never disturb one another's fate.
func chance(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// hit draws with a chance in percent.
func hit(rng *rand.Rand, percent int) bool {
	return percent >= 100 || percent > 0 && rng.IntN(100) < percent
}

// wrap names the operation and the file, as the operating system's errors do.
func wrap(op Op, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op.Kind.String(), Path: op.Path, Err: err}
}
