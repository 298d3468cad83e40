package client

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

// What users see must not need types that they cannot import.
func TestNoExportedSignatureMentionsAnInternalPackage(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	exported := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		internal := internalNames(t, f)
		for _, decl := range f.Decls {
			for _, node := range shown(decl) {
				exported++
				ast.Inspect(node, func(n ast.Node) bool {
					if sel, ok := n.(*ast.SelectorExpr); ok {
						if x, ok := sel.X.(*ast.Ident); ok && internal[x.Name] {
							t.Errorf("%s: %s.%s is internal", fset.Position(n.Pos()), x.Name, sel.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
	if exported < 80 {
		t.Errorf("only %d exported declarations were found", exported)
	}
}

// internalNames are the names by which a file knows internal packages.
func internalNames(t *testing.T, f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, imp := range f.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p, "/internal/") {
			continue
		}
		name := path.Base(p)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = true
	}
	return names
}

// shown are the parts of a declaration that users see: signatures, exported
// fields of exported types, and the types of exported variables. The value of
// a constant may come from anywhere, as long as it has a plain type.
func shown(decl ast.Decl) (nodes []ast.Node) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || exportedType(d.Recv.List[0].Type)) {
			nodes = append(nodes, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					nodes = append(nodes, shownType(s.Type)...)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && (s.Type != nil || d.Tok == token.VAR) {
					nodes = append(nodes, s)
				}
			}
		}
	}
	return nodes
}

// shownType leaves out what is not exported of a struct or an interface.
func shownType(t ast.Expr) (nodes []ast.Node) {
	var fields *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return []ast.Node{t}
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 || f.Names[0].IsExported() {
			nodes = append(nodes, f.Type)
		}
	}
	return nodes
}

func exportedType(t ast.Expr) bool {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}
