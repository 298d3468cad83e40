package native

import (
	"context"
	"slices"
	"sync"
)

// budget is a number of bytes that are lent out. Who asks for more than is
// there waits, and is served in the order of asking, so that a large request
// is not passed by small ones for ever.
type budget struct {
	size int64

	mu      sync.Mutex
	lent    int64
	waiters []*waiter
}

type waiter struct {
	n     int64
	ready chan struct{} // closed when n was lent
}

func newBudget(size int64) *budget { return &budget{size: size} }

// acquire borrows n bytes, or all there are if n is more than that, and says
// how many they were. It fails with the cause of ctx.
func (b *budget) acquire(ctx context.Context, n int64) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	n = min(n, b.size)
	b.mu.Lock()
	if len(b.waiters) == 0 && b.lent+n <= b.size {
		b.lent += n
		b.mu.Unlock()
		return n, nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return n, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiters, w); i >= 0 {
		b.waiters = slices.Delete(b.waiters, i, i+1)
	} else {
		b.lent -= n // it was lent meanwhile
	}
	b.serve()
	return 0, context.Cause(ctx)
}

// release gives n borrowed bytes back.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent -= n
	b.serve()
}

// short says whether n bytes would have to wait.
func (b *budget) short(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters) > 0 || b.lent+min(n, b.size) > b.size
}

// starved says whether somebody waits.
func (b *budget) starved() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters) > 0
}

func (b *budget) serve() {
	for len(b.waiters) > 0 && b.lent+b.waiters[0].n <= b.size {
		b.lent += b.waiters[0].n
		close(b.waiters[0].ready)
		b.waiters = slices.Delete(b.waiters, 0, 1)
	}
}

// allowance is what a connection may borrow: from its own budget, and with it
// from the one that all connections share. It asks its own first: a
// connection that waits for itself keeps nothing from others.
type allowance struct {
	own, shared *budget
}

// acquire borrows about n bytes and says how many.
func (a allowance) acquire(ctx context.Context, n int64) (int64, error) {
	n, err := a.own.acquire(ctx, n)
	if err != nil {
		return 0, err
	}
	if _, err := a.shared.acquire(ctx, n); err != nil {
		a.own.release(n)
		return 0, err
	}
	return n, nil
}

// short says whether n bytes would have to wait.
func (a allowance) short(n int64) bool { return a.own.short(n) || a.shared.short(n) }

// release gives n bytes back.
func (a allowance) release(n int64) {
	if n > 0 {
		a.own.release(n)
		a.shared.release(n)
	}
}
