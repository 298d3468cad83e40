package gate

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestSourcesAreFormatted(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range repository(t).sources {
		if !s.generated {
			names = append(names, s.path)
		}
	}
	out := tool(t, append([]string{"gofumpt", "-l"}, names...)...)
	for _, name := range strings.Fields(out) {
		t.Errorf("%s: not formatted; run `go tool -modfile=tools/go.mod gofumpt -w %s`", name, name)
	}
}

func TestVetIsSilent(t *testing.T) {
	t.Parallel()
	repository(t)
	run(t, nil, "go", "vet", "./...")
}

func TestStaticcheckIsSilent(t *testing.T) {
	t.Parallel()
	repository(t)
	tool(t, "staticcheck", "-checks", strings.Join(staticChecks, ","), "./...")
}

// staticChecks are all of staticcheck's but those that fight with the house
// style: package comments have their own rule here, a doc comment need not
// begin with its name, and a name is written as its field writes it.
var staticChecks = []string{"all", "-ST1000", "-ST1020", "-ST1021", "-ST1022", "-ST1003", "-QF*"}

// tool runs a program of the tools module over the tree. The tools live in a
// module of their own so that the product's list of dependencies stays honest.
func tool(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, nil, "go", slices.Concat([]string{"tool", "-modfile=tools/go.mod"}, args)...)
}

// run runs a program at the root of the repository and fails the test with
// what it said if it does not end well. It gives what it wrote to stdout.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root()
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}
