package catalog

import "strconv"

// maxQuoted bounds how much of a user's text an error repeats.
const maxQuoted = 64

// quote repeats a user's text in an error: quoted, and cut when it is long.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:maxQuoted]) + "…"
}
