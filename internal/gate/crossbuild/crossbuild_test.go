package crossbuild

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var root = filepath.Join("..", "..", "..")

func TestItBuildsForDarwin(t *testing.T) { build(t, "darwin", "arm64") }

func TestItBuildsForWindows(t *testing.T) { build(t, "windows", "amd64") }

func build(t *testing.T, system, arch string) {
	visit(t)
	cmd := exec.CommandContext(t.Context(), "go", "build", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./... for %s/%s: %v\n%s", system, arch, err, out)
	}
}

// visit opens each directory of the tree. Go keeps the result of a test until
// something changes that the test has opened; what the build opens it does not
// see.
func visit(t *testing.T) {
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "quire-data") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
