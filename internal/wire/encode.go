package wire

import (
	"encoding/binary"
	"net"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/quirelog/quire/status"
)

// Message is a generated message with its fast encoding.
type Message interface {
	proto.Message
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

// CheckSize refuses a frame that would be over MaxFrame: message m, and
// payload bytes behind it.
func CheckSize(t Type, m Message, payload int) error {
	if n := headerSize - lengthSize + m.SizeVT() + payload; n > MaxFrame {
		return status.New(status.FrameTooLarge, "%v of %d bytes is over the limit of %d", t, n, MaxFrame)
	}
	return nil
}

// AppendHead appends to dst a frame's header and message. The caller writes
// payload bytes behind it, so many of them, and has made sure that the frame
// is not over MaxFrame.
func AppendHead(dst []byte, t Type, id uint64, m Message, payload int) []byte {
	size := m.SizeVT()
	start := len(dst)
	dst = slices.Grow(dst, headerSize+size)[:start+headerSize+size]
	h := dst[start:]
	le := binary.LittleEndian
	le.PutUint32(h[0:], uint32(headerSize-lengthSize+size+payload))
	le.PutUint16(h[4:], uint16(t))
	le.PutUint16(h[6:], 0)
	le.PutUint64(h[8:], id)
	le.PutUint32(h[16:], uint32(size))
	if _, err := m.MarshalToSizedBufferVT(h[headerSize:]); err != nil {
		// Generated code has no message of ours that it cannot encode.
		panic("wire: encode " + t.String() + ": " + err.Error())
	}
	return dst
}

// Encode gives a frame as the buffers to write, one after the other: its
// header and message in a new buffer, then the payload as it was passed, not
// copied.
func Encode(t Type, id uint64, m Message, payload ...[]byte) (net.Buffers, error) {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	if err := CheckSize(t, m, n); err != nil {
		return nil, err
	}
	return append(net.Buffers{AppendHead(nil, t, id, m, n)}, payload...), nil
}

// Unmarshal decodes the frame's message into m, which must be of the frame's
// type. m keeps nothing of the frame.
func (f Frame) Unmarshal(m Message) error {
	if err := m.UnmarshalVT(f.Message); err != nil {
		return status.New(status.ProtocolViolation, "malformed %v: %w", f.Type, err)
	}
	return nil
}
