package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
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
		ask := func(conn net.Conn) (err error) {
			answered, err = askTogether(conn, callers, payload, more)
			return err
		}
		if err := overLoopback(ask, func(conn net.Conn) error { return answerTogether(conn, f, payload) }); err != nil {
			return err
		}
		perSecond = float64(answered) / time.Since(began).Seconds()
		return ctx.Err()
	})
	return perSecond, err
}

// askTogether has callers each send a request, which is its number and a payload,
// wait for the number to come back, and go on as long as there is to be more.
func askTogether(conn net.Conn, callers, payload int, more func() bool) (answered int, err error) {
	var sending sync.Mutex
	var running sync.WaitGroup
	woken := make([]chan struct{}, callers)
	counts := make([]int, callers)
	for i := range callers {
		woken[i] = make(chan struct{}, 1)
		running.Go(func() {
			request := make([]byte, 4+payload)
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
	read := make(chan error, 1)
	go func() {
		defer func() {
			for i := range woken {
				close(woken[i])
			}
		}()
		r, number := bufio.NewReaderSize(conn, 64<<10), make([]byte, 4)
		for {
			if _, err := io.ReadFull(r, number); err != nil {
				read <- err
				return
			}
			woken[binary.LittleEndian.Uint32(number)] <- struct{}{}
		}
	}()
	running.Wait()
	_ = conn.Close()
	<-read // it ends with the connection
	for _, n := range counts {
		answered += n
	}
	return answered, nil
}

// answerTogether writes and syncs what has come, and answers it.
func answerTogether(conn net.Conn, f vfs.File, payload int) error {
	var mu sync.Mutex
	var requests []byte
	come := make(chan struct{}, 1)
	go func() {
		defer close(come)
		r, request := bufio.NewReaderSize(conn, 64<<10), make([]byte, 4+payload)
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
		for rest := taken; len(rest) > 0; rest = rest[4+payload:] {
			numbers = append(numbers, rest[:4]...)
		}
		size := (len(taken) + syncBlock - 1) / syncBlock * syncBlock
		block = append(block[:0], taken...)
		block = append(block, make([]byte, size-len(taken))...)
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
