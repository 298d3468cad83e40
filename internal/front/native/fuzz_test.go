package native

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
)

// FuzzConnection sends arbitrary bytes on a connection that has shaken hands
// or not. Whatever they are, the connection ends and has given back all that
// it had borrowed.
func FuzzConnection(f *testing.F) {
	frames := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	frame := func(t wire.Type, id uint64, m wire.Message, payload string) []byte {
		b, err := wire.AppendFrame(nil, t, id, m, len(payload))
		if err != nil {
			f.Fatal(err)
		}
		return append(b, payload...)
	}
	hello := frames([]byte(wire.Preface), frame(wire.TypeHelloRequest, 1, &quirev1.HelloRequest{MaxVersion: 1}, ""))
	f.Add(frames(hello,
		frame(wire.TypeProduceRequest, 2, &quirev1.ProduceRequest{Topic: "orders"}, "batch"),
		frame(wire.TypeFetchRequest, 3, &quirev1.FetchRequest{WaitMs: 60_000}, ""),
		frame(wire.TypeSubscribeRequest, 4, &quirev1.SubscribeRequest{Credit: &quirev1.Credit{Records: 1}}, ""),
		frame(wire.TypeCredit, 4, &quirev1.Credit{Bytes: 1<<64 - 1}, ""),
		frame(wire.TypeCancel, 3, &quirev1.Cancel{}, "")))
	f.Add(frames(hello,
		frame(wire.TypeCreateTopicRequest, 2, &quirev1.CreateTopicRequest{Name: "orders", Type: "tree"}, ""),
		frame(wire.TypeListTopicsRequest, 3, &quirev1.ListTopicsRequest{Limit: 1}, ""),
		frame(wire.TypeAlterTopicRequest, 4, &quirev1.AlterTopicRequest{Name: "x"}, "")))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x16\x03\x01\x02\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		srv, err := New(&fakeBroker{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		client, server := net.Pipe()
		srv.admit(server)
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, client)
		}()
		_, _ = client.Write(sent) // the server may have heard enough
		_ = client.Close()
		srv.tasks.Wait()
		<-read
		if srv.produces.lent != 0 || srv.answers.lent != 0 {
			t.Errorf("%d and %d bytes are still lent", srv.produces.lent, srv.answers.lent)
		}
	})
}
