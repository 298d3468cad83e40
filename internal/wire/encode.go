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

// AppendFrame appends to dst a frame's header and message m. The caller writes
// payload bytes behind it, so many of them. It fails, with dst as it was, if
// the frame would be over MaxFrame.
func AppendFrame(dst []byte, t Type, id uint64, m Message, payload int) ([]byte, error) {
	size := m.SizeVT()
	length := HeaderSize - lengthSize + size + payload
	if length > MaxFrame {
		return dst, status.New(status.FrameTooLarge, "%v of %d bytes is over the limit of %d", t, length, MaxFrame)
	}
	start := len(dst)
	out := slices.Grow(dst, HeaderSize+size)[:start+HeaderSize+size]
	h := out[start:]
	le := binary.LittleEndian
	le.PutUint32(h[0:], uint32(length))
	le.PutUint16(h[4:], uint16(t))
	le.PutUint16(h[6:], 0)
	le.PutUint64(h[8:], id)
	le.PutUint32(h[16:], uint32(size))
	if _, err := m.MarshalToSizedBufferVT(h[HeaderSize:]); err != nil {
		return dst, status.New(status.Internal, "encode %v: %w", t, err)
	}
	return out, nil
}

// Encode gives a frame as the buffers to write, one after the other: its
// header and message in a new buffer, then the payload as it was passed, not
// copied.
func Encode(t Type, id uint64, m Message, payload ...[]byte) (net.Buffers, error) {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	head, err := AppendFrame(nil, t, id, m, n)
	if err != nil {
		return nil, err
	}
	return append(net.Buffers{head}, payload...), nil
}

// Unmarshal decodes the frame's message into m, which must be of the frame's
// type. m keeps nothing of the frame.
func (f Frame) Unmarshal(m Message) error {
	if err := m.UnmarshalVT(f.Message); err != nil {
		return status.New(status.ProtocolViolation, "malformed %v: %w", f.Type, err)
	}
	return nil
}
