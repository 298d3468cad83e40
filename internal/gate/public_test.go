package gate

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

func TestPublicNamesAreDocumented(t *testing.T) {
	report(t, documentedProblems(repository(t)))
}

func TestPublicSignaturesNameNoInternalType(t *testing.T) {
	report(t, signatureProblems(repository(t)))
}

// public are the sources that users of the module import.
func (t *tree) public() (sources []source) {
	for _, s := range t.ofModule() {
		if s.test || strings.HasPrefix(s.dir, "internal") || strings.HasPrefix(s.dir, "cmd/") {
			continue
		}
		sources = append(sources, s)
	}
	return sources
}

// documentedProblems wants a comment at each exported name of a public
// package; a group of constants or variables may share one.
func documentedProblems(t *tree) (problems []string) {
	missing := func(n ast.Node, name string) {
		problems = append(problems, fmt.Sprintf("%s: %s has no comment", t.at(n.Pos()), name))
	}
	for _, s := range t.public() {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if exported(d) && d.Doc == nil && !wellKnown[d.Name.Name] {
					missing(d, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						if spec.Name.IsExported() && spec.Doc == nil && d.Doc == nil {
							missing(spec, spec.Name.Name)
						}
					case *ast.ValueSpec:
						if spec.Names[0].IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
							missing(spec, spec.Names[0].Name)
						}
					}
				}
			}
		}
	}
	return problems
}

// wellKnown are methods whose interface says it all.
var wellKnown = map[string]bool{"String": true, "Error": true, "Unwrap": true}

// exported says whether users can call d: a method counts if its type does.
func exported(d *ast.FuncDecl) bool {
	if !d.Name.IsExported() {
		return false
	}
	if d.Recv == nil {
		return true
	}
	recv := d.Recv.List[0].Type
	for {
		switch r := recv.(type) {
		case *ast.StarExpr:
			recv = r.X
		case *ast.IndexExpr:
			recv = r.X
		case *ast.IndexListExpr:
			recv = r.X
		case *ast.Ident:
			return r.IsExported()
		default:
			return false
		}
	}
}

// signatureProblems finds what is exported and can't be named outside.
func signatureProblems(t *tree) (problems []string) {
	for _, s := range t.public() {
		check := func(what string, n ast.Node) {
			if n == nil {
				return
			}
			ast.Inspect(n, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, name, _ := s.qualified(sel); strings.HasPrefix(pkg, module+"/internal/") {
					problems = append(problems, fmt.Sprintf("%s: %s names the internal %s.%s",
						t.at(sel.Pos()), what, strings.TrimPrefix(pkg, module+"/"), name))
				}
				return true
			})
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if exported(d) {
					check(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				checkSpecs(d, check)
			}
		}
	}
	return problems
}

// checkSpecs hands the visible parts of exported types, constants and
// variables to check.
func checkSpecs(d *ast.GenDecl, check func(string, ast.Node)) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok {
				check(spec.Name.Name, spec.Type)
				continue
			}
			for _, f := range st.Fields.List {
				for _, name := range f.Names {
					if name.IsExported() {
						check(spec.Name.Name+"."+name.Name, f.Type)
					}
				}
				if len(f.Names) == 0 {
					check(spec.Name.Name, f.Type)
				}
			}
		case *ast.ValueSpec:
			if spec.Names[0].IsExported() && spec.Type != nil {
				check(spec.Names[0].Name, spec.Type)
			}
		}
	}
}
