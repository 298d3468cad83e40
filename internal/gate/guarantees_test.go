package gate

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const guaranteesPage = "docs/guarantees.md"

// A promise is one section of the page of guarantees: a heading that begins
// with its id, a sentence, and its proofs as a list.
type promise struct {
	id, sentence string
	line         int
	proofs       []proof
}

// A proof is a test that shows a promise, and maybe the mutant (a patch that
// takes the promise away) that the test must notice.
type proof struct {
	// pkg is the package's directory, "." for the root; test its function; sub
	// the subtest, if one is meant.
	pkg, test, sub string
	// unit says that the test does not come through a public door.
	unit   bool
	mutant string
	line   int
}

// doors are the packages whose tests see the broker as its users do. A test
// elsewhere is marked as a unit test on the page.
var doors = []string{".", "client", "internal/cli", "internal/daemon", "internal/demo", "internal/front/http", "internal/front/native"}

var (
	promiseHeading = regexp.MustCompile(`^### ([A-Z]+[0-9]+)\b`)
	proofLine      = regexp.MustCompile("^- `([^`]+)`( \\(unit\\))?(?:, mutant `([^`]+)`)?$")
	proofName      = regexp.MustCompile(`^([a-z0-9/_.]+)\.((?:Test|Fuzz|Example)\w*)(?:/([\w.-]+))?$`)
)

// TestEveryGuaranteeHasItsTest holds the page of guarantees to its word: a
// promise without a test is not made.
func TestEveryGuaranteeHasItsTest(t *testing.T) {
	report(t, guaranteeProblems(repository(t)))
}

// parseGuarantees reads the page.
func parseGuarantees(page string) (promises []promise, problems []string) {
	var p *promise
	for i, line := range strings.Split(page, "\n") {
		n := i + 1
		switch {
		case strings.HasPrefix(line, "### "):
			m := promiseHeading.FindStringSubmatch(line)
			if m == nil {
				problems = append(problems, fmt.Sprintf("%s:%d: a promise without an id", guaranteesPage, n))
				p = nil
				continue
			}
			promises = append(promises, promise{id: m[1], line: n})
			p = &promises[len(promises)-1]
		case strings.HasPrefix(line, "#"):
			p = nil
		case p != nil && strings.HasPrefix(line, "- "):
			pr, err := parseProof(line, n)
			if err != nil {
				problems = append(problems, err.Error())
				continue
			}
			p.proofs = append(p.proofs, pr)
		case p != nil && strings.TrimSpace(line) != "":
			p.sentence += line + " "
		}
	}
	return promises, problems
}

func parseProof(line string, n int) (proof, error) {
	m := proofLine.FindStringSubmatch(line)
	if m == nil {
		return proof{}, fmt.Errorf("%s:%d: not of the form - `package.Test` (unit), mutant `name`", guaranteesPage, n)
	}
	name := proofName.FindStringSubmatch(m[1])
	if name == nil {
		return proof{}, fmt.Errorf("%s:%d: %s is not package.Test or package.Test/subtest", guaranteesPage, n, m[1])
	}
	pkg := name[1]
	if pkg == "quire" {
		pkg = "."
	}
	return proof{pkg: pkg, test: name[2], sub: name[3], unit: m[2] != "", mutant: m[3], line: n}, nil
}

func guaranteeProblems(t *tree) []string {
	promises, problems := parseGuarantees(string(t.files[guaranteesPage]))
	bad := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: ", guaranteesPage, line)+fmt.Sprintf(format, args...))
	}
	if len(promises) == 0 {
		bad(1, "no promises")
	}
	seen, used := map[string]bool{}, map[string]bool{}
	for _, p := range promises {
		var mutants int
		for _, pr := range p.proofs {
			if why := t.proves(pr); why != "" {
				bad(pr.line, "%s: %s", p.id, why)
			}
			if pr.unit == slices.Contains(doors, pr.pkg) {
				bad(pr.line, "%s: a test outside %s is marked (unit), and no other", p.id, strings.Join(doors, ", "))
			}
			if pr.mutant == "" {
				continue
			}
			mutants++
			used[pr.mutant] = true
			if _, ok := t.files[mutantPath(pr.mutant)]; !ok {
				bad(pr.line, "%s: there is no mutant %s", p.id, pr.mutant)
			}
		}
		switch {
		case seen[p.id]:
			bad(p.line, "%s is promised twice", p.id)
		case p.sentence == "":
			bad(p.line, "%s says nothing", p.id)
		case len(p.proofs) == 0:
			bad(p.line, "%s names no test", p.id)
		case mutants == 0:
			bad(p.line, "%s names no mutant", p.id)
		}
		seen[p.id] = true
	}
	for name := range t.files {
		if path.Dir(name) == mutantsDir && !used[strings.TrimSuffix(path.Base(name), ".patch")] {
			problems = append(problems, name+": no promise names this mutant")
		}
	}
	return problems
}

// proves says why a proof proves nothing, or "".
func (t *tree) proves(p proof) string {
	for _, s := range t.sources {
		if s.dir != p.pkg || !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Name.Name != p.test {
				continue
			}
			switch {
			case skips(f):
				return p.test + " can be skipped"
			case strings.HasPrefix(p.test, "Example") && !s.hasOutput(f):
				return p.test + " has no Output comment, so it is never run"
			case constrained(&s):
				return s.path + " is not always built"
			case p.sub != "" && !t.hasSubtest(s, p):
				return fmt.Sprintf("%s has no subtest %s", p.test, p.sub)
			}
			return ""
		}
	}
	return fmt.Sprintf("there is no %s in %s", p.test, p.pkg)
}

func skips(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && isSkip(sel) {
			found = true
		}
		return !found
	})
	return found
}

// hasOutput says whether f has the comment that makes an example a test.
func (s *source) hasOutput(f *ast.FuncDecl) bool {
	for _, c := range s.file.Comments {
		text := strings.ToLower(c.Text())
		if c.Pos() > f.Pos() && c.End() < f.End() && (strings.HasPrefix(text, "output:") || strings.HasPrefix(text, "unordered output:")) {
			return true
		}
	}
	return false
}

// systemFile is a name that keeps a file out of the builds for other systems.
var systemFile = regexp.MustCompile(`_(linux|darwin|windows|freebsd|amd64|arm64)_test\.go$`)

// constrained says whether something keeps the file out of some builds.
func constrained(s *source) bool {
	if systemFile.MatchString(s.path) {
		return true
	}
	for _, c := range s.file.Comments {
		if c.Pos() > s.file.Package {
			break
		}
		for _, line := range c.List {
			if strings.HasPrefix(line.Text, "//go:build") {
				return true
			}
		}
	}
	return false
}

// hasSubtest looks for the subtest as a script under testdata, or as a name in
// the test's file.
func (t *tree) hasSubtest(s source, p proof) bool {
	for name := range t.files {
		base := strings.TrimSuffix(path.Base(name), path.Ext(name))
		if strings.HasPrefix(name, path.Join(p.pkg, "testdata")+"/") && base == p.sub {
			return true
		}
	}
	return strings.Contains(string(s.text), `"`+strings.ReplaceAll(p.sub, "_", " ")+`"`) ||
		strings.Contains(string(s.text), `"`+p.sub+`"`)
}
