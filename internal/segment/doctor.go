package segment

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Report is what a doctor found in a data directory.
type Report struct {
	Store    string
	Segments int
	Records  uint64
	Bytes    int64
	// Rounds counts the journal rounds that the next start replays.
	Rounds   int
	Findings []Finding
}

// Sound says that nothing is damaged; there may still be notes.
func (r *Report) Sound() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Damage })
}

// Finding is one thing that a doctor found.
type Finding struct {
	// File is the path within the data directory, Offset the byte in it.
	File   string
	Offset int64
	What   string
	// Damage: bytes that were durable are not as they were. Without it the
	// finding is a note, and nothing is lost.
	Damage bool
	// Lost counts the records that cannot be had back, if Damage.
	Lost uint64
	// Repaired: the doctor has mended it. Otherwise Remedy says what to do.
	Repaired bool
	Remedy   string
}

// damagedDir is where a repair keeps the damaged files as they were.
const damagedDir = "damaged"

// Doctor checks everything in a data directory that no broker has open, and
// says what is wrong, where, and how bad. With repair it mends what can be
// mended: a damaged segment is kept up to its first damage and the records
// behind it are told to readers as lost; the damaged file stays in damaged/.
// An error means that the directory could not be examined.
func Doctor(fsys vfs.FS, dir string, repair bool) (Report, error) {
	if _, err := fsys.Stat(dir); err != nil {
		return Report{}, openError(dir, err)
	}
	cfg, err := Config{BallastReserve: -1}.withDefaults()
	if err != nil {
		return Report{}, err
	}
	lock, err := lockDir(fsys, dir)
	if err != nil {
		return Report{}, err
	}
	d := &doctor{
		repair: repair,
		s: &Store{
			fs: fsys, dir: dir, cfg: cfg, space: &space{min: -1}, ballast: &ballast{fs: fsys},
			files: &journalFiles{fs: fsys, dir: dir, size: cfg.JournalFileBytes, limit: cfg.JournalFiles},
		},
	}
	err = d.run()
	if cerr := lock.Close(); err == nil {
		err = cerr
	}
	return d.report, err
}

type doctor struct {
	s      *Store
	r      *recoverer
	repair bool
	report Report
}

func (d *doctor) run() error {
	id, err := readStoreID(d.s.fs, d.s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return d.note(corrupt(storeFile, 0, "it is missing"), "restore the file from a backup of the directory")
	}
	if err != nil {
		return d.note(err, "restore the file from a backup of the directory")
	}
	d.s.id = id
	d.report.Store = id.String()
	d.r = &recoverer{s: d.s, dry: !d.repair, tolerant: true}
	names, err := d.s.journalNames()
	if err == nil {
		err = d.r.load(names)
	}
	if err != nil {
		return d.note(err, "restore the file from a backup of the directory")
	}
	defer d.r.close()
	for _, hole := range d.r.holes {
		d.add(hole, "run doctor with --repair: what the other rounds hold is kept")
	}
	if err := d.r.replay(); err != nil {
		return d.note(err, "restore the file from a backup of the directory")
	}
	d.report.Rounds = len(d.r.rounds)
	for _, g := range d.r.inOrder() {
		if err := d.examine(g); err != nil {
			return err
		}
	}
	d.strangers()
	if d.repair {
		return d.finish(names)
	}
	return nil
}

// note adds a damage and passes on what is none.
func (d *doctor) note(err error, remedy string) error {
	var c *CorruptError
	if !errors.As(err, &c) {
		return err
	}
	d.add(c, remedy)
	return nil
}

func (d *doctor) add(c *CorruptError, remedy string) *Finding {
	d.report.Findings = append(d.report.Findings, Finding{
		File: c.File, Offset: c.Offset, What: c.What, Damage: true, Remedy: remedy,
	})
	return &d.report.Findings[len(d.report.Findings)-1]
}

// examine verifies one segment.
func (d *doctor) examine(g *recovering) error {
	d.report.Segments++
	good, err := d.verify(g)
	d.report.Records += good.tail.UserBefore - g.meta.UserBefore
	d.report.Bytes += good.length
	if err == nil {
		return d.checkIndex(g)
	}
	var c *CorruptError
	if !errors.As(err, &c) {
		return err
	}
	f := d.add(c, "run doctor with --repair: the segment is kept up to here, and readers are told what is lost")
	f.Lost = uint64(g.tip.tail.Base-good.tail.Base) + g.lost
	if !d.repair {
		return nil
	}
	if err := d.cutDamaged(g, good, f.Lost); err != nil {
		return err
	}
	f.Repaired, f.Remedy = true, "the damaged file is kept in "+damagedDir
	return nil
}

// verify checks a segment's header, batches and footer, with what the journal
// would write laid over the file.
func (d *doctor) verify(g *recovering) (tip, error) {
	start := g.meta.startTip()
	if g.tip.length == headerSize && !g.sealed {
		return start, nil
	}
	f, err := d.s.fs.Open(d.s.path(g.path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return start, fmt.Errorf("open %s: %w", g.path, err)
	}
	if err != nil && len(g.patches) == 0 {
		return start, corrupt(g.path, 0, "it is missing")
	}
	read := func(int64, int64) ([]byte, error) { return nil, nil }
	if f != nil {
		defer f.Close()
		read = pieces(f)
	}
	laid := g.overlay(read)
	header, err := laid(0, headerSize)
	if string(header) != string(encodeHeader(d.s.id, g.instance, &g.meta)) && !g.fresh {
		return start, corrupt(g.path, 0, "its header is not the one it was made with (%v)", err)
	}
	good, err := verify(g.path, &g.meta, g.tip, laid)
	if err != nil || !g.sealed || g.touched {
		return good, err
	}
	footer := encodeFooter(d.s.id, g.instance, g.meta.ID, &g.tip, g.lost)
	got, _ := laid(g.tip.length, footerSize)
	if string(got) != string(footer) {
		return good, corrupt(g.path, g.tip.length, "its footer is not the one it was sealed with")
	}
	return good, nil
}

// overlay reads with the journal's data laid over the file's.
func (g *recovering) overlay(read pieceReader) pieceReader {
	return func(pos, n int64) ([]byte, error) {
		b, err := read(pos, n)
		b = slices.Clone(b)
		for _, p := range g.patches {
			from, to := max(p.at, pos), min(p.at+int64(len(p.b)), pos+n)
			if from >= to {
				continue
			}
			if grow := to - pos - int64(len(b)); grow > 0 {
				b = append(b, make([]byte, grow)...)
			}
			copy(b[from-pos:to-pos], p.b[from-p.at:])
		}
		return b, err
	}
}

// cutDamaged keeps a copy of the damaged file aside and seals the segment
// where it is good. Until the manifest is written, a repair that begins again
// finds the same damage.
func (d *doctor) cutDamaged(g *recovering, good tip, lost uint64) error {
	f, err := d.r.file(g)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		if err := d.setAside(f, strings.TrimPrefix(g.path, segmentDir+"/"), info.Size()); err != nil {
			return fmt.Errorf("set %s aside: %w", g.path, err)
		}
	}
	if err := d.s.fs.Remove(d.s.path(g.path + ".idx")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	g.tip, g.sealed, g.lost = good, true, lost
	if err := d.r.write(g, encodeHeader(d.s.id, g.instance, &g.meta), 0); err != nil {
		return err
	}
	_, err = zeroFrom(f, good.length, info.Size())
	return err
}

// setAside copies a damaged file, durably, unless that was done before.
func (d *doctor) setAside(f vfs.File, name string, size int64) error {
	if err := makeDir(d.s.fs, d.s.path(damagedDir)); err != nil {
		return err
	}
	aside := d.s.path(damagedDir + "/" + name)
	if _, err := d.s.fs.Stat(aside); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	to, err := d.s.fs.Create(aside+tempSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	read := pieces(f)
	for at := int64(0); at < size && err == nil; {
		var b []byte
		if b, err = read(at, min(1<<20, size-at)); len(b) == 0 {
			break // what cannot be read cannot be kept
		}
		at += int64(len(b))
		_, err = to.Write(b)
	}
	if err == nil {
		err = asSyncError(to.Sync())
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = d.s.fs.Rename(aside+tempSuffix, aside)
	}
	if err == nil {
		err = syncDir(d.s.fs, d.s.path(damagedDir))
	}
	return err
}

// checkIndex notes a saved index that does not fit; it is only an aid.
func (d *doctor) checkIndex(g *recovering) error {
	path := g.path + ".idx"
	info, err := d.s.fs.Stat(d.s.path(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	seg := d.s.newSegment(g.instance, g.meta, g.tip, g.sealed, g.lost)
	good := int64(len(seg.readIndex(g.tip.length))) * indexEntrySize
	if good == info.Size() {
		return nil
	}
	f := Finding{
		File: path, Offset: good, What: "the saved index is stale or damaged from here on",
		Remedy: "nothing: it is made again when it is needed",
	}
	if d.repair {
		if err := d.s.fs.Remove(d.s.path(path)); err != nil {
			return err
		}
		f.Repaired = true
	}
	d.report.Findings = append(d.report.Findings, f)
	return nil
}

// strangers notes files in the directory of segments that nothing names. They
// are left alone: nothing is deleted by absence.
func (d *doctor) strangers() {
	names, _ := d.s.fs.List(d.s.path(segmentDir))
	known := map[string]bool{}
	for _, g := range slices.Concat(d.r.inOrder(), d.r.dead) {
		known[g.path], known[g.path+".idx"] = true, true
	}
	slices.Sort(names)
	for _, n := range names {
		if path := segmentDir + "/" + n; !known[path] {
			d.report.Findings = append(d.report.Findings, Finding{
				File: path, What: "no segment has this file", Remedy: "nothing: it is not read; remove it if you know what it is",
			})
		}
	}
}

// finish makes the repair durable: the journal is empty then.
func (d *doctor) finish(names []string) error {
	if err := d.r.finish(); err != nil {
		return err
	}
	for _, j := range d.r.manifest.journal {
		d.s.files.size = j.size // the journal's files are used as they are
	}
	if err := d.s.files.open(names, d.r.manifest.journal); err != nil {
		return err
	}
	_, err := d.r.checkpoint()
	return cmp.Or(err, d.s.files.close())
}
