package native

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestBudgetServesInTheOrderOfAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		mustAcquire(t, b, 6)
		served := make(chan int64, 2)
		for _, n := range []int64{8, 1} {
			go func() { served <- mustAcquire(t, b, n) }()
			synctest.Wait()
		}
		// One would fit, but it came after eight, which does not.
		if len(served) != 0 {
			t.Errorf("served %d", <-served)
		}
		b.release(6)
		if n := <-served + <-served; n != 9 || b.lent != 9 {
			t.Errorf("served %d, lent %d", n, b.lent)
		}
	})
}

func TestBudgetLendsAllToWhoAsksForMore(t *testing.T) {
	b := newBudget(10)
	if n := mustAcquire(t, b, 1000); n != 10 {
		t.Errorf("lent %d, want 10", n)
	}
}

func TestBudgetForgetsWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		mustAcquire(t, b, 6)
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error)
		go func() {
			_, err := b.acquire(ctx, 8)
			failed <- err
		}()
		served := make(chan struct{})
		synctest.Wait()
		go func() {
			mustAcquire(t, b, 1)
			close(served)
		}()
		synctest.Wait()
		cause := errors.New("enough")
		cancel(cause)
		if err := <-failed; err != cause {
			t.Errorf("got %v, want the cause", err)
		}
		// Who waited behind it is served, and nothing is lost.
		<-served
		b.release(6)
		b.release(1)
		if b.lent != 0 || b.starved() {
			t.Errorf("lent %d", b.lent)
		}
	})
}

func TestAllowanceKeepsNothingFromOthersWhileItWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newBudget(20)
		a, other := allowance{newBudget(10), shared}, allowance{newBudget(10), shared}
		if _, err := a.acquire(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			_, _ = a.acquire(ctx, 10)
			close(ended)
		}()
		synctest.Wait()
		if _, err := other.acquire(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-ended
		a.release(10)
		other.release(10)
		if shared.lent != 0 || a.own.lent != 0 {
			t.Errorf("lent %d and %d", shared.lent, a.own.lent)
		}
	})
}

func mustAcquire(t *testing.T, b *budget, n int64) int64 {
	got, err := b.acquire(t.Context(), n)
	if err != nil {
		t.Error(err)
	}
	return got
}
