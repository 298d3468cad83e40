package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// frame encodes a frame into one slice.
func frame(t testing.TB, typ Type, id uint64, m Message, payload ...[]byte) []byte {
	t.Helper()
	bufs, err := Encode(typ, id, m, payload...)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(bufs, nil)
}

func TestFrameHasTheDocumentedBytes(t *testing.T) {
	got := frame(t, TypeProduceRequest, 0x0102, &quirev1.ProduceRequest{Topic: "orders"}, []byte("batch"))
	want := "1d000000" + "1400" + "0000" + "0201000000000000" + "08000000" + // header
		"0a06" + hex.EncodeToString([]byte("orders")) + hex.EncodeToString([]byte("batch"))
	if hex.EncodeToString(got) != want {
		t.Errorf("frame is %x, want %s", got, want)
	}
}

// The document has the example and the numbers of this code.
func TestDocumentAgreesWithTheCode(t *testing.T) {
	doc, err := os.ReadFile("../../docs/native-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	hello := frame(t, TypeHelloRequest, 1, &quirev1.HelloRequest{MinVersion: 1, MaxVersion: 1, Client: "go"})
	bare := strings.NewReplacer(" ", "", "\n", "").Replace(string(doc))
	for _, example := range []string{hex.EncodeToString(hello), hex.EncodeToString([]byte(Preface))} {
		if !strings.Contains(bare, example) {
			t.Errorf("the document does not have the bytes %s", example)
		}
	}
	for typ := range messages {
		if row := fmt.Sprintf("| %d | %v", typ, typ); !strings.Contains(string(doc), row) {
			t.Errorf("the document does not have %q", row)
		}
	}
}

func TestFramesAreReadAsTheyWereWritten(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	stream := bytes.Join([][]byte{
		frame(t, TypeProduceRequest, 1, &quirev1.ProduceRequest{Topic: "a"}, large[:1000], large),
		frame(t, TypeCancel, 2, &quirev1.Cancel{}),
		frame(t, TypeProduceRequest, 3, &quirev1.ProduceRequest{Topic: "b"}),
		frame(t, TypeHelloRequest, 4, &quirev1.HelloRequest{Client: string(large[:100_000])}),
	}, nil)
	r := NewReader(bytes.NewReader(stream), MaxFrame)

	var payloads [][]byte
	for _, want := range []struct {
		typ     Type
		message Message
		payload int
	}{
		{TypeProduceRequest, &quirev1.ProduceRequest{Topic: "a"}, 1000 + len(large)},
		{TypeCancel, &quirev1.Cancel{}, 0},
		{TypeProduceRequest, &quirev1.ProduceRequest{Topic: "b"}, 0},
		{TypeHelloRequest, &quirev1.HelloRequest{Client: string(large[:100_000])}, 0},
	} {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got := New(f.Type)
		if err := f.Unmarshal(got); err != nil {
			t.Fatal(err)
		}
		if f.Type != want.typ || f.ID != uint64(len(payloads)+1) || len(f.Payload) != want.payload {
			t.Errorf("read %v, id %d, payload %d; want %+v", f.Type, f.ID, len(f.Payload), want)
		}
		if diff := cmp.Diff(want.message, got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		payloads = append(payloads, f.Payload)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
	// The first payload is still what it was: it belongs to its reader.
	if !bytes.Equal(payloads[0], append(bytes.Clone(large[:1000]), large...)) {
		t.Error("a payload changed when later frames were read")
	}
}

func TestEncodeDoesNotCopyThePayload(t *testing.T) {
	payload := make([]byte, 1000)
	bufs, err := Encode(TypeProduceRequest, 1, &quirev1.ProduceRequest{}, payload)
	if err != nil {
		t.Fatal(err)
	}
	payload[999] = 7
	if last := bufs[len(bufs)-1]; last[999] != 7 {
		t.Error("the payload was copied")
	}
}

func TestEncodeRefusesAFrameOverTheLimit(t *testing.T) {
	_, err := Encode(TypeProduceRequest, 1, &quirev1.ProduceRequest{}, make([]byte, MaxFrame))
	if status.CodeOf(err) != status.FrameTooLarge {
		t.Errorf("got %v, want frame_too_large", err)
	}
	if _, err := Encode(TypeProduceRequest, 1, &quirev1.ProduceRequest{}, make([]byte, MaxFrame-16)); err != nil {
		t.Errorf("a frame of exactly the limit: %v", err)
	}
}

func TestTruncatedFrameIsUnexpectedEOFAtEveryByte(t *testing.T) {
	whole := frame(t, TypeProduceRequest, 1, &quirev1.ProduceRequest{Topic: "orders"}, []byte("batch"))
	for n := 1; n < len(whole); n++ {
		_, err := NewReader(bytes.NewReader(whole[:n]), MaxFrame).Next()
		if err != io.ErrUnexpectedEOF {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func TestOversizeFrameIsNamedAndNotRead(t *testing.T) {
	whole := frame(t, TypeProduceRequest, 9, &quirev1.ProduceRequest{}, make([]byte, 1000))
	r := NewReader(bytes.NewReader(whole), 1015)
	f, err := r.Next()
	if status.CodeOf(err) != status.FrameTooLarge || f.ID != 9 || f.Type != TypeProduceRequest {
		t.Errorf("got %v of %v %d, want frame_too_large of its id", err, f.Type, f.ID)
	}
	r = NewReader(bytes.NewReader(whole), 1)
	r.SetLimit(1016)
	if _, err := r.Next(); err != nil {
		t.Errorf("a frame of exactly the limit: %v", err)
	}
}

func TestGarbageIsAProtocolViolation(t *testing.T) {
	good := frame(t, TypeProduceRequest, 1, &quirev1.ProduceRequest{Topic: "orders"})
	with := func(at int, b byte) []byte {
		g := bytes.Clone(good)
		g[at] = b
		return g
	}
	for name, tc := range map[string]struct {
		bytes []byte
		cause error
	}{
		"reserved field":     {with(7, 1), nil},
		"message over frame": {with(16, 200), nil},
		"length under 16":    {with(0, 15), nil},
		"HTTP answer":        {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), ErrHTTP},
		"TLS alert":          {[]byte{0x15, 3, 1, 0, 2, 2, 22}, ErrTLS},
	} {
		_, err := NewReader(bytes.NewReader(tc.bytes), MaxFrame).Next()
		if status.CodeOf(err) != status.ProtocolViolation || tc.cause != nil && !errors.Is(err, tc.cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMalformedMessageIsAProtocolViolation(t *testing.T) {
	f := Frame{Type: TypeProduceRequest, Message: []byte{0x0a, 0x7f}}
	err := f.Unmarshal(&quirev1.ProduceRequest{})
	if status.CodeOf(err) != status.ProtocolViolation || !strings.Contains(err.Error(), "ProduceRequest") {
		t.Errorf("got %v", err)
	}
}

// A connection with small frames is read in few calls: the reader takes what
// is there, and takes a larger buffer when that is much.
func TestQueuedFramesAreReadInFewCalls(t *testing.T) {
	one := frame(t, TypeProduceRequest, 1, &quirev1.ProduceRequest{Topic: "orders"}, make([]byte, 300))
	const frames = 1000
	src := &countingReader{r: bytes.NewReader(bytes.Repeat(one, frames))}
	r := NewReader(src, MaxFrame)
	for range frames {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if limit := frames * len(one) / largeBuffer * 3 / 2; src.calls > limit {
		t.Errorf("%d read calls for %d frames of %d bytes, want at most %d", src.calls, frames, len(one), limit)
	}
}

// A large payload goes from the source into its own buffer: each call of the
// source offers the room that is left.
func TestLargePayloadIsReadIntoItsPlace(t *testing.T) {
	whole := frame(t, TypeProduceRequest, 1, &quirev1.ProduceRequest{}, make([]byte, 1<<20))
	src := &countingReader{r: bytes.NewReader(whole)}
	if _, err := NewReader(src, MaxFrame).Next(); err != nil {
		t.Fatal(err)
	}
	if src.calls != 2 {
		t.Errorf("%d read calls, want one for the buffer and one for the rest", src.calls)
	}
}

type countingReader struct {
	r     io.Reader
	calls int
}

func (c *countingReader) Read(p []byte) (int, error) {
	c.calls++
	return c.r.Read(p)
}

func TestEveryTypeHasItsMessage(t *testing.T) {
	for typ := range messages {
		if m := New(typ); m == nil || typ.String() != string(m.ProtoReflect().Descriptor().Name()) {
			t.Errorf("%d: %v", typ, m)
		}
	}
	if New(99) != nil || Type(99).String() != "type 99" {
		t.Error("a type that does not exist has a message or a name")
	}
}

func BenchmarkReadSmallFrames(b *testing.B) {
	one := frame(b, TypeProduceRequest, 1, &quirev1.ProduceRequest{Topic: "orders"}, make([]byte, 300))
	src := &endlessReader{chunk: bytes.Repeat(one, 100)}
	r := NewReader(src, MaxFrame)
	b.SetBytes(int64(len(one)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadLargeFrames(b *testing.B) {
	src := &endlessReader{chunk: frame(b, TypeProduceRequest, 1, &quirev1.ProduceRequest{}, make([]byte, 1<<20))}
	r := NewReader(src, MaxFrame)
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendFrame(b *testing.B) {
	m := &quirev1.ProduceResponse{AppendTimeUs: 1_480_000_000_000_000}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := AppendFrame(buf[:0], TypeProduceResponse, 77, m, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// endlessReader repeats a chunk.
type endlessReader struct {
	chunk []byte
	at    int
}

func (e *endlessReader) Read(p []byte) (int, error) {
	n := copy(p, e.chunk[e.at:])
	e.at = (e.at + n) % len(e.chunk)
	return n, nil
}
