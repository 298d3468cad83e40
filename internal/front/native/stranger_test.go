package native

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func TestHTTPIsAnsweredInHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, &fakeBroker{}, Config{}).dial()
		go func() { _, _ = io.WriteString(p.nc, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
		res, err := http.ReadResponse(bufio.NewReader(p.nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "native port") {
			t.Errorf("answered %s, %q, %v", res.Status, text, err)
		}
	})
}

func TestTLSIsClosedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := serve(t, &fakeBroker{}, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			p := s.dial()
			p.write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01"))
			p.expectEnd()
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "TLS"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}

// What is no request ends the connection with an Error that names its id if
// it had one.
func TestViolationsAreNamedAndEndTheConnection(t *testing.T) {
	frame := func(typ wire.Type, id uint64, m wire.Message, payload ...[]byte) []byte {
		bufs, err := wire.Encode(typ, id, m, payload...)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Join(bufs, nil)
	}
	fetch := frame(wire.TypeFetchRequest, 9, &quirev1.FetchRequest{Topic: "orders", WaitMs: 60_000})
	changed := func(at int, b ...byte) []byte {
		g := bytes.Clone(fetch)
		copy(g[at:], b)
		return g
	}
	malformedProduce := changed(4, 20, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0xff)
	huge := binary.LittleEndian.AppendUint32(nil, wire.MaxFrame+1)
	for name, tc := range map[string]struct {
		sent []byte
		id   uint64
		code status.Code
	}{
		"garbage":           {bytes.Repeat([]byte("garbage!"), 10), 0, status.ProtocolViolation},
		"over the limit":    {changed(0, huge...), 9, status.FrameTooLarge},
		"unknown type":      {changed(4, 99), 9, status.ProtocolViolation},
		"an answer":         {frame(wire.TypeDelivery, 9, &quirev1.Delivery{}), 9, status.ProtocolViolation},
		"a second hello":    {frame(wire.TypeHelloRequest, 9, &quirev1.HelloRequest{}), 9, status.ProtocolViolation},
		"malformed message": {changed(wire.HeaderSize, 0xff), 9, status.ProtocolViolation},
		"malformed produce": {malformedProduce, 9, status.ProtocolViolation},
		"payload of a fetch": {
			frame(wire.TypeFetchRequest, 9, &quirev1.FetchRequest{}, []byte("x")),
			9, status.ProtocolViolation,
		},
		"id 0": {frame(wire.TypeFetchRequest, 0, &quirev1.FetchRequest{}), 0, status.ProtocolViolation},
		"large message": {
			frame(wire.TypeProduceRequest, 9, &quirev1.ProduceRequest{Topic: strings.Repeat("x", 70_000)}),
			9, status.FrameTooLarge,
		},
		"credit for a fetch": {
			append(bytes.Clone(fetch), frame(wire.TypeCredit, 9, &quirev1.Credit{})...),
			9, status.ProtocolViolation,
		},
		"id in use": {append(bytes.Clone(fetch), fetch...), 9, status.ProtocolViolation},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := serve(t, &fakeBroker{}, Config{}).connect()
				go func() { _, _ = p.nc.Write(tc.sent) }() // the server need not read it all
				p.expectError(tc.id, tc.code)
				for {
					// A poll that the violation ended may still be told.
					f, err := p.r.Next()
					if err == io.EOF {
						return
					}
					if err != nil || f.Type != wire.TypeError {
						t.Fatalf("read %v, %v", f.Type, err)
					}
				}
			})
		})
	}
}

func TestHandshakesThatCannotBeAreRefused(t *testing.T) {
	hello := func(m *quirev1.HelloRequest) []byte {
		bufs, err := wire.Encode(wire.TypeHelloRequest, 5, m)
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte(wire.Preface), bytes.Join(bufs, nil)...)
	}
	early, err := wire.Encode(wire.TypeCancel, 5, &quirev1.Cancel{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		sent []byte
		id   uint64
		code status.Code
	}{
		"no preface":      {[]byte("*1\r\n$4\r\nPING\r\n"), 0, status.ProtocolViolation},
		"a later preface": {[]byte("QUIRE\x00\x00\x02"), 0, status.VersionMismatch},
		"later versions":  {hello(&quirev1.HelloRequest{MinVersion: 2, MaxVersion: 3}), 5, status.VersionMismatch},
		"no version":      {hello(&quirev1.HelloRequest{}), 5, status.VersionMismatch},
		"a request first": {append([]byte(wire.Preface), early[0]...), 5, status.ProtocolViolation},
		"over 64 KiB": {
			hello(&quirev1.HelloRequest{MaxVersion: 1, Client: strings.Repeat("x", 70_000)}),
			5, status.FrameTooLarge,
		},
		"a malformed hello": {
			[]byte(wire.Preface + "\x11\x00\x00\x00\x01\x00\x00\x00" +
				"\x05\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\xff"),
			5, status.ProtocolViolation,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := serve(t, &fakeBroker{}, Config{}).dial()
				go func() { _, _ = p.nc.Write(tc.sent) }() // the server need not read it all
				p.expectError(tc.id, tc.code)
				p.expectEnd()
			})
		})
	}
}
