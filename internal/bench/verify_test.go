package bench

import (
	"strings"
	"testing"

	"github.com/quirelog/quire/status"
)

// written is a run of two workers that wrote 100 records each to one topic of
// which some keys are drawn often, as a reader sees it.
type written struct {
	content *Content
	ledger  *Ledger
	records []kv
}

type kv struct{ key, value []byte }

func write(t *testing.T) *written {
	t.Helper()
	plan := Plan{Workers: 2, Topics: 1}
	w := &written{content: NewContent(99, 64, 10, plan), ledger: NewLedger(plan.Workers)}
	for range 100 {
		for worker := range plan.Workers {
			w.records = append(w.records, w.make(w.ledger.Sending(worker)))
		}
	}
	return w
}

func (w *written) make(id ID) kv {
	value := make([]byte, 64)
	key := w.content.Record(id, value)
	return kv{append([]byte(nil), key...), value}
}

// verdict is what a verifier says of the records.
func (w *written) verdict() error {
	v := NewVerifier(w.content, w.ledger)
	v.Topic(0)
	for _, r := range w.records {
		if err := v.Check(r.key, r.value); err != nil {
			return err
		}
	}
	return v.Complete()
}

// swap exchanges a record with the next one of the same key.
func (w *written) swap(i int) {
	for j := i + 1; j < len(w.records); j++ {
		if string(w.records[i].key) == string(w.records[j].key) {
			w.records[i], w.records[j] = w.records[j], w.records[i]
			return
		}
	}
}

func TestVerifierSeesWhatWentWrong(t *testing.T) {
	overloaded, unknown := status.New(status.Overloaded, "busy"), status.New(status.Unknown, "gone")
	tests := []struct {
		name string
		harm func(w *written)
		want string
	}{
		{"nothing", func(*written) {}, ""},
		{
			"a record is lost", func(w *written) { w.records = append(w.records[:120], w.records[121:]...) },
			"1 acknowledged records of worker 0 are lost, the first is number 60 of 100",
		},
		{"the last record is lost", func(w *written) { w.records = w.records[:199] }, "the first is number 99 of 100"},
		{"all are lost", func(w *written) { w.records = nil }, "100 acknowledged records of worker 0 are lost"},
		{"a record comes twice", func(w *written) { w.records = append(w.records, w.records[199]) }, "came again or too late"},
		{"two records of a key are exchanged", func(w *written) { w.swap(50) }, "came again or too late"},
		{"a byte of a value is another", func(w *written) { w.records[7].value[63]++ }, "came with another value"},
		{"a key is another", func(w *written) { w.records[7].key[0]++ }, "came with another key"},
		{"a value is shorter", func(w *written) { w.records[7].value = w.records[7].value[:63] }, "a record of 63 bytes"},
		{"a record that nobody wrote", func(w *written) { w.records = append(w.records, w.make(ID{1, 100})) }, "was not written"},
		{"random bytes", func(w *written) { fill(w.records[3].value, 12) }, "was not written"},
		{"a record that failed is not there", func(w *written) {
			w.ledger.Failed(w.ledger.Sending(0), overloaded)
			w.ledger.Failed(w.ledger.Sending(1), unknown)
		}, ""},
		{"a record of unknown outcome is there", func(w *written) {
			id := w.ledger.Sending(0)
			w.ledger.Failed(id, unknown)
			w.records = append(w.records, w.make(id))
		}, ""},
		{"a record that was refused is there", func(w *written) {
			id := w.ledger.Sending(0)
			w.ledger.Failed(id, overloaded)
			w.records = append(w.records, w.make(id))
		}, "record 100 of worker 0 was refused and is there"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := write(t)
			tt.harm(w)
			err := w.verdict()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%v, want nothing", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %q", err, tt.want)
			case tt.want != "" && status.CodeOf(err) != status.DataCorrupt:
				t.Errorf("code %s, want %s", status.CodeOf(err), status.DataCorrupt)
			}
		})
	}
}

func TestRecordsOfAnotherTopicAreSeen(t *testing.T) {
	plan := Plan{Workers: 1, Topics: 2}
	c, l := NewContent(5, 32, 10, plan), NewLedger(plan.Workers)
	v := NewVerifier(c, l)
	value := make([]byte, 32)
	key := c.Record(l.Sending(0), value)
	v.Topic(1)
	if err := v.Check(key, value); err == nil || !strings.Contains(err.Error(), "from another topic") {
		t.Errorf("%v, want a record from another topic", err)
	}
	v.Topic(0)
	if err := v.Check(key, value); err != nil {
		t.Error(err)
	}
}

func TestLedgerSaysWhenTooManyFail(t *testing.T) {
	l := NewLedger(1)
	for range MaxErrors + 10 {
		l.Failed(l.Sending(0), status.New(status.Overloaded, "busy"))
	}
	select {
	case <-l.Full():
	default:
		t.Error("it goes on")
	}
	if n, first := l.Errors(); n != MaxErrors+10 || status.CodeOf(first) != status.Overloaded {
		t.Errorf("%d errors, the first %v", n, first)
	}
	if l.Acked() != 0 {
		t.Errorf("%d acknowledged, want none", l.Acked())
	}
}
