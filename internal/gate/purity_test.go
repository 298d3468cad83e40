package gate

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// pureCores are the packages that decide: deterministic, with time inside
// their input. They start no goroutine and see no clock, file, socket, random
// source or environment, so that a whole cluster can be run from one seed.
var pureCores = []string{
	"record", "status", "internal/keyspace", "internal/varint", "internal/batch", "internal/lineage", "internal/catalog",
	"internal/catalog/catalogpb", "internal/producers", "internal/consensus", "internal/quorum",
}

// impureImports are what a core does not import; a name that ends in / stands
// for all below it.
var impureImports = []string{
	"os", "os/", "net", "net/", "io/ioutil", "path/filepath", "syscall", "runtime", "runtime/", "plugin",
	"math/rand", "math/rand/", "crypto/rand", "log", "log/", "embed", "golang.org/x/sys/",
	"github.com/cockroachdb/pebble/",
}

// impureNames are what a core does not call of the packages that it may
// import.
var impureNames = map[string][]string{
	"time":                     {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local"},
	module + "/internal/ident": {"NewIncarnation"},
	"context":                  {"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause"},
}

func TestCoresArePure(t *testing.T) {
	report(t, purityProblems(repository(t)))
}

func TestRandomnessCanBeSeeded(t *testing.T) {
	report(t, randomnessProblems(repository(t)))
}

func purityProblems(t *tree) (problems []string) {
	for _, s := range t.ofModule() {
		if s.test || !slices.Contains(pureCores, s.dir) {
			continue
		}
		for _, imp := range s.imports() {
			if impure(imp) {
				problems = append(problems, fmt.Sprintf("%s: a core imports %s", s.path, imp))
			}
		}
		for _, dir := range s.internalImports() {
			if dir != "internal/ident" && !slices.Contains(pureCores, dir) {
				problems = append(problems, fmt.Sprintf("%s: a core imports %s, which is no core", s.path, dir))
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				problems = append(problems, t.at(n.Pos())+": a core starts a goroutine")
			case *ast.SelectorExpr:
				if pkg, name, ok := s.qualified(n); ok && slices.Contains(impureNames[pkg], name) {
					problems = append(problems, fmt.Sprintf("%s: a core uses %s.%s", t.at(n.Pos()), pkg, name))
				}
			}
			return true
		})
	}
	return problems
}

func impure(imp string) bool {
	return slices.ContainsFunc(impureImports, func(bad string) bool {
		if strings.HasSuffix(bad, "/") {
			return strings.HasPrefix(imp, bad)
		}
		return imp == bad
	})
}

// jitterers may draw from the global source: they spread the retries of many
// processes, and nothing else depends on what they draw.
var jitterers = []string{"client"}

// randomnessProblems finds the random sources that no test can seed. The ones
// of crypto/rand are for identities and stay.
func randomnessProblems(t *tree) (problems []string) {
	for _, s := range t.ofModule() {
		if slices.Contains(s.imports(), "math/rand") {
			problems = append(problems, s.path+": imports math/rand; use math/rand/v2 with a source of your own")
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, name, ok := s.qualified(sel)
			if ok && pkg == "math/rand/v2" && !strings.HasPrefix(name, "New") && !randTypes[name] &&
				(s.test || !slices.Contains(jitterers, s.dir)) {
				problems = append(problems, fmt.Sprintf("%s: rand.%s draws from the global source", t.at(n.Pos()), name))
			}
			return true
		})
	}
	return problems
}

// randTypes are the names of math/rand/v2 that are no functions on the global
// source.
var randTypes = map[string]bool{"Rand": true, "Source": true, "PCG": true, "ChaCha8": true, "Zipf": true}

// qualified resolves pkg.Name to its import path; ok is false for a field, a
// method or a local name that looks like one.
func (s *source) qualified(sel *ast.SelectorExpr) (pkg, name string, ok bool) {
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", "", false
	}
	for _, spec := range s.file.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		local := importName(p)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == id.Name {
			return p, sel.Sel.Name, true
		}
	}
	return "", "", false
}

// importName guesses the name of a package from its path, as goimports does.
func importName(p string) string {
	parts := strings.Split(p, "/")
	last := parts[len(parts)-1]
	if len(parts) > 1 && len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		last = parts[len(parts)-2]
	}
	return last
}
