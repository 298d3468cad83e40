package client

import "sync"

// tasks are the goroutines that a client runs. None starts after stop.
type tasks struct {
	mu      sync.Mutex
	stopped bool
	wg      sync.WaitGroup
}

// run starts f, and says whether it did.
func (t *tasks) run(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.wg.Go(f)
	return true
}

// stop lets nothing more start and waits for what runs.
func (t *tasks) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.wg.Wait()
}
