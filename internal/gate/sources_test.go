package gate

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// maxLines is the length of a file that asks whether it is still one idea.
const maxLines = 700

func TestEveryPackageHasItsComment(t *testing.T) {
	report(t, packageCommentProblems(repository(t)))
}

func TestNoInitFunctions(t *testing.T) {
	report(t, initProblems(repository(t)))
}

func TestFilesAreShortAndFinished(t *testing.T) {
	report(t, textProblems(repository(t)))
}

// packageCommentProblems wants a comment for each package that a person wrote,
// in the form that go doc shows: "Package x …", "Command x …" for a program.
func packageCommentProblems(t *tree) (problems []string) {
	for dir, sources := range t.packages() {
		var found, code bool
		for _, s := range sources {
			if s.test || s.generated {
				continue
			}
			code = true
			name := s.file.Name.Name
			want := "Package " + name + " "
			if name == "main" {
				want = "Command " + dir[strings.LastIndexByte(dir, '/')+1:] + " "
			}
			if s.file.Doc == nil {
				continue
			}
			if found = true; !strings.HasPrefix(strings.ReplaceAll(s.file.Doc.Text(), "\n", " "), want) {
				problems = append(problems, fmt.Sprintf("%s: the package comment does not begin %q", s.path, want))
			}
		}
		if code && !found {
			problems = append(problems, dir+": the package has no comment")
		}
	}
	return problems
}

// initProblems finds init functions: what a program does begins in main.
func initProblems(t *tree) (problems []string) {
	for _, s := range t.ofModule() {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !s.generated {
				problems = append(problems, t.at(f.Pos())+": an init function")
			}
		}
	}
	return problems
}

// unfinished are the words that mark work left lying. They are put together
// here so that this file does not hold them.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

// machinePath are the beginnings of paths that exist on one machine only.
var machinePath = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.])(/(?:wo` + `rk|ro` + `ot|ho` + `me)/)`)

// textProblems finds files that are too long for one idea, work left lying and
// paths of the machine that somebody wrote them on.
func textProblems(t *tree) (problems []string) {
	for _, s := range t.ofModule() {
		if n := strings.Count(string(s.text), "\n"); n > maxLines && !s.generated {
			problems = append(problems, fmt.Sprintf("%s: %d lines: is this still one idea?", s.path, n))
		}
	}
	for p, content := range t.files {
		if !isText(content) {
			continue
		}
		for i, line := range strings.Split(string(content), "\n") {
			if m := unfinished.FindString(line); m != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s left lying", p, i+1, m))
			}
			if m := machinePath.FindStringSubmatch(line); m != nil {
				problems = append(problems, fmt.Sprintf("%s:%d: a path of one machine: %s", p, i+1, m[1]))
			}
		}
	}
	return problems
}
