package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Step is one step of the story.
type Step struct {
	// Name names the step for programs, Title for people.
	Name  string
	Title string
	// Lines are what people read.
	Lines []string
	// Facts are the same for programs. The keys are stable.
	Facts map[string]any
}

// say adds a line.
func (s *Step) say(format string, args ...any) {
	s.Lines = append(s.Lines, fmt.Sprintf(format, args...))
}

// Text is the step as a person reads it.
func (s Step) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Title)
	for _, line := range s.Lines {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	return b.String()
}

// count writes a number with its thousands apart.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// span writes a duration with three digits.
func span(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	default:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	}
}

// rate writes how many a second there were.
func rate(n int, d time.Duration) string {
	per := float64(n) / max(d.Seconds(), 1e-6)
	if per > 10_000 {
		per = float64(int(per/1000) * 1000)
	}
	return count(int(per)) + " a second"
}

// size writes a number of bytes.
func size(n int) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// quantile is the value below which a part q of the values lie.
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

func micros(d time.Duration) int64 { return d.Microseconds() }
