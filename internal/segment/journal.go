package segment

import (
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/ident"
)

// A journal file is a row of rounds, each padded to a block, each written and
// synced before the next is begun. A round that is whole therefore proves that
// all before it were durable: that is the durable mark.
const (
	roundMagic   = 0x4e524a51 // "QJRN"
	roundVersion = 1
	// roundHeader is the size of a round's header; its layout is in
	// appendHeader.
	roundHeader = 4 + 4 + 4 + 4 + 16 + 8 + 8 + 8 + 4
)

// entryKind says what a journal entry does.
type entryKind uint8

const (
	entryCreate entryKind = iota + 1
	entryData
	entryMark
	entryCut
	entrySeal
	entryDelete
)

// entry is one decoded journal entry.
type entry struct {
	kind     entryKind
	instance uint64
	meta     Meta   // create
	pos      int64  // data: position in the segment file
	data     []byte // data: whole batches
	tip      tip    // mark, cut, seal
}

// round is one decoded round.
type round struct {
	size       int64
	generation uint64
	seq        uint64
	entries    []entry
}

// roundBuilder encodes a round into a buffer that is used again.
type roundBuilder struct {
	e     encoder
	count uint32
	// proof asks for a round even without entries: it proves that the one
	// before it was durable.
	proof bool
}

func (r *roundBuilder) reset() {
	if cap(r.e.b) > 16<<20 {
		r.e.b = nil
	}
	r.e.b = append(r.e.b[:0], make([]byte, roundHeader)...)
	r.count, r.proof = 0, false
}

func (r *roundBuilder) empty() bool { return r.count == 0 && !r.proof }

// size is how much of the file the round takes.
func (r *roundBuilder) size() int64 { return padded(int64(len(r.e.b))) }

func padded(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

func (r *roundBuilder) begin(k entryKind, instance uint64, size int) {
	r.count++
	r.e.u8(uint8(k))
	r.e.u64(instance)
	r.e.u32(uint32(size))
}

func (r *roundBuilder) create(instance uint64, m *Meta) {
	r.begin(entryCreate, instance, metaSize)
	r.e.meta(m)
}

// data begins an entry of size bytes for the position pos of a segment file;
// the bytes follow through more.
func (r *roundBuilder) data(instance uint64, pos int64, size int) {
	r.begin(entryData, instance, 8+size)
	r.e.u64(uint64(pos))
}

func (r *roundBuilder) more(b []byte) { r.e.bytes(b) }

func (r *roundBuilder) tip(k entryKind, instance uint64, t *tip) {
	r.begin(k, instance, tipSize)
	r.e.tip(t)
}

func (r *roundBuilder) delete(instance uint64) { r.begin(entryDelete, instance, 0) }

// finish pads the round and writes its header.
func (r *roundBuilder) finish(store ident.StoreID, generation, seq uint64) []byte {
	length := len(r.e.b) - roundHeader
	size := int(r.size())
	for len(r.e.b) < size {
		n := min(size-len(r.e.b), blockSize)
		r.e.b = append(r.e.b, zeroBlock[:n]...)
	}
	h := encoder{r.e.b[:0]}
	h.u32(roundMagic)
	h.u32(roundVersion)
	h.u32(uint32(length))
	h.u32(r.count)
	h.bytes(store[:])
	h.u64(generation)
	h.u64(seq)
	h.u64(seq) // D: every round below this number was durable when this one was written.
	crc := crc32.Update(0, castagnoli, r.e.b[:roundHeader-4])
	crc = crc32.Update(crc, castagnoli, r.e.b[roundHeader:])
	h.u32(crc)
	return r.e.b
}

var zeroBlock [blockSize]byte

// parseRound reads the round at the beginning of b. It says false for
// anything that is not a whole round of this store.
func parseRound(b []byte, store ident.StoreID) (round, bool) {
	if len(b) < blockSize || le.Uint32(b) != roundMagic {
		return round{}, false
	}
	d := decoder{b: b[4:roundHeader]}
	version, length, count, id := d.u32(), d.u32(), d.u32(), d.id()
	generation, seq, mark, crc := d.u64(), d.u64(), d.u64(), d.u32()
	if version != roundVersion || id != store || mark != seq || int64(length) > int64(len(b)-roundHeader) {
		return round{}, false
	}
	size := padded(roundHeader + int64(length))
	if size > int64(len(b)) {
		return round{}, false
	}
	got := crc32.Update(0, castagnoli, b[:roundHeader-4])
	if crc32.Update(got, castagnoli, b[roundHeader:size]) != crc {
		return round{}, false
	}
	r := round{size: size, generation: generation, seq: seq, entries: make([]entry, 0, count)}
	body := decoder{b: b[roundHeader : roundHeader+int(length)]}
	for range count {
		e, ok := body.entry()
		if !ok {
			return round{}, false
		}
		r.entries = append(r.entries, e)
	}
	return r, len(body.b) == 0
}

func (d *decoder) entry() (entry, bool) {
	e := entry{kind: entryKind(d.u8()), instance: d.u64()}
	size := int(d.u32())
	if d.err != nil || size > len(d.b) {
		return entry{}, false
	}
	body := decoder{b: d.take(size)}
	switch e.kind {
	case entryCreate:
		e.meta = body.meta()
	case entryData:
		e.pos = int64(body.u64())
		e.data = body.b
	case entryMark, entryCut, entrySeal:
		e.tip = body.tip()
	case entryDelete:
	default:
		return entry{}, false
	}
	return e, body.err == nil
}

// roundRef names a round that was found whole.
type roundRef struct {
	file       string
	at         int64
	size       int64
	generation uint64
	seq        uint64
}

// journalReader reads the rounds of one journal file through a window.
type journalReader struct {
	f     vfs.File
	name  string
	store ident.StoreID
	size  int64
	buf   []byte
	at    int64 // position of buf in the file
}

const journalWindow = 1 << 20

func openJournal(fs vfs.FS, dir, name string, store ident.StoreID) (*journalReader, error) {
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("stat %s: %w", name, err)
	}
	return &journalReader{f: f, name: name, store: store, size: info.Size()}, nil
}

func (j *journalReader) close() { _ = j.f.Close() }

// window gives at least n bytes at position at, or what the file has.
func (j *journalReader) window(at, n int64) ([]byte, error) {
	n = min(n, j.size-at)
	if at >= j.at && at+n <= j.at+int64(len(j.buf)) {
		return j.buf[at-j.at:], nil
	}
	want := min(max(n, journalWindow), j.size-at)
	if int64(cap(j.buf)) < want {
		j.buf = make([]byte, want)
	}
	j.buf, j.at = j.buf[:want], at
	if got, err := j.f.ReadAt(j.buf, at); got < len(j.buf) {
		j.buf = j.buf[:0]
		return nil, corrupt(j.name, at+int64(got), "it cannot be read: %v", err)
	}
	return j.buf, nil
}

// round reads the round at a position, whose bytes stay valid until the next
// call. It says false when there is no whole round.
func (j *journalReader) round(at int64) (round, bool, error) {
	b, err := j.window(at, blockSize)
	if err != nil || len(b) < blockSize || le.Uint32(b) != roundMagic {
		return round{}, false, err
	}
	size := padded(roundHeader + int64(le.Uint32(b[8:])))
	if at+size > j.size {
		return round{}, false, nil
	}
	if b, err = j.window(at, size); err != nil {
		return round{}, false, err
	}
	r, ok := parseRound(b[:size], j.store)
	return r, ok, nil
}

// scan finds every whole round with a generation of at least from, wherever it
// lies: a bad or empty block does not end the search, since only what comes
// after it tells damage from a torn tail.
func (j *journalReader) scan(from uint64) ([]roundRef, error) {
	var refs []roundRef
	for at := int64(0); at+blockSize <= j.size; {
		r, ok, err := j.round(at)
		if err != nil {
			return nil, err
		}
		if !ok {
			at += blockSize
			continue
		}
		if r.generation >= from {
			refs = append(refs, roundRef{j.name, at, r.size, r.generation, r.seq})
		}
		at += r.size
	}
	return refs, nil
}
