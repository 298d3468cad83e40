package gate

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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

// documentName is the name of a document in a comment.
var documentName = regexp.MustCompile(`\b(?:docs/[\w./-]+\.md|[A-Z]{4,}\.md)\b`)

func TestCommentsNameDocumentsThatExist(t *testing.T) {
	report(t, documentNameProblems(repository(t)))
}

// documentNameProblems finds comments that send the reader to a document that
// is not there: beside the source, at the root or under docs.
func documentNameProblems(t *tree) (problems []string) {
	for _, s := range t.ofModule() {
		if s.generated {
			continue
		}
		for _, group := range s.file.Comments {
			for _, name := range documentName.FindAllString(group.Text(), -1) {
				if !t.has(name) && !t.has(path.Join(s.dir, name)) {
					problems = append(problems, fmt.Sprintf("%s: names %s, which does not exist", t.at(group.Pos()), name))
				}
			}
		}
	}
	return problems
}
