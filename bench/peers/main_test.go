package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test start itself as a generator, as the program does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == jobCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestBothSystemsHaveTheirTurns(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.json")
	var stdout, stderr strings.Builder
	err := run(t.Context(), []string{
		"-records", "200", "-alternations", "2", "-only", "one-in-flight/always", "-dir", t.TempDir(), "-out", out,
	}, &stdout, &stderr)
	if err != nil {
		t.Fatalf("%v; stderr:\n%s", err, &stderr)
	}
	for _, want := range []string{"quire ", "nats-server v2.", "| one-in-flight | always | sync "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &stdout)
		}
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 1 || len(r.Rows[0].Quires) != 2 || len(r.Rows[0].Peers) != 2 || r.Rows[0].Ratio.Median <= 0 {
		t.Errorf("the result is %s", text)
	}
	if f := r.Rows[0].Quires[0].Floor; f == nil || f.SyncP50 <= 0 {
		t.Errorf("floor: %+v", f)
	}
	if strings.Contains(string(text), filepath.Dir(out)) {
		t.Errorf("the result has paths of this machine: %s", text)
	}
}

func TestComparisonsAreChosenByName(t *testing.T) {
	all := comparisons()
	if got := choose(all, ""); len(got) != len(all) {
		t.Errorf("%d of %d are chosen without a word", len(got), len(all))
	}
	names := map[string]bool{}
	for _, c := range all {
		if names[c.Name()] {
			t.Errorf("two comparisons are called %s", c.Name())
		}
		names[c.Name()] = true
	}
	for _, c := range choose(all, "fanout-10,one-in-flight/always") {
		if n := c.Name(); !strings.HasPrefix(n, "fanout-10/") && n != "one-in-flight/always/sync" {
			t.Errorf("%s is chosen", n)
		}
	}
	if err := run(t.Context(), []string{"-only", "nosuch"}, t.Output(), t.Output()); err == nil {
		t.Error("nothing to compare is no error")
	}
}
