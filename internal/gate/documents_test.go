package gate

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quirelog/quire/status"
)

var update = flag.Bool("update", false, "write the tables of the documents anew")

// maxMap is how long ARCHITECTURE.md may be, in lines: a map that must be
// studied is no map.
const maxMap = 150

func TestReadmeNamesTheTwoCommands(t *testing.T) {
	readme := string(repository(t).files["README.md"])
	for _, command := range []string{"go run ./cmd/quire demo", "go test ./..."} {
		if !strings.Contains(readme, command) {
			t.Errorf("README.md: does not name %q", command)
		}
	}
}

func TestArchitectureStaysAMap(t *testing.T) {
	text := string(repository(t).files["ARCHITECTURE.md"])
	if n := strings.Count(text, "\n"); n == 0 || n > maxMap {
		t.Errorf("ARCHITECTURE.md: %d lines, want 1 to %d", n, maxMap)
	}
}

func TestEveryPackageIsOnTheMap(t *testing.T) {
	tree := repository(t)
	text := string(tree.files["ARCHITECTURE.md"])
	for pkg := range tree.packages() {
		if pkg == "." {
			pkg = "quire"
		}
		if !strings.Contains(text, "`"+pkg+"`") {
			t.Errorf("ARCHITECTURE.md: does not name the package `%s`", pkg)
		}
	}
}

// TestEveryDependencyHasItsReason compares what the sources import with the
// table of ARCHITECTURE.md, in both directions.
func TestEveryDependencyHasItsReason(t *testing.T) {
	report(t, dependencyProblems(repository(t)))
}

// dependencyRow is a row of that table: the module, then its reason.
var dependencyRow = regexp.MustCompile("(?m)^\\| `([a-z0-9.]+\\.[a-z]+/[^`]+)` \\| *[^ |]")

// requirement is a module in go.mod.
var requirement = regexp.MustCompile(`(?m)^\s*(?:require )?([a-z0-9.]+\.[a-z]+/\S+) v`)

func dependencyProblems(t *tree) (problems []string) {
	var modules []string
	for _, m := range requirement.FindAllStringSubmatch(string(t.files["go.mod"]), -1) {
		modules = append(modules, m[1])
	}
	used := map[string]string{}
	for _, s := range t.ofModule() {
		for _, imp := range s.imports() {
			if m := moduleOf(imp, modules); m != "" {
				used[m] = s.path
			}
		}
	}
	listed := map[string]bool{}
	for _, m := range dependencyRow.FindAllStringSubmatch(string(t.files["ARCHITECTURE.md"]), -1) {
		listed[m[1]] = true
		if used[m[1]] == "" {
			problems = append(problems, fmt.Sprintf("ARCHITECTURE.md: lists %s, which nothing imports", m[1]))
		}
	}
	for m, by := range used {
		if !listed[m] {
			problems = append(problems, fmt.Sprintf("ARCHITECTURE.md: has no reason for %s, which %s imports", m, by))
		}
	}
	slices.Sort(problems)
	return problems
}

// moduleOf is the longest of the modules that holds the package.
func moduleOf(pkg string, modules []string) (best string) {
	for _, m := range modules {
		if (pkg == m || strings.HasPrefix(pkg, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	return best
}

// link is a link of a document to a file of the tree.
var link = regexp.MustCompile(`\]\(([^)#: ]+)(?:#[^)]*)?\)`)

func TestDocumentsLinkToWhatExists(t *testing.T) {
	report(t, linkProblems(repository(t)))
}

func linkProblems(t *tree) (problems []string) {
	for name, content := range t.files {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(content), -1) {
			target := path.Join(path.Dir(name), m[1])
			if !t.has(target) {
				problems = append(problems, fmt.Sprintf("%s: links to %s, which does not exist", name, m[1]))
			}
		}
	}
	return problems
}

// has says whether there is a file or a directory of that name.
func (t *tree) has(name string) bool {
	for p := range t.files {
		if p == name || strings.HasPrefix(p, name+"/") {
			return true
		}
	}
	return false
}

func TestErrorsPageIsTheStatusTable(t *testing.T) {
	checkTable(t, "docs/errors.md", "codes", errorTable(status.Table()))
}

// errorTable writes the status table as the page of errors shows it.
func errorTable(rows []status.Row) string {
	var b strings.Builder
	b.WriteString("| code | what happened | what to do | again? | outcome | exit |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		again, outcome := "no", "no effect"
		if r.Retryable {
			again = "yes"
		}
		if r.Outcome == status.Maybe {
			outcome = "unknown"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %d |\n", r.Code, r.What, r.Do, again, outcome, r.Exit)
	}
	return b.String()
}

// checkTable compares the part of a document between the marks of that name
// with what the code says. With -update it writes the part.
func checkTable(t *testing.T, document, name, want string) {
	t.Helper()
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
	text := string(repository(t).files[document])
	head, rest, ok1 := strings.Cut(text, begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s: has no part %q", document, name)
	}
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("%s: the part %q is not what the code says; run `go test ./internal/gate -update`", document, name)
	}
	text = head + begin + want + end + tail
	if err := os.WriteFile(filepath.Join(root(), filepath.FromSlash(document)), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
