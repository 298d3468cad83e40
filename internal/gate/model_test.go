package gate

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modelPage = "model/README.md"

// A modelCheck is a row of the tables of the model's page.
type modelCheck struct {
	// kind is the heading that the row stands under.
	kind string
	// name is the switch, or the name of a configuration.
	name string
	// model is the file, defines are its bounds.
	model   string
	defines []string
	// want is the invariant that breaks, or empty.
	want string
	// number is how many states there are, or how many steps the trail has.
	number string
	row    string
}

const (
	modelHolds   = "Configurations"
	modelBreaks  = "Rules taken away"
	modelImplied = "Rules that others imply"
	modelReaches = "What must be reachable"
)

// parseModel reads the tables. Where the command stands tells the columns apart.
func parseModel(page string) (checks []modelCheck, problems []string) {
	kind := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			kind = heading
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		c := modelCheck{kind: kind, name: strings.Trim(cells[0], "`"), row: line}
		columns, command := 4, 2
		switch kind {
		case modelHolds:
			command = 1
		case modelBreaks:
			columns = 5
		case modelReaches:
			columns = 3
		case modelImplied:
		default:
			problems = append(problems, fmt.Sprintf("%s: a row under %q", modelPage, kind))
			continue
		}
		if len(cells) != columns {
			problems = append(problems, fmt.Sprintf("%s: %s has %d columns, want %d", modelPage, c.name, len(cells), columns))
			continue
		}
		words := strings.Fields(strings.Trim(cells[command], "`"))
		c.model, c.defines = words[0], words[1:]
		switch kind {
		case modelBreaks:
			c.want, c.number = cells[3], cells[4]
		case modelReaches:
			c.want = "reached"
		default:
			c.number = cells[3]
		}
		if kind != modelHolds {
			c.defines = append(c.defines, "-D"+c.name)
		}
		checks = append(checks, c)
	}
	return checks, problems
}

// modelSwitch is the name of a switch in the sources of the model.
var modelSwitch = regexp.MustCompile(`\b(?:NO_[A-Z]\d\w*|REACH_\w+)\b`)

// TestModelPageHasEverySwitch holds the tables and the sources of the model together;
// running it needs spin, which is no requirement of the plain test command.
func TestModelPageHasEverySwitch(t *testing.T) {
	tree := repository(t)
	checks, problems := parseModel(string(tree.files[modelPage]))
	report(t, problems)
	used := map[string]bool{}
	for name, content := range tree.files {
		if strings.HasPrefix(name, "model/") && strings.HasSuffix(name, ".pml") {
			for _, s := range modelSwitch.FindAllString(string(content), -1) {
				used[s] = true
			}
		}
	}
	listed := map[string]bool{}
	for _, c := range checks {
		if listed[c.name] {
			t.Errorf("%s: %s is there twice", modelPage, c.name)
		}
		listed[c.name] = true
		if c.kind != modelHolds && !used[c.name] {
			t.Errorf("%s: no model has the switch %s", modelPage, c.name)
		}
		if !tree.has("model/" + c.model) {
			t.Errorf("%s: %s is of %s, which does not exist", modelPage, c.name, c.model)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(used)) {
		if !listed[s] {
			t.Errorf("%s: does not say what breaks with %s", modelPage, s)
		}
	}
}

// TestModel runs every row of the model's page with QUIRE_MODEL=1: the model holds in
// each configuration, and breaks as the page says without each rule.
func TestModel(t *testing.T) {
	tree := repository(t)
	checks, problems := parseModel(string(tree.files[modelPage]))
	report(t, problems)
	if os.Getenv("QUIRE_MODEL") != "1" {
		return
	}
	numbers := make([]string, len(checks))
	t.Run("all", func(t *testing.T) {
		for i, c := range checks {
			t.Run(c.name, func(t *testing.T) {
				// The large ones run one after another, for the sake of memory.
				if c.kind != modelHolds {
					t.Parallel()
				}
				numbers[i] = checkModel(t, tree, c)
			})
		}
	})
	if *update && !t.Failed() {
		writeModelNumbers(t, string(tree.files[modelPage]), checks, numbers)
	}
}

var (
	modelBroken = regexp.MustCompile(`assertion violated \(+(\w+).*\(at depth (\d+)\)`)
	modelStates = regexp.MustCompile(`(\d+) states, stored`)
)

// checkModel runs one row and gives the number that belongs into it.
func checkModel(t *testing.T, tree *tree, c modelCheck) (number string) {
	t.Helper()
	out := runModel(t, tree, c)
	broken := modelBroken.FindStringSubmatch(out)
	states := modelStates.FindStringSubmatch(out)
	switch {
	case states == nil || strings.Contains(out, "max search depth too small"):
		t.Fatalf("the search was not completed:\n%s", out)
	case c.want == "" && (broken != nil || !strings.Contains(out, "errors: 0") || strings.Contains(out, "Search not completed")):
		t.Fatalf("want no failure:\n%s", out)
	case c.want == "":
		number = grouped(states[1])
	case broken == nil:
		t.Fatalf("passes, want %s to break:\n%s", c.want, out)
	case broken[1] != c.want:
		t.Fatalf("breaks %s, want %s:\n%s", broken[1], c.want, out)
	case c.kind == modelBreaks:
		number = broken[2]
	}
	if number != c.number && !*update {
		t.Errorf("%s says %s, it is %s", modelPage, c.number, number)
	}
	t.Logf("%s states", grouped(states[1]))
	return number
}

// runModel gives what the verifier of one row says. What has to break is searched by
// breadth, for the shortest trail; what must be reachable is found soonest by depth.
// Only for a million states and more does it pay to have the compiler optimize.
func runModel(t *testing.T, tree *tree, c modelCheck) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, c.model), tree.files["model/"+c.model], 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("spin", append(slices.Clone(c.defines), "-a", c.model)...)
	flags := []string{"-w", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=2000"}
	if c.kind == modelBreaks {
		flags = append(flags, "-DBFS")
	} else {
		flags = append(flags, "-DCOLLAPSE")
	}
	if strings.Count(c.number, ",") > 1 {
		flags = append(flags, "-O2")
	}
	run("gcc", append(flags, "-o", "pan", "pan.c")...)
	return run(filepath.Join(dir, "pan"), "-E", "-n", "-m10000")
}

// writeModelNumbers writes what was counted into the last column.
func writeModelNumbers(t *testing.T, page string, checks []modelCheck, numbers []string) {
	t.Helper()
	for i, c := range checks {
		if numbers[i] == "" {
			continue
		}
		row := strings.TrimSuffix(c.row, "| "+c.number+" |") + "| " + numbers[i] + " |"
		page = strings.Replace(page, c.row, row, 1)
	}
	if err := os.WriteFile(filepath.Join(root(), filepath.FromSlash(modelPage)), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
}

// grouped writes a number with a comma every three digits.
func grouped(digits string) string {
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1000 {
		return digits
	}
	return grouped(strconv.Itoa(n/1000)) + fmt.Sprintf(",%03d", n%1000)
}
