//go:build unix

package bench

import (
	"syscall"
	"time"
)

// ownCPU is the CPU time that this process has used.
func ownCPU() (d time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
