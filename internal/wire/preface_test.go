package wire

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func TestPrefaceAndFirstFrameMayArriveTogether(t *testing.T) {
	hello := frame(t, TypeHelloRequest, 0, &quirev1.HelloRequest{MaxVersion: 1})
	r := NewReader(strings.NewReader(Preface+string(hello)), MaxHandshakeFrame)
	if err := r.ReadPreface(); err != nil {
		t.Fatal(err)
	}
	if f, err := r.Next(); err != nil || f.Type != TypeHelloRequest {
		t.Errorf("got %v, %v", f.Type, err)
	}
}

func TestPrefaceOfAnotherProtocolIsRecognised(t *testing.T) {
	for name, tc := range map[string]struct {
		sent  string
		code  status.Code
		cause error
		says  string
	}{
		"TLS":             {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", status.ProtocolViolation, ErrTLS, "TLS"},
		"HTTP":            {"GET / HTTP/1.1\r\n", status.ProtocolViolation, ErrHTTP, "HTTP"},
		"HTTP/2":          {"PRI * HTTP/2.0\r\n", status.ProtocolViolation, ErrHTTP, "HTTP"},
		"HTTP cut":        {"GET", status.ProtocolViolation, ErrHTTP, "HTTP"},
		"Redis":           {"*1\r\n$4\r\nPING\r\n", status.ProtocolViolation, nil, "preface"},
		"a later framing": {"QUIRE\x00\x00\x02", status.VersionMismatch, nil, "version 2"},
		"one wrong byte":  {"QUIRE\x00\x01\x01", status.ProtocolViolation, nil, "preface"},
	} {
		err := NewReader(strings.NewReader(tc.sent), MaxHandshakeFrame).ReadPreface()
		if status.CodeOf(err) != tc.code || tc.cause != nil && !errors.Is(err, tc.cause) ||
			err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrefaceThatIsCutIsTheEndOfTheStream(t *testing.T) {
	for n := range Preface {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if err := NewReader(strings.NewReader(Preface[:n]), MaxHandshakeFrame).ReadPreface(); err != want {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
	}
}
