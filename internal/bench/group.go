package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// groupFloor is how many requests a second can be answered at most that each want
// their bytes to be durable first, when so many callers wait for one each. It is
// the least that such a server and client do: the server syncs whatever has come
// while it synced before, and answers all of it in one write; each caller is woken
// by the client's reader.
func groupFloor(ctx context.Context, dir string, callers, payload int) (perSecond float64, err error) {
	err = withFile(dir, func(f vfs.File) error {
		if err := zeroFile(f, syncFile); err != nil {
			return err
		}
		began := time.Now()
		more := func() bool { return time.Since(began) < syncTime && ctx.Err() == nil }
		answered := 0
		ask := func(conn net.Conn) error {
			answered = askTogether(conn, callers, payload, more)
			return nil
		}
		if err := overLoopback(ask, func(conn net.Conn) error { return answerTogether(conn, f, payload) }); err != nil {
			return err
		}
		perSecond = float64(answered) / time.Since(began).Seconds()
		return ctx.Err()
	})
	return perSecond, err
}

// numberBytes is the size of a request's number, which is also its answer.
const numberBytes = 4

// askTogether has callers each send a request, which is its number and a payload,
// wait for the number to come back, and go on as long as there is to be more.
func askTogether(conn net.Conn, callers, payload int, more func() bool) (answered int) {
	var sending sync.Mutex
	var running, reading sync.WaitGroup
	woken := make([]chan struct{}, callers)
	counts := make([]int, callers)
	for i := range callers {
		woken[i] = make(chan struct{}, 1)
		running.Go(func() {
			request := make([]byte, numberBytes+payload)
			binary.LittleEndian.PutUint32(request, uint32(i))
			for more() {
				sending.Lock()
				_, err := conn.Write(request)
				sending.Unlock()
				if err != nil {
					return
				}
				if _, ok := <-woken[i]; !ok {
					return
				}
				counts[i]++
			}
		})
	}
	reading.Go(func() {
		r, number := bufio.NewReaderSize(conn, 64<<10), make([]byte, numberBytes)
		for {
			if _, err := io.ReadFull(r, number); err != nil {
				break // the connection has ended
			}
			woken[binary.LittleEndian.Uint32(number)] <- struct{}{}
		}
		for i := range woken {
			close(woken[i])
		}
	})
	running.Wait()
	_ = conn.Close()
	reading.Wait()
	for _, n := range counts {
		answered += n
	}
	return answered
}

// answerTogether writes and syncs what has come, and answers it.
func answerTogether(conn net.Conn, f vfs.File, payload int) error {
	var mu sync.Mutex
	var requests []byte
	come := make(chan struct{}, 1)
	go func() {
		defer close(come)
		r, request := bufio.NewReaderSize(conn, 64<<10), make([]byte, numberBytes+payload)
		for {
			if _, err := io.ReadFull(r, request); err != nil {
				return // the other end is done
			}
			mu.Lock()
			requests = append(requests, request...)
			mu.Unlock()
			select {
			case come <- struct{}{}:
			default:
			}
		}
	}()
	var taken, block, numbers []byte
	at := int64(0)
	for range come {
		mu.Lock()
		taken, requests = requests, taken[:0]
		mu.Unlock()
		if len(taken) == 0 {
			continue
		}
		numbers = numbers[:0]
		for rest := taken; len(rest) > 0; rest = rest[numberBytes+payload:] {
			numbers = append(numbers, rest[:numberBytes]...)
		}
		size := (len(taken) + syncBlock - 1) / syncBlock * syncBlock
		block = slices.Grow(block[:0], size)[:size]
		clear(block[copy(block, taken):])
		if at+int64(size) > syncFile {
			at = 0
		}
		if _, err := f.WriteAt(block, at); err != nil {
			return err
		}
		at += int64(size)
		if err := f.SyncData(); err != nil {
			return err
		}
		if _, err := conn.Write(numbers); err != nil {
			return nil // the other end is done
		}
	}
	return nil
}
