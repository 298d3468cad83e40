package catalog

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

var sizeUnits = []struct {
	suffix string
	shift  uint
}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}

var (
	errSize     = errors.New("a size is a whole number of bytes, or one with KiB, MiB, GiB or TiB")
	errDuration = errors.New("a duration is like 500ms, 90s, 1h30m or 7d")
	errMillis   = errors.New("a duration is a whole number of milliseconds")
)

// ParseSize reads a number of bytes, plain or with the suffix KiB, MiB, GiB or
// TiB.
func ParseSize(text string) (uint64, error) {
	digits, shift := text, uint(0)
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(text, u.suffix); ok {
			digits, shift = d, u.shift
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || uint(bits.LeadingZeros64(n)) < shift {
		return 0, errSize
	}
	return n << shift, nil
}

// FormatSize writes a number of bytes with the largest suffix that leaves it
// whole. ParseSize reads it.
func FormatSize(n uint64) string {
	for _, u := range sizeUnits {
		if n != 0 && n%(1<<u.shift) == 0 {
			return strconv.FormatUint(n>>u.shift, 10) + u.suffix
		}
	}
	return strconv.FormatUint(n, 10)
}

// canonicalSize turns the text of the table into bytes.
func canonicalSize(text string) string {
	n, err := ParseSize(text)
	if err != nil {
		panic("catalog: size " + text)
	}
	return strconv.FormatUint(n, 10)
}

// ParseDuration reads a duration in Go's syntax, where whole days may come
// first: 7d, 1d12h. It is not negative and has whole milliseconds, which is
// what the format keeps.
func ParseDuration(text string) (time.Duration, error) {
	var days time.Duration
	rest := text
	if head, tail, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(head, 10, 16)
		if err != nil {
			return 0, errDuration
		}
		days, rest = time.Duration(n)*day, tail
		if rest == "" {
			rest = "0"
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || days+d < 0 || strings.ContainsAny(text, "+-") {
		return 0, errDuration
	}
	if d%time.Millisecond != 0 {
		return 0, errMillis
	}
	return days + d, nil
}

// formatDuration is the canonical text: whole days as days, anything else as
// Go writes it, without units that are zero at its end.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	if d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
