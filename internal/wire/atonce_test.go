package wire

import (
	"io"
	"net"
	"testing"
)

// What is written at once is what the kernel takes, and the rest is for an
// ordinary write.
func TestAtOnceWritesWhatTheKernelTakes(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	here, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()

	a := NewAtOnce(here)
	if !canTryWrite {
		if a != nil {
			t.Error("this system cannot, and says that it can")
		}
		return
	}
	// Nobody reads yet: sooner or later the kernel takes no more, and no call
	// waits for that.
	piece := make([]byte, 64<<10)
	written := 0
	for n := len(piece); n == len(piece); written += n {
		n = a.Write(piece)
	}
	if written == 0 {
		t.Fatal("nothing was written")
	}
	if err := here.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, there); err != nil || n != int64(written) {
		t.Errorf("%d bytes came, %v; %d were written", n, err, written)
	}
}

func TestAtOnceIsNotForOtherConnections(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	defer here.Close()
	if a := NewAtOnce(here); a != nil || a.Write([]byte{1}) != 0 {
		t.Error("a pipe is written to")
	}
}
