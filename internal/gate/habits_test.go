package gate

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTestsNeitherSleepNorSkip(t *testing.T) {
	report(t, testHabitProblems(repository(t)))
}

// scriptHabit finds the lines of a testscript that wait, skip, or end it early:
// stop is a command of testscript's own, and what follows it is not tried.
var scriptHabit = regexp.MustCompile(`(?m)^\s*(\[[^]]*\]\s*)*(exec\s+sleep|skip|stop)\b`)

// testHabitProblems finds tests that wait for the wall clock or can be skipped.
// In a bubble of testing/synctest the clock is a fake one, and sleeping moves
// it: there it is allowed, and in functions that only bubbles use.
func testHabitProblems(t *tree) (problems []string) {
	for _, sources := range t.packages() {
		h := &habits{t: t, uses: map[string][]use{}}
		for _, s := range sources {
			if s.test {
				h.read(s)
			}
		}
		problems = append(problems, h.problems...)
		for _, sleep := range h.sleeps {
			if !sleep.bubble && !h.inBubbles(sleep.in, nil) {
				problems = append(problems, t.at(sleep.at)+": a test that sleeps")
			}
		}
	}
	for p, content := range t.files {
		if !strings.Contains(p, "/testdata/script/") {
			continue
		}
		script, _, _ := strings.Cut(string(content), "\n-- ")
		if m := scriptHabit.FindString(script); m != "" {
			problems = append(problems, fmt.Sprintf("%s: a script with %s, which waits or leaves the rest untried", p, m))
		}
	}
	return problems
}

// habits is what the tests of one package do.
type habits struct {
	t        *tree
	problems []string
	sleeps   []use
	// uses are the places that name a function, by its name. Methods of one
	// name count as one.
	uses map[string][]use
}

// use is a place inside a function.
type use struct {
	in     string
	at     token.Pos
	bubble bool
}

// read goes through the functions of a test file.
func (h *habits) read(s source) {
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		properties := rapidParameters(&s, f)
		var inspect func(n ast.Node, bubble bool)
		inspect = func(root ast.Node, bubble bool) {
			ast.Inspect(root, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					sel, ok := n.Fun.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if pkg, name, _ := s.qualified(sel); pkg == "testing/synctest" && name == "Test" && !bubble {
						for _, arg := range n.Args {
							inspect(arg, true)
						}
						return false
					}
					if isSkip(sel) && !covers(properties, sel.Pos()) {
						h.problems = append(h.problems, h.t.at(n.Pos())+": a test that can be skipped")
					}
				case *ast.SelectorExpr:
					if pkg, name, _ := s.qualified(n); pkg == "time" && name == "Sleep" {
						h.sleeps = append(h.sleeps, use{f.Name.Name, n.Pos(), bubble})
					} else if pkg == "testing" && name == "Short" {
						h.problems = append(h.problems, h.t.at(n.Pos())+": a test that can be shortened")
					}
				case *ast.Ident:
					h.uses[n.Name] = append(h.uses[n.Name], use{f.Name.Name, n.Pos(), bubble})
				}
				return true
			})
		}
		inspect(f.Body, false)
	}
}

// inBubbles says whether a function is used, and by bubbles only.
func (h *habits) inBubbles(function string, callers []string) bool {
	if slices.Contains(callers, function) {
		return true
	}
	uses := h.uses[function]
	return len(uses) > 0 && !slices.ContainsFunc(uses, func(u use) bool {
		return !u.bubble && !h.inBubbles(u.in, append(callers, function))
	})
}

// isSkip recognises the methods that skip a test, on whatever they are called.
func isSkip(sel *ast.SelectorExpr) bool {
	switch sel.Sel.Name {
	case "SkipNow", "Skipf":
		return true
	case "Skip":
		id, ok := sel.X.(*ast.Ident)
		return ok && (id.Name == "t" || id.Name == "b" || id.Name == "f" || id.Name == "tb")
	}
	return false
}

// rapidParameters are the functions within f, or f itself, that take a *rapid.T:
// to skip there gives back a draw that does not fit, and skips no test.
func rapidParameters(s *source, f *ast.FuncDecl) (functions []ast.Node) {
	takesRapid := func(t *ast.FuncType) bool {
		return slices.ContainsFunc(t.Params.List, func(p *ast.Field) bool {
			star, ok := p.Type.(*ast.StarExpr)
			if !ok {
				return false
			}
			sel, ok := star.X.(*ast.SelectorExpr)
			if !ok {
				return false
			}
			pkg, name, _ := s.qualified(sel)
			return pkg == "pgregory.net/rapid" && name == "T"
		})
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if takesRapid(n.Type) {
				functions = append(functions, n)
			}
		case *ast.FuncLit:
			if takesRapid(n.Type) {
				functions = append(functions, n)
			}
		}
		return true
	})
	return functions
}

// covers says whether one of the nodes holds the place.
func covers(nodes []ast.Node, p token.Pos) bool {
	return slices.ContainsFunc(nodes, func(n ast.Node) bool { return n.Pos() <= p && p < n.End() })
}
