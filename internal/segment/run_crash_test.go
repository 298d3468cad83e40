package segment_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// The crash tests run random histories of a store over a faulty disk, each
// from its seed. These environment variables choose them:
//
//	QUIRE_CRASH_SEEDS   how many histories; default 2000, with the race detector 200
//	QUIRE_CRASH_FIRST   the first seed; default 1
//	QUIRE_CRASH_TRACE   print the story of each history, failed or not
//
// and these make the other crash tests thorough: QUIRE_CRASH_SITES,
// QUIRE_CRASH_FLIPS, QUIRE_CRASH_REPAIRS, QUIRE_CRASH_RECOVERIES.
//
// A failure prints its seed, its story and the command that replays it.
func TestHistories(t *testing.T) {
	oneProcessor(t)
	first, n := uint64(env(t, "QUIRE_CRASH_FIRST", 1)), env(t, "QUIRE_CRASH_SEEDS", usual(2000))
	tally := &tally{counts: map[string]int{}}
	failures := 0
	for seed := first; seed < first+uint64(n) && failures < 5; seed++ {
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { history(t, seed, tally) }) {
			failures++
		}
	}
	t.Logf("%d histories: %v", n, tally)
	if n >= 1000 && failures == 0 {
		wentThrough(t, tally)
	}
}

// history runs one history; when it fails it is told again with its story.
func history(t *testing.T, seed uint64, tally *tally) {
	var story strings.Builder
	var told *strings.Builder
	if os.Getenv("QUIRE_CRASH_TRACE") != "" {
		told = &story
	}
	err := inBubble(t, seed, told, tally)
	if err != nil && told == nil {
		if again := inBubble(t, seed, &story, tally); fmt.Sprint(again) != fmt.Sprint(err) {
			fmt.Fprintf(&story, "the second run ended otherwise: %v\n", again)
		}
	}
	if err != nil {
		t.Errorf("%v\nReplay: QUIRE_CRASH_FIRST=%d QUIRE_CRASH_SEEDS=1 "+
			"go test ./internal/segment -run TestHistories -v", err, seed)
	}
	if story.Len() > 0 {
		t.Logf("the story:\n%s", &story)
	}
}

// inBubble runs a history with a clock of its own, so that timers cost nothing
// and a store that waits for ever is noticed.
func inBubble(t *testing.T, seed uint64, story *strings.Builder, tally *tally) (err error) {
	synctest.Test(t, func(*testing.T) {
		var w *world
		if story == nil {
			w = newWorld(seed, nil, tally)
		} else {
			w = newWorld(seed, story, tally)
		}
		err = w.run()
		w.leave()
	})
	return err
}

// leave ends what a failed history left running.
func (w *world) leave() {
	w.disk.Freeze()
	if w.store != nil {
		w.store.Close() //nolint:errcheck // the history has ended
	}
}

// oneProcessor makes the order of goroutines, and with it a history, the same
// in every run of a seed.
func oneProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// usual is a number of attempts for the plain test command, a tenth of it
// under the race detector, which makes each ten times as slow.
func usual(n int) int {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return n / 10
	}
	return n
}

func env(t *testing.T, name string, otherwise int) int {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q is no number", name, v)
	}
	return n
}

// wentThrough fails if the histories missed what they are for.
func wentThrough(t *testing.T, tally *tally) {
	for _, what := range []string{
		"append done", "append unknown", "append refused", "seal done", "cut done", "create done", "delete done",
		"create unknown", "delete unknown", "seal unknown", "cut unknown",
		"power cut", "kill", "close", "stopped for ever", "doubt resolved", "failed open",
		"failed write", "failed syncdata", "failed sync", "failed syncdir", "failed rename", "failed create",
		"failed read",
		"journal round", "direct round", "disk_full", "journal_files", "checkpoint sync",
	} {
		if tally.counts[what] < 5 {
			t.Errorf("only %d times: %s", tally.counts[what], what)
		}
	}
}
