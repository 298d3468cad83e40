package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/status"
)

// Floor is what the machine does without any broker, measured in the same run
// and on the same file system.
type Floor struct {
	// Sync* are the times of a write of 4 KiB and an fdatasync in a file that
	// was written full of zeros before.
	SyncP50 float64 `json:"sync_4k_p50_us"`
	SyncP99 float64 `json:"sync_4k_p99_us"`
	Syncs   int     `json:"syncs"`
	// Growing is the bandwidth of a file that is written and synced at
	// FlushBytes, the broker's own average in the run.
	FlushBytes int     `json:"flush_bytes"`
	Growing    float64 `json:"growing_bytes_per_second"`
	// Loopback* are the times of a round trip of one byte over TCP.
	LoopbackP50 float64 `json:"loopback_p50_us"`
	LoopbackP99 float64 `json:"loopback_p99_us"`
}

// How long each part of the floor is measured.
const (
	syncTime     = time.Second
	syncBlock    = 4096
	syncFile     = 16 << 20
	growingTime  = time.Second
	growingBytes = 1 << 30
	loopbackTrip = 2000
)

// syncFloor adds the times of small syncs in a prepared file of dir to l and
// counts them.
func syncFloor(ctx context.Context, dir string, l *Latencies) (n int, err error) {
	err = withFile(dir, func(f vfs.File) error {
		zeros := make([]byte, 1<<20)
		for at := int64(0); at < syncFile; at += int64(len(zeros)) {
			if _, err := f.WriteAt(zeros, at); err != nil {
				return err
			}
		}
		if err := f.Sync(); err != nil {
			return err
		}
		block := make([]byte, syncBlock)
		fill(block, 1)
		for began := time.Now(); time.Since(began) < syncTime && ctx.Err() == nil; n++ {
			start := time.Now()
			if _, err := f.WriteAt(block, int64(n)*syncBlock%syncFile); err != nil {
				return err
			}
			if err := f.SyncData(); err != nil {
				return err
			}
			l.Add(0, time.Since(start))
		}
		return ctx.Err()
	})
	return n, err
}

// growingFloor is the bandwidth of a file that grows by flush bytes a sync.
func growingFloor(ctx context.Context, dir string, flush int) (perSecond float64, err error) {
	err = withFile(dir, func(f vfs.File) error {
		block := make([]byte, flush)
		fill(block, 1)
		began, at := time.Now(), int64(0)
		for time.Since(began) < growingTime && at < growingBytes && ctx.Err() == nil {
			if _, err := f.WriteAt(block, at); err != nil {
				return err
			}
			if err := f.SyncData(); err != nil {
				return err
			}
			at += int64(flush)
		}
		perSecond = float64(at) / time.Since(began).Seconds()
		return ctx.Err()
	})
	return perSecond, err
}

// withFile gives use a new file of dir, through the same calls that the store
// makes, and removes it.
func withFile(dir string, use func(vfs.File) error) error {
	name := filepath.Join(dir, "floor")
	f, err := vfs.Default.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = use(f)
		if e := f.Close(); err == nil {
			err = e
		}
		if e := os.Remove(name); err == nil {
			err = e
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return status.New(status.Internal, "cannot measure the floor: %w", err)
	}
	return err
}

// loopbackFloor measures round trips of one byte.
func loopbackFloor(l *Latencies) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return status.New(status.Internal, "cannot measure the loopback: %w", err)
	}
	defer ln.Close()
	echoed := make(chan error, 1)
	go func() { echoed <- echo(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err == nil {
		err = trips(conn, l)
		_ = conn.Close()
	} else {
		_ = ln.Close()
	}
	if e := <-echoed; err == nil {
		err = e
	}
	if err != nil {
		return status.New(status.Internal, "cannot measure the loopback: %w", err)
	}
	return nil
}

// echo sends back what comes on one connection.
func echo(ln net.Listener) error {
	conn, err := ln.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
	return err
}

func trips(conn net.Conn, l *Latencies) error {
	b := []byte{1}
	for range loopbackTrip {
		start := time.Now()
		if _, err := conn.Write(b); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if _, err := io.ReadFull(conn, b); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		l.Add(0, time.Since(start))
	}
	return nil
}
