package control

import "sync"

// inbox is what the driver's goroutine is to do next. Others hand it work and
// never wait for it.
type inbox struct {
	mu     sync.Mutex
	work   []func()
	bytes  int // of the frames in it
	closed bool
	wake   chan struct{}
}

// maxInboxBytes bounds the frames that wait; more are dropped, as a network may.
const maxInboxBytes = 32 << 20

func newInbox() inbox { return inbox{wake: make(chan struct{}, 1)} }

// post hands over work. It says false once the driver has ended.
func (in *inbox) post(f func()) bool { return in.postFrame(0, f) }

// postFrame hands over a frame of that many bytes. It says false if there is no
// room for it.
func (in *inbox) postFrame(bytes int, f func()) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || bytes > 0 && in.bytes+bytes > maxInboxBytes {
		return false
	}
	in.work = append(in.work, f)
	in.bytes += bytes
	select {
	case in.wake <- struct{}{}:
	default:
	}
	return true
}

// take gives what is there. spare is memory for what comes next.
func (in *inbox) take(spare []func()) []func() {
	in.mu.Lock()
	defer in.mu.Unlock()
	work := in.work
	in.work, in.bytes = spare[:0], 0
	return work
}

// close refuses what comes later. It says false if something is there still.
func (in *inbox) close() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = len(in.work) == 0
	return in.closed
}
