package native

import (
	"testing"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
)

// add queues a delivery of n bytes for which as many were borrowed.
func add(t *testing.T, o *outbox, n int) error {
	t.Helper()
	return o.add(wire.TypeDelivery, 1, &quirev1.Delivery{}, [][]byte{make([]byte, n)}, int64(n), nil)
}

func TestOutboxGivesBackWhatItDoesNotTake(t *testing.T) {
	var back int64
	o := newOutbox(func(n int64) { back += n }, nil)
	if err := add(t, o, wire.MaxFrame); err == nil || back != wire.MaxFrame {
		t.Errorf("a frame over the limit: %v, %d bytes back", err, back)
	}
	if err := add(t, o, 5000); err != nil || back != wire.MaxFrame {
		t.Fatalf("%v, %d bytes back", err, back)
	}
	// What is there when the connection is cut comes back, and all that comes
	// later.
	back = 0
	o.kill()
	if back != 5000 {
		t.Errorf("%d bytes back after the cut, want 5000", back)
	}
	if err := add(t, o, 300); err != nil || back != 5300 {
		t.Errorf("%v, %d bytes back, want 5300", err, back)
	}
	if l, ok := o.take(); ok {
		t.Errorf("%d frames to write on a connection that was cut", l.frames)
	}
	if o.wait(1) {
		t.Error("a connection that was cut has room")
	}
}

func TestOutboxWritesWhatItTookBeforeItEnds(t *testing.T) {
	o := newOutbox(func(int64) {}, nil)
	for range 3 {
		if err := add(t, o, 100); err != nil {
			t.Fatal(err)
		}
	}
	o.close()
	if err := add(t, o, 100); err != nil {
		t.Fatal(err)
	}
	l, ok := o.take()
	if !ok || l.frames != 3 {
		t.Errorf("%d frames, want 3", l.frames)
	}
	o.written(l)
	if _, ok := o.take(); ok {
		t.Error("more to write")
	}
}
