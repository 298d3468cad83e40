package bench

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestWritersStayNearTheSlowestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow, fast = 0, 1
		g := NewGate(10, 2)
		ctx, stop := context.WithCancel(t.Context())
		var passed atomic.Uint64
		for range 8 { // writers
			go func() {
				for g.Pass(ctx) == nil {
					passed.Add(1)
				}
			}()
		}
		take := func(reader, n int, want uint64) {
			t.Helper()
			for range n {
				g.Took(reader)
			}
			synctest.Wait()
			if got := passed.Load(); got != want {
				t.Errorf("the readers are at %d and %d: %d records passed, want %d", g.Read(slow), g.Read(fast), got, want)
			}
		}
		take(slow, 0, 10)
		take(fast, 10, 10)
		take(slow, 3, 13)
		take(slow, 10, 20)
		take(fast, 3, 23)
		if g.Total() != 26 {
			t.Errorf("%d records were read, want 26", g.Total())
		}
		stop()
		synctest.Wait()
	})
}
