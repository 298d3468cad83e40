package faultfs_test

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/quirelog/quire/internal/faultfs"
)

// failing injects one fault into all operations of a kind.
func failing(kind faultfs.Kind, fault faultfs.Fault) faultfs.Injector {
	return func(op faultfs.Op) faultfs.Fault {
		if op.Kind == kind {
			return fault
		}
		return faultfs.Fault{}
	}
}

func TestFailedSyncStoresNothingAndForgets(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", fill('a', 8192))
	writeAt(t, h, fill('b', 10_000), 0)
	f.SetInjector(failing(faultfs.Sync, faultfs.Fault{Err: syscall.EIO}))
	if err := h.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	f.SetInjector(nil)
	if got := readFile(t, f, "x"); !bytes.Equal(got, fill('b', 10_000)) {
		t.Fatal("reads do not see the cache after a failed sync")
	}
	must(t, h.Sync())
	if got := readFile(t, everything(f), "x"); !bytes.Equal(got, fill('a', 8192)) {
		t.Fatal("a later sync stored what the failed one had dropped")
	}

	writeAt(t, h, fill('c', 512), 512)
	must(t, h.Sync())
	want := fill('a', 8192)
	copy(want[512:], fill('c', 512))
	if got := readFile(t, nothing(f), "x"); !bytes.Equal(got, want) {
		t.Fatal("a rewritten sector must be stored, and only that one")
	}
	f.EvictCache()
	if got := readFile(t, f, "x"); !bytes.Equal(got[:8192], want) {
		t.Fatal("an evicted cache must show the disk")
	}
}

func TestFailedSyncMayKeepPart(t *testing.T) {
	f := faultfs.New(faultfs.Config{FailedSyncKeeps: 50})
	h := durable(t, f, "x", fill('a', 16*faultfs.SectorSize))
	writeAt(t, h, fill('b', 16*faultfs.SectorSize), 0)
	f.SetInjector(failing(faultfs.SyncData, faultfs.Fault{Err: syscall.EIO}))
	if h.SyncData() == nil {
		t.Fatal("the sync did not fail")
	}
	got := readFile(t, nothing(f), "x")
	if !bytes.Contains(got, []byte("a")) || !bytes.Contains(got, []byte("b")) {
		t.Fatal("want some sectors stored and some not")
	}
}

func TestFailedDirectorySyncStoresNoNames(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	create(t, f, "x")
	d, err := f.OpenDir("/")
	must(t, err)
	f.SetInjector(failing(faultfs.SyncDir, faultfs.Fault{Err: syscall.EIO}))
	if d.Sync() == nil {
		t.Fatal("the sync did not fail")
	}
	if f = f.Clone(); !exists(t, f, "x") || exists(t, nothing(f), "x") {
		t.Fatal("the name must be seen, and may be lost by a crash")
	}
	syncDir(t, f, "/")
	if !exists(t, nothing(f), "x") {
		t.Fatal("a later sync must store the name")
	}
}

func TestDoneFaultTakesEffect(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", fill('a', 512))
	writeAt(t, h, fill('b', 512), 0)
	f.SetInjector(func(faultfs.Op) faultfs.Fault { return faultfs.Fault{Err: syscall.EIO, Done: true} })
	if h.Sync() == nil || f.Rename("x", "y") == nil {
		t.Fatal("the operations did not fail")
	}
	f.SetInjector(nil)
	syncDir(t, f, "/")
	if got := readFile(t, nothing(f), "y"); !bytes.Equal(got, fill('b', 512)) {
		t.Fatal("the failed operations took no effect")
	}
}

func TestShortWriteStoresAPrefix(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := create(t, f, "x")
	f.SetInjector(failing(faultfs.Write, faultfs.Fault{Err: io.ErrShortWrite, Bytes: 5}))
	n, err := h.Write([]byte("hello world"))
	if n != 5 || !errors.Is(err, io.ErrShortWrite) {
		t.Fatalf("wrote %d, %v", n, err)
	}
	f.SetInjector(nil)
	if got := readFile(t, f, "x"); string(got) != "hello" {
		t.Fatalf("read %q", got)
	}
	_, err = h.Write([]byte("!"))
	must(t, err)
	if got := readFile(t, f, "x"); string(got) != "hello!" {
		t.Fatalf("the position is not after the short write: %q", got)
	}
}

func TestFaultsNameOperationAndFile(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", []byte("data"))
	f.SetInjector(failing(faultfs.Read, faultfs.Fault{Err: syscall.EIO, Bytes: 2}))
	n, err := h.ReadAt(make([]byte, 4), 0)
	if n != 2 || !errors.Is(err, syscall.EIO) || err.Error() != "read x: input/output error" {
		t.Fatalf("read %d, %v", n, err)
	}
}

func TestCrashAtStopsEverything(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", fill('a', 512))
	f.CrashAt(f.Changes() + 1)
	writeAt(t, h, fill('b', 512), 0)
	if err := h.Sync(); !errors.Is(err, faultfs.ErrCrashed) {
		t.Fatalf("sync at the crash point: %v", err)
	}
	_, readErr := h.ReadAt(make([]byte, 1), 0)
	_, statErr := f.Stat("x")
	for _, err := range []error{readErr, statErr, h.Close(), f.Remove("x")} {
		if !errors.Is(err, faultfs.ErrCrashed) {
			t.Errorf("after the crash: %v", err)
		}
	}
	if !f.Frozen() {
		t.Error("the system does not say that it stopped")
	}
	if got := readFile(t, nothing(f), "x"); !bytes.Equal(got, fill('a', 512)) {
		t.Error("the sync at the crash point took effect")
	}
}

func TestInjectorSeesEveryOperation(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	var seen, traced []faultfs.Op
	f.SetInjector(func(op faultfs.Op) faultfs.Fault {
		seen = append(seen, op)
		return faultfs.Fault{Crash: op.Kind == faultfs.Remove}
	})
	history(t, f)
	if err := f.Remove("f0"); !errors.Is(err, faultfs.ErrCrashed) {
		t.Fatalf("remove: %v", err)
	}
	for i, op := range seen {
		if op.N != int64(i) {
			t.Fatalf("operation %d has the number %d", i, op.N)
		}
	}
	g := faultfs.New(faultfs.Config{Trace: func(op faultfs.Op, err error) { traced = append(traced, op) }})
	history(t, g)
	if len(traced) != len(seen)-1 {
		t.Fatalf("traced %d operations, the injector saw %d", len(traced), len(seen)-1)
	}
	if got := traced[1].String(); got != "#1 write f0 [0,+3000)" {
		t.Fatalf("the trace reads %q", got)
	}
}
