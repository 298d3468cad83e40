package gate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/daemon"
	"github.com/quirelog/quire/internal/lineage"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

var update = flag.Bool("update", false, "write the tables of the documents anew")

func TestErrorsPageIsTheStatusTable(t *testing.T) {
	checkTable(t, "docs/errors.md", "codes", errorTable(status.Table()))
}

// errorTable writes the status table as the page of errors shows it.
func errorTable(rows []status.Row) string {
	var b strings.Builder
	b.WriteString("| code | what happened | what to do | again? | outcome | exit |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		again, outcome := "no", "no effect"
		if r.Retryable {
			again = "yes"
		}
		if r.Outcome == status.Maybe {
			outcome = "unknown"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %d |\n", r.Code, r.What, r.Do, again, outcome, r.Exit)
	}
	return b.String()
}

func TestLimitsPageHasTheSettings(t *testing.T) {
	checkTable(t, "docs/limits.md", "settings", settingsTable(catalog.SettingsTable()))
}

// settingsTable writes the settings of a topic as the page of limits shows them.
func settingsTable(rows []catalog.Setting) string {
	var b strings.Builder
	b.WriteString("| setting | default | allowed | meaning |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Default, r.Allowed, r.Meaning)
	}
	return b.String()
}

func TestLimitsPageHasTheBoundsOfRecords(t *testing.T) {
	checkTable(t, "docs/limits.md", "records", recordTable())
}

// recordTable writes the bounds of records and batches.
func recordTable() string {
	var b strings.Builder
	b.WriteString("| what | limit | beyond it |\n|---|---|---|\n")
	row := func(what, limit string, code status.Code) {
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", what, limit, code)
	}
	row("key", size(record.MaxKey), status.RecordTooLarge)
	row("value", size(record.MaxValue)+", up to "+size(record.MaxValueBound)+" by `max-value-bytes`",
		status.RecordTooLarge)
	row("headers of a record", fmt.Sprintf("%d, %s together", record.MaxHeaders, size(record.MaxHeaderBytes)),
		status.RecordTooLarge)
	row("batch", fmt.Sprintf("%s, %d records", size(batch.MaxSize), batch.MaxRecords), status.BatchTooLarge)
	return b.String()
}

func TestLimitsPageHasTheBoundsOfConnections(t *testing.T) {
	checkTable(t, "docs/limits.md", "connections", connectionTable())
}

// connectionTable writes the bounds that a client meets, from the packages
// that hold them.
func connectionTable() string {
	var b strings.Builder
	b.WriteString("| what | limit | beyond it |\n|---|---|---|\n")
	row := func(what, limit, beyond string) { fmt.Fprintf(&b, "| %s | %s | %s |\n", what, limit, beyond) }
	row("frame", size(wire.MaxFrame)+", "+size(wire.MaxHandshakeFrame)+" before the handshake",
		"`"+string(status.FrameTooLarge)+"`")
	row("requests in flight on a connection", fmt.Sprint(wire.MaxInFlight), "`"+string(status.LimitReached)+"`")
	row("wait of a fetch", node.MaxWait.String(), "it waits so long and no longer")
	row("cursor", fmt.Sprintf("%d characters", lineage.MaxToken), "`"+string(status.CursorInvalid)+"`")
	row("topics", fmt.Sprint(catalog.MaxTopics), "`"+string(status.LimitReached)+"`")
	row("ranges of a topic that take records", fmt.Sprint(catalog.MaxRanges), "`"+string(status.LimitReached)+"`")
	row("ranges of a topic that are remembered without records", fmt.Sprint(catalog.MaxStubs),
		"the oldest is forgotten; a cursor in it is told a gap")
	row("sealed segments of a range", fmt.Sprint(catalog.MaxSegments), "`"+string(status.LimitReached)+"`")
	row("drain of a stopping broker", daemon.DrainLimit.String(), "what is left is cut")
	return b.String()
}

// size writes a number of bytes in the largest unit that divides it.
func size(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// checkTable compares the part of a document between the marks of that name
// with what the code says. With -update it writes the part.
func checkTable(t *testing.T, document, name, want string) {
	t.Helper()
	file := filepath.Join(root(), filepath.FromSlash(document))
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
	text := string(content)
	head, rest, ok1 := strings.Cut(text, begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s: has no part %q", document, name)
	}
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("%s: the part %q is not what the code says; run `go test ./internal/gate -update`", document, name)
	}
	text = head + begin + want + end + tail
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
