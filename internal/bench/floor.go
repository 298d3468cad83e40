package bench

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
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
	// was written full of zeros before, one after the other without a pause.
	SyncP50 float64 `json:"sync_4k_p50_us"`
	SyncP99 float64 `json:"sync_4k_p99_us"`
	Syncs   int     `json:"syncs"`
	// Answered* are the times of the least that acknowledges one durable
	// record: a byte comes over TCP, 4 KiB are written and synced as above, a
	// byte goes back. It is more than a sync and a trip: between two answers
	// the disk and the processors fall idle, and have to be woken.
	AnsweredP50 float64 `json:"answered_sync_p50_us"`
	AnsweredP99 float64 `json:"answered_sync_p99_us"`
	// AnsweredRate is how many such answers a second there can be with as many
	// callers as the run has requests in flight; 0 unless it is unbatched with
	// several.
	AnsweredRate float64 `json:"answered_per_second,omitempty"`
	// Growing is the bandwidth of a file that is written and synced at
	// FlushBytes, the broker's own average in the run.
	FlushBytes int     `json:"flush_bytes"`
	Growing    float64 `json:"growing_bytes_per_second"`
	// Loopback* are the times of a round trip of one byte over TCP.
	LoopbackP50 float64 `json:"loopback_p50_us"`
	LoopbackP99 float64 `json:"loopback_p99_us"`
	// Streaming is the bandwidth of a file in the page cache that one end of a
	// TCP connection reads, sums up and sends, and the other receives and sums
	// up: 1 MiB at a time, in memory that is used again.
	Streaming float64 `json:"streaming_bytes_per_second"`
}

// streamingFloor is the bandwidth of a file that is read, checked and sent over
// TCP.
func streamingFloor(ctx context.Context, dir string) (perSecond float64, err error) {
	err = withFile(dir, func(f vfs.File) error {
		block := make([]byte, streamBlock)
		fill(block, 1)
		for at := int64(0); at < streamFile; at += streamBlock {
			if _, err := f.WriteAt(block, at); err != nil {
				return err
			}
		}
		began, blocks := time.Now(), int64(0)
		send := func(conn net.Conn) error {
			b := make([]byte, streamBlock)
			for ; time.Since(began) < streamTime && ctx.Err() == nil; blocks++ {
				if _, err := f.ReadAt(b, blocks*streamBlock%streamFile); err != nil {
					return err
				}
				crc32.Checksum(b, castagnoli)
				if _, err := conn.Write(b); err != nil {
					return err
				}
			}
			return nil
		}
		receive := func(conn net.Conn) error {
			b := make([]byte, streamBlock)
			for {
				if _, err := io.ReadFull(conn, b); err != nil {
					return ended(err)
				}
				crc32.Checksum(b, castagnoli)
			}
		}
		if err := overLoopback(send, receive); err != nil {
			return err
		}
		perSecond = float64(blocks*streamBlock) / time.Since(began).Seconds()
		return ctx.Err()
	})
	return perSecond, err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ended is nil for the end of a connection between two messages.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// How long each part of the floor is measured.
const (
	syncTime     = time.Second
	syncBlock    = 4096
	syncFile     = 16 << 20
	growingTime  = time.Second
	growingBytes = 1 << 30
	loopbackTrip = 2000
	streamTime   = time.Second
	streamBlock  = 1 << 20
	streamFile   = 256 << 20
)

// syncFloor adds the times of small syncs in a prepared file of dir to syncs,
// and those of syncs that answer over the loopback to answered.
func syncFloor(ctx context.Context, dir string, syncs, answered *Latencies) (n int, err error) {
	err = withFile(dir, func(f vfs.File) error {
		if err := zeroFile(f, syncFile); err != nil {
			return err
		}
		block := make([]byte, syncBlock)
		fill(block, 1)
		sync := func() error {
			n++
			if _, err := f.WriteAt(block, int64(n)*syncBlock%syncFile); err != nil {
				return err
			}
			return f.SyncData()
		}
		for began := time.Now(); time.Since(began) < syncTime && ctx.Err() == nil; {
			start := time.Now()
			if err := sync(); err != nil {
				return err
			}
			syncs.Add(0, time.Since(start))
		}
		began := time.Now()
		more := func() bool { return time.Since(began) < syncTime && ctx.Err() == nil }
		if err := roundTrips(answered, sync, more); err != nil {
			return err
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

// zeroFile makes f a file of so many zeros.
func zeroFile(f vfs.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	return f.Sync()
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
	n := 0
	more := func() bool { n++; return n <= loopbackTrip }
	return roundTrips(l, func() error { return nil }, more)
}

// roundTrips measures, as long as there are to be more, how long a byte takes
// over TCP to a server that does its work and sends a byte back.
func roundTrips(l *Latencies, work func() error, more func() bool) error {
	ask := func(conn net.Conn) error { return trips(conn, l, more) }
	return overLoopback(ask, func(conn net.Conn) error { return answerBytes(conn, work) })
}

// overLoopback connects two ends over TCP. The first closes its connection when
// it is done; the second returns then.
func overLoopback(first, second func(net.Conn) error) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return status.New(status.Internal, "cannot measure the loopback: %w", err)
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			err = second(conn)
			_ = conn.Close()
		}
		served <- err
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err == nil {
		err = first(conn)
		_ = conn.Close()
	} else {
		_ = ln.Close()
	}
	if e := <-served; e != nil {
		err = e
	}
	if err != nil {
		return status.New(status.Internal, "cannot measure the loopback: %w", err)
	}
	return nil
}

// answerBytes answers each byte with a byte once work is done.
func answerBytes(conn net.Conn, work func() error) error {
	b := make([]byte, 1)
	for {
		if _, err := io.ReadFull(conn, b); err != nil {
			return ended(err)
		}
		if err := work(); err != nil {
			return err
		}
		if _, err := conn.Write(b); err != nil {
			return err
		}
	}
}

func trips(conn net.Conn, l *Latencies, more func() bool) error {
	b := []byte{1}
	for more() {
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
