package native

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// memoryListener accepts net.Pipe connections.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

func (l *memoryListener) dial() net.Conn {
	a, b := net.Pipe()
	l.conns <- b
	return a
}

// served is a running server over memory.
type served struct {
	t   *testing.T
	srv *Server
	ln  *memoryListener
}

// serve runs a server until the test ends.
func serve(t *testing.T, b Broker, cfg Config) *served {
	t.Helper()
	srv, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, srv: srv, ln: newMemoryListener()}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(s.ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// peer is a client that the test plays frame by frame.
type peer struct {
	t  *testing.T
	nc net.Conn
	r  *wire.Reader
}

// dial connects without a word.
func (s *served) dial() *peer {
	nc := s.ln.dial()
	s.t.Cleanup(func() { _ = nc.Close() })
	return &peer{s.t, nc, wire.NewReader(nc, wire.MaxFrame)}
}

// connect shakes hands.
func (s *served) connect() *peer {
	s.t.Helper()
	p := s.dial()
	p.hello()
	return p
}

func (p *peer) hello() {
	p.t.Helper()
	p.write([]byte(wire.Preface))
	p.send(wire.TypeHelloRequest, 1, &quirev1.HelloRequest{MinVersion: 1, MaxVersion: 1, Client: "test"})
	p.expect(wire.TypeHelloResponse, 1, nil)
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal("write:", err)
	}
}

func (p *peer) send(t wire.Type, id uint64, m wire.Message, payload ...[]byte) {
	p.t.Helper()
	bufs, err := wire.Encode(t, id, m, payload...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(bytes.Join(bufs, nil))
}

// next reads a frame.
func (p *peer) next() (wire.Frame, wire.Message) {
	p.t.Helper()
	f, err := p.r.Next()
	if err != nil {
		p.t.Fatal("read:", err)
	}
	m := wire.New(f.Type)
	if err := f.Unmarshal(m); err != nil {
		p.t.Fatal(err)
	}
	return f, m
}

// expect reads a frame of type t for id, with the message want unless that is
// nil.
func (p *peer) expect(t wire.Type, id uint64, want wire.Message) wire.Frame {
	p.t.Helper()
	f, m := p.next()
	if f.Type != t || f.ID != id {
		p.t.Fatalf("read %v %d %v, want %v %d", f.Type, f.ID, m, t, id)
	}
	if want != nil {
		if diff := cmp.Diff(want, m, protocmp.Transform()); diff != "" {
			p.t.Fatal(diff)
		}
	}
	return f
}

// expectError reads an Error for id.
func (p *peer) expectError(id uint64, code status.Code) {
	p.t.Helper()
	f, m := p.next()
	e, ok := m.(*quirev1.Error)
	if !ok || f.ID != id || e.Code != string(code) {
		p.t.Fatalf("read %v %d %v, want error %s %d", f.Type, f.ID, m, code, id)
	}
}

// expectEnd reads the end of the connection.
func (p *peer) expectEnd() {
	p.t.Helper()
	if f, err := p.r.Next(); err != io.EOF {
		p.t.Fatalf("read %v %d and %v, want the end", f.Type, f.ID, err)
	}
}

func (p *peer) produce(id uint64, batch string) {
	p.t.Helper()
	p.send(wire.TypeProduceRequest, id, &quirev1.ProduceRequest{Topic: "orders"}, []byte(batch))
}

// poll sends a long poll.
func (p *peer) poll(id uint64) {
	p.t.Helper()
	p.send(wire.TypeFetchRequest, id, &quirev1.FetchRequest{Topic: "orders", WaitMs: 60_000})
}
