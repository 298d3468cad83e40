package catalog

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

func TestDefaultsAreDurable(t *testing.T) {
	want := Settings{
		Ack: AckQuorum, Fsync: FsyncAlways, Replicas: 0, SegmentBytes: 1 << 30, SegmentAge: time.Hour,
		RetentionBytes: 0, RetentionAge: 0, MaxValueBytes: record.MaxValue, MaxRanges: 512,
	}
	if got := DefaultSettings(); got != want || got.Weak() {
		t.Errorf("defaults %+v, weak %v; want %+v, not weak", got, got.Weak(), want)
	}
	if err := DefaultSettings().Check(); err != nil {
		t.Error(err)
	}
	values := map[string]string{
		"ack": "quorum", "fsync": "always", "replicas": "auto", "segment-bytes": "1073741824", "segment-age": "1h",
		"retention-bytes": "0", "retention-age": "0", "max-value-bytes": "1048576", "max-ranges": "512",
	}
	if got := DefaultSettings().Values(); !maps.Equal(got, values) {
		t.Errorf("default values %v, want %v", got, values)
	}
}

// Each row: a value, and the canonical text that it reads as, or empty when it
// is refused.
var settingValues = []struct{ name, in, out string }{
	{"ack", "quorum", "quorum"},
	{"ack", "primary", "primary"},
	{"ack", "", ""},
	{"ack", "Quorum", ""},
	{"ack", "unknown", ""},
	{"fsync", "always", "always"},
	{"fsync", "never", "never"},
	{"fsync", "1ms", "1ms"},
	{"fsync", "1h", "1h"},
	{"fsync", "90s", "1m30s"},
	{"fsync", "0", ""},
	{"fsync", "1h1ms", ""},
	{"fsync", "500us", ""},
	{"fsync", "1.5ms", ""},
	{"fsync", "-1ms", ""},
	{"fsync", "often", ""},
	{"replicas", "auto", "auto"},
	{"replicas", "1", "1"},
	{"replicas", "7", "7"},
	{"replicas", "0", ""},
	{"replicas", "8", ""},
	{"replicas", "-1", ""},
	{"replicas", "+3", ""},
	{"replicas", "256", ""},
	{"replicas", "3.0", ""},
	{"replicas", "", ""},
	{"segment-bytes", "65536", "65536"},
	{"segment-bytes", "64KiB", "65536"},
	{"segment-bytes", "16GiB", "17179869184"},
	{"segment-bytes", "100MiB", "104857600"},
	{"segment-bytes", "65535", ""},
	{"segment-bytes", "17179869185", ""},
	{"segment-bytes", "1TiB", ""},
	{"segment-bytes", "1GB", ""},
	{"segment-bytes", "1.5GiB", ""},
	{"segment-bytes", "1 GiB", ""},
	{"segment-bytes", "KiB", ""},
	{"segment-bytes", "-1", ""},
	{"segment-bytes", "18446744073709551616", ""},
	{"segment-bytes", "18014398509481984KiB", ""}, // 2^54 KiB: one more than there are bytes
	{"segment-age", "1s", "1s"},
	{"segment-age", "30d", "30d"},
	{"segment-age", "720h", "30d"},
	{"segment-age", "1d12h", "36h"},
	{"segment-age", "90m", "1h30m"},
	{"segment-age", "1h0m30s", "1h0m30s"},
	{"segment-age", "999ms", ""},
	{"segment-age", "30d1s", ""},
	{"segment-age", "0", ""},
	{"segment-age", "1.5d", ""},
	{"segment-age", "d", ""},
	{"segment-age", "1d-1h", ""},
	{"segment-age", "-1h", ""},
	{"segment-age", "1", ""},
	{"segment-age", "1d1d", ""},
	{"segment-age", "1s1us", ""},
	{"retention-bytes", "0", "0"},
	{"retention-bytes", "1", "1"},
	{"retention-bytes", "1024TiB", "1125899906842624"},
	{"retention-bytes", "1025TiB", ""},
	{"retention-age", "0", "0"},
	{"retention-age", "0s", "0"},
	{"retention-age", "0d", "0"},
	{"retention-age", "7d", "7d"},
	{"retention-age", "36500d", "36500d"},
	{"retention-age", "36501d", ""},
	{"retention-age", "65535d", ""},
	{"retention-age", "99999999999d", ""},
	{"retention-age", "1ms", ""},
	{"max-value-bytes", "1", "1"},
	{"max-value-bytes", "8323072", "8323072"},
	{"max-value-bytes", "8323073", ""},
	{"max-value-bytes", "0", ""},
	{"max-ranges", "1", "1"},
	{"max-ranges", "65536", "65536"},
	{"max-ranges", "65537", ""},
	{"max-ranges", "99999999999999999999", ""},
	{"max-ranges", "0", ""},
	{"max-ranges", "many", ""},
}

func TestSettingsAreReadWithinTheirBounds(t *testing.T) {
	for _, tc := range settingValues {
		s, err := ParseSettings(map[string]string{tc.name: tc.in})
		if tc.out == "" {
			if status.CodeOf(err) != status.InvalidArgument || s != (Settings{}) {
				t.Errorf("%s=%s: %v, %v; want it refused", tc.name, tc.in, s.Values()[tc.name], err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s=%s: %v", tc.name, tc.in, err)
			continue
		}
		if got := s.Values()[tc.name]; got != tc.out {
			t.Errorf("%s=%s reads as %s, want %s", tc.name, tc.in, got, tc.out)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s=%s: %v", tc.name, tc.in, err)
		}
	}
}

func TestSettingErrorsNameSettingValueAndWhatIsAllowed(t *testing.T) {
	for _, tc := range []struct{ name, value, says string }{
		{
			"segment-bytes", "1KiB",
			`setting segment-bytes: "1KiB" is not allowed (it is out of bounds), ` +
				`allowed: 64KiB to 16GiB, in bytes or with KiB, MiB, GiB or TiB`,
		},
		{
			"retention-age", "5",
			`setting retention-age: "5" is not allowed (a duration is like 500ms, 90s, 1h30m or 7d), ` +
				`allowed: 0, or 1s to 36500d`,
		},
		{"ack", "all", `setting ack: "all" is not allowed (it is none of the choices), allowed: quorum, primary`},
		{
			"replicas", "9",
			`setting replicas: "9" is not allowed (it is out of bounds), allowed: auto, or a number from 1 to 7`,
		},
		{"type", "cache", `the type of a topic is fixed when it is created`},
		{"name", "x", `the name of a topic is fixed when it is created`},
		{
			"color", "red",
			`there is no setting "color", the settings are ack, fsync, replicas, segment-bytes, segment-age, ` +
				`retention-bytes, retention-age, max-value-bytes, max-ranges`,
		},
	} {
		_, err := DefaultSettings().With(map[string]string{tc.name: tc.value})
		if got := message(err); got != tc.says || status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("%s=%s:\n got %s (%s)\nwant %s", tc.name, tc.value, got, status.CodeOf(err), tc.says)
		}
	}
}

func TestSettingsChangeAllOrNone(t *testing.T) {
	before := DefaultSettings()
	s, err := before.With(map[string]string{"ack": "primary", "segment-age": "1ms"})
	if err == nil || s != (Settings{}) || before != DefaultSettings() {
		t.Errorf("one bad change of two: %+v, %v", s, err)
	}
	s, err = before.With(map[string]string{"ack": "primary", "retention-age": "7d"})
	want := before
	want.Ack, want.RetentionAge = AckPrimary, 7*24*time.Hour
	if err != nil || s != want {
		t.Errorf("two changes: %+v, %v; want %+v", s, err, want)
	}
}

func TestSettingsTextIsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSettings(t)
		back, err := ParseSettings(s.Values())
		if err != nil || back != s {
			t.Fatalf("%+v reads back as %+v, %v", s, back, err)
		}
	})
}

func TestCheckRefusesWhatTextCannotSay(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"ack":             func(s *Settings) { s.Ack = 3 },
		"fsync":           func(s *Settings) { s.Fsync = -2 },
		"fsync interval":  func(s *Settings) { s.Fsync = Fsync(1500 * time.Microsecond) },
		"replicas":        func(s *Settings) { s.Replicas = 8 },
		"segment-bytes":   func(s *Settings) { s.SegmentBytes = 0 },
		"segment-age":     func(s *Settings) { s.SegmentAge = time.Hour + 1 },
		"retention-bytes": func(s *Settings) { s.RetentionBytes = 1 << 63 },
		"retention-age":   func(s *Settings) { s.RetentionAge = -time.Hour },
		"max-value-bytes": func(s *Settings) { s.MaxValueBytes = record.MaxValueBound + 1 },
		"max-ranges":      func(s *Settings) { s.MaxRanges = 0 },
	} {
		s := DefaultSettings()
		change(&s)
		if err := s.Check(); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachSettingIsDocumented(t *testing.T) {
	for _, row := range SettingsTable() {
		if row.Name == "" || row.Default == "" || row.Allowed == "" || row.Meaning == "" {
			t.Errorf("row %+v is not complete", row)
		}
		if got := DefaultSettings().Values()[row.Name]; got != row.Default {
			t.Errorf("%s: default %s, documented %s", row.Name, got, row.Default)
		}
	}
}

func drawSettings(t *rapid.T) Settings {
	millis := func(low, high time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.Int64Range(low.Milliseconds(), high.Milliseconds()), func(ms int64) time.Duration {
			return time.Duration(ms) * time.Millisecond
		})
	}
	return Settings{
		Ack: rapid.SampledFrom([]Ack{AckQuorum, AckPrimary}).Draw(t, "ack"),
		Fsync: rapid.OneOf(
			rapid.SampledFrom([]Fsync{FsyncAlways, FsyncNever}),
			rapid.Map(millis(time.Millisecond, time.Hour), func(d time.Duration) Fsync { return Fsync(d) }),
		).Draw(t, "fsync"),
		Replicas:       rapid.Uint8Max(MaxReplicas).Draw(t, "replicas"),
		SegmentBytes:   rapid.Uint64Range(64<<10, 16<<30).Draw(t, "segment bytes"),
		SegmentAge:     millis(time.Second, 30*day).Draw(t, "segment age"),
		RetentionBytes: rapid.Uint64Range(0, 1<<50).Draw(t, "retention bytes"),
		RetentionAge: rapid.OneOf(
			rapid.Just(time.Duration(0)), millis(time.Second, 36_500*day),
		).Draw(t, "retention age"),
		MaxValueBytes: rapid.Uint64Range(1, record.MaxValueBound).Draw(t, "max value"),
		MaxRanges:     rapid.Uint32Range(1, MaxRanges).Draw(t, "max ranges"),
	}
}
