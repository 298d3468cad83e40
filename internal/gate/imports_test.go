package gate

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// importTable is the order of the packages: a package imports only from
// earlier rows, never from its own row. A package that is not here fails, so
// that its row is a decision. ARCHITECTURE.md says what each row is for.
var importTable = [][]string{
	{"record", "status", "internal/ident"},
	{"internal/keyspace", "internal/varint", "internal/faultfs", "internal/catalog/catalogpb", "internal/wire/quirev1"},
	{"internal/batch", "internal/lineage"},
	{"internal/catalog", "internal/producers", "internal/wire", "internal/segment"},
	{"internal/consensus", "internal/quorum"},
	{"internal/control"},
	{"internal/node"},
	{"internal/front/native", "internal/front/http", "client"},
	{".", "internal/daemon"},
	{"internal/bench", "internal/demo", "internal/faultnode"},
	{"internal/cli"},
	{"cmd/quire"},
	{"internal/gate", "internal/gate/crossbuild"},
}

// lastForTests is the last row that test files may import, whatever their own
// row is: tests show behaviour through a public door, and the last of those is
// the embedded broker of the root package. What stands above it are programs.
const lastForTests = "."

// faultPackages make a disk, a clock or a network lie. Only tests and the
// programs named here may contain them.
var faultPackages = map[string][]string{
	"internal/faultfs":   {"internal/faultnode"},
	"internal/faultnode": {},
}

func TestImportsGoOnlyToEarlierRows(t *testing.T) {
	report(t, importProblems(repository(t)))
}

func TestNoShippedProgramContainsFaultInjection(t *testing.T) {
	report(t, faultProblems(repository(t)))
}

// rowOf is the row of a package in the table, or -1.
func rowOf(pkg string) int {
	return slices.IndexFunc(importTable, func(row []string) bool { return slices.Contains(row, pkg) })
}

func importProblems(t *tree) (problems []string) {
	for pkg, sources := range t.packages() {
		row := rowOf(pkg)
		if row < 0 {
			problems = append(problems, pkg+": the package is not in the import table")
			continue
		}
		for _, s := range sources {
			limit := row
			if s.test {
				limit = max(row, rowOf(lastForTests)+1)
			}
			for _, imp := range s.internalImports() {
				switch target := rowOf(imp); {
				case target < 0:
					problems = append(problems, fmt.Sprintf("%s: imports %s, which is not in the import table", s.path, imp))
				case target >= limit && imp != pkg && faultPackages[imp] == nil:
					problems = append(problems, fmt.Sprintf("%s: imports %s (row %d) from row %d", s.path, imp, target, row))
				}
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// internalImports are the packages of this module that s imports, by their
// directories.
func (s *source) internalImports() (dirs []string) {
	for _, imp := range s.imports() {
		if imp == module {
			dirs = append(dirs, ".")
		} else if rest, ok := strings.CutPrefix(imp, module+"/"); ok {
			dirs = append(dirs, rest)
		}
	}
	return dirs
}

// imports are the import paths of s.
func (s *source) imports() (paths []string) {
	for _, spec := range s.file.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

func faultProblems(t *tree) (problems []string) {
	pkgs := t.packages()
	for pkg, sources := range pkgs {
		if faultPackages[pkg] != nil || pkg == "internal/gate" {
			continue
		}
		for _, s := range sources {
			if s.test {
				continue
			}
			for _, imp := range s.internalImports() {
				if users, fault := faultPackages[imp]; fault && !slices.Contains(users, pkg) {
					problems = append(problems, fmt.Sprintf("%s: imports %s outside a test", s.path, imp))
				}
			}
		}
	}
	for program := range pkgs {
		if path.Dir(program) != "cmd" {
			continue
		}
		for _, dep := range reachable(pkgs, program) {
			if faultPackages[dep] != nil {
				problems = append(problems, fmt.Sprintf("%s: contains %s", program, dep))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// reachable are the packages of this module that a program is built of.
func reachable(pkgs map[string][]source, from string) []string {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(pkg string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, s := range pkgs[pkg] {
			if s.test {
				continue
			}
			for _, imp := range s.internalImports() {
				visit(imp)
			}
		}
	}
	visit(from)
	return slices.Sorted(maps.Keys(seen))
}
