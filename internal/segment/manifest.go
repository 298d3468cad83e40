package segment

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// The names within a data directory.
const (
	lockFile     = "LOCK"
	storeFile    = "STORE"
	manifestFile = "MANIFEST"
	ballastFile  = "BALLAST"
	journalDir   = "journal"
	segmentDir   = "segments"
	tempSuffix   = ".tmp"
)

const (
	storeMagic      = 0x52545351 // "QSTR"
	manifestMagic   = 0x4e414d51 // "QMAN"
	storeVersion    = 1
	manifestVersion = 1
)

// writeFile writes a small file so that after a crash either the old or the
// new content is there.
func writeFile(fs vfs.FS, dir, name string, b []byte) error {
	tmp := fs.PathJoin(dir, name+tempSuffix)
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = asSyncError(f.Sync())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.Rename(tmp, fs.PathJoin(dir, name))
	}
	if err == nil {
		// From here on either content may be the one that is found, whatever
		// kept the directory from being synced.
		err = asSyncError(syncDir(fs, dir))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	err = asSyncError(d.Sync())
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// syncError marks the failure of a sync, after which the store stops.
type syncError struct{ err error }

func (e *syncError) Error() string { return "sync: " + e.err.Error() }
func (e *syncError) Unwrap() error { return e.err }

func asSyncError(err error) error {
	if err == nil {
		return nil
	}
	return &syncError{err}
}

func isSyncError(err error) bool {
	var s *syncError
	return errors.As(err, &s)
}

func readFile(fs vfs.FS, dir, name string) ([]byte, error) {
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, corrupt(name, int64(len(b)), "it cannot be read: %v", err)
	}
	return b, nil
}

// readStoreID reads the store's identity.
func readStoreID(fs vfs.FS, dir string) (ident.StoreID, error) {
	b, err := readFile(fs, dir, storeFile)
	if err != nil {
		return ident.StoreID{}, err
	}
	if err := checkVersion(storeFile, b, storeMagic, storeVersion); err != nil {
		return ident.StoreID{}, err
	}
	body, ok := unseal(b)
	if !ok || len(body) != 8+16 {
		return ident.StoreID{}, corrupt(storeFile, 0, "its checksum does not match")
	}
	d := decoder{b: body[8:]}
	return d.id(), nil
}

func encodeStoreID(id ident.StoreID) []byte {
	var e encoder
	e.u32(storeMagic)
	e.u32(storeVersion)
	e.bytes(id[:])
	e.seal(0)
	return e.b
}

// checkVersion refuses a file of another kind as damage, and one of a newer
// version by name.
func checkVersion(name string, b []byte, magic, version uint32) error {
	if len(b) < 8 || le.Uint32(b) != magic {
		return corrupt(name, 0, "it does not begin as such a file does")
	}
	if v := le.Uint32(b[4:]); v != version {
		if _, whole := unseal(b); whole && v > version {
			return status.New(status.DataNewer, "%s has format version %d; this program knows %d", name, v, version)
		}
		return corrupt(name, 4, "version %d", v)
	}
	return nil
}

// manifest is a checkpoint of which segments there are. The journal's rounds
// from its generation and sequence number on go on from it.
type manifest struct {
	// generation is the lowest that replay accepts, seq the number of the
	// first round that it needs.
	generation   uint64
	seq          uint64
	nextInstance uint64
	journal      []manifestJournal
	segments     []manifestSegment
}

// manifestJournal is a file of the journal. It may be larger.
type manifestJournal struct {
	name string
	size int64
}

type manifestSegment struct {
	instance uint64
	meta     Meta
	tip      tip
	sealed   bool
	lost     uint64
}

func (m *manifest) encode(store ident.StoreID) []byte {
	e := encoder{make([]byte, 0, 64+len(m.segments)*(metaSize+tipSize+32))}
	e.u32(manifestMagic)
	e.u32(manifestVersion)
	e.bytes(store[:])
	e.u64(m.generation)
	e.u64(m.seq)
	e.u64(m.nextInstance)
	e.u32(uint32(len(m.journal)))
	for _, j := range m.journal {
		e.u32(uint32(len(j.name)))
		e.bytes([]byte(j.name))
		e.u64(uint64(j.size))
	}
	e.u64(uint64(len(m.segments)))
	for i := range m.segments {
		s := &m.segments[i]
		e.u64(s.instance)
		e.meta(&s.meta)
		e.tip(&s.tip)
		sealed := uint8(0)
		if s.sealed {
			sealed = 1
		}
		e.u8(sealed)
		e.u64(s.lost)
	}
	e.seal(0)
	return e.b
}

func readManifest(fs vfs.FS, dir string, store ident.StoreID) (manifest, error) {
	b, err := readFile(fs, dir, manifestFile)
	if errors.Is(err, os.ErrNotExist) {
		return manifest{}, corrupt(manifestFile, 0, "it is missing")
	}
	if err != nil {
		return manifest{}, err
	}
	if err := checkVersion(manifestFile, b, manifestMagic, manifestVersion); err != nil {
		return manifest{}, err
	}
	body, ok := unseal(b)
	if !ok {
		return manifest{}, corrupt(manifestFile, 0, "its checksum does not match")
	}
	d := decoder{b: body[8:]}
	if id := d.id(); id != store {
		return manifest{}, corrupt(manifestFile, 8, "it belongs to store %v, not %v", id, store)
	}
	m := manifest{generation: d.u64(), seq: d.u64(), nextInstance: d.u64()}
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		name := string(d.take(int(min(d.u32(), 1<<10))))
		m.journal = append(m.journal, manifestJournal{name, int64(d.u64())})
	}
	for n := d.u64(); n > 0 && d.err == nil; n-- {
		m.segments = append(m.segments, manifestSegment{
			instance: d.u64(), meta: d.meta(), tip: d.tip(), sealed: d.u8() == 1, lost: d.u64(),
		})
	}
	if d.err != nil || len(d.b) != 0 {
		return manifest{}, corrupt(manifestFile, 0, "its length does not match its count")
	}
	return m, nil
}
