package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/quirelog/quire"

// rulesDir has trees that break the rules on purpose; they are no part of the
// tree that the rules hold for.
const rulesDir = "internal/gate/testdata/rules"

// A tree is the files of the repository by their slash-separated path from
// its root.
type tree struct {
	files map[string][]byte
	// sources are the Go files, in the order of their paths.
	sources []source
	fset    *token.FileSet
}

// A source is one Go file.
type source struct {
	path string
	// dir is the package's directory, "." for the root.
	dir string
	// test says that the file is compiled into tests only.
	test bool
	// generated says that a program wrote it.
	generated bool
	text      []byte
	file      *ast.File
}

// at gives a place in a form that editors can follow.
func (t *tree) at(p token.Pos) string {
	pos := t.fset.Position(p)
	return fmt.Sprintf("%s:%d", pos.Filename, pos.Line)
}

// newTree parses the Go files among files.
func newTree(files map[string][]byte) (*tree, error) {
	t := &tree{files: files, fset: token.NewFileSet()}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(p) != ".go" {
			continue
		}
		f, err := parser.ParseFile(t.fset, p, files[p], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", p, err)
		}
		t.sources = append(t.sources, source{
			path: p, dir: path.Dir(p), test: strings.HasSuffix(p, "_test.go"),
			generated: ast.IsGenerated(f), text: files[p], file: f,
		})
	}
	return t, nil
}

// ofModule are the sources of the product's own module; tools and bench/peers
// are modules of their own.
func (t *tree) ofModule() []source {
	return slices.DeleteFunc(slices.Clone(t.sources), func(s source) bool {
		return strings.HasPrefix(s.path, "tools/") || strings.HasPrefix(s.path, "bench/")
	})
}

// packages are the sources of the product's module by directory.
func (t *tree) packages() map[string][]source {
	pkgs := map[string][]source{}
	for _, s := range t.ofModule() {
		pkgs[s.dir] = append(pkgs[s.dir], s)
	}
	return pkgs
}

// root is the directory of the repository.
func root() string { return filepath.Join("..", "..") }

// repository reads the tree once for all tests.
func repository(tb testing.TB) *tree {
	tb.Helper()
	t, err := readRepository()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

var readRepository = sync.OnceValues(func() (*tree, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(root(), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root(), name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if ignored(rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		files[rel], err = os.ReadFile(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := applyOverlay(files); err != nil {
		return nil, err
	}
	return newTree(files)
})

// overlayVariable names the overlay of the mutant under which a test of this
// package runs: the compiler sees it anyway, and the rules are to see it too.
const overlayVariable = "QUIRE_GATE_OVERLAY"

// applyOverlay puts the files of an overlay in the place of those of the tree.
func applyOverlay(files map[string][]byte) error {
	name := os.Getenv(overlayVariable)
	if name == "" {
		return nil
	}
	base, err := filepath.Abs(root())
	if err != nil {
		return err
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(content, &overlay); err != nil {
		return err
	}
	for old, by := range overlay.Replace {
		rel, err := filepath.Rel(base, old)
		if err != nil {
			return err
		}
		if files[filepath.ToSlash(rel)], err = os.ReadFile(by); err != nil {
			return err
		}
	}
	return nil
}

// ignored says what is no part of the tree: what .gitignore names too, and
// the trees that break the rules.
func ignored(rel string) bool {
	switch rel {
	case ".git", "quire", "quire-data", rulesDir:
		return true
	}
	switch path.Ext(rel) {
	case ".test", ".out", ".prof":
		return true
	}
	return false
}

// isText says whether content is meant for people.
func isText(content []byte) bool { return !bytes.ContainsRune(content, 0) }

// report fails the test once for each problem.
func report(tb testing.TB, problems []string) {
	tb.Helper()
	for _, p := range problems {
		tb.Error(p)
	}
}
