package producers

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/status"
)

const (
	t0     = ident.Timestamp(1_480_000_000_000_000)
	middle = ident.Position(1 << 63)
)

var (
	chosen = ChosenID([16]byte{1})
	issued = DrawnID([16]byte{2})
	low    = keyspace.Band{First: 0, Last: middle - 1}
	high   = keyspace.Band{First: middle, Last: ^ident.Position(0)}
)

// header says of a batch of producer chosen, session 1, what most tests vary.
func header(first, floor, prev uint64) *batch.Producer {
	return &batch.Producer{ID: chosen, Session: 1, First: first, Floor: floor, Prev: prev, Band: keyspace.Full()}
}

// in gives h for another band.
func in(band keyspace.Band, h *batch.Producer) *batch.Producer {
	h.Band = band
	return h
}

// lows and highs are records at the lowest and at the highest position.
func lows(sequences ...uint64) []Record  { return recordsAt(0, sequences) }
func highs(sequences ...uint64) []Record { return recordsAt(^ident.Position(0), sequences) }

func recordsAt(at ident.Position, sequences []uint64) []Record {
	var records []Record
	for _, q := range sequences {
		records = append(records, Record{q, at})
	}
	return records
}

// log is a range that appends what its state lets it.
type log struct {
	t *testing.T
	*State
	epoch ident.Epoch
	end   ident.Offset
	now   ident.Timestamp
}

func newLog(t *testing.T, s *State) *log {
	return &log{t: t, State: s, epoch: ident.Epoch(s.id), now: t0}
}

// produce judges a batch, appends it if the verdict is so, and says the verdict
// in a word.
func (l *log) produce(h *batch.Producer, records []Record) string {
	l.t.Helper()
	v := l.Judge(h, records, l.now)
	if v.Decision == Append {
		if err := l.Accept(h, records, l.epoch, l.end, l.now); err != nil {
			l.t.Fatal(err)
		}
		l.end += ident.Offset(len(records))
	}
	return v.word()
}

func (v *Verdict) word() string {
	switch {
	case v.Decision == Append:
		return "append"
	case v.Decision == Refuse && v.Results == nil:
		return string(v.Err.Code)
	case v.Decision == Refuse:
		return string(v.Err.Code) + " " + places(v.Results)
	}
	return "duplicate " + places(v.Results)
}

// places names results: the range and offset, settled, or a dash.
func places(results []Result) string {
	var words []string
	for _, r := range results {
		words = append(words, []string{"-", fmt.Sprintf("%v/%d", r.Place.Range, r.Place.Offset), "settled"}[r.Known])
	}
	return fmt.Sprint(words)
}

func (l *log) want(want string, h *batch.Producer, records []Record) {
	l.t.Helper()
	if got := l.produce(h, records); got != want {
		l.t.Fatalf("first %d, floor %d, prev %d: %s, want %s", h.First, h.Floor, h.Prev, got, want)
	}
}

func TestVerdicts(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1, 2, 3))
	l.want("duplicate [r1/0 r1/1 r1/2]", header(1, 0, 0), lows(1, 2, 3))
	l.want("duplicate [r1/1]", header(2, 0, 1), lows(2))
	l.want("partial_duplicate [r1/2 -]", header(3, 0, 2), lows(3, 4))
	l.want("out_of_order", header(5, 0, 4), lows(5))
	l.want("append", header(4, 2, 3), lows(4))
	l.want("append", header(5, 2, 4), lows(5))
	l.want("duplicate [settled r1/2 r1/3]", header(2, 0, 1), lows(2, 3, 4))
	l.want("partial_duplicate [settled r1/4 -]", header(1, 0, 0), lows(1, 5, 6))
}

func TestResultsHaveTheWholePlace(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.epoch, l.end = 7, 40
	l.want("append", header(1, 0, 0), lows(1, 2))
	l.now += 1000
	v := l.Judge(header(2, 0, 1), lows(2), l.now)
	want := Result{Appended, Place{Range: 1, Epoch: 7, Offset: 41, AppendTime: t0}}
	if v.Decision != Duplicate || v.Results[0] != want {
		t.Fatalf("%+v, want %+v", v, want)
	}
}

func TestNewerSessionFencesTheOlder(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1))
	second := header(1, 0, 0)
	second.Session = 2
	l.want("append", second, lows(1))
	l.want("duplicate [r1/1]", second, lows(1))
	l.want("producer_fenced", header(2, 0, 1), lows(2))
	l.want("producer_fenced", header(1, 0, 0), lows(1))
}

func TestNewerSessionBeginsAtItsFloor(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1, 2, 3, 4))
	second := header(12, 10, 10)
	second.Session = 2
	l.want("append", second, lows(12))
	late := header(9, 8, 8)
	late.Session = 2
	l.want("duplicate [settled]", late, lows(9))
}

// TestPrevAtTheFloorContinues: what the client abandoned never comes, and the
// batch that says so is the first to know.
func TestPrevAtTheFloorContinues(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1))
	l.want("out_of_order", header(3, 1, 2), lows(3))
	l.want("append", header(3, 2, 2), lows(3))
	l.want("duplicate [settled]", header(2, 1, 1), lows(2))
}

func TestFloorThatGoesBackIsPassedOver(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1, 2, 3))
	l.want("append", header(4, 3, 3), lows(4))
	l.want("append", header(5, 1, 4), lows(5))
	l.want("duplicate [settled]", header(2, 1, 1), lows(2))
}

// TestAbandonedAboveTheFloorNeedsPrev: 3 is abandoned while 2 waits for its
// answer. A client that leaves 3 out of prev gets 4 appended and then, if 3 was
// only late, 3 behind it. So it may not.
func TestAbandonedAboveTheFloorNeedsPrev(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(2, 1, 1), lows(2))
	l.want("out_of_order", header(4, 1, 3), lows(4))
	l.want("append", header(4, 3, 3), lows(4))
	l.want("duplicate [settled]", header(3, 1, 2), lows(3))
}

func TestDiscardedAppendsLeaveTheSet(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1, 2))
	l.want("append", header(3, 0, 2), lows(3, 4, 5))
	l.Discard(3)
	l.end = 3
	l.want("partial_duplicate [r1/2 - -]", header(3, 0, 2), lows(3, 4, 5))
	l.want("out_of_order", header(5, 0, 4), lows(5))
	l.want("append", header(4, 0, 3), lows(4, 5))
	l.want("duplicate [r1/2 r1/3 r1/4]", header(3, 0, 2), lows(3, 4, 5))
}

func TestChildrenDiscardOnlyTheirOwn(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	l.want("append", header(1, 0, 0), lows(1, 2))
	lower, _, err := l.Split(middle, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	c := newLog(t, lower)
	c.want("append", header(3, 0, 2), lows(3))
	c.Discard(0)
	c.want("duplicate [r1/0 r1/1]", header(1, 0, 0), lows(1, 2))
	c.end = 0
	c.want("append", header(3, 0, 2), lows(3))
}

func TestMalformedIsRefused(t *testing.T) {
	l := newLog(t, New(1, low))
	for _, c := range []struct {
		h       *batch.Producer
		records []Record
	}{
		{header(1, 0, 0), nil},
		{header(1, 0, 0), lows(2)},
		{header(1, 0, 0), lows(1, 3, 3)},
		{header(1, 0, 1), lows(1)},
		{header(3, 2, 1), lows(3)},
		{header(1, 0, 0), highs(1)},
		{in(high, header(1, 0, 0)), lows(1)},
	} {
		l.want("invalid_argument", c.h, c.records)
		if err := l.Accept(c.h, c.records, 1, 0, t0); !errors.Is(err, ErrLog) {
			t.Errorf("%+v accepted: %v", c, err)
		}
	}
}

func TestAcceptRefusesWhatWasNotJudged(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	h := header(1, 0, 0)
	h.Session = 2
	l.want("append", h, lows(1, 2))
	if err := l.Accept(header(3, 0, 0), lows(3), 1, 2, t0); !errors.Is(err, ErrLog) {
		t.Error("an older session:", err)
	}
	again := header(2, 0, 1)
	again.Session = 2
	if err := l.Accept(again, lows(2, 3), 1, 2, t0); !errors.Is(err, ErrLog) {
		t.Error("a duplicate:", err)
	}
	again.First = 3
	l.want("append", again, lows(3))
}

func TestFullWindowIsRefused(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	last, got := uint64(0), "append"
	for n := 0; n < 100 && got == "append"; n++ {
		var odd []uint64
		for i := range uint64(4000) {
			odd = append(odd, last+2+2*i)
		}
		if got = l.produce(header(odd[0], 0, last), lows(odd...)); got == "append" {
			last = odd[len(odd)-1]
		}
	}
	if size := len(l.producers[chosen].entries[0].set); got != "window_full" || size > MaxWindow || size < MaxWindow-8<<10 {
		t.Fatalf("%s at %d bytes", got, size)
	}
	l.want("append", header(last+2, last, last), lows(last+2))
	if size := len(l.producers[chosen].entries[0].set); size > 64 {
		t.Fatalf("%d bytes behind the floor", size)
	}
}

func TestLargestBatchFitsAnEmptyWindow(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	var q []uint64
	for i := range uint64(batch.MaxRecords) {
		q = append(q, 1+10_000*i)
	}
	l.want("append", header(1, 0, 0), lows(q...))
}

func TestProducersExpireByLogTime(t *testing.T) {
	for _, c := range []struct {
		id   batch.ProducerID
		life time.Duration
	}{{chosen, 7 * 24 * time.Hour}, {issued, 2 * time.Hour}} {
		l := newLog(t, New(1, keyspace.Full()))
		h := header(1, 0, 0)
		h.ID = c.id
		l.want("append", h, lows(1))
		l.now += ident.Timestamp(c.life.Microseconds()) - 1
		l.want("duplicate [r1/0]", h, lows(1))
		used := header(2, 1, 1)
		used.ID = c.id
		l.want("append", used, lows(2))
		l.now += ident.Timestamp(c.life.Microseconds())
		l.want("append", h, lows(1))
	}
}

func TestCloseForgetsDrawnIDsAtOnce(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	for _, id := range []batch.ProducerID{chosen, issued} {
		h := header(1, 0, 0)
		h.ID, h.Session = id, 3
		l.want("append", h, lows(1))
		l.Close(id, 2)
	}
	if l.Len() != 2 {
		t.Fatal("an older session closed")
	}
	l.Close(chosen, 3)
	l.Close(issued, 3)
	if l.Len() != 1 || l.producers[chosen] == nil {
		t.Fatal(l.producers)
	}
}

func numbered(i int, issue bool) *batch.Producer {
	h := header(1, 0, 0)
	h.ID = ChosenID([16]byte{3, byte(i), byte(i >> 8)})
	if issue {
		h.ID = DrawnID(h.ID)
	}
	return h
}

func TestOverTheLimitOnlyExpiredProducersGo(t *testing.T) {
	l := newLog(t, New(1, keyspace.Full()))
	for i := range MaxProducers {
		l.want("append", numbered(i, i < 10), lows(1))
	}
	l.want("limit_reached", header(1, 0, 0), lows(1))
	l.want("duplicate [r1/5]", numbered(5, true), lows(1))
	l.now += ident.Timestamp(DrawnLifetime.Microseconds())
	l.want("append", header(1, 0, 0), lows(1))
	if l.Len() != MaxProducers-9 {
		t.Fatal(l.Len(), "producers")
	}
	for i := range 9 {
		l.want("append", numbered(MaxProducers+i, false), lows(1))
	}
	l.want("limit_reached", numbered(MaxProducers+9, false), lows(1))
	l.want("duplicate [r1/11]", numbered(11, false), lows(1))
}

func TestKeylessPositionIsStable(t *testing.T) {
	at := KeylessPosition(chosen, 1, 2047)
	if want := ident.Position(0); at == want {
		t.Fatal(at)
	}
	same := []ident.Position{KeylessPosition(chosen, 1, 1024)}
	if !slices.Contains(same, at) {
		t.Error("a run of 1024 has more than one position")
	}
	for _, other := range []ident.Position{
		KeylessPosition(chosen, 1, 2048), KeylessPosition(chosen, 1, 1023),
		KeylessPosition(chosen, 2, 2047), KeylessPosition(issued, 1, 2047),
	} {
		if other == at {
			t.Error("another run, session or producer has the position too")
		}
	}
}

func TestRefusalsHaveCodesOfTheTable(t *testing.T) {
	for _, c := range []status.Code{
		status.ProducerFenced, status.PartialDuplicate, status.OutOfOrder, status.WindowFull, status.LimitReached,
	} {
		if r := status.Lookup(c); r.Code != c || r.Outcome != status.No || r.What == status.Lookup(status.Internal).What {
			t.Errorf("%+v", r)
		}
	}
}
