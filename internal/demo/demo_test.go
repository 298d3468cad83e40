package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

func TestTheCatalogueHas38094EarthquakesOf58Networks(t *testing.T) {
	q, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(q.records) != 38_094 || len(q.perKey) != 58 || len(q.perKey["us"]) != 12_551 {
		t.Errorf("%d records, %d keys, %d of us", len(q.records), len(q.perKey), len(q.perKey["us"]))
	}
	if got := string(q.records[1].Value); got != "2016/01/01 00:30:58.02,37.4485,-115.9455,12.31,1.27,ML,26,150,28,0.20,NN,524900" {
		t.Errorf("second record %q", got)
	}
}

const small = "EventID,Source\n1,us\n2,nc\n3,us\n"

func TestTheLedgerAcceptsEveryOrderThatKeepsTheKeysOrder(t *testing.T) {
	q, err := parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range [][]int{{0, 1, 2}, {1, 0, 2}, {0, 2, 1}} {
		l := newLedger(q)
		for _, i := range order {
			if err := l.check(q.records[i]); err != nil {
				t.Errorf("%v: %v", order, err)
			}
		}
		if l.read != 3 || !l.has(0) || !l.has(1) || !l.has(2) {
			t.Errorf("%v: %d records, not all there", order, l.read)
		}
	}
}

func TestTheLedgerNoticesWhatIsMissingTwiceOutOfOrderOrChanged(t *testing.T) {
	q, err := parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	changed := q.records[2]
	changed.Value = []byte("3,uS")
	foreign := record.Record{Key: []byte("xx"), Value: []byte("4,xx")}
	for name, recs := range map[string][]record.Record{
		"out of order": {q.records[2], q.records[0]},
		"twice":        {q.records[1], q.records[1]},
		"left out":     {q.records[1], q.records[2]},
		"changed":      {q.records[0], changed},
		"never sent":   {foreign},
	} {
		l := newLedger(q)
		var err error
		for _, rec := range recs {
			if err = l.check(rec); err != nil {
				break
			}
		}
		if status.CodeOf(err) != status.DataCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := newLedger(q)
	if err := l.check(q.records[0]); err != nil || l.has(1) || l.has(2) || !l.has(0) {
		t.Errorf("after the first record of us: %v, has %v %v %v", err, l.has(0), l.has(1), l.has(2))
	}
}

func TestNumbersReadWell(t *testing.T) {
	for got, want := range map[string]string{
		count(7): "7", count(999): "999", count(38_094): "38,094", count(1_234_567): "1,234,567",
		span(1500 * time.Millisecond): "1.50 s", span(250 * time.Millisecond): "250 ms",
		span(12_340 * time.Microsecond): "12.3 ms", span(420 * time.Microsecond): "0.42 ms",
		rate(38_094, 200*time.Millisecond): "190,000 a second",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	values := []time.Duration{5, 1, 4, 2, 3}
	if got := quantile(values, 0.5); got != 3 {
		t.Errorf("median %d", got)
	}
	if got := quantile(values, 0.99); got != 5 {
		t.Errorf("99th %d", got)
	}
}

func TestADirectoryWithSomethingInItIsRefused(t *testing.T) {
	dir := t.TempDir()
	r := &run{Options: Options{Dir: dir}}
	if _, err := r.prepare(); err != nil {
		t.Fatalf("an empty directory: %v", err)
	}
	r.Dir = "."
	_, err := r.prepare()
	if status.CodeOf(err) != status.UsageError || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("%v", err)
	}
}
