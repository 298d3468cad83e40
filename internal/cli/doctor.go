package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

func (a *app) doctorCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "doctor DIR",
		Short: "Check a data directory that no broker has open",
		Long: "Check everything in a data directory that no broker has open, and say what is\n" +
			"wrong, where, and how bad. It changes nothing unless --repair is given, which\n" +
			"keeps what is good and tells readers what is lost; damaged files are set aside.\n\n" +
			"The exit status is 0 when the directory is sound, or was made so, and 1 when it\n" +
			"is damaged.",
		Example: "  quire doctor ./quire-data\n  quire doctor ./quire-data --repair",
		GroupID: groupBroker,
		Args:    cobra.ExactArgs(1),
		RunE: a.run(func(_ context.Context, args []string) error {
			return a.doctor(args[0], repair)
		}),
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "mend what can be mended; make a copy of the directory first")
	return cmd
}

func (a *app) doctor(dir string, repair bool) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return withHint(usage("%s is no directory", dir), "name the directory that `quire serve --data` was given")
	}
	report, err := segment.Doctor(vfs.Default, dir, repair)
	if err != nil {
		return err
	}
	left, lost := 0, uint64(0)
	for _, f := range report.Findings {
		lost += f.Lost
		if f.Damage && !f.Repaired {
			left++
		}
	}
	if a.json {
		err = a.printJSON(reportJSON(dir, report, left == 0))
	} else {
		err = a.printReport(report, left, lost)
	}
	if err != nil || left == 0 {
		return err
	}
	err = status.New(status.DataCorrupt, "%s is damaged", dir)
	if repair {
		return withHint(err, "do what stands beside each finding that was not repaired")
	}
	return withHint(err, "copy the directory, then run `quire doctor %s --repair`", dir)
}

// printReport prints a line or two for each finding and the verdict as the
// last line.
func (a *app) printReport(r segment.Report, left int, lost uint64) error {
	var out []error
	say := func(format string, args ...any) {
		_, err := fmt.Fprintf(a.stdout, format, args...)
		out = append(out, err)
	}
	say("store %s: %d segments, %d records, %d bytes; the next start replays %d journal rounds\n",
		r.Store, r.Segments, r.Records, r.Bytes, r.Rounds)
	damages := 0
	for _, f := range r.Findings {
		kind := "note"
		if f.Damage {
			kind = "damage"
			damages++
		}
		if f.Repaired {
			kind = "repaired"
		}
		say("%s: %s at byte %d: %s", kind, f.File, f.Offset, f.What)
		if f.Lost > 0 {
			say("; %d records lost", f.Lost)
		}
		say("\n    %s\n", f.Remedy)
	}
	switch {
	case left > 0:
		say("damaged\n")
	case damages > 0:
		say("repaired, %d records lost\n", lost)
	default:
		say("sound\n")
	}
	return errors.Join(out...)
}

// reportOut is a report in JSON. The keys are stable.
type reportOut struct {
	Dir          string       `json:"dir"`
	Sound        bool         `json:"sound"`
	Store        string       `json:"store"`
	Segments     int          `json:"segments"`
	Records      uint64       `json:"records"`
	Bytes        int64        `json:"bytes"`
	ReplayRounds int          `json:"replay_rounds"`
	Findings     []findingOut `json:"findings"`
}

type findingOut struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"`
	What     string `json:"what"`
	Damage   bool   `json:"damage"`
	Lost     uint64 `json:"lost_records"`
	Repaired bool   `json:"repaired"`
	Remedy   string `json:"remedy"`
}

func reportJSON(dir string, r segment.Report, sound bool) reportOut {
	out := reportOut{dir, sound, r.Store, r.Segments, r.Records, r.Bytes, r.Rounds, []findingOut{}}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, findingOut(f))
	}
	return out
}
