package segment

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// journalFile is one zero-written file of the journal.
type journalFile struct {
	name string
	f    vfs.File
	// generation of the rounds in it; 0 when it is free.
	generation uint64
}

// journalFiles hands out the files that the journal's rounds go to, and takes
// them back when a checkpoint has made them unnecessary.
type journalFiles struct {
	fs    vfs.FS
	dir   string
	size  int64
	limit int

	mu     sync.Mutex
	all    []*journalFile
	free   []*journalFile
	made   int
	freed  chan struct{}
	making bool
	// obsolete are files from before that are not used any more.
	obsolete []*journalFile
}

// open takes over the files that are there, whose content is no longer needed
// once a new manifest is written, and makes the first if there is none.
// Files that the manifest does not list were never used, and may be less than
// they look: they are made anew.
func (j *journalFiles) open(names []string, listed []manifestJournal) error {
	j.freed = make(chan struct{}, 1)
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(name, journalName, &n); err == nil {
			j.made = max(j.made, n)
		}
		f, err := j.fs.OpenReadWrite(j.fs.PathJoin(j.dir, name), vfs.WriteCategoryUnspecified)
		if err != nil {
			return fmt.Errorf("open %s: %w", name, err)
		}
		info, err := f.Stat()
		if err != nil {
			_ = f.Close()
			return fmt.Errorf("stat %s: %w", name, err)
		}
		jf := &journalFile{name: name, f: f}
		known := slices.ContainsFunc(listed, func(m manifestJournal) bool { return m.name == name })
		// A smaller file is from another configuration.
		if !known || info.Size() < j.size {
			j.obsolete = append(j.obsolete, jf)
			continue
		}
		j.all = append(j.all, jf)
		j.free = append(j.free, jf)
	}
	if len(j.all) > 0 {
		return syncDir(j.fs, j.fs.PathJoin(j.dir, journalDir))
	}
	jf, err := j.makeFile()
	if err == nil {
		j.release(jf)
	}
	return err
}

// listed are the files that are in use, for the manifest.
func (j *journalFiles) listed() []manifestJournal {
	j.mu.Lock()
	defer j.mu.Unlock()
	var files []manifestJournal
	for _, jf := range j.all {
		files = append(files, manifestJournal{jf.name, j.size})
	}
	return files
}

// removeObsolete removes the files that no manifest names any more.
func (j *journalFiles) removeObsolete() error {
	for _, jf := range j.obsolete {
		_ = jf.f.Close()
		if err := j.fs.Remove(j.fs.PathJoin(j.dir, jf.name)); err != nil {
			return fmt.Errorf("remove %s: %w", jf.name, err)
		}
	}
	j.obsolete = nil
	return nil
}

const journalName = journalDir + "/%06d.journal"

// zero writes the file full of zeros, so that a round that is written later
// changes no metadata and its sync is as cheap as can be.
func (j *journalFiles) zero(jf *journalFile) error {
	zeros := make([]byte, min(j.size, 1<<20))
	for at := int64(0); at < j.size; at += int64(len(zeros)) {
		if _, err := jf.f.WriteAt(zeros[:min(int64(len(zeros)), j.size-at)], at); err != nil {
			return fmt.Errorf("write %s: %w", jf.name, err)
		}
	}
	if err := jf.f.Sync(); err != nil {
		return fmt.Errorf("%s: %w", jf.name, asSyncError(err))
	}
	return nil
}

// makeFile adds a file, which is free once the caller releases it. One call
// runs at a time.
func (j *journalFiles) makeFile() (*journalFile, error) {
	j.mu.Lock()
	j.made++
	jf := &journalFile{name: fmt.Sprintf(journalName, j.made)}
	j.mu.Unlock()
	path := j.fs.PathJoin(j.dir, jf.name)
	f, err := j.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", jf.name, err)
	}
	jf.f = f
	if err := j.zero(jf); err != nil {
		_ = f.Close()
		if !isSyncError(err) {
			_ = j.fs.Remove(path)
		}
		return nil, err
	}
	if err := syncDir(j.fs, j.fs.PathJoin(j.dir, journalDir)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", jf.name, err)
	}
	j.mu.Lock()
	j.all = append(j.all, jf)
	j.mu.Unlock()
	return jf, nil
}

// take gives a free file, if there is one.
func (j *journalFiles) take(generation uint64) *journalFile {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.free) == 0 {
		return nil
	}
	jf := j.free[0]
	j.free = j.free[1:]
	jf.generation = generation
	return jf
}

func (j *journalFiles) release(jf *journalFile) {
	j.mu.Lock()
	jf.generation = 0
	j.free = append(j.free, jf)
	j.mu.Unlock()
	select {
	case j.freed <- struct{}{}:
	default:
	}
}

// releaseThrough frees the files whose generation is at most g.
func (j *journalFiles) releaseThrough(g uint64) {
	j.mu.Lock()
	var done []*journalFile
	for _, jf := range j.all {
		if jf.generation != 0 && jf.generation <= g {
			done = append(done, jf)
		}
	}
	j.mu.Unlock()
	for _, jf := range done {
		j.release(jf)
	}
}

// wantsSpare says whether a file should be made ahead of its use, and if so
// claims the making of it.
func (j *journalFiles) wantsSpare() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.making || len(j.free) > 0 || len(j.all) >= j.limit {
		return false
	}
	j.making = true
	return true
}

func (j *journalFiles) spareMade() {
	j.mu.Lock()
	j.making = false
	j.mu.Unlock()
}

func (j *journalFiles) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var first error
	for _, jf := range j.all {
		if err := jf.f.Close(); err != nil && first == nil {
			first = err
		}
	}
	j.all, j.free = nil, nil
	return first
}
