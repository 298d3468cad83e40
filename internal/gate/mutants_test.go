package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// mutantsDir has one patch a mutant: a small change that takes a promise away.
const mutantsDir = "internal/gate/testdata/mutants"

func mutantPath(name string) string { return mutantsDir + "/" + name + ".patch" }

// sampleMutant is the one that the plain test command tries, so that the way in
// which mutants are tried is itself tried there. It lies in a small package.
const sampleMutant = "cursor-checksum-unread"

// TestMutantsStillApply keeps the mutants fit for use: each is a change of the
// sources as they are now, and the changed sources parse.
func TestMutantsStillApply(t *testing.T) {
	tree := repository(t)
	for name, content := range tree.files {
		if path.Dir(name) != mutantsDir {
			continue
		}
		if _, err := mutate(tree, string(content)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMutantsAreKilled tries the mutants: the test that a promise names has to
// fail when the promise is taken away. Each costs a build, so the plain test
// command tries one, and with QUIRE_MUTANTS=1 it tries them all.
func TestMutantsAreKilled(t *testing.T) {
	tree := repository(t)
	promises, _ := parseGuarantees(string(tree.files[guaranteesPage]))
	all := os.Getenv("QUIRE_MUTANTS") == "1"
	for _, p := range promises {
		for _, pr := range p.proofs {
			if pr.mutant == "" || (!all && pr.mutant != sampleMutant) {
				continue
			}
			t.Run(p.id+"/"+pr.mutant, func(t *testing.T) { kill(t, tree, pr) })
		}
	}
}

// mutate applies a mutant and gives the files that it changes.
func mutate(t *tree, text string) (map[string][]byte, error) {
	p, err := parsePatch(text)
	if err != nil {
		return nil, err
	}
	changed, err := p.apply(t.files)
	if err != nil {
		return nil, err
	}
	for name, content := range changed {
		if strings.HasSuffix(name, "_test.go") {
			return nil, fmt.Errorf("%s: a mutant changes what is tested, not the test", name)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, content, 0); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// kill runs the proof's test against its mutant and wants it to fail. The tree
// stays as it is: the compiler sees the mutant through an overlay.
func kill(t *testing.T, tree *tree, p proof) {
	text, ok := tree.files[mutantPath(p.mutant)]
	if !ok {
		t.Fatalf("no mutant %s", p.mutant)
	}
	changed, err := mutate(tree, string(text))
	if err != nil {
		t.Fatal(err)
	}
	overlay := writeOverlay(t, changed)
	pattern := "^" + p.test + "$"
	if p.sub != "" {
		pattern += "/^" + p.sub + "$"
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay="+overlay, "-count=1", "-vet=off",
		"-timeout=3m", "-run="+pattern, "./"+p.pkg)
	cmd.Dir = root()
	cmd.Env = append(os.Environ(), overlayVariable+"="+overlay)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		t.Errorf("%s stays green under the mutant %s:\n%s", p.test, p.mutant, out)
	case !errors.As(err, &exit):
		t.Fatal(err)
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		t.Errorf("the mutant %s does not build:\n%s", p.mutant, out)
	case !bytes.Contains(out, []byte("FAIL")):
		t.Errorf("the test of the mutant %s was not run:\n%s", p.mutant, out)
	}
}

// writeOverlay writes the changed files and the list that the go command reads.
func writeOverlay(t *testing.T, changed map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	base, err := filepath.Abs(root())
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for name, content := range changed {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(base, filepath.FromSlash(name))] = file
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
