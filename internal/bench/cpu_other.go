//go:build !unix

package bench

import "time"

// ownCPU is not known on this system.
func ownCPU() (d time.Duration, known bool) { return 0, false }
