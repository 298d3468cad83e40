package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/quirelog/quire/record"
)

// printJSON writes v as one line.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows under a heading, aligned.
func (a *app) table(heading string, rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(heading, " ", "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// jsonTime is how times appear in JSON and in tables.
func jsonTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// jsonBytes appends b as JSON: null for nil, a string if it is UTF-8, and
// {"base64":"…"} otherwise.
func jsonBytes(dst, b []byte) []byte {
	switch {
	case b == nil:
		return append(dst, "null"...)
	case utf8.Valid(b):
		return jsonString(dst, string(b))
	}
	dst = append(dst, `{"base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, `"}`...)
}

// jsonString appends s, which is UTF-8, as a JSON string.
func jsonString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}

// jsonHeaders appends headers as one object. A name that repeats has an array
// of its values.
func jsonHeaders(dst []byte, headers []record.Header) []byte {
	dst = append(dst, '{')
	first := true
	for i, h := range headers {
		if seenBefore(headers, i) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = jsonString(dst, strings.ToValidUTF8(h.Key, "\ufffd"))
		dst = append(dst, ':')
		dst = jsonHeaderValues(dst, headers[i:])
	}
	return append(dst, '}')
}

func seenBefore(headers []record.Header, i int) bool {
	for _, h := range headers[:i] {
		if h.Key == headers[i].Key {
			return true
		}
	}
	return false
}

// jsonHeaderValues appends the values of all headers named as the first is.
func jsonHeaderValues(dst []byte, headers []record.Header) []byte {
	at, n := len(dst), 0
	dst = append(dst, '[')
	for _, h := range headers {
		if h.Key != headers[0].Key {
			continue
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		value := h.Value
		if value == nil {
			value = []byte{}
		}
		dst = jsonBytes(dst, value)
		n++
	}
	if n == 1 {
		return append(dst[:at], dst[at+1:]...)
	}
	return append(dst, ']')
}
