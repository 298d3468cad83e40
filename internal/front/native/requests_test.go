package native

import "testing"

// A connection ends when all answers are queued: an id that is free for the
// client is not yet an answer on its way.
func TestRequestsAreSettledByTheirAnswers(t *testing.T) {
	r := requests{limit: 2}
	for id := range uint64(2) {
		if err := r.begin(id+2, uncancelable); err != nil {
			t.Fatal(err)
		}
	}
	settled := r.last()
	r.end(2)
	r.settle()
	r.end(3)
	select {
	case <-settled:
		t.Fatal("settled before the last answer")
	default:
	}
	r.settle()
	<-settled
}
