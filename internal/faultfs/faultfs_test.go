package faultfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/faultfs"
)

// The helpers fail the test on any error.

func create(t *testing.T, f *faultfs.FS, name string) vfs.File {
	t.Helper()
	h, err := f.Create(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeAt(t *testing.T, h vfs.File, p []byte, off int64) {
	t.Helper()
	_, err := h.WriteAt(p, off)
	must(t, err)
}

func syncDir(t *testing.T, f *faultfs.FS, name string) {
	t.Helper()
	d, err := f.OpenDir(name)
	must(t, err)
	must(t, d.Sync())
	must(t, d.Close())
}

// durable makes a file that survives any crash.
func durable(t *testing.T, f *faultfs.FS, name string, data []byte) vfs.File {
	t.Helper()
	h := create(t, f, name)
	writeAt(t, h, data, 0)
	must(t, h.Sync())
	syncDir(t, f, f.PathDir(name))
	return h
}

func readFile(t *testing.T, f *faultfs.FS, name string) []byte {
	t.Helper()
	h, err := f.Open(name)
	must(t, err)
	defer h.Close()
	b, err := io.ReadAll(h)
	must(t, err)
	return b
}

func exists(t *testing.T, f *faultfs.FS, name string) bool {
	t.Helper()
	_, err := f.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

// nothing is a crash that loses all that it may lose, everything one that
// loses nothing.
func nothing(f *faultfs.FS) *faultfs.FS { return f.Crash(faultfs.CrashOptions{}) }

func everything(f *faultfs.FS) *faultfs.FS {
	return f.Crash(faultfs.CrashOptions{Survive: 100})
}

func TestReadsSeeWhatWasWritten(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	must(t, f.MkdirAll("a/b", 0o755))
	h := create(t, f, "/a/b/x")
	_, err := h.Write([]byte("hello "))
	must(t, err)
	_, err = h.Write([]byte("world"))
	must(t, err)
	writeAt(t, h, []byte("end"), 10_000)
	got := readFile(t, f, "a//b/./x")
	want := append([]byte("hello world"), make([]byte, 10_000-11)...)
	want = append(want, "end"...)
	if !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes back, want %d, or other ones", len(got), len(want))
	}
	n, err := h.ReadAt(make([]byte, 10), 10_000)
	if n != 3 || !errors.Is(err, io.EOF) {
		t.Fatalf("a read over the end gave %d, %v", n, err)
	}
	names, err := f.List("a")
	must(t, err)
	if !slices.Equal(names, []string{"b"}) {
		t.Fatalf("listed %v", names)
	}
}

func TestOperatingSystemErrors(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	must(t, f.MkdirAll("d/e", 0o755))
	h := create(t, f, "d/x")
	must(t, h.Close())
	ro, err := f.Open("d/x")
	must(t, err)
	_, writeErr := ro.Write([]byte("x"))
	_, openErr := f.Open("d/none")
	_, dirErr := f.OpenDir("d/x")
	_, intoErr := f.Create("none/x", vfs.WriteCategoryUnspecified)
	_, overDirErr := f.Create("d/e", vfs.WriteCategoryUnspecified)
	_, useErr := h.Write([]byte("x"))
	for _, c := range []struct {
		what      string
		got, want error
	}{
		{"open of a missing file", openErr, fs.ErrNotExist},
		{"write to a handle for reading", writeErr, fs.ErrPermission},
		{"a file opened as a directory", dirErr, syscall.ENOTDIR},
		{"create in a missing directory", intoErr, fs.ErrNotExist},
		{"create over a directory", overDirErr, syscall.EISDIR},
		{"write to a closed handle", useErr, fs.ErrClosed},
		{"remove of a missing file", f.Remove("d/none"), fs.ErrNotExist},
		{"remove of a full directory", f.Remove("d"), syscall.ENOTEMPTY},
		{"link over a file", f.Link("d/x", "d/x"), fs.ErrExist},
		{"rename of a missing file", f.Rename("d/none", "d/y"), fs.ErrNotExist},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	must(t, f.RemoveAll("d"))
	must(t, f.RemoveAll("d"))
	if exists(t, f, "d") {
		t.Error("RemoveAll left the directory")
	}
}

func TestLockExcludesUntilReleasedOrCrashed(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	l, err := f.Lock("LOCK")
	must(t, err)
	if _, err := f.Lock("LOCK"); !errors.Is(err, syscall.EAGAIN) {
		t.Fatalf("the second lock: %v", err)
	}
	_, err = nothing(f).Lock("LOCK")
	must(t, err)
	must(t, l.Close())
	_, err = f.Lock("LOCK")
	must(t, err)
}

func TestCountersCountWhatTookEffect(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := create(t, f, "x")
	writeAt(t, h, fill(1, 1000), 0)
	must(t, h.Sync())
	must(t, h.SyncData())
	readFile(t, f, "x")
	c := f.Count("x")
	if c.Writes != 1 || c.BytesWritten != 1000 || c.Syncs != 2 || c.BytesRead != 1000 {
		t.Fatalf("counted %+v", c)
	}
	if f.TotalCount() != c {
		t.Fatalf("the total is %+v, want %+v", f.TotalCount(), c)
	}
}

func TestHandlesOutliveRemovalAndRename(t *testing.T) {
	f := faultfs.New(faultfs.Config{})
	h := durable(t, f, "x", []byte("old"))
	must(t, f.Remove("x"))
	writeAt(t, h, []byte("new"), 0)
	b := make([]byte, 3)
	_, err := h.ReadAt(b, 0)
	must(t, err)
	if string(b) != "new" {
		t.Fatalf("the handle of a removed file reads %q", b)
	}
	g := create(t, f, "x")
	writeAt(t, g, []byte("other"), 0)
	r, err := f.ReuseForWrite("x", "y", vfs.WriteCategoryUnspecified)
	must(t, err)
	writeAt(t, r, []byte("O"), 0)
	if got := readFile(t, f, "y"); string(got) != "Other" {
		t.Fatalf("reuse reads %q", got)
	}
}
