package native

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// errAnswered says that nothing more is to be told: the client speaks another
// protocol and was answered in that, or cannot be.
var errAnswered = errors.New("not Quire's protocol")

// handshake reads the preface and Hello and answers it.
func (c *conn) handshake() error {
	c.expect(c.srv.cfg.HandshakeTimeout)
	if err := c.reader.ReadPreface(); err != nil {
		return c.strange(err)
	}
	f, err := c.reader.Next()
	if err != nil {
		return c.slowHandshake(c.readError(f.ID, err))
	}
	if f.Type != wire.TypeHelloRequest {
		return &violation{f.ID, status.New(status.ProtocolViolation, "%v came before HelloRequest", f.Type)}
	}
	var hello quirev1.HelloRequest
	if err := f.Unmarshal(&hello); err != nil {
		return &violation{f.ID, err}
	}
	if hello.MinVersion > wire.Version || hello.MaxVersion < wire.Version {
		return &violation{f.ID, status.New(status.VersionMismatch,
			"the client speaks versions %d to %d of the protocol, this broker version %d",
			hello.MinVersion, hello.MaxVersion, wire.Version)}
	}
	c.srv.cfg.Log.Debug("connected", "client", c.nc.RemoteAddr().String(), "name", hello.Client)
	c.reader.SetLimit(wire.MaxFrame)
	c.expect(0)
	return c.out.add(wire.TypeHelloResponse, f.ID, &quirev1.HelloResponse{
		Version:       wire.Version,
		Broker:        c.srv.cfg.Name,
		MaxFrameBytes: wire.MaxFrame,
		MaxInFlight:   uint32(c.srv.cfg.MaxInFlight),
		MaxBatchBytes: batch.MaxSize,
	}, nil, 0, nil)
}

// strange answers a client that did not send the preface.
func (c *conn) strange(err error) error {
	switch {
	case errors.Is(err, wire.ErrHTTP):
		_ = c.nc.SetWriteDeadline(time.Now().Add(lingerTime))
		_, _ = io.WriteString(c.nc, httpAnswer) // whoever is there may be gone
		return errAnswered
	case errors.Is(err, wire.ErrTLS):
		// Clients that are set up wrongly come again and again.
		c.srv.warnTLS.Do(func() {
			c.srv.cfg.Log.Warn("a client speaks TLS on the native port, which has none",
				"client", c.nc.RemoteAddr().String())
		})
		return errAnswered
	}
	return c.slowHandshake(c.readError(0, err))
}

func (c *conn) slowHandshake(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.srv.metrics.limit(limitHandshake)
	}
	return err
}

// readError is what an error of the reader means for the connection: the
// client's fault, or the connection's.
func (c *conn) readError(id uint64, err error) error {
	var e *status.Error
	if errors.As(err, &e) {
		return &violation{id, e}
	}
	return err
}
