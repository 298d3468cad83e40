package catalog

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quirelog/quire/status"
)

// Settings are what a topic's owner decides about it. They are a plain value,
// comparable with ==. The zero value is not valid: begin with DefaultSettings.
type Settings struct {
	// Ack says which stores must have a batch before it is acknowledged.
	Ack Ack
	// Fsync says when a batch is forced to stable storage.
	Fsync Fsync
	// Replicas is how many stores hold a segment; 0 is auto.
	Replicas uint8
	// SegmentBytes and SegmentAge are when an open segment is rolled.
	SegmentBytes uint64
	SegmentAge   time.Duration
	// RetentionBytes and RetentionAge are when the oldest segments go; 0 is
	// never.
	RetentionBytes uint64
	RetentionAge   time.Duration
	// MaxValueBytes bounds a record's value.
	MaxValueBytes uint64
	// MaxRanges bounds the ranges that take appends.
	MaxRanges uint32
}

// Ack says which stores must have a batch before it is acknowledged.
type Ack uint8

// The ways to acknowledge. The numbers are part of the format.
const (
	// AckQuorum waits for a majority of the segment's stores.
	AckQuorum Ack = 1
	// AckPrimary waits for the primary's store only.
	AckPrimary Ack = 2
)

func (a Ack) String() string {
	switch a {
	case AckQuorum:
		return "quorum"
	case AckPrimary:
		return "primary"
	default:
		return "unknown"
	}
}

// Fsync says when a batch is forced to stable storage: always (before it is
// acknowledged), never (left to the system), or else each such interval.
type Fsync time.Duration

// The values of Fsync that are not an interval.
const (
	FsyncAlways Fsync = 0
	FsyncNever  Fsync = -1
)

// Interval is the interval of a periodic sync, and whether there is one.
func (f Fsync) Interval() (time.Duration, bool) { return time.Duration(f), f > 0 }

func (f Fsync) String() string {
	switch f {
	case FsyncAlways:
		return "always"
	case FsyncNever:
		return "never"
	default:
		return formatDuration(time.Duration(f))
	}
}

// DefaultSettings are the settings of a topic for which nothing was said.
func DefaultSettings() Settings {
	var s Settings
	for i := range settingsTable {
		row := &settingsTable[i]
		if err := row.set(&s, row.Default); err != nil {
			panic("catalog: the default of " + row.Name + " is out of its own bounds")
		}
	}
	return s
}

// ParseSettings is DefaultSettings with the changes that values name.
func ParseSettings(values map[string]string) (Settings, error) {
	return DefaultSettings().With(values)
}

// With is s with some settings changed, all of them or, with an error, none.
// The error is a *status.Error of code invalid_argument that names the
// setting, the value and what is allowed.
func (s Settings) With(changes map[string]string) (Settings, error) {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		row, err := lookupSetting(name)
		if err != nil {
			return Settings{}, err
		}
		if err := row.set(&s, changes[name]); err != nil {
			return Settings{}, status.New(status.InvalidArgument, "setting %s: %s is not allowed (%w), allowed: %s",
				name, quote(changes[name]), err, row.Allowed)
		}
	}
	return s, nil
}

// Values gives all settings by their names, in the canonical text that With
// reads: sizes in bytes, durations without empty units.
func (s Settings) Values() map[string]string {
	values := make(map[string]string, len(settingsTable))
	for i := range settingsTable {
		row := &settingsTable[i]
		values[row.Name] = row.get(&s)
	}
	return values
}

// Weak says whether a tail that was acknowledged may be lost (R11): by a
// crash, or with the primary's store.
func (s Settings) Weak() bool { return s.Ack != AckQuorum || s.Fsync != FsyncAlways }

// Check says whether every setting is within its bounds.
func (s Settings) Check() error {
	for i := range settingsTable {
		row := &settingsTable[i]
		text, scratch := row.get(&s), s
		if err := row.set(&scratch, text); err != nil {
			return status.New(status.InvalidArgument, "setting %s: %s is not allowed, allowed: %s",
				row.Name, quote(text), row.Allowed)
		}
	}
	return nil
}

// lookupSetting finds a setting that can be changed.
func lookupSetting(name string) (*Setting, error) {
	switch name {
	case "type", "name":
		return nil, status.New(status.InvalidArgument, "the %s of a topic is fixed when it is created", name)
	}
	names := make([]string, 0, len(settingsTable))
	for i := range settingsTable {
		if settingsTable[i].Name == name {
			return &settingsTable[i], nil
		}
		names = append(names, settingsTable[i].Name)
	}
	return nil, status.New(status.InvalidArgument, "there is no setting %s, the settings are %s",
		quote(name), strings.Join(names, ", "))
}
