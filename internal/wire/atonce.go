package wire

import (
	"net"
	"syscall"
)

// AtOnce writes to a connection what the kernel takes without waiting. A single
// frame leaves from the goroutine that made it, which spares the hand-over to
// the connection's writer. It is for one goroutine at a time, and none while
// another one writes to the connection.
type AtOnce struct {
	raw  syscall.RawConn
	call func(fd uintptr) bool
	b    []byte
	n    int
}

// NewAtOnce gives nil for a connection that cannot be written to in this way.
func NewAtOnce(nc net.Conn) *AtOnce {
	sc, ok := nc.(*net.TCPConn)
	if !ok || !canTryWrite {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	a := &AtOnce{raw: raw}
	a.call = func(fd uintptr) bool {
		a.n = tryWrite(fd, a.b)
		return true
	}
	return a
}

// Write says how much of b is written. Why it is not more is for an ordinary
// write of the rest to find out.
func (a *AtOnce) Write(b []byte) int {
	if a == nil {
		return 0
	}
	a.b, a.n = b, 0
	_ = a.raw.Write(a.call) // as above
	a.b = nil
	return a.n
}
