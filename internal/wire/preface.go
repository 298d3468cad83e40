package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/quirelog/quire/status"
)

// Preface is what a client sends before its first frame. Its zero bytes are
// in no text protocol, and its last byte is the version of the framing.
const Preface = "QUIRE\x00\x00\x01"

// The protocols that are often sent to the wrong port. They are causes of a
// *status.Error, for errors.Is.
var (
	ErrTLS  = errors.New("TLS on a port without it")
	ErrHTTP = errors.New("HTTP on the native port")
)

// How records of TLS begin: their type, then the major version.
const (
	tlsAlert     = 0x15
	tlsHandshake = 0x16
	tlsMajor     = 0x03
)

// methods are how requests of HTTP begin. PRI is HTTP/2's.
var methods = []string{
	"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "CONNECT ", "OPTIONS ", "TRACE ", "PATCH ", "PRI ",
}

// ReadPreface reads the preface from the beginning of the stream. What is not
// a preface is a *status.Error with protocol_violation that says what it
// looks like; ErrTLS and ErrHTTP are causes of it. A stream that ends before
// its first byte is io.EOF.
func (r *Reader) ReadPreface() error {
	b, err := r.buf.Peek(len(Preface))
	if len(b) > 0 && !bytes.HasPrefix([]byte(Preface), b) {
		return refusal(b)
	}
	switch {
	case errors.Is(err, io.EOF) && len(b) == 0:
		return io.EOF
	case err != nil:
		return unexpected(err)
	}
	_, _ = r.buf.Discard(len(Preface)) // what was peeked can be discarded
	return nil
}

// refusal says what the bytes b are that are no preface.
func refusal(b []byte) error {
	if len(b) >= 2 && b[0] == tlsHandshake && b[1] == tlsMajor {
		return violation(ErrTLS, "the client speaks TLS, and this port does not: connect without it")
	}
	for _, m := range methods {
		if n := min(len(m), len(b)); n >= 3 && string(b[:n]) == m[:n] {
			return violation(ErrHTTP, "the client speaks HTTP, and this is the native port: use the HTTP port")
		}
	}
	n := len(Preface)
	if len(b) == n && bytes.Equal(b[:n-1], []byte(Preface[:n-1])) {
		return status.New(status.VersionMismatch,
			"the client frames its messages by version %d, this port by version %d", b[n-1], Preface[n-1])
	}
	return violation(nil, "the connection began with %q and not with Quire's preface", b)
}

// violation is a protocol_violation whose text does not repeat its cause.
func violation(cause error, format string, args ...any) error {
	return &status.Error{Code: status.ProtocolViolation, Message: fmt.Sprintf(format, args...), Err: cause}
}
