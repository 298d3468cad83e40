package bench

import (
	"bytes"
	"compress/flate"
	"testing"
)

func TestRecordIsFoundAgainByItsValue(t *testing.T) {
	for _, plan := range []Plan{{1, 1}, {64, 1}, {3, 7}, {1000, 1000}} {
		for _, payload := range []int{MinPayload, 13, 256} {
			c := NewContent(0xfeedfacecafebeef, payload, 100, plan)
			value := make([]byte, payload)
			for _, n := range []uint64{0, 1, 12345, 1<<numberBits - 1} {
				want := ID{plan.Workers - 1, n}
				c.Record(want, value)
				id, x := c.identify(value)
				if id != want {
					t.Errorf("%v, payload %d: %v came back as %v", plan, payload, want, id)
				}
				if !same(value[MinPayload:], x) {
					t.Errorf("%v, payload %d: the value of %v does not compare", plan, payload, want)
				}
			}
		}
	}
}

func TestEveryByteOfAValueIsCompared(t *testing.T) {
	for _, payload := range []int{9, 16, 31, 256} {
		c := NewContent(1, payload, 1, Plan{1, 1})
		value := make([]byte, payload)
		c.Record(ID{0, 5}, value)
		_, x := c.identify(value)
		for i := MinPayload; i < payload; i++ {
			value[i] ^= 0x10
			if same(value[MinPayload:], x) {
				t.Errorf("payload %d: byte %d may be anything", payload, i)
			}
			value[i] ^= 0x10
		}
	}
}

func TestValuesCannotBeCompressed(t *testing.T) {
	const payload, records = 256, 1000
	c := NewContent(7, payload, 10, Plan{1, 1})
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, payload)
	for n := range uint64(records) {
		c.Record(ID{0, n}, value)
		if _, err := w.Write(value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() < payload*records {
		t.Errorf("%d bytes were compressed to %d", payload*records, out.Len())
	}
}

func TestKeysAreDrawnUniformly(t *testing.T) {
	for _, plan := range []Plan{{1, 1}, {7, 1}, {10, 10}, {2, 5}} {
		const keys, each = 50, 400
		c := NewContent(3, 16, keys, plan)
		value := make([]byte, 16)
		drawn := map[string]int{}
		for w := range plan.Workers {
			for n := range uint64(keys * each / plan.Workers) {
				drawn[string(c.Record(ID{w, n}, value))]++
			}
		}
		if len(drawn) != keys {
			t.Errorf("%v: %d keys were drawn, there are %d", plan, len(drawn), keys)
		}
		for key, n := range drawn {
			if len(key) != KeySize || n < each/2 || n > each*2 {
				t.Errorf("%v: key %x was drawn %d times, expected are about %d", plan, key, n, each)
			}
		}
	}
}

func TestWorkersOfATopicShareNoKey(t *testing.T) {
	plan := Plan{Workers: 12, Topics: 5}
	c := NewContent(3, 16, 40, plan)
	value := make([]byte, 16)
	owner := map[string]int{}
	for w := range plan.Workers {
		for n := range uint64(200) {
			key := string(c.Record(ID{w, n}, value)) + string(rune(plan.Topic(w, n)))
			if o, ok := owner[key]; ok && o != w {
				t.Fatalf("workers %d and %d write the same key of topic %d", o, w, plan.Topic(w, n))
			}
			owner[key] = w
		}
	}
}

func TestAllTopicsAreWritten(t *testing.T) {
	for _, plan := range []Plan{{1, 1}, {64, 10}, {10, 64}, {64, 1000}, {1000, 1000}} {
		written := map[int]int{}
		for w := range plan.Workers {
			for n := range uint64(1000) {
				written[plan.Topic(w, n)]++
			}
		}
		if len(written) != plan.Topics {
			t.Errorf("%v: %d topics are written", plan, len(written))
		}
	}
}
