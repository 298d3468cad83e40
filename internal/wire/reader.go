package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"github.com/quirelog/quire/status"
)

// The sizes of a Reader's buffers. A connection begins with the small one and
// most idle connections stay there; one on which frames queue up gets the
// large one, which saves it most of its read calls.
const (
	smallBuffer = 4 << 10
	largeBuffer = 32 << 10
	// keptMessage is the largest message buffer that is kept for the next
	// frame.
	keptMessage = 16 << 10
)

// Header is the beginning of a frame: what it is and what will follow.
type Header struct {
	Type Type
	ID   uint64
	// Message and Payload are the sizes of the two parts that follow.
	Message int
	Payload int
}

// Reader reads the frames of one direction of a connection. Small frames
// share a buffer; a payload is read into a buffer of its own, past that one
// where it is large. A Reader is used by one goroutine.
type Reader struct {
	src     io.Reader
	buf     *bufio.Reader
	limit   int
	busy    bool // the small buffer was full once
	begun   bool // a frame was read
	header  Header
	message []byte
}

// NewReader reads from r frames whose length is at most limit.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{src: r, buf: bufio.NewReaderSize(r, smallBuffer), limit: limit}
}

// SetLimit changes the limit for the frames from the next on.
func (r *Reader) SetLimit(limit int) { r.limit = limit }

// Buffered is how many bytes can be read without waiting for the source.
func (r *Reader) Buffered() int { return r.buf.Buffered() }

// Wait returns when the first byte of a frame has arrived, or with io.EOF when
// the other side ended the stream between two frames.
func (r *Reader) Wait() error {
	r.grow()
	_, err := r.buf.Peek(1)
	return err
}

// grow changes to the large buffer when the small one was full and is empty
// now.
func (r *Reader) grow() {
	switch r.buf.Buffered() {
	case smallBuffer:
		r.busy = true
	case 0:
		if r.busy && r.buf.Size() < largeBuffer {
			r.buf = bufio.NewReaderSize(r.src, largeBuffer)
		}
	}
}

// Next reads one frame. The errors are
//
//   - io.EOF when the stream ended before a frame, io.ErrUnexpectedEOF when it
//     ended inside one;
//   - a *status.Error with frame_too_large for a frame over the limit, or with
//     protocol_violation for bytes that are no frame; the frame then has the
//     type and id of its header where that makes sense;
//   - any other error of the source.
//
// After an error the stream has no known place and must not be read further.
func (r *Reader) Next() (Frame, error) {
	h, err := r.Header()
	if err != nil {
		return Frame{Type: h.Type, ID: h.ID}, err
	}
	return r.Body()
}

// Header reads the next frame's header, for a caller that wants to know what
// comes before it makes room for it with Body. Its errors are those of Next.
func (r *Reader) Header() (Header, error) {
	if err := r.Wait(); err != nil {
		return Header{}, err
	}
	b, err := r.buf.Peek(HeaderSize)
	r.grow()
	if err != nil {
		return Header{}, r.cut(b, err)
	}
	h, err := parseHeader(b, r.limit)
	if err != nil {
		return h, err
	}
	_, _ = r.buf.Discard(HeaderSize) // what was peeked can be discarded
	r.header, r.begun = h, true
	return h, nil
}

// cut is the error for a stream that ended inside the header b.
func (r *Reader) cut(b []byte, err error) error {
	if !r.begun && len(b) >= 2 && b[0] == tlsAlert && b[1] == tlsMajor {
		return violation(ErrTLS, "the answer is TLS, and this connection is not")
	}
	return unexpected(err)
}

func parseHeader(b []byte, limit int) (Header, error) {
	le := binary.LittleEndian
	length := int64(le.Uint32(b[0:]))
	h := Header{Type: Type(le.Uint16(b[4:])), ID: le.Uint64(b[8:])}
	message := int64(le.Uint32(b[16:]))
	switch {
	case string(b[:4]) == "HTTP":
		// A length like this is over every limit, so nothing else begins so.
		return Header{}, violation(ErrHTTP, "the answer is HTTP: this is not a native port")
	case le.Uint16(b[6:]) != 0:
		return Header{}, violation(nil, "bytes that are no frame: the reserved field is not zero")
	case length > int64(limit):
		return h, status.New(status.FrameTooLarge, "a frame of %d bytes is over the limit of %d", length, limit)
	case length < HeaderSize-lengthSize+message:
		return h, violation(nil, "a frame of %d bytes cannot hold a message of %d", length, message)
	}
	h.Message = int(message)
	h.Payload = int(length - (HeaderSize - lengthSize) - message)
	return h, nil
}

// Body reads the rest of the frame whose header was read last. Its errors are
// those of Next.
func (r *Reader) Body() (Frame, error) {
	h := r.header
	f := Frame{Type: h.Type, ID: h.ID}
	// The message is copied out of the shared buffer, since reading the
	// payload may move that buffer on.
	if h.Message <= cap(r.message) {
		f.Message = r.message[:h.Message]
	} else {
		f.Message = make([]byte, h.Message)
		if h.Message <= keptMessage {
			r.message = f.Message
		}
	}
	if _, err := io.ReadFull(r.buf, f.Message); err != nil {
		return Frame{Type: h.Type, ID: h.ID}, unexpected(err)
	}
	if h.Payload == 0 {
		return f, nil
	}
	f.Payload = make([]byte, h.Payload)
	// First what the buffer has, so that it can grow before it is filled again.
	n, err := r.buf.Read(f.Payload[:min(h.Payload, r.buf.Buffered())])
	if err == nil && n < h.Payload {
		r.grow()
		_, err = io.ReadFull(r.buf, f.Payload[n:])
	}
	if err != nil {
		return Frame{Type: h.Type, ID: h.ID}, unexpected(err)
	}
	return f, nil
}

// unexpected turns the end of the stream inside a frame into what it is.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
