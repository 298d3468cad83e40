package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/quirelog/quire/internal/batch"
)

// Recovery says what Open found and did.
type Recovery struct {
	// Segments counts the segments, Rounds the journal rounds that were
	// replayed.
	Segments int
	Rounds   int
	// Replayed counts the bytes written again from the journal, Kept those
	// that stood in segment files above their marks and were made durable.
	Replayed int64
	Kept     int64
	// Torn counts the bytes above the durable mark that were no whole batch
	// and were dropped: what a crash tore. Damage to the last round before a
	// crash looks the same, and is counted here too.
	Torn int64
	Took time.Duration
}

// recoverer replays the journal onto the manifest's segments.
type recoverer struct {
	s        *Store
	manifest manifest
	rounds   []roundRef
	segs     map[uint64]*recovering
	dead     []*recovering
	report   Recovery
	verified atomic.Int64
	// dry keeps what would be written as patches; tolerant goes on over holes
	// of the journal and lists them. Both are for the doctor.
	dry      bool
	tolerant bool
	holes    []*CorruptError
}

// recovering is a segment on its way.
type recovering struct {
	manifestSegment
	path string
	// cuts are the cuts that the journal holds, in order of its entries.
	cuts []cutAt
	// fresh: nothing of it was checkpointed, so that its file may be missing
	// or lack its header, and the journal vouches for it.
	fresh bool
	// onDisk: it has a file, whose name is durable after recovery.
	onDisk bool
	// doomed: the journal deletes it further on.
	doomed  bool
	touched bool
	// wipe: the segment was cut, and nothing proves that what lay behind the
	// cut was wiped.
	wipe    bool
	f       vfs.File
	patches []patch
}

// patch is what a dry recovery would write to a segment's file.
type patch struct {
	at int64
	b  []byte
}

type cutAt struct {
	entry  int
	length int64
}

// run recovers, registers the segments and gives the manifest that was
// written in the end.
func (r *recoverer) run(names []string) (manifest, error) {
	began := time.Now()
	if err := r.load(names); err != nil {
		return manifest{}, err
	}
	defer r.close()
	if err := r.replay(); err != nil {
		return manifest{}, err
	}
	if err := r.finish(); err != nil {
		return manifest{}, err
	}
	if err := r.s.files.open(names, r.manifest.journal); err != nil {
		return manifest{}, err
	}
	next, err := r.checkpoint()
	if err != nil {
		return manifest{}, err
	}
	r.register()
	r.report.Segments, r.report.Rounds, r.report.Took = len(r.segs), len(r.rounds), time.Since(began)
	r.s.recovery = r.report
	if r.report.Torn > 0 {
		r.s.cfg.Log.Warn("dropped a torn tail", "bytes", r.report.Torn)
	}
	return next, nil
}

// load reads the manifest and finds the journal's rounds.
func (r *recoverer) load(names []string) error {
	var err error
	if r.manifest, err = readManifest(r.s.fs, r.s.dir, r.s.id); err != nil {
		return err
	}
	for _, j := range r.manifest.journal {
		if err := r.journalFile(j); err != nil {
			return err
		}
	}
	r.segs = map[uint64]*recovering{}
	for _, m := range r.manifest.segments {
		r.segs[m.instance] = &recovering{
			manifestSegment: m, path: segmentPath(m.meta.ID, m.instance),
			fresh: m.tip.length == headerSize && !m.sealed,
		}
	}
	if err := r.findRounds(names); err != nil || r.dry || len(r.rounds) == 0 {
		return err
	}
	return r.anchor(r.rounds[len(r.rounds)-1])
}

// anchor writes the last round again at its place and syncs it. All before it
// were durable when it was written; it alone may be in the page cache only,
// left by a process that was killed, and recovery removes and wipes on its
// word (D4).
func (r *recoverer) anchor(ref roundRef) error {
	f, err := r.s.fs.OpenReadWrite(r.s.path(ref.file), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("open %s: %w", ref.file, err)
	}
	defer f.Close()
	b, err := readFull(f, ref.file, ref.at, ref.size)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, ref.at); err != nil {
		return fmt.Errorf("write %s: %w", ref.file, err)
	}
	return asSyncError(f.SyncData())
}

// journalFile checks that a file of the journal is there whole.
func (r *recoverer) journalFile(j manifestJournal) error {
	info, err := r.s.fs.Stat(r.s.path(j.name))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return r.hole(corrupt(j.name, 0, "it is missing"))
	case err != nil:
		return fmt.Errorf("stat %s: %w", j.name, err)
	case info.Size() < j.size:
		return r.hole(corrupt(j.name, info.Size(), "it ends here, and had %d bytes", j.size))
	}
	return nil
}

// replay brings the segments to what the journal says.
func (r *recoverer) replay() error {
	for _, pass := range []func(*entry, int) error{r.foresee, r.apply} {
		if err := r.entries(pass); err != nil {
			return err
		}
	}
	return nil
}

// hole is damage of the journal: an error, unless holes are tolerated.
func (r *recoverer) hole(err error) error {
	var c *CorruptError
	if !r.tolerant || !errors.As(err, &c) {
		return err
	}
	r.holes = append(r.holes, c)
	return nil
}

// findRounds reads the journal and checks that nothing is missing below the
// durable mark: a whole round proves all before it.
func (r *recoverer) findRounds(names []string) error {
	for _, name := range names {
		j, err := openJournal(r.s.fs, r.s.dir, name, r.s.id)
		if err != nil {
			return err
		}
		refs, err := j.scan(r.manifest.generation)
		j.close()
		if err != nil {
			return err
		}
		r.rounds = append(r.rounds, refs...)
	}
	slices.SortFunc(r.rounds, func(a, b roundRef) int { return cmp.Compare(a.seq, b.seq) })
	want := r.manifest.seq
	for i, ref := range r.rounds {
		if ref.seq != want {
			file, at := ref.file, int64(0)
			if i > 0 && r.rounds[i-1].generation == ref.generation {
				at = r.rounds[i-1].at + r.rounds[i-1].size
			}
			err := corrupt(file, at, "round %d is missing, and round %d proves that it was durable", want, ref.seq)
			if err := r.hole(err); err != nil {
				return err
			}
			want = ref.seq
		}
		want++
	}
	return nil
}

// entries calls fn for each entry of the rounds, in order.
func (r *recoverer) entries(fn func(*entry, int) error) error {
	var j *journalReader
	defer func() {
		if j != nil {
			j.close()
		}
	}()
	n := 0
	for _, ref := range r.rounds {
		if j == nil || j.name != ref.file {
			if j != nil {
				j.close()
			}
			var err error
			if j, err = openJournal(r.s.fs, r.s.dir, ref.file, r.s.id); err != nil {
				return err
			}
		}
		rd, ok, err := j.round(ref.at)
		if err != nil || !ok {
			return errors.Join(corrupt(ref.file, ref.at, "a round changed while it was read"), err)
		}
		for i := range rd.entries {
			if err := fn(&rd.entries[i], n); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// foresee learns of segments, and of the cuts and deletions that lie ahead.
func (r *recoverer) foresee(e *entry, n int) error {
	if e.kind == entryCreate && r.segs[e.instance] == nil {
		r.segs[e.instance] = &recovering{
			manifestSegment: manifestSegment{instance: e.instance, meta: e.meta, tip: e.meta.startTip()},
			path:            segmentPath(e.meta.ID, e.instance), fresh: true,
		}
		r.manifest.nextInstance = max(r.manifest.nextInstance, e.instance+1)
	}
	g := r.segs[e.instance]
	switch {
	case g == nil:
	case e.kind == entryCut:
		g.cuts = append(g.cuts, cutAt{n, e.tip.length})
	case e.kind == entryDelete:
		g.doomed = true
	}
	return nil
}

func (r *recoverer) apply(e *entry, n int) error {
	g := r.segs[e.instance]
	if g == nil {
		return nil // of a segment that is dead
	}
	switch e.kind {
	case entryData:
		if g.doomed {
			return nil // its file may be gone already
		}
		return r.data(g, e, n)
	case entryMark:
		g.wipe = false
		if e.tip.length > g.tip.length {
			g.tip = e.tip
		}
	case entryCut:
		g.tip, g.wipe, g.touched = e.tip, true, true
	case entrySeal:
		g.tip, g.sealed, g.touched = e.tip, true, true
	case entryDelete:
		delete(r.segs, e.instance)
		r.dead = append(r.dead, g)
	}
	return nil
}

// data writes a data entry to its segment's file again, up to where a later
// cut ends it, and moves the tip.
func (r *recoverer) data(g *recovering, e *entry, n int) error {
	b := e.data
	for _, c := range g.cuts {
		if c.entry > n {
			b = b[:min(int64(len(b)), max(0, c.length-e.pos))]
		}
	}
	g.wipe = false
	if len(b) == 0 {
		return nil
	}
	if err := r.reaches(g, e.pos); err != nil {
		return err
	}
	if err := r.write(g, b, e.pos); err != nil {
		return err
	}
	r.report.Replayed += int64(len(b))
	if e.pos+int64(len(b)) <= g.tip.length {
		return nil
	}
	at := tip{length: e.pos, first: g.tip.first}
	for len(b) > 0 {
		h, err := batch.ParseHeader(b)
		if err != nil || int(h.Size) > len(b) {
			return corrupt(g.path, at.length, "the journal holds no batch for it: %v", err)
		}
		if at.tail.Base == 0 {
			at.tail.UserBefore = h.UserBefore
		}
		at.advance(&h, b[:h.Size])
		b = b[h.Size:]
	}
	g.tip = at
	return nil
}

// reaches checks that a segment's file has all before pos: that was durable
// when the journal's entry for pos was written.
func (r *recoverer) reaches(g *recovering, pos int64) error {
	if pos == headerSize {
		return nil
	}
	info, err := r.s.fs.Stat(r.s.path(g.path))
	size := int64(0)
	switch {
	case err == nil:
		size = info.Size()
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("stat %s: %w", g.path, err)
	}
	for _, p := range g.patches {
		size = max(size, p.at+int64(len(p.b)))
	}
	if size < pos {
		return corrupt(g.path, size, "it ends before byte %d, through which it was durable", pos)
	}
	return nil
}

// file opens a segment's file for writing.
func (r *recoverer) file(g *recovering) (vfs.File, error) {
	if g.f == nil {
		f, err := r.s.fs.OpenReadWrite(r.s.path(g.path), vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", g.path, err)
		}
		g.f = f
	}
	return g.f, nil
}

// write writes bytes that the page cache alone may hold, so that the sync at
// the end makes them durable; a full disk gets the ballast first.
func (r *recoverer) write(g *recovering, b []byte, at int64) error {
	if r.dry {
		g.patches = append(g.patches, patch{at, slices.Clone(b)})
		return nil
	}
	f, err := r.file(g)
	if err != nil {
		return err
	}
	g.touched = true
	_, err = f.WriteAt(b, at)
	if isNoSpace(err) && r.s.ballast.release() {
		_, err = f.WriteAt(b, at)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", g.path, err)
	}
	return nil
}

// finish checks each segment's file against its tip, keeps what stands whole
// above it, and makes everything durable, several files at a time.
func (r *recoverer) finish() error {
	for _, g := range r.dead {
		for _, path := range []string{r.s.path(g.path), r.s.path(g.path + ".idx")} {
			if err := r.s.fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove %s: %w", g.path, err)
			}
		}
	}
	var mu sync.Mutex
	workers, ctx := errgroup.WithContext(context.Background())
	workers.SetLimit(r.s.cfg.SyncWorkers)
	for _, g := range r.inOrder() {
		workers.Go(func() error {
			if ctx.Err() != nil {
				return nil // another one failed
			}
			kept, torn, err := r.finishSegment(g)
			mu.Lock()
			defer mu.Unlock()
			r.report.Kept += kept
			r.report.Torn += torn
			return err
		})
	}
	return workers.Wait()
}

// verifies says whether a segment of so many bytes is still verified at the
// start, and takes it off what may be.
func (r *recoverer) verifies(bytes int64) bool {
	if r.verified.Add(bytes) <= r.s.cfg.VerifyBytes {
		return true
	}
	r.verified.Add(-bytes)
	return false
}

// inOrder lists the segments by their instances.
func (r *recoverer) inOrder() []*recovering {
	order := make([]*recovering, 0, len(r.segs))
	for _, g := range r.segs {
		order = append(order, g)
	}
	slices.SortFunc(order, func(a, b *recovering) int { return cmp.Compare(a.instance, b.instance) })
	return order
}

// finishSegment checks one segment and makes it durable. It says how many
// bytes above the mark it kept and how many it dropped.
func (r *recoverer) finishSegment(g *recovering) (kept, torn int64, err error) {
	info, err := r.s.fs.Stat(r.s.path(g.path))
	size := int64(0)
	switch {
	case err == nil:
		size = info.Size()
	case !errors.Is(err, os.ErrNotExist):
		return 0, 0, fmt.Errorf("stat %s: %w", g.path, err)
	case g.tip.length > headerSize && !g.touched:
		return 0, 0, corrupt(g.path, 0, "it is missing")
	}
	if size < headerSize && g.tip.length == headerSize && !g.sealed {
		return 0, 0, nil // created, never written whole
	}
	if size < g.tip.length {
		return 0, 0, corrupt(g.path, size, "it ends before byte %d, through which it was durable", g.tip.length)
	}
	f, err := r.file(g)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		g.f = nil
	}()
	g.onDisk = true
	if err := r.header(g); err != nil {
		return 0, 0, err
	}
	switch {
	case g.sealed:
		err = r.footer(g)
	case g.wipe:
		_, err = zeroFrom(f, g.tip.length, size)
	default:
		kept, torn, err = r.keepAbove(g, size)
	}
	if err == nil && r.verifies(g.tip.length) {
		_, err = verify(g.path, &g.meta, g.tip, pieces(f))
	}
	if err == nil && g.touched {
		err = asSyncError(f.SyncData())
	}
	if err == nil && g.tip.first == 0 && g.tip.length > headerSize {
		h, herr := headerAt(f, headerSize)
		if herr != nil {
			return kept, torn, corrupt(g.path, headerSize, "%v", herr)
		}
		g.tip.first = h.AppendTime
	}
	return kept, torn, err
}

// header checks the file's header, or writes it again where the journal
// vouches for the segment.
func (r *recoverer) header(g *recovering) error {
	want := encodeHeader(r.s.id, g.instance, &g.meta)
	got := make([]byte, headerSize)
	if n, _ := g.f.ReadAt(got, 0); n == headerSize && string(got) == string(want) {
		return nil
	}
	if g.fresh {
		return r.write(g, want, 0)
	}
	if err := checkVersion(g.path, got, headerMagic, fileVersion); err != nil {
		return err
	}
	return corrupt(g.path, 0, "its header is not the one it was made with")
}

// footer checks a sealed segment's footer, or writes it again where the
// journal holds the seal.
func (r *recoverer) footer(g *recovering) error {
	want := encodeFooter(r.s.id, g.instance, g.meta.ID, &g.tip, g.lost)
	if g.touched {
		return r.write(g, want, g.tip.length)
	}
	got := make([]byte, footerSize)
	if n, _ := g.f.ReadAt(got, g.tip.length); n < footerSize || string(got) != string(want) {
		return corrupt(g.path, g.tip.length, "its footer is not the one it was sealed with")
	}
	return nil
}

// keepAbove walks what stands above the tip: batches that continue it are
// kept and written again, since the page cache alone may have them; the rest
// is a torn tail and is wiped.
func (r *recoverer) keepAbove(g *recovering, size int64) (kept, torn int64, err error) {
	const window = batch.MaxSize + 1<<20
	for g.tip.length < size {
		buf, err := readFull(g.f, g.path, g.tip.length, min(window, size-g.tip.length))
		if err != nil {
			return kept, torn, err
		}
		used := 0
		for used < len(buf) {
			h, err := batch.ParseHeader(buf[used:])
			if err != nil || int(h.Size) > len(buf)-used || !g.tip.continues(&g.meta, &h) {
				break
			}
			b := buf[used : used+int(h.Size)]
			if _, err := batch.Check(b); err != nil {
				break
			}
			g.tip.advance(&h, b)
			used += len(b)
		}
		if used == 0 {
			break
		}
		if err := r.write(g, buf[:used], g.tip.length-int64(used)); err != nil {
			return kept, torn, err
		}
		kept += int64(used)
	}
	if g.tip.length < size {
		n, err := zeroFrom(g.f, g.tip.length, size)
		if n > 0 {
			g.touched = true
			torn = n
		}
		if err != nil {
			return kept, torn, fmt.Errorf("wipe the torn tail of %s: %w", g.path, err)
		}
	}
	return kept, torn, nil
}

// checkpoint makes what was recovered the new manifest, so that the journal
// begins empty.
func (r *recoverer) checkpoint() (manifest, error) {
	next := manifest{
		generation: r.manifest.generation, seq: r.manifest.seq, nextInstance: r.manifest.nextInstance,
		journal: r.s.files.listed(),
	}
	for _, ref := range r.rounds {
		next.generation = max(next.generation, ref.generation)
		next.seq = ref.seq + 1
	}
	next.generation++
	for _, g := range r.inOrder() {
		next.segments = append(next.segments, g.manifestSegment)
	}
	if err := syncDir(r.s.fs, r.s.path(segmentDir)); err != nil {
		return manifest{}, err
	}
	if err := r.s.storeManifest(&next); err != nil {
		return manifest{}, err
	}
	return next, r.s.files.removeObsolete()
}

func (r *recoverer) register() {
	for _, g := range r.segs {
		seg := r.s.newSegment(g.instance, g.meta, g.tip, g.sealed, g.lost)
		seg.syncedDir = g.onDisk
		seg.index.whole = g.tip.length == headerSize
		r.s.segments[g.meta.ID] = seg
	}
	r.s.nextInstance = r.manifest.nextInstance
}

func (r *recoverer) close() {
	for _, g := range r.segs {
		if g.f != nil {
			_ = g.f.Close()
			g.f = nil
		}
	}
}

// zeroFrom overwrites the bytes [at, end) of a file with zeros, no further
// than it reaches, and counts those that were not zero before.
func zeroFrom(f vfs.File, at, end int64) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end = min(end, info.Size())
	changed := int64(0)
	buf := make([]byte, 64<<10)
	for at < end {
		b := buf[:min(int64(len(buf)), end-at)]
		if n, err := f.ReadAt(b, at); n < len(b) {
			return changed, err
		}
		last := lastNonZero(b)
		if last >= 0 {
			changed += int64(last + 1)
			clear(b)
			if _, err := f.WriteAt(b, at); err != nil {
				return changed, err
			}
		}
		at += int64(len(b))
	}
	return changed, nil
}

func lastNonZero(b []byte) int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return i
		}
	}
	return -1
}
