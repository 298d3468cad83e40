package faultfs_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quirelog/quire/internal/faultfs"
)

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	for _, how := range []string{"Sync", "SyncData"} {
		f := faultfs.New(faultfs.Config{})
		h := create(t, f, "x")
		writeAt(t, h, fill('a', 6000), 0)
		if how == "Sync" {
			must(t, h.Sync())
		} else {
			must(t, h.SyncData())
		}
		syncDir(t, f, "/")
		writeAt(t, h, fill('b', 6000), 3000)
		if got := readFile(t, nothing(f), "x"); !bytes.Equal(got, fill('a', 6000)) {
			t.Errorf("%s: %d bytes after the crash, want the 6000 synced ones", how, len(got))
		}
		want := append(fill('a', 3000), fill('b', 6000)...)
		if got := readFile(t, everything(f), "x"); !bytes.Equal(got, want) {
			t.Errorf("%s: a crash that loses nothing lost something", how)
		}
		if got := readFile(t, f, "x"); !bytes.Equal(got, want) {
			t.Errorf("%s: crashing a copy changed the original", how)
		}
	}
}

func TestCrashLosesSectorsIndependently(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	const sectors = 64
	h := durable(t, f, "x", fill('a', sectors*faultfs.SectorSize))
	writeAt(t, h, fill('b', sectors*faultfs.SectorSize), 0)
	shapes := map[string]bool{}
	for seed := range uint64(50) {
		got := readFile(t, f.Crash(faultfs.CrashOptions{Seed: seed, Survive: 50}), "x")
		var shape strings.Builder
		for s := range slices.Chunk(got, faultfs.SectorSize) {
			if !bytes.Equal(s, fill(s[0], faultfs.SectorSize)) {
				t.Fatal("a sector tore although torn sectors are off")
			}
			shape.WriteByte(s[0])
		}
		if !strings.Contains(shape.String(), "ab") || !strings.Contains(shape.String(), "ba") {
			t.Fatalf("seed %d lost only a tail: %s", seed, &shape)
		}
		shapes[shape.String()] = true
	}
	if len(shapes) < 45 {
		t.Fatalf("50 seeds gave only %d shapes", len(shapes))
	}
}

func TestTornSectorsArePrefixes(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", fill('a', faultfs.SectorSize))
	writeAt(t, h, fill('b', faultfs.SectorSize), 0)
	torn := 0
	for seed := range uint64(20) {
		got := readFile(t, f.Crash(faultfs.CrashOptions{Seed: seed, Survive: 100, Torn: 100}), "x")
		n := bytes.IndexByte(got, 'a')
		if n < 0 || !bytes.Equal(got[:n], fill('b', n)) || !bytes.Equal(got[n:], fill('a', len(got)-n)) {
			t.Fatalf("not a prefix of the new bytes: %q", got)
		}
		if n > 0 {
			torn++
		}
	}
	if torn < 15 {
		t.Fatalf("only %d of 20 sectors tore", torn)
	}
}

func TestCrashDrawsSizesBetween(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", fill('a', 1000))
	writeAt(t, h, fill('b', 9000), 1000)
	var small, full, between int
	for seed := range uint64(100) {
		got := readFile(t, f.Crash(faultfs.CrashOptions{Seed: seed, Survive: 50}), "x")
		if !bytes.Equal(got[:1000], fill('a', 1000)) {
			t.Fatal("a synced byte of a sector that grew later is lost")
		}
		switch {
		case len(got) == 1000:
			small++
		case len(got) == 10_000:
			full++
		case len(got) > 1000 && len(got) < 10_000:
			between++
		default:
			t.Fatalf("size %d", len(got))
		}
		for _, b := range got[1000:] {
			if b != 'b' && b != 0 {
				t.Fatalf("byte %q was never written there", b)
			}
		}
	}
	if small == 0 || full == 0 || between == 0 {
		t.Fatalf("sizes: %d small, %d full, %d between", small, full, between)
	}
}

func TestNamesNeedTheirDirectorySynced(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	must(t, f.MkdirAll("d", 0o755))
	syncDir(t, f, "/")
	durable(t, f, "d/removed", []byte("r"))
	durable(t, f, "d/old", []byte("o"))
	durable(t, f, "d/linked", []byte("l"))
	must(t, create(t, f, "d/created").Sync())
	must(t, f.Remove("d/removed"))
	must(t, f.Rename("d/old", "d/new"))
	must(t, f.Link("d/linked", "d/link"))
	names := func(f *faultfs.FS) string {
		l, err := f.List("d")
		must(t, err)
		return strings.Join(l, " ")
	}
	const before, after = "linked old removed", "created link linked new"
	if got := names(nothing(f)); got != before {
		t.Errorf("without a sync of the directory: %s, want %s", got, before)
	}
	if got := names(everything(f)); got != after {
		t.Errorf("with all changes: %s, want %s", got, after)
	}
	seen := map[string]bool{}
	for seed := range uint64(200) {
		got := names(f.Crash(faultfs.CrashOptions{Seed: seed, Survive: 50}))
		if strings.Contains(got, "old") == strings.Contains(got, "new") {
			t.Fatalf("a rename is not atomic: %s", got)
		}
		seen[got] = true
	}
	if len(seen) != 16 {
		t.Errorf("4 changes gave %d outcomes, want 16", len(seen))
	}
	syncDir(t, f, "d")
	if got := names(nothing(f)); got != after {
		t.Errorf("after a sync of the directory: %s, want %s", got, after)
	}
}

func TestDirectoryIsLostWithItsName(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	must(t, f.MkdirAll("a/b", 0o755))
	durable(t, f, "a/b/x", []byte("x"))
	if exists(t, nothing(f), "a") {
		t.Fatal("a directory whose parent was never synced survived")
	}
	syncDir(t, f, "a")
	syncDir(t, f, "/")
	if got := readFile(t, nothing(f), "a/b/x"); string(got) != "x" {
		t.Fatalf("read %q", got)
	}
}

func TestRecreatedFileIsAnotherFile(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	durable(t, f, "x", []byte("old"))
	h := create(t, f, "x")
	writeAt(t, h, []byte("new"), 0)
	must(t, h.Sync())
	if got := readFile(t, nothing(f), "x"); string(got) != "old" {
		t.Fatalf("before the directory is synced a crash shows %q, want the old file", got)
	}
	seen := map[string]bool{}
	for seed := range uint64(50) {
		c := f.Crash(faultfs.CrashOptions{Seed: seed, Survive: 50})
		if !exists(t, c, "x") {
			seen["none"] = true
			continue
		}
		seen[string(readFile(t, c, "x"))] = true
	}
	if !seen["old"] || !seen["new"] || !seen["none"] || len(seen) != 3 {
		t.Fatalf("saw %v", seen)
	}
}

func TestWriteBackShowsOlderVersions(t *testing.T) {
	f := faultfs.New(faultfs.Config{WriteBack: 50})
	h := durable(t, f, "x", fill('a', 16*faultfs.SectorSize))
	writeAt(t, h, fill('b', 16*faultfs.SectorSize), 0)
	writeAt(t, h, fill('c', 16*faultfs.SectorSize), 0)
	got := readFile(t, nothing(f), "x")
	if !bytes.Contains(got, []byte("a")) || !bytes.Contains(got, []byte("b")) || bytes.Contains(got, []byte("c")) {
		t.Fatal("want some sectors as synced, and some as they were between the two writes")
	}
}

func TestSyncToPromisesNothing(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", fill('a', 4096))
	writeAt(t, h, fill('b', 4096), 0)
	full, err := h.SyncTo(4096)
	must(t, err)
	if full || !bytes.Equal(readFile(t, nothing(f), "x"), fill('a', 4096)) {
		t.Fatal("SyncTo stored something")
	}
	f = faultfs.New(faultfs.Config{FullSyncTo: true})
	h = durable(t, f, "x", fill('a', 4096))
	writeAt(t, h, fill('b', 4096), 0)
	full, err = h.SyncTo(4096)
	must(t, err)
	if !full || !bytes.Equal(readFile(t, nothing(f), "x"), fill('b', 4096)) {
		t.Fatal("a full SyncTo stored nothing")
	}
}

// history does the same operations each time.
func history(t *testing.T, f *faultfs.FS) {
	for i := range 10 {
		h := create(t, f, fmt.Sprintf("f%d", i%4))
		writeAt(t, h, fill(byte(i), 3000), int64(i)*700)
		if i%3 == 0 {
			must(t, h.Sync())
		}
		must(t, h.Close())
	}
}

func contents(t *testing.T, f *faultfs.FS) string {
	var b strings.Builder
	for _, fi := range f.Files() {
		fmt.Fprintf(&b, "%s %d %q\n", fi.Path, fi.Size, readFile(t, f, fi.Path))
	}
	return b.String()
}

func TestSeedDecidesTheCrash(t *testing.T) {
	o := faultfs.CrashOptions{Seed: 7, Survive: 50, Mixed: true, Torn: 20}
	f, g := faultfs.New(faultfs.Config{Seed: 3, WriteBack: 30}), faultfs.New(faultfs.Config{Seed: 3, WriteBack: 30})
	history(t, f)
	history(t, g)
	if contents(t, f.Crash(o)) != contents(t, g.Crash(o)) {
		t.Fatal("one history and one seed gave two crashes")
	}
	different := 0
	for seed := range uint64(10) {
		o.Seed = seed
		if contents(t, f.Crash(o)) != contents(t, g.Crash(faultfs.CrashOptions{Seed: 99, Survive: 50, Mixed: true})) {
			different++
		}
	}
	if different < 8 {
		t.Fatalf("only %d of 10 seeds differ", different)
	}
}

func TestCrashImageIsDurable(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	history(t, f)
	c := f.Crash(faultfs.CrashOptions{Seed: 1, Survive: 50, Mixed: true})
	if contents(t, nothing(c)) != contents(t, c) {
		t.Fatal("what a crash left was lost by a second one")
	}
}

func TestCloneIsIndependent(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", fill('a', 5000))
	writeAt(t, h, fill('b', 5000), 0)
	create(t, f, "y")
	c := f.Clone()
	writeAt(t, h, fill('c', 5000), 0)
	must(t, h.Sync())
	must(t, f.Remove("y"))
	if got := readFile(t, c, "x"); !bytes.Equal(got, fill('b', 5000)) || !exists(t, c, "y") {
		t.Fatal("a change of the original shows in the clone")
	}
	if got := readFile(t, nothing(c), "x"); !bytes.Equal(got, fill('a', 5000)) || exists(t, nothing(c), "y") {
		t.Fatal("the clone does not know what is durable")
	}
	g, err := c.OpenReadWrite("x", "")
	must(t, err)
	writeAt(t, g, fill('d', 5000), 0)
	if got := readFile(t, f, "x"); !bytes.Equal(got, fill('c', 5000)) {
		t.Fatal("a change of the clone shows in the original")
	}
}
