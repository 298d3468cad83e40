package gate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A patch is a unified diff of files that exist before and after it.
type patch []filePatch

// filePatch is what a patch does to one file.
type filePatch struct {
	path  string
	hunks []hunk
}

// hunk replaces neighbouring lines. Its line numbers are not kept: the lines
// themselves say where it belongs, so that a patch survives edits elsewhere.
type hunk struct{ before, after string }

// parsePatch reads a unified diff. What stands before the first file is a
// remark.
func parsePatch(text string) (patch, error) {
	var p patch
	var inHunk bool
	for i, line := range strings.SplitAfter(text, "\n") {
		bare := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(bare, "--- "):
			inHunk = false
		case strings.HasPrefix(bare, "+++ "):
			name, _, _ := strings.Cut(strings.TrimPrefix(bare, "+++ "), "\t")
			p = append(p, filePatch{path: strings.TrimPrefix(name, "b/")})
			inHunk = false
		case strings.HasPrefix(bare, "@@"):
			if len(p) == 0 {
				return nil, fmt.Errorf("line %d: a hunk before its file", i+1)
			}
			f := &p[len(p)-1]
			f.hunks = append(f.hunks, hunk{})
			inHunk = true
		case inHunk && line != "":
			f := &p[len(p)-1]
			h := &f.hunks[len(f.hunks)-1]
			switch line[0] {
			case '-':
				h.before += line[1:]
			case '+':
				h.after += line[1:]
			case ' ':
				h.before += line[1:]
				h.after += line[1:]
			case '\n':
				h.before += line
				h.after += line
			default:
				return nil, fmt.Errorf("line %d: %q is no line of a hunk", i+1, bare)
			}
		}
	}
	if len(p) == 0 {
		return nil, errors.New("no file in the patch")
	}
	return p, nil
}

// apply gives the files that p changes, as they are after it.
func (p patch) apply(files map[string][]byte) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, f := range p {
		content, ok := files[f.path]
		if !ok {
			return nil, fmt.Errorf("%s: no such file", f.path)
		}
		text := string(content)
		if len(f.hunks) == 0 {
			return nil, fmt.Errorf("%s: nothing to change", f.path)
		}
		for i, h := range f.hunks {
			switch n := strings.Count(text, h.before); {
			case h.before == "" || n == 0:
				return nil, fmt.Errorf("%s: the lines of hunk %d are not there", f.path, i+1)
			case n > 1:
				return nil, fmt.Errorf("%s: the lines of hunk %d are there %d times; give it more context", f.path, i+1, n)
			case h.before == h.after:
				return nil, fmt.Errorf("%s: hunk %d changes nothing", f.path, i+1)
			}
			text = strings.Replace(text, h.before, h.after, 1)
		}
		changed[f.path] = []byte(text)
	}
	return changed, nil
}

func TestPatchesApplyByTheirLines(t *testing.T) {
	const text = `What it breaks.
--- a/x/f.go
+++ b/x/f.go
@@ -100,3 +100,3 @@ func f
 two
-three
+drei

`
	files := map[string][]byte{"x/f.go": []byte("one\ntwo\nthree\n\nfour\n")}
	p, err := parsePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.apply(files)
	if err != nil {
		t.Fatal(err)
	}
	if want := "one\ntwo\ndrei\n\nfour\n"; string(got["x/f.go"]) != want {
		t.Errorf("got %q, want %q", got["x/f.go"], want)
	}
	if string(files["x/f.go"]) != "one\ntwo\nthree\n\nfour\n" {
		t.Error("the patch changed its input")
	}
}

func TestPatchesThatFitNowhereAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, file, want string }{
		"gone":      {"+++ b/f\n@@\n-two\n+zwei\n", "one\n", "not there"},
		"ambiguous": {"+++ b/f\n@@\n-two\n+zwei\n", "two\ntwo\n", "2 times"},
		"idle":      {"+++ b/f\n@@\n two\n", "two\n", "changes nothing"},
		"no file":   {"+++ b/g\n@@\n-two\n+zwei\n", "two\n", "no such file"},
		"no hunk":   {"+++ b/f\n", "two\n", "nothing to change"},
		"no patch":  {"only a remark\n", "two\n", "no file in the patch"},
		"garbage":   {"+++ b/f\n@@\n?two\n", "two\n", "no line of a hunk"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parsePatch(tc.text)
			if err == nil {
				_, err = p.apply(map[string][]byte{"f": []byte(tc.file)})
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}
