//go:build unix

package wire

import "syscall"

const canTryWrite = true

// tryWrite writes to a descriptor that does not block.
func tryWrite(fd uintptr, b []byte) int {
	n, err := syscall.Write(int(fd), b)
	if err != nil {
		return 0
	}
	return n
}
