package client

import (
	"context"
	"fmt"
	"net"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// helloID is the correlation id of the handshake.
const helloID = 1

// dialConn connects to one address and shakes hands. The connection ends with
// life.
func dialConn(life context.Context, cfg *config, addr string, tasks *tasks) (*conn, error) {
	ctx, cancel := context.WithTimeout(life, cfg.dialTimeout)
	defer cancel()
	nc, err := cfg.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// A connection knows no context: what ends a handshake early is to close it.
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	r := wire.NewReader(nc, wire.MaxHandshakeFrame)
	hello, err := shakeHands(nc, r, cfg.name)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = nc.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s accepted the connection and did not answer within %v",
				addr, cfg.dialTimeout)
		}
		return nil, err
	}
	r.SetLimit(wire.MaxFrame)
	inFlight := int(min(hello.MaxInFlight, wire.MaxInFlight))
	if inFlight == 0 {
		inFlight = wire.MaxInFlight
	}
	cn, err := newConn(life, nc, r, inFlight, tasks)
	if err != nil {
		_ = nc.Close()
	}
	return cn, err
}

func shakeHands(nc net.Conn, r *wire.Reader, name string) (*quirev1.HelloResponse, error) {
	b, err := wire.AppendFrame([]byte(wire.Preface), wire.TypeHelloRequest, helloID, &quirev1.HelloRequest{
		MinVersion: wire.Version, MaxVersion: wire.Version, Client: name,
	}, 0)
	if err != nil {
		return nil, err
	}
	if _, err := nc.Write(b); err != nil {
		return nil, err
	}
	f, err := r.Next()
	if err != nil {
		return nil, err
	}
	if f.Type == wire.TypeError {
		return nil, refused(f)
	}
	hello := new(quirev1.HelloResponse)
	if err := expect(f, wire.TypeHelloResponse, hello); err != nil {
		return nil, err
	}
	if hello.Version != wire.Version {
		return nil, status.New(status.VersionMismatch, "the broker chose protocol version %d, this client speaks %d",
			hello.Version, wire.Version)
	}
	return hello, nil
}
