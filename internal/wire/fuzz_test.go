package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// FuzzReader reads arbitrary bytes as a stream of frames: every end has its
// documented error, and a frame that was read is written back as the bytes
// that it was read from.
func FuzzReader(f *testing.F) {
	const limit = 64 << 10
	f.Add(frame(f, TypeProduceRequest, 1, &quirev1.ProduceRequest{Topic: "orders"}, []byte("batch")))
	credit := frame(f, TypeCredit, 2, &quirev1.Credit{Records: 5})
	f.Add(append(credit, frame(f, TypeCancel, 2, &quirev1.Cancel{})...))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte{0x15, 3, 1, 0, 2, 2, 22})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(bytes.NewReader(stream), limit)
		at := 0
		for {
			fr, err := r.Next()
			if err != nil {
				checkEnd(t, err, at == len(stream))
				return
			}
			size := HeaderSize + len(fr.Message) + len(fr.Payload)
			if size-lengthSize > limit {
				t.Fatalf("a frame of %d bytes passed the limit", size)
			}
			raw := stream[at : at+size]
			if !bytes.Equal(raw[HeaderSize:], append(bytes.Clone(fr.Message), fr.Payload...)) {
				t.Fatal("a frame is not the bytes that it was read from")
			}
			at += size
			decode(t, fr)
		}
	})
}

func checkEnd(t *testing.T, err error, whole bool) {
	t.Helper()
	switch code := status.CodeOf(err); {
	case err == io.EOF && whole, err == io.ErrUnexpectedEOF && !whole:
	case code == status.FrameTooLarge, code == status.ProtocolViolation:
	default:
		t.Fatalf("the stream ended with %v", err)
	}
}

// decode decodes the message, as an end does with a type that it knows.
func decode(t *testing.T, f Frame) {
	t.Helper()
	m := New(f.Type)
	if m == nil {
		return
	}
	if err := f.Unmarshal(m); err != nil {
		var e *status.Error
		if !errors.As(err, &e) || e.Code != status.ProtocolViolation {
			t.Fatalf("malformed message: %v", err)
		}
		return
	}
	b := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(b); err != nil {
		t.Fatalf("a message that was read cannot be written: %v", err)
	}
}
