package faultfs_test

import (
	"bytes"
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/faultfs"
)

func avail(t *testing.T, f *faultfs.FS) int64 {
	t.Helper()
	u, err := f.GetDiskUsage("/")
	must(t, err)
	return int64(u.AvailBytes)
}

func TestFullDiskRefusesNewBlocksOnly(t *testing.T) {
	f := faultfs.New(faultfs.Config{Capacity: 4 * faultfs.BlockSize})
	h := create(t, f, "x")
	writeAt(t, h, fill('a', 3*faultfs.BlockSize), 0)
	n, err := h.WriteAt(fill('b', 2*faultfs.BlockSize), 3*faultfs.BlockSize)
	if n != faultfs.BlockSize || !errors.Is(err, syscall.ENOSPC) || !vfs.IsNoSpaceError(err) {
		t.Fatalf("wrote %d, %v", n, err)
	}
	writeAt(t, h, fill('c', 4*faultfs.BlockSize), 0)
	if avail(t, f) != 0 {
		t.Fatalf("%d bytes available", avail(t, f))
	}
	f.SetCapacity(5 * faultfs.BlockSize)
	writeAt(t, h, fill('d', 10), 4*faultfs.BlockSize)
}

func TestPreallocateReservesAndKeepsTheSize(t *testing.T) {
	f := faultfs.New(faultfs.Config{Capacity: 10 * faultfs.BlockSize})
	h := create(t, f, "ballast")
	must(t, h.Preallocate(0, 8*faultfs.BlockSize))
	if err := h.Preallocate(8*faultfs.BlockSize, 3*faultfs.BlockSize); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("reserved more than there is: %v", err)
	}
	info, err := h.Stat()
	must(t, err)
	if info.Size() != 0 || avail(t, f) != 2*faultfs.BlockSize {
		t.Fatalf("size %d, %d bytes available", info.Size(), avail(t, f))
	}
	other := create(t, f, "other")
	writeAt(t, other, fill('x', 2*faultfs.BlockSize), 0)
	writeAt(t, h, fill('y', 8*faultfs.BlockSize), 0)
}

func TestReservationSurvivesOnceSynced(t *testing.T) {
	f := faultfs.New(faultfs.Config{Capacity: 10 * faultfs.BlockSize})
	h := create(t, f, "ballast")
	must(t, h.Preallocate(0, 8*faultfs.BlockSize))
	syncDir(t, f, "/")
	if got := avail(t, nothing(f)); got != 10*faultfs.BlockSize {
		t.Fatalf("before the sync a crash leaves %d available", got)
	}
	must(t, h.Sync())
	if got := avail(t, nothing(f)); got != 2*faultfs.BlockSize {
		t.Fatalf("after the sync a crash leaves %d available", got)
	}
}

func TestRemovalFreesSpace(t *testing.T) {
	f := faultfs.New(faultfs.Config{Capacity: 4 * faultfs.BlockSize})
	h := durable(t, f, "x", fill('a', 4*faultfs.BlockSize))
	must(t, f.Remove("x"))
	if avail(t, f) != 0 {
		t.Fatal("an open file gave its space away")
	}
	must(t, h.Close())
	if avail(t, f) != 4*faultfs.BlockSize {
		t.Fatalf("%d bytes available after the removal", avail(t, f))
	}
	if got := readFile(t, nothing(f), "x"); len(got) != 4*faultfs.BlockSize {
		t.Fatal("an unsynced removal survived")
	}
	// The new file takes blocks of the old one, whose removal is therefore
	// durable: no crash may show both.
	durable(t, f, "y", fill('b', faultfs.BlockSize))
	c := nothing(f)
	if exists(t, c, "x") || avail(t, c) != 3*faultfs.BlockSize {
		t.Fatal("a crash shows more than the disk can hold")
	}
}

func TestSpaceOfClonesAndCrashesAddsUp(t *testing.T) {
	f := faultfs.New(faultfs.Config{Capacity: 100 * faultfs.BlockSize})
	history(t, f)
	must(t, f.Remove("f1"))
	must(t, f.MkdirAll("d/e", 0o755))
	must(t, create(t, f, "d/e/z").Preallocate(0, 7*faultfs.BlockSize))
	must(t, f.RemoveAll("d"))
	if got := f.Clone(); avail(t, got) < avail(t, f) {
		t.Fatalf("a clone has %d available, the original %d", avail(t, got), avail(t, f))
	}
	for _, g := range []*faultfs.FS{f, f.Clone(), everything(f)} {
		for _, fi := range g.Files() {
			must(t, g.Remove(fi.Path))
		}
		syncDir(t, g, "/")
	}
	// The handle of d/e/z is still open in the original.
	if got := avail(t, f.Clone()); got != 100*faultfs.BlockSize {
		t.Fatalf("%d blocks leaked", 100-got/faultfs.BlockSize)
	}
}

func TestDamageIsInCacheAndDisk(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", fill('a', 9000))
	writeAt(t, h, fill('b', 100), 5000)
	keep := f.Clone()
	must(t, f.FlipBit("x", 5001, 0))
	must(t, f.FlipBit("x", 8999, 1))
	for what, g := range map[string]*faultfs.FS{"cache": f, "disk": nothing(f)} {
		got := readFile(t, g, "x")
		if (got[5001] != 'b'^1 && got[5001] != 'a'^1) || got[8999] != 'a'^2 || got[5000]&0xfc != 'a'&0xfc {
			t.Errorf("%s: %q, %q", what, got[5001], got[8999])
		}
	}
	if !bytes.Equal(readFile(t, keep, "x")[8999:], []byte("a")) {
		t.Error("damage shows in a clone")
	}
	must(t, f.Overwrite("x", 0, []byte("hello")))
	must(t, f.Truncate("x", 5))
	if got := readFile(t, nothing(f), "x"); string(got) != "hello" {
		t.Errorf("after cutting: %q", got)
	}
	writeAt(t, h, []byte("!"), 6)
	if got := readFile(t, f, "x"); string(got) != "hello\x00!" {
		t.Errorf("old bytes past the cut came back: %q", got)
	}
	if f.FlipBit("x", 7, 0) == nil || f.FlipBit("none", 0, 0) == nil || f.Truncate("x", 100) == nil {
		t.Error("damage outside of a file was accepted")
	}
	must(t, f.RemoveFile("x"))
	if len(f.Files()) != 0 || exists(t, everything(f), "x") {
		t.Error("a removed file is there")
	}
}

func TestZerosCostNothing(t *testing.T) {
	f := faultfs.New(faultfs.Config{Capacity: 1 << 31})
	h := create(t, f, "journal")
	zero := make([]byte, 1<<20)
	allocated := testing.AllocsPerRun(1, func() {
		for i := range int64(64) {
			writeAt(t, h, zero, i<<20)
		}
		must(t, h.Sync())
	})
	if allocated > 1000 {
		t.Fatalf("64 MiB of zeros took %.0f allocations", allocated)
	}
	if got := avail(t, f); got != 1<<31-64<<20 {
		t.Fatalf("zeros take space: %d bytes available", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	f := faultfs.New(faultfs.Config{WriteBack: 50})
	var wg sync.WaitGroup
	for i := range 8 {
		h := create(t, f, string(rune('a'+i)))
		wg.Go(func() {
			for j := range int64(50) {
				_, _ = h.WriteAt(fill(byte(i), 700), j*700)
				_ = h.Sync()
				_, _ = h.ReadAt(make([]byte, 100), j*700)
			}
		})
		wg.Go(func() {
			for j := range uint64(10) {
				f.Crash(faultfs.CrashOptions{Seed: j, Survive: 50, Mixed: true})
				f.Clone()
			}
		})
	}
	wg.Wait()
	syncDir(t, f, "/")
	for _, fi := range nothing(f).Files() {
		if fi.Size != 50*700 {
			t.Fatalf("%s has %d bytes", fi.Path, fi.Size)
		}
	}
}
