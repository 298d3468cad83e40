package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// eventually polls until f says true; the broker tends itself every 10 ms.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 20 s", what)
		case <-tick.C:
		}
	}
}

func describe(t *testing.T, b *node.Broker, topic string) node.RangeDescription {
	t.Helper()
	d, err := b.DescribeTopic(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return d.Ranges[0]
}

// On a full disk appends are refused, reads go on, and appends resume by
// themselves when space returns.
func TestAFullDiskRefusesAppendsAndGivesReads(t *testing.T) {
	fs := faultfs.New(faultfs.Config{Capacity: 3 << 20})
	b := open(t, fs)
	create(t, b, "kept", nil)
	create(t, b, "big", nil)
	produceAll(t, b, "kept", numbers(0, 10))
	filler := string(bytes.Repeat([]byte("x"), 100<<10))
	full := error(nil)
	acked := 0
	for range 60 {
		if full = produce(b, "big", filler); full != nil {
			break
		}
		acked++
	}
	if status.CodeOf(full) != status.DiskFull {
		t.Fatalf("after %d batches of 100 KiB on 3 MiB: %v", acked, full)
	}
	got, _ := readAll(t, b, "kept", node.Start{}, 0)
	same(t, got, numbers(0, 10))
	if got, _ = readAll(t, b, "big", node.Start{}, 0); len(got) != acked {
		t.Errorf("%d records of the topic that filled the disk, %d were acknowledged", len(got), acked)
	}
	if err := b.DeleteTopic(context.Background(), "big"); err != nil {
		t.Fatalf("a deletion on a full disk: %v", err)
	}
	eventually(t, "appends after space returned", func() bool { return produce(b, "kept", "v10") == nil })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, fs)
	got, _ = readAll(t, b, "kept", node.Start{}, 0)
	same(t, got[:11], numbers(0, 11))
}

// After the first failed sync the broker answers nothing with yes any more and
// says why; opened again, it has what was acknowledged and nothing made up.
func TestAFailedSyncStopsTheBroker(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	b := open(t, fs)
	create(t, b, "t", nil)
	produceAll(t, b, "t", numbers(0, 10))
	fs.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.SyncData {
			return faultfs.Fault{Err: errors.New("input/output error")}
		}
		return faultfs.Fault{}
	})
	if err := produce(b, "t", "v10"); status.CodeOf(err) != status.StoreFailed {
		t.Errorf("the append whose sync failed: %v", err)
	}
	fs.SetInjector(nil)
	<-b.Done()
	if status.CodeOf(b.Err()) != status.StoreFailed || b.Ready() == nil {
		t.Errorf("err %v, ready %v", b.Err(), b.Ready())
	}
	if err := produce(b, "t", "v11"); status.CodeOf(err) != status.StoreFailed {
		t.Errorf("an append afterwards: %v", err)
	}
	_ = b.Close()
	b = open(t, fs.Crash(faultfs.CrashOptions{}))
	got, _ := readAll(t, b, "t", node.Start{}, 0)
	same(t, got, numbers(0, 10))
}

// A topic that is not synced may lose its tail in a power cut, and then its
// readers are told how much; a durable topic loses nothing.
func TestAWeakTopicTellsWhatAPowerCutTook(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	b := open(t, fs)
	create(t, b, "weak", map[string]string{"fsync": "never"})
	create(t, b, "strong", nil)
	produceAll(t, b, "weak", numbers(0, 20))
	produceAll(t, b, "strong", numbers(0, 20))
	_, weakEnd := readAll(t, b, "weak", node.Start{}, 0)
	_, strongEnd := readAll(t, b, "strong", node.Start{}, 0)

	b2 := open(t, fs.Crash(faultfs.CrashOptions{}))
	got, _ := readAll(t, b2, "strong", node.Start{}, 0)
	same(t, got, numbers(0, 20))
	produceAll(t, b2, "strong", numbers(20, 22))
	got, _ = readAll(t, b2, "strong", node.Start{Kind: node.StartCursor, Cursor: strongEnd}, 0)
	same(t, got, numbers(20, 22))

	kept, _ := readAll(t, b2, "weak", node.Start{}, 0)
	same(t, kept, numbers(0, len(kept)))
	if len(kept) == 20 {
		t.Fatal("the power cut took nothing: the test shows nothing")
	}
	produceAll(t, b2, "weak", []string{"new"})
	d, err := b2.Fetch(context.Background(), node.FetchRequest{Topic: "weak", Start: node.Start{Kind: node.StartCursor, Cursor: weakEnd}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Gap == nil || d.Gap.Reason != node.GapLost || d.Gap.Records != uint64(20-len(kept)) {
		t.Errorf("gap %+v, want %d lost", d.Gap, 20-len(kept))
	}
	same(t, values(t, d), []string{"new"})
}

// An interval bounds what a weak topic can lose.
func TestAnIntervalSyncKeepsWhatIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New(faultfs.Config{})
		b := open(t, fs)
		create(t, b, "t", map[string]string{"fsync": "10ms"})
		produceAll(t, b, "t", numbers(0, 20))
		eventually(t, "the interval's sync", func() bool {
			c := open(t, fs.Crash(faultfs.CrashOptions{}))
			defer c.Close()
			got, _ := readAll(t, c, "t", node.Start{}, 0)
			return len(got) == 20
		})
	})
}

func TestRetentionByBytesKeepsTheNewestAndTellsTheGap(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", map[string]string{"retention-bytes": "300000"})
	filler := string(bytes.Repeat([]byte("x"), 1000))
	var list []string
	for i := range 1000 {
		list = append(list, fmt.Sprint("v", i)+filler)
	}
	produceAll(t, b, "t", list)
	eventually(t, "retention", func() bool {
		d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		got, r := values(t, d), describe(t, b, "t")
		if r.Bytes < 300_000 {
			t.Fatalf("retention kept %d bytes, less than it promises", r.Bytes)
		}
		// Until it is done, records may go between the two looks.
		return r.Bytes < 450_000 && d.Gap == nil && got[0] == list[r.Start]
	})
}

// A reader whose place was let go of is told how much it misses.
func TestACursorThatRetentionPassedGetsAGap(t *testing.T) {
	b := open(t, vfs.NewMem())
	create(t, b, "t", map[string]string{"segment-bytes": "65536"})
	filler := string(bytes.Repeat([]byte("x"), 1000))
	produceAll(t, b, "t", []string{"v0" + filler, "v1" + filler, "v2" + filler})
	d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", MaxRecords: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		produceAll(t, b, "t", []string{filler})
	}
	if _, err := b.AlterTopic(context.Background(), "t", map[string]string{"retention-bytes": "100000"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "retention", func() bool { return describe(t, b, "t").Start > 100 })
	d2, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", Start: node.Start{Kind: node.StartCursor, Cursor: d.Cursor}})
	if err != nil {
		t.Fatal(err)
	}
	// Retention may go on between the two looks, and never back.
	if d2.Gap == nil || d2.Gap.Reason != node.GapRetention || d2.Gap.Records < 99 || d2.Gap.Records > 501 {
		t.Errorf("gap %+v", d2.Gap)
	}
}

// Retention by age follows the clock, but not when it jumps.
func TestAClockThatJumpsDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
		b := open(t, vfs.NewMem(), func(c *node.Config) { c.Clock = clock })
		create(t, b, "t", map[string]string{"retention-age": "1h"})
		produceAll(t, b, "t", numbers(0, 10))
		jump.Store(int64(24 * time.Hour))
		produceAll(t, b, "t", numbers(10, 20))
		jump.Store(int64(-24 * time.Hour))
		produceAll(t, b, "t", numbers(20, 30))
		for range 5 {
			produceAll(t, b, "t", []string{"tick"})
			<-time.After(20 * time.Millisecond) // two tendings
		}
		got, _ := readAll(t, b, "t", node.Start{}, 0)
		same(t, got[:30], numbers(0, 30))
		last := time.Time{}
		d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range appendTimes(t, d) {
			if at.Before(last) {
				t.Errorf("append time ran backwards: %v after %v", at, last)
			}
			last = at
		}
	})
}

func TestRetentionByAgeLetsOldRecordsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, vfs.NewMem())
		create(t, b, "t", map[string]string{"retention-age": "1s"})
		produceAll(t, b, "t", numbers(0, 10))
		eventually(t, "retention by age", func() bool {
			r := describe(t, b, "t")
			return r.Start == 10 && r.Records == 0
		})
		produceAll(t, b, "t", []string{"new"})
		got, _ := readAll(t, b, "t", node.Start{}, 0)
		same(t, got, []string{"new"})
	})
}

// What a repair gave up is told to readers as lost, and its offsets are not
// used again.
func TestARepairedTopicTellsWhatIsLost(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	b := open(t, fs)
	create(t, b, "t", nil)
	produceAll(t, b, "t", numbers(0, 50))
	d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", MaxRecords: 20})
	if err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("d/segments/%016x-2.seg", uint64(describe(t, b, "t").Segments[0].ID))
	size := int64(describe(t, b, "t").Bytes)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fs.FlipBit(file, size/2, 1); err != nil {
		t.Fatal(err)
	}
	report, err := segment.Doctor(fs, "d", true)
	if err != nil || len(report.Findings) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	lost := report.Findings[0].Lost
	b = open(t, fs)
	produceAll(t, b, "t", []string{"new"})
	var got []string
	gaps := uint64(0)
	start := node.Start{Kind: node.StartCursor, Cursor: d.Cursor}
	for {
		d, err := b.Fetch(context.Background(), node.FetchRequest{Topic: "t", Start: start})
		if err != nil {
			t.Fatal(err)
		}
		if d.Gap != nil {
			if d.Gap.Reason != node.GapLost {
				t.Errorf("gap %+v", d.Gap)
			}
			gaps += d.Gap.Records
		}
		got = append(got, values(t, d)...)
		if d.AtEnd {
			break
		}
		start = node.Start{Kind: node.StartCursor, Cursor: d.Cursor}
	}
	same(t, got, append(numbers(20, 50-int(lost)), "new"))
	if gaps != lost || lost == 0 {
		t.Errorf("readers were told of %d lost records, the doctor of %d", gaps, lost)
	}
}
