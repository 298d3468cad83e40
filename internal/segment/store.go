package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// Store is one data directory, open. Open makes it, Close ends it.
type Store struct {
	fs       vfs.FS
	dir      string
	cfg      Config
	id       ident.StoreID
	lock     io.Closer
	recovery Recovery

	queue       queue
	handles     *handles
	tail        *tails
	space       *space
	ballast     *ballast
	files       *journalFiles
	writer      *writer
	checkpoints *checkpoints
	background  sync.WaitGroup

	manifestMu     sync.Mutex
	lastCheckpoint checkpointRequest

	mu           sync.Mutex
	segments     map[ident.SegmentID]*Segment
	nextInstance uint64

	closeOnce      sync.Once
	closeRequested chan struct{}
	writerEnded    chan struct{}

	// broken: something failed after which nothing may be synced any more.
	broken   atomic.Bool
	failOnce sync.Once
	failed   chan struct{}
	err      error
}

// Open opens the data directory dir, which it makes if it is not there, and
// recovers what a crash left: it replays the journal, keeps every batch that
// was answered, and drops a torn tail. Damage below the durable mark is a
// data_corrupt error that names file and byte, and nothing is changed. One
// process may have a directory open (data_locked).
func Open(fsys vfs.FS, dir string, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		fs: fsys, dir: dir, cfg: cfg, lock: lock,
		queue:          queue{limit: cfg.QueueBytes, wake: make(chan struct{}, 1)},
		tail:           &tails{limit: cfg.TailCacheBytes},
		space:          &space{fs: fsys, dir: dir, min: cfg.MinFreeBytes},
		files:          &journalFiles{fs: fsys, dir: dir, size: cfg.JournalFileBytes, limit: cfg.JournalFiles},
		segments:       map[ident.SegmentID]*Segment{},
		closeRequested: make(chan struct{}), writerEnded: make(chan struct{}), failed: make(chan struct{}),
	}
	s.handles = newHandles(s, cfg.OpenFiles)
	s.ballast = &ballast{fs: fsys, path: s.path(ballastFile), min: cfg.MinFreeBytes}
	if cfg.BallastReserve >= 0 {
		s.ballast.size = cfg.JournalFileBytes*int64(cfg.JournalFiles) + cfg.BallastReserve
	}
	if err := s.open(); err != nil {
		_ = s.files.close()
		_ = s.handles.close()
		_ = lock.Close()
		return nil, openError(dir, err)
	}
	go func() {
		defer close(s.writerEnded)
		s.writer.run()
	}()
	go s.checkpoints.run()
	return s, nil
}

func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	if err := makeDir(fsys, dir); err != nil {
		return nil, openError(dir, err)
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, lockFile))
	if err == nil {
		return lock, nil
	}
	if err := openError(dir, err); status.CodeOf(err) != status.Internal {
		return nil, err
	}
	return nil, status.New(status.DataLocked, "the data directory %s is in use by another process: %w", dir, err)
}

// makeDir makes a directory and what is missing above it, durably.
func makeDir(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := fsys.PathDir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return syncDir(fsys, parent)
}

// syncAbove syncs every directory above dir.
func syncAbove(fsys vfs.FS, dir string) error {
	parent := fsys.PathDir(dir)
	if parent == dir {
		return nil
	}
	if err := syncDir(fsys, parent); err != nil {
		return err
	}
	return syncAbove(fsys, parent)
}

// openError gives the errors of the operating system the code that users know.
func openError(dir string, err error) error {
	switch {
	case status.CodeOf(err) != status.Internal:
		return err
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return status.New(status.DataReadOnly, "the data directory %s cannot be written: %w", dir, err)
	case isNoSpace(err):
		return status.New(status.DiskFull, "open %s: %w", dir, err)
	}
	return fmt.Errorf("open %s: %w", dir, err)
}

// open reads or makes the store's files and recovers.
func (s *Store) open() error {
	s.ballast.find()
	if err := s.identify(); err != nil {
		return err
	}
	// What is found may be in the page cache only, left by a process that was
	// killed; nothing is built on it before it is durable.
	if err := syncDir(s.fs, s.dir); err != nil {
		return err
	}
	names, err := s.journalNames()
	if err != nil {
		return err
	}
	r := &recoverer{s: s}
	next, err := r.run(names)
	if err != nil {
		return err
	}
	s.lastCheckpoint = checkpointRequest{through: next.generation - 1, seq: next.seq}
	s.writer = newWriter(s, s.files, next.generation-1, next.seq)
	s.checkpoints = newCheckpoints(s, s.files)
	if err := s.ballast.restore(); err != nil {
		s.cfg.Log.Warn("no ballast", "err", err)
	}
	return nil
}

// identify reads the store's identity. A directory without any of a store's
// files gets one.
func (s *Store) identify() error {
	id, err := readStoreID(s.fs, s.dir)
	if errors.Is(err, os.ErrNotExist) {
		for _, name := range []string{manifestFile, journalDir, segmentDir} {
			if _, err := s.fs.Stat(s.path(name)); err == nil {
				return corrupt(storeFile, 0, "it is missing, and %s is there", name)
			}
		}
		// The directory itself may be from an attempt that was killed.
		if err := syncAbove(s.fs, s.dir); err != nil {
			return err
		}
		id = ident.NewIncarnation()
		err = writeFile(s.fs, s.dir, storeFile, encodeStoreID(id))
	}
	if err != nil {
		return err
	}
	s.id = id
	if _, err := s.fs.Stat(s.path(manifestFile)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// The first start may have ended between the two files, before anything
	// else was written.
	for _, name := range []string{journalDir, segmentDir} {
		if names, _ := s.fs.List(s.path(name)); len(names) > 0 {
			return corrupt(manifestFile, 0, "it is missing, and %s is not empty", name)
		}
	}
	for _, name := range []string{journalDir, segmentDir} {
		if err := makeDir(s.fs, s.path(name)); err != nil {
			return err
		}
	}
	m := manifest{generation: 1, seq: 1, nextInstance: 1}
	return writeFile(s.fs, s.dir, manifestFile, m.encode(id))
}

// journalNames lists the journal's files, by their paths in the directory.
func (s *Store) journalNames() ([]string, error) {
	names, err := s.fs.List(s.path(journalDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", journalDir, err)
	}
	for i, n := range names {
		names[i] = journalDir + "/" + n
	}
	slices.Sort(names)
	return names, nil
}

func (s *Store) path(name string) string { return s.fs.PathJoin(s.dir, name) }

// Identity is the store's random identity.
func (s *Store) Identity() ident.StoreID { return s.id }

// Recovery says what Open found and did.
func (s *Store) Recovery() Recovery { return s.recovery }

// Create makes a segment. It returns when that is durable. An id that is in
// use is refused.
func (s *Store) Create(m Meta) (*Segment, error) {
	s.mu.Lock()
	if _, ok := s.segments[m.ID]; ok {
		s.mu.Unlock()
		return nil, fmt.Errorf("create segment %v: it exists", m.ID)
	}
	instance := s.nextInstance
	s.nextInstance++
	s.mu.Unlock()
	g := s.newSegment(instance, m, m.startTip(), false, 0)
	g.index.whole = true
	err := s.do(func(done func(error)) error {
		return s.submit(op{kind: opCreate, seg: g, done: done})
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (s *Store) newSegment(instance uint64, m Meta, t tip, sealed bool, lost uint64) *Segment {
	return &Segment{
		store: s, meta: m, instance: instance, path: segmentPath(m.ID, instance),
		submitted: t, durable: t, written: t, checkpointed: checkpointed{t, sealed},
		sealing: sealed, sealed: sealed, lost: lost,
	}
}

// register makes a created segment known. The writer calls it.
func (s *Store) register(g *Segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments[g.meta.ID] = g
}

// Segment gives the segment of an id, if the store has it.
func (s *Store) Segment(id ident.SegmentID) (*Segment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.segments[id]
	return g, ok
}

// Segments lists all segments by their ids.
func (s *Store) Segments() []Info {
	s.mu.Lock()
	all := make([]*Segment, 0, len(s.segments))
	for _, g := range s.segments {
		all = append(all, g)
	}
	s.mu.Unlock()
	infos := make([]Info, len(all))
	for i, g := range all {
		infos[i] = g.Info()
	}
	slices.SortFunc(infos, func(a, b Info) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return infos
}

// Delete removes segments for ever, on the word of a committed command. It
// returns when that is durable. A segment that is not there is done already.
func (s *Store) Delete(ids ...ident.SegmentID) error {
	var wait []chan error
	for _, id := range ids {
		g, ok := s.Segment(id)
		if !ok {
			continue
		}
		ch := make(chan error, 1)
		g.mu.Lock()
		g.deleted, g.sealing = true, true
		err := s.submit(op{kind: opDelete, seg: g, done: func(err error) { ch <- err }})
		g.mu.Unlock()
		if err != nil {
			return err
		}
		wait = append(wait, ch)
	}
	var first error
	for _, ch := range wait {
		if err := <-ch; err != nil && first == nil {
			first = err
		}
	}
	if err := s.ballast.restore(); err != nil {
		s.cfg.Log.Warn("the ballast is not back yet", "err", err)
	}
	return first
}

// forget removes the files of a segment whose deletion is durable in the
// journal. The directory is synced before the journal lets go of that.
func (s *Store) forget(g *Segment) error {
	s.mu.Lock()
	delete(s.segments, g.meta.ID)
	s.mu.Unlock()
	g.dirtyFrom.Store(0)
	g.forgotten.Store(true)
	s.handles.drop(g)
	s.tail.drop(g)
	for _, path := range []string{s.path(g.path), g.indexPath()} {
		if err := s.fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove segment %v: %w", g.meta.ID, err)
		}
	}
	return nil
}

// Done is closed when the store has failed; Err then says why. After that it
// does nothing more: what waits is answered store_failed, reads go on as long
// as the disk gives them.
func (s *Store) Done() <-chan struct{} { return s.failed }

// Err is why the store failed; nil while it has not.
func (s *Store) Err() error {
	select {
	case <-s.failed:
		return s.err
	default:
		return nil
	}
}

// fail stops the store for ever.
func (s *Store) fail(err error) {
	s.broken.Store(true)
	s.failOnce.Do(func() {
		s.err = stoppedError(err)
		s.cfg.Log.Error("the store has stopped", "dir", s.dir, "err", err)
		close(s.failed)
	})
	for _, o := range s.queue.close(s.err) {
		if o.done != nil {
			o.done(s.err)
		}
	}
}

func stoppedError(err error) error {
	return status.New(status.StoreFailed, "the store has stopped after a failed write: %w", err)
}

var errBroken = errors.New("an earlier write or sync failed")

var errClosed = status.New(status.Unavailable, "the store is closed")

// closing says that Close was called and nothing waits.
func (s *Store) closing() bool {
	select {
	case <-s.closeRequested:
		return true
	default:
		return false
	}
}

// Close writes what waits, checkpoints, and releases the directory. It is
// idempotent and returns the store's failure if it has failed.
func (s *Store) Close() error {
	var err error
	s.closeOnce.Do(func() {
		s.queue.mu.Lock()
		if s.queue.closed == nil {
			s.queue.closed = errClosed
		}
		s.queue.mu.Unlock()
		close(s.closeRequested)
		<-s.writerEnded
		close(s.checkpoints.stop)
		<-s.checkpoints.ended
		s.background.Wait()
		err = s.Err()
		if err == nil {
			err = s.checkpoints.checkpointAll(checkpointRequest{through: s.writer.generation, seq: s.writer.seq})
		}
		if isNoSpace(err) && !isSyncError(err) {
			err = status.New(status.DiskFull, "the last checkpoint found no space; the next start replays the journal: %w", err)
		}
		for _, f := range []func() error{s.handles.close, s.files.close, s.lock.Close} {
			if cerr := f(); err == nil {
				err = cerr
			}
		}
	})
	return err
}
