package native

import (
	"io"
	"net"
	"strconv"
	"time"

	"github.com/quirelog/quire/internal/wire"
)

const (
	// maxRefusals bounds the connections that are being told why they are
	// refused. More are closed without a word.
	maxRefusals = 64
	// lingerTime and lingerBytes bound how long a connection that this side
	// ends is still read from.
	lingerTime  = 2 * time.Second
	lingerBytes = 2 * wire.MaxFrame
)

// refuse tells nc, which has not been served, why it is not, and closes it.
func (s *Server) refuse(nc net.Conn, reason error) {
	select {
	case s.refused <- struct{}{}:
	default:
		_ = nc.Close()
		return
	}
	s.tasks.Go(func() {
		defer func() { <-s.refused }()
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(lingerTime))
		bufs, err := wire.Encode(wire.TypeError, 0, wire.ErrorMessage(reason))
		if err != nil {
			return
		}
		if _, err := bufs.WriteTo(nc); err == nil {
			linger(nc)
		}
	})
}

// linger ends the sending side of nc and reads what the client has still sent.
// Closing a TCP connection with unread bytes resets it, and a reset may
// overtake the last answer.
func linger(nc net.Conn) {
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || nc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, nc, lingerBytes)
}

// httpText is what a client reads that speaks HTTP on this port.
const httpText = "This is the native port of a Quire broker. HTTP is served on its HTTP port.\n"

// httpAnswer is httpText as HTTP has it.
var httpAnswer = "HTTP/1.1 400 Bad Request\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\n" +
	"Content-Length: " + strconv.Itoa(len(httpText)) + "\r\n" +
	"Connection: close\r\n\r\n" + httpText
