package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/quirelog/quire"
	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
)

// A reader that retention has overtaken is told so.
func TestWhyTellsOfAGap(t *testing.T) {
	b, err := quire.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := t.Context()
	c, err := b.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CreateTopic(ctx, "t", client.TopicConfig{Settings: map[string]string{"segment-bytes": "64KiB"}}); err != nil {
		t.Fatal(err)
	}
	value := []byte(strings.Repeat("x", 100_000)) // each fills a segment
	for range 4 {
		if _, err := c.Produce(ctx, "t", record.Record{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := c.Fetch(ctx, "t", client.Start(), client.MaxRecords(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AlterTopic(ctx, "t", map[string]string{"retention-bytes": "100000"}); err != nil {
		t.Fatal(err)
	}
	// The broker looks at retention each second.
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for range 600 {
		r, err := why(ctx, c, "t", client.Cursor(first.Cursor), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Cause == causeGap {
			if !strings.Contains(r.What, "records are missing") || r.Do == "" {
				t.Errorf("%+v", r)
			}
			return
		}
		<-ticks.C
	}
	t.Error("retention never overtook the reader")
}
