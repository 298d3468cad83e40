package gate

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// places are the words for where the broker keeps a record. A client needs a
// topic, a key and a cursor, and none of these.
var places = []string{"partition", "offset", "range", "epoch", "segment", "position", "shard", "lineage"}

// operatorTypes are the types of the client, and the messages of the protocol,
// that show an operator where records are kept.
var operatorTypes = []string{
	"Description", "RangeInfo", "SegmentInfo", // client
	"Range", "Segment", "DescribeTopicResponse", // proto
}

// TestNoDataPlaneNameTellsAPlace holds the client, the embedded broker, the
// records and the messages to the words that users know.
func TestNoDataPlaneNameTellsAPlace(t *testing.T) {
	report(t, placeProblems(repository(t)))
}

func placeProblems(t *tree) (problems []string) {
	for _, s := range t.public() {
		check := func(n *ast.Ident, owner string) {
			if word := placeIn(n.Name); n.IsExported() && word != "" && !slices.Contains(operatorTypes, owner) {
				problems = append(problems, fmt.Sprintf("%s: %s tells of a %s", t.at(n.Pos()), n.Name, word))
			}
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if exported(d) {
					check(d.Name, "")
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					checkNames(spec, check)
				}
			}
		}
	}
	for name, content := range t.files {
		if strings.HasPrefix(name, "proto/quire/v1/") && strings.HasSuffix(name, ".proto") {
			problems = append(problems, messageProblems(name, string(content))...)
		}
	}
	return problems
}

// checkNames hands the names that a declaration makes visible to check, with
// the type that owns them.
func checkNames(spec ast.Spec, check func(n *ast.Ident, owner string)) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		check(spec.Name, spec.Name.Name)
		st, ok := spec.Type.(*ast.StructType)
		if !ok || !spec.Name.IsExported() {
			return
		}
		for _, f := range st.Fields.List {
			for _, n := range f.Names {
				check(n, spec.Name.Name)
			}
		}
	case *ast.ValueSpec:
		// A code is an outcome rather than a place: range_moved asks for a
		// retry, which the client makes by itself.
		for _, n := range spec.Names {
			if n.Name != "RangeMoved" {
				check(n, "")
			}
		}
	}
}

// message is the beginning of a message in a file of protobuf, field a line
// that has a field's name.
var (
	message = regexp.MustCompile(`^message (\w+) \{`)
	field   = regexp.MustCompile(`^\s+(?:repeated |map<[^>]*> )?[\w.]* ?(\w+) = \d+;`)
)

func messageProblems(name, text string) (problems []string) {
	var owner string
	for i, line := range strings.Split(text, "\n") {
		var n string
		if m := message.FindStringSubmatch(line); m != nil {
			owner, n = m[1], m[1]
		} else if m := field.FindStringSubmatch(line); m != nil {
			n = m[1]
		}
		if word := placeIn(n); word != "" && !slices.Contains(operatorTypes, owner) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s tells of a %s", name, i+1, n, word))
		}
	}
	return problems
}

// placeIn is the word for a place in a name of Go or of protobuf, or "".
func placeIn(name string) string {
	var words strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) || r == '_' {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(r))
	}
	for word := range strings.FieldsSeq(strings.ReplaceAll(words.String(), "_", " ")) {
		if i := slices.Index(places, strings.TrimSuffix(word, "s")); i >= 0 {
			return places[i]
		}
	}
	return ""
}
