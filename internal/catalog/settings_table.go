package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quirelog/quire/record"
)

// Setting is one row of the table that everything about settings comes from:
// reading, writing, bounds and documentation.
type Setting struct {
	Name string
	// Default is the canonical text of the default.
	Default string
	// Allowed says which values are.
	Allowed string
	// Meaning is one sentence without its full stop.
	Meaning string

	get func(*Settings) string
	// set reads text into its field. Its error says what is wrong with the
	// text and leaves name, text and what is allowed to the caller.
	set func(s *Settings, text string) error
}

// SettingsTable lists the settings, in the order in which documents do.
func SettingsTable() []Setting { return slices.Clone(settingsTable) }

// MaxReplicas is the most stores that may hold a segment.
const MaxReplicas = 7

const day = 24 * time.Hour

var settingsTable = []Setting{
	{
		Name: "ack", Default: "quorum", Allowed: "quorum, primary",
		Meaning: "which stores must have a batch before it is acknowledged: a majority of its replicas, or the " +
			"primary's alone",
		get: func(s *Settings) string { return s.Ack.String() }, set: setAck,
	},
	{
		Name: "fsync", Default: "always", Allowed: "always, never, or an interval from 1ms to 1h",
		Meaning: "when a batch is forced to stable storage: before it is acknowledged, when the system likes, " +
			"or each interval",
		get: func(s *Settings) string { return s.Fsync.String() }, set: setFsync,
	},
	{
		Name: "replicas", Default: "auto", Allowed: "auto, or a number from 1 to " + strconv.Itoa(MaxReplicas),
		Meaning: "how many stores hold each segment; auto is three, or as many as there are nodes",
		get:     getReplicas, set: setReplicas,
	},
	size("segment-bytes", "1GiB", 64<<10, 16<<30, false,
		"an open segment is sealed and the next one opened when it has this size",
		func(s *Settings) *uint64 { return &s.SegmentBytes }),
	span("segment-age", "1h", time.Second, 30*day, false,
		"an open segment that is not empty is sealed and the next one opened at this age",
		func(s *Settings) *time.Duration { return &s.SegmentAge }),
	size("retention-bytes", "0", 1, 1<<50, true,
		"a topic's oldest sealed segment is deleted while the others still hold this much; 0 keeps everything",
		func(s *Settings) *uint64 { return &s.RetentionBytes }),
	span("retention-age", "0", time.Second, 36_500*day, true,
		"sealed segments are deleted when their newest record is older than this; 0 keeps everything",
		func(s *Settings) *time.Duration { return &s.RetentionAge }),
	size("max-value-bytes", "1MiB", 1, record.MaxValueBound, false,
		"the most bytes that a record's value may have",
		func(s *Settings) *uint64 { return &s.MaxValueBytes }),
	{
		Name: "max-ranges", Default: strconv.Itoa(defaultMaxRanges), Allowed: "1 to " + strconv.Itoa(MaxRanges),
		Meaning: "the most ranges that take records; a topic that has more keeps them",
		get:     func(s *Settings) string { return strconv.FormatUint(uint64(s.MaxRanges), 10) }, set: setMaxRanges,
	},
}

// defaultMaxRanges is also what topics have that were made before there was the
// setting.
const defaultMaxRanges = 512

// size is the row of a number of bytes. With orZero, 0 is allowed as well.
func size(name, def string, low, high uint64, orZero bool, meaning string, field func(*Settings) *uint64) Setting {
	def, zero := canonicalSize(def), ""
	if orZero {
		zero = "0, or "
	}
	return Setting{
		Name: name, Default: def, Meaning: meaning,
		Allowed: zero + FormatSize(low) + " to " + FormatSize(high) + ", in bytes or with KiB, MiB, GiB or TiB",
		get:     func(s *Settings) string { return strconv.FormatUint(*field(s), 10) },
		set: func(s *Settings, text string) error {
			n, err := ParseSize(text)
			if err != nil {
				return err
			}
			if (n < low || n > high) && !(n == 0 && orZero) {
				return errBounds
			}
			*field(s) = n
			return nil
		},
	}
}

// span is the row of a duration. With orZero, 0 is allowed as well.
func span(name, def string, low, high time.Duration, orZero bool, meaning string,
	field func(*Settings) *time.Duration,
) Setting {
	zero := ""
	if orZero {
		zero = "0, or "
	}
	return Setting{
		Name: name, Default: def, Meaning: meaning,
		Allowed: fmt.Sprintf("%s%s to %s", zero, formatDuration(low), formatDuration(high)),
		get:     func(s *Settings) string { return formatDuration(*field(s)) },
		set: func(s *Settings, text string) error {
			d, err := ParseDuration(text)
			if err != nil {
				return err
			}
			if (d < low || d > high) && !(d == 0 && orZero) {
				return errBounds
			}
			*field(s) = d
			return nil
		},
	}
}

var (
	errBounds = errors.New("it is out of bounds")
	errChoice = errors.New("it is none of the choices")
)

func setAck(s *Settings, text string) error {
	for a := AckQuorum; a <= AckPrimary; a++ {
		if a.String() == text {
			s.Ack = a
			return nil
		}
	}
	return errChoice
}

func setFsync(s *Settings, text string) error {
	switch text {
	case "always":
		s.Fsync = FsyncAlways
		return nil
	case "never":
		s.Fsync = FsyncNever
		return nil
	}
	d, err := ParseDuration(text)
	if err != nil {
		return err
	}
	if d < time.Millisecond || d > time.Hour {
		return errBounds
	}
	s.Fsync = Fsync(d)
	return nil
}

func getReplicas(s *Settings) string {
	if s.Replicas == 0 {
		return "auto"
	}
	return strconv.Itoa(int(s.Replicas))
}

func setReplicas(s *Settings, text string) error {
	if text == "auto" {
		s.Replicas = 0
		return nil
	}
	n, err := count(text, MaxReplicas)
	if err == nil {
		s.Replicas = uint8(n)
	}
	return err
}

func setMaxRanges(s *Settings, text string) error {
	n, err := count(text, MaxRanges)
	if err == nil {
		s.MaxRanges = uint32(n)
	}
	return err
}

// count reads a number from 1 to most.
func count(text string, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errBounds
	case err != nil:
		return 0, errors.New("it is no number")
	case n < 1 || n > most:
		return 0, errBounds
	}
	return n, nil
}
