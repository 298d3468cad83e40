package segment

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
)

// filled makes a store with a sealed segment 1 and an open segment 2, closes
// it, and says at which position each batch of segment 1 begins.
func filled(t *testing.T, fs *faultfs.FS) []int64 {
	t.Helper()
	s := openTest(t, fs)
	var at []int64
	for id := ident.SegmentID(1); id <= 2; id++ {
		g, err := s.Create(Meta{ID: id, Range: ident.RangeID(id), Epoch: 1})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if id == 1 {
				at = append(at, g.Info().Bytes)
			}
			appendWait(t, g, stamped(t, g, 3, 100))
		}
		if id == 1 {
			if _, err := g.Seal(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

func openTest(t *testing.T, fs *faultfs.FS) *Store {
	t.Helper()
	s, err := Open(fs, "d", Config{JournalFileBytes: 64 << 10, BallastReserve: -1, MinFreeBytes: -1, VerifyBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func appendWait(t *testing.T, g *Segment, b []byte) {
	t.Helper()
	ch := make(chan error, 1)
	if err := g.Append(b, func(err error) { ch <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-ch; err != nil {
		t.Fatal(err)
	}
}

// records reads a segment through and counts its records.
func records(g *Segment) (int, error) {
	n := 0
	for at := g.Info().Base; ; {
		batches, err := g.Read(at, Limit{Bytes: 1, Records: 1})
		if err != nil || len(batches.List) == 0 {
			return n, err
		}
		h, err := batch.ParseHeader(batches.List[0])
		if err != nil {
			return n, err
		}
		n += int(h.Count)
		at = h.End()
	}
}

const sealedFile = "d/segments/0000000000000001-1.seg"

// Damage in a sealed segment is an error that names file and byte, to a
// reader, to a scrub and to the doctor; a repair keeps what is good and counts
// what is lost.
func TestADamagedSegmentIsFoundAndKeptUpToItsDamage(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	at := filled(t, fs)
	if err := fs.FlipBit(sealedFile, at[12]+100, 3); err != nil {
		t.Fatal(err)
	}
	named := func(who string, err error) {
		t.Helper()
		var c *CorruptError
		if !errors.As(err, &c) || "d/"+c.File != sealedFile || c.Offset != at[12] {
			t.Errorf("%s: %v, want damage at byte %d of %s", who, err, at[12], sealedFile)
		}
	}
	s := openTest(t, fs)
	g, _ := s.Segment(1)
	n, err := records(g)
	named("a reader", err)
	if n != 36 {
		t.Errorf("a reader got %d records before the damage, want 36", n)
	}
	var found error
	if err := s.Scrub(context.Background(), 0, func(err error) { found = errors.Join(found, err) }); err != nil {
		t.Fatal(err)
	}
	named("a scrub", found)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	report, err := Doctor(fs, "d", false)
	if err != nil || report.Sound() || len(report.Findings) != 1 {
		t.Fatalf("doctor: %+v, %v", report, err)
	}
	f := report.Findings[0]
	if "d/"+f.File != sealedFile || f.Offset != at[12] || f.Lost != 24 || f.Repaired {
		t.Errorf("doctor: %+v", f)
	}
	if report, err = Doctor(fs, "d", true); err != nil || len(report.Findings) != 1 || !report.Findings[0].Repaired {
		t.Fatalf("repair: %+v, %v", report, err)
	}
	if report, err = Doctor(fs, "d", false); err != nil || !report.Sound() {
		t.Fatalf("doctor after the repair: %+v, %v", report, err)
	}
	s = openTest(t, fs)
	g, _ = s.Segment(1)
	if n, err = records(g); n != 36 || err != nil {
		t.Errorf("after the repair: %d records, %v", n, err)
	}
	if info := g.Info(); info.Lost != 24 || info.End() != 60 || !info.Sealed {
		t.Errorf("after the repair: %+v", info)
	}
	g, _ = s.Segment(2)
	if n, err = records(g); n != 60 || err != nil {
		t.Errorf("the other segment: %d records, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// What fits is verified at the start, which refuses damage by file and byte.
func TestDamageRefusesTheStart(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	at := filled(t, fs)
	if err := fs.FlipBit(sealedFile, at[12]+100, 3); err != nil {
		t.Fatal(err)
	}
	_, err := Open(fs, "d", Config{JournalFileBytes: 64 << 10, BallastReserve: -1})
	var c *CorruptError
	if !errors.As(err, &c) || "d/"+c.File != sealedFile || c.Offset != at[12] {
		t.Errorf("open: %v, want damage at byte %d of %s", err, at[12], sealedFile)
	}
}

// The doctor sees what the journal would write, and changes nothing unasked.
func TestADoctorExaminesWhatACrashLeftAsTheNextStartWouldSeeIt(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	s := openTest(t, fs)
	g, err := s.Create(Meta{ID: 1, Range: 1, Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		appendWait(t, g, stamped(t, g, 3, 100))
	}
	crashed := fs.Crash(faultfs.CrashOptions{})
	before := content(t, crashed)
	report, err := Doctor(crashed, "d", false)
	if err != nil || !report.Sound() || report.Records != 15 || report.Rounds == 0 {
		t.Errorf("doctor: %+v, %v", report, err)
	}
	if content(t, crashed) != before {
		t.Error("the doctor changed something unasked")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// content is every file of a file system with all its bytes.
func content(t *testing.T, fs *faultfs.FS) string {
	t.Helper()
	var b strings.Builder
	for _, info := range fs.Files() {
		f, err := fs.Open(info.Path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		b.WriteString(info.Path + "\x00" + string(all) + "\x00")
	}
	return b.String()
}

func TestALostFileIsDamage(t *testing.T) {
	for _, lost := range []string{sealedFile, "d/MANIFEST", "d/STORE", "d/journal/000001.journal"} {
		fs := faultfs.New(faultfs.Config{})
		filled(t, fs)
		if err := fs.Remove(lost); err != nil {
			t.Fatal(err)
		}
		_, err := Open(fs, "d", Config{JournalFileBytes: 64 << 10})
		var c *CorruptError
		if !errors.As(err, &c) || "d/"+c.File != lost {
			t.Errorf("open without %s: %v", lost, err)
		}
		report, err := Doctor(fs, "d", false)
		if err != nil || report.Sound() || "d/"+report.Findings[0].File != lost {
			t.Errorf("doctor without %s: %+v, %v", lost, report, err)
		}
	}
}
