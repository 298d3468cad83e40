package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"
)

// checkpointRequest asks that the segment files hold what the journal
// generations through the given one protect. seq is the number of the first
// round behind them.
type checkpointRequest struct {
	through uint64
	seq     uint64
}

// checkpoints runs checkpoints in the background, paced so that their syncs
// leave the disk to the rounds.
type checkpoints struct {
	s     *Store
	files *journalFiles
	mu    sync.Mutex
	want  checkpointRequest
	// running: a request is being carried out, and can't be withdrawn.
	running bool
	// reached is the last generation that a checkpoint went through.
	reached uint64
	wake    chan struct{}
	stop    chan struct{}
	ended   chan struct{}
	failed  chan struct{}
	err     error
	// starved gives a token each time that a checkpoint finds no space.
	starved chan struct{}
}

func newCheckpoints(s *Store, files *journalFiles) *checkpoints {
	return &checkpoints{
		s: s, files: files, wake: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}), failed: make(chan struct{}), starved: make(chan struct{}, 1),
	}
}

func (c *checkpoints) request(r checkpointRequest) {
	c.mu.Lock()
	c.want = r
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *checkpoints) run() {
	defer close(c.ended)
	for {
		select {
		case <-c.stop:
			return
		case <-c.wake:
		}
		c.mu.Lock()
		r := c.want
		c.running = true
		c.mu.Unlock()
		err := c.checkpoint(r)
		c.mu.Lock()
		c.running = false
		if err == nil {
			c.reached = r.through
		}
		c.mu.Unlock()
		if isNoSpace(err) && !isSyncError(err) {
			// The journal keeps all until there is space again.
			c.s.cfg.Observer.Limit("disk_full")
			select {
			case c.starved <- struct{}{}:
			default:
			}
			c.retry()
			continue
		}
		select {
		case <-c.starved: // no longer true
		default:
		}
		if err != nil {
			c.err = err
			c.s.fail(err)
			close(c.failed)
			return
		}
	}
}

// withdraw replaces the request by one that leaves the journal file in use
// alone, since rounds go on in it. It says false when the request is being
// carried out, or was.
func (c *checkpoints) withdraw(instead checkpointRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || c.reached > instead.through {
		return false
	}
	c.want = instead
	return true
}

// retry asks for the last request again, in a while.
func (c *checkpoints) retry() {
	t := time.NewTimer(spaceInterval)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.stop:
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *checkpoints) checkpoint(r checkpointRequest) error {
	err := c.s.checkpointSegments(r.through, c.pace)
	if errors.Is(err, errStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.s.writeManifest(r); err != nil {
		return err
	}
	c.files.releaseThrough(r.through)
	if err := c.s.ballast.restore(); err != nil {
		c.s.cfg.Log.Warn("the ballast is not back yet", "err", err)
	}
	return nil
}

// checkpointAll is the last checkpoint, when nothing is written any more.
func (c *checkpoints) checkpointAll(r checkpointRequest) error {
	rest := func(time.Duration) bool { return true }
	if err := c.s.checkpointSegments(r.through, rest); err != nil {
		return err
	}
	return c.s.writeManifest(r)
}

// errStopped ends a checkpoint because the store closes.
var errStopped = errors.New("the store closes")

// checkpointSegments syncs the files that lack data of the journal generations
// up to through, several at the same time. After each sync, rest may wait; it
// says false to stop.
func (s *Store) checkpointSegments(through uint64, rest func(took time.Duration) bool) error {
	workers, ctx := errgroup.WithContext(context.Background())
	workers.SetLimit(s.cfg.SyncWorkers)
	for _, g := range s.dirtySegments(through) {
		workers.Go(func() error {
			if ctx.Err() != nil {
				return nil // another one failed
			}
			began := time.Now()
			if err := s.checkpointSegment(g, SyncCheckpoint); err != nil {
				return err
			}
			if !rest(time.Since(began)) {
				return errStopped
			}
			return nil
		})
	}
	return workers.Wait()
}

// pace rests as long as the last sync took, unless the writer may soon wait for
// a journal file. It says false when the store closes.
func (c *checkpoints) pace(took time.Duration) bool {
	if c.files.scarce() {
		return true
	}
	t := time.NewTimer(min(took, 20*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.stop:
		return false
	}
}

// dirtySegments lists the segments whose files lack data of the journal
// generations through g, in a fixed order.
func (s *Store) dirtySegments(through uint64) []*Segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dirty []*Segment
	for _, g := range s.segments {
		if d := g.dirtyFrom.Load(); d != 0 && d <= through {
			dirty = append(dirty, g)
		}
	}
	slices.SortFunc(dirty, func(a, b *Segment) int { return cmp.Compare(a.instance, b.instance) })
	return dirty
}

// checkpointSegment syncs the file of g and notes what it then holds.
func (s *Store) checkpointSegment(g *Segment, kind SyncKind) error {
	g.mu.Lock()
	snap, cuts := g.durable, g.cuts
	from := g.dirtyFrom.Swap(0)
	g.mu.Unlock()
	f, err := s.handles.get(g)
	if errors.Is(err, errForgotten) {
		return nil
	}
	if err != nil {
		g.markDirty(from)
		return err
	}
	defer s.handles.put(g)
	if err := s.syncSegment(g, f, kind); err != nil {
		return fmt.Errorf("segment %v: %w", g.meta.ID, err)
	}
	g.mu.Lock()
	if g.cuts == cuts && snap.length > g.checkpointed.tip.length {
		g.checkpointed.tip = snap
	}
	g.mu.Unlock()
	g.saveIndex()
	return nil
}

// syncSegment syncs the file of g. After any failed write or sync of the store
// nothing is synced any more (D5).
func (s *Store) syncSegment(g *Segment, f vfs.File, kind SyncKind) error {
	g.syncMu.Lock()
	defer g.syncMu.Unlock()
	if s.broken.Load() {
		return errBroken
	}
	began := time.Now()
	if err := f.SyncData(); err != nil {
		s.broken.Store(true)
		return asSyncError(err)
	}
	s.cfg.Observer.Synced(kind, time.Since(began))
	return nil
}

// writeManifest checkpoints which segments there are. A journal file that was
// made is in it before it is used, so that its loss is noticed.
func (s *Store) writeManifest(r checkpointRequest) error {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	if s.broken.Load() {
		return errBroken
	}
	s.lastCheckpoint = r
	if err := syncDir(s.fs, s.path(segmentDir)); err != nil {
		return fmt.Errorf("%s: %w", segmentDir, err)
	}
	m := manifest{generation: r.through + 1, seq: r.seq, journal: s.files.listed()}
	s.mu.Lock()
	m.nextInstance = s.nextInstance
	for _, g := range s.segments {
		g.mu.Lock()
		m.segments = append(m.segments, manifestSegment{
			instance: g.instance, meta: g.meta, tip: g.checkpointed.tip, sealed: g.checkpointed.sealed, lost: g.lost,
		})
		g.mu.Unlock()
	}
	s.mu.Unlock()
	slices.SortFunc(m.segments, func(a, b manifestSegment) int { return cmp.Compare(a.instance, b.instance) })
	return s.storeManifest(&m)
}

// storeManifest writes the manifest, at the cost of the ballast if need be.
func (s *Store) storeManifest(m *manifest) error {
	b := m.encode(s.id)
	err := writeFile(s.fs, s.dir, manifestFile, b)
	if isNoSpace(err) && !isSyncError(err) && s.ballast.release() {
		err = writeFile(s.fs, s.dir, manifestFile, b)
	}
	return err
}

// makeSpare makes the next journal file ahead of its use.
func (s *Store) makeSpare() {
	if !s.files.wantsSpare() {
		return
	}
	s.background.Go(func() {
		defer s.files.spareMade()
		if s.broken.Load() {
			return
		}
		jf, err := s.files.makeFile()
		if err == nil {
			s.manifestMu.Lock()
			last := s.lastCheckpoint
			s.manifestMu.Unlock()
			err = s.writeManifest(last)
		}
		switch {
		case err == nil:
			s.files.release(jf)
		case isSyncError(err) || errors.Is(err, errBroken):
			s.fail(err)
		case errors.Is(err, os.ErrClosed):
		default:
			s.cfg.Log.Warn("no spare journal file", "err", err)
		}
	})
}

// scarce says whether the writer may soon wait for a file.
func (j *journalFiles) scarce() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.free) < 2
}
