//go:build !linux

package bench

import (
	"runtime"

	"github.com/quirelog/quire/status"
)

// dropCache is known for Linux only.
func dropCache(string) error {
	return status.New(status.NotSupported, "the page cache cannot be dropped on %s; run without --cold", runtime.GOOS)
}

// filesystem is not known on this system.
func filesystem(string) string { return "" }

// kernel is not known on this system.
func kernel() string { return "" }
