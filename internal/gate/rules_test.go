package gate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rules are the rules by the names that testdata/rules uses.
var rules = map[string]func(*tree) []string{
	"imports":      importProblems,
	"faults":       faultProblems,
	"purity":       purityProblems,
	"randomness":   randomnessProblems,
	"comments":     packageCommentProblems,
	"init":         initProblems,
	"habits":       testHabitProblems,
	"text":         textProblems,
	"documented":   documentedProblems,
	"signatures":   signatureProblems,
	"guarantees":   guaranteeProblems,
	"dependencies": dependencyProblems,
	"links":        linkProblems,
	"names":        documentNameProblems,
	"places":       placeProblems,
}

// TestRulesSeeWhatBreaksThem gives each rule a tree that breaks it. An archive
// begins with the name of its rule, then one line for each problem that must
// be found: a part of its text. Where no line follows, none may be found.
func TestRulesSeeWhatBreaksThem(t *testing.T) {
	names, err := filepath.Glob("testdata/rules/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal("no archives:", err)
	}
	tried := map[string]bool{}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			comment, files := readArchive(t, name)
			tree, err := newTree(files)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(comment), "\n")
			rule, ok := rules[lines[0]]
			if !ok {
				t.Fatalf("no rule %q", lines[0])
			}
			tried[lines[0]] = tried[lines[0]] || len(lines) > 1
			got := rule(tree)
			for _, want := range lines[1:] {
				if !strings.Contains(strings.Join(got, "\n"), want) {
					t.Errorf("not found: %s", want)
				}
			}
			if len(got) != len(lines)-1 {
				t.Errorf("%d problems, want %d:\n%s", len(got), len(lines)-1, strings.Join(got, "\n"))
			}
		})
	}
	for name := range rules {
		if !tried[name] {
			t.Errorf("no archive breaks the rule %q", name)
		}
	}
}

// readArchive reads an archive in the txtar format: a comment, then files,
// each after a line -- NAME --.
func readArchive(t *testing.T, name string) (comment string, files map[string][]byte) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	var file string
	for line := range strings.Lines(string(content)) {
		bare := strings.TrimSuffix(line, "\n")
		next, marked := strings.CutPrefix(bare, "-- ")
		next, closed := strings.CutSuffix(next, " --")
		switch {
		case marked && closed:
			file = next
			files[file] = []byte{}
		case file == "":
			comment += line
		default:
			files[file] = append(files[file], line...)
		}
	}
	return comment, files
}
