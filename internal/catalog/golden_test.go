package catalog

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of the present versions anew")

// A golden file has a line for each command or chunk: what it is, and its
// bytes. The files of a version that was released are never written again: as
// long as it is read, they hold what reading it means.

func TestGoldenCommands(t *testing.T) {
	name := fmt.Sprintf("testdata/commands-v%d.txt", CommandVersion)
	var lines []string
	for _, c := range commands() {
		lines = append(lines, fmt.Sprintf("%s %x", strings.TrimPrefix(fmt.Sprintf("%T", c), "catalog."), encode(t, c)))
	}
	for i, b := range golden(t, name, lines) {
		c, err := UnmarshalCommand(b)
		if err != nil || !reflect.DeepEqual(c, commands()[i]) {
			t.Errorf("line %d of %s reads as %+v, %v", i+1, name, c, err)
		}
	}
}

func TestGoldenSnapshot(t *testing.T) {
	name := fmt.Sprintf("testdata/snapshot-v%d.txt", SnapshotVersion)
	var lines []string
	for i, b := range snapshot(example(t)) {
		lines = append(lines, fmt.Sprintf("chunk-%d %x", i, b))
	}
	s, err := load(golden(t, name, lines))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(snapshot(s), snapshot(example(t)), slices.Equal) {
		t.Errorf("%s reads as another state", name)
	}
}

// golden compares lines with a golden file and gives the bytes that it holds.
func golden(t *testing.T, name string, lines []string) [][]byte {
	t.Helper()
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != text {
		t.Errorf("%s differs from what is written now:\n%s", name, text)
	}
	return stored(t, name)
}

// What the versions before this one wrote is read for ever: version 1 had no
// split and no merge, version 2 no sessions.
func TestEarlierCommandsAreRead(t *testing.T) {
	for version := uint32(1); version < CommandVersion; version++ {
		var then []Command
		for _, c := range commands() {
			if since(c) <= version {
				then = append(then, beforeMaxRanges(c))
			}
		}
		for i, b := range stored(t, fmt.Sprintf("testdata/commands-v%d.txt", version)) {
			if c, err := UnmarshalCommand(b); err != nil || !reflect.DeepEqual(c, then[i]) {
				t.Errorf("command %d of version %d reads as %+v, %v", i, version, c, err)
			}
		}
	}
}

// beforeMaxRanges is the command as version 2 could say it.
func beforeMaxRanges(c Command) Command {
	switch c := c.(type) {
	case CreateTopic:
		c.Settings.MaxRanges = 512
		return c
	case AlterTopic:
		c.Settings.MaxRanges = 512
		return c
	}
	return c
}

func TestEarlierSnapshotsAreRead(t *testing.T) {
	want := New()
	for _, c := range []Command{
		createOrders(identity(1)),
		Roll{
			Topic: identity(1), Range: 1, Epoch: 1, Version: 1, Open: 1,
			Seal: Seal{End: 100, Digest: 7, Users: 90, Bytes: 5000, LastTime: 2_000_000},
		},
	} {
		apply(t, want, c)
	}
	got, err := load(slices.Collect(want.snapshot(1)))
	if err != nil || !slices.EqualFunc(snapshot(got), snapshot(want), slices.Equal) {
		t.Errorf("a snapshot of version 1 reads as another state: %v", err)
	}
	s, _, _ := splitOrders(t)
	if _, err := load(slices.Collect(s.snapshot(1))); err == nil {
		t.Error("a snapshot of version 1 with a split is taken")
	}
	got, err = load(stored(t, "testdata/snapshot-v2.txt"))
	if err != nil || !slices.EqualFunc(slices.Collect(got.snapshot(2)), stored(t, "testdata/snapshot-v2.txt"), slices.Equal) {
		t.Errorf("a snapshot of version 2 reads as another state: %v", err)
	}
	apply(t, s, OpenSession{Topic: identity(0xa1)})
	if _, err := load(slices.Collect(s.snapshot(2))); err == nil {
		t.Error("a snapshot of version 2 with sessions is taken")
	}
}

// stored gives the bytes of a golden file.
func stored(t *testing.T, name string) (all [][]byte) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		_, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, b)
	}
	return all
}
