package bench

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/quirelog/quire/status"
)

// dropCache takes the files of a directory out of the page cache, so that they
// are read from the disk. Pages can only be dropped when they are clean, so
// each file is synced first.
func dropCache(dir string) error {
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return fmt.Errorf("sync %s: %w", d.Name(), err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fmt.Errorf("drop %s: %w", d.Name(), err)
		}
		return nil
	})
	if err != nil {
		return status.New(status.Internal, "cannot drop the data from the page cache: %w", err)
	}
	return nil
}

// filesystem names the kind of file system that a directory is on.
func filesystem(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return ""
	}
	switch int64(s.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case zfsMagic:
		return "zfs"
	}
	return fmt.Sprintf("%#x", s.Type)
}

const zfsMagic = 0x2fc12fc1

// kernel is the version of the system.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
