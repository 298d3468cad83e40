package cli

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/quirelog/quire/record"
)

// csvSource makes each record of a CSV input (RFC 4180) a value: the text as
// it stood, without its line end. The first record names the fields. Quoted
// fields may hold line ends, so a record may be several lines. encoding/csv
// would give the fields but not the text that they were made from.
type csvSource struct {
	in *lineReader
	// keyField is the field that is the key, by name or number; empty for
	// records that all have the same key, or none.
	keyField string
	key      []byte
	// field is the index of keyField, once the names were read; -1 for none.
	field int
	named bool
	rec   csvRecord
}

func (s *csvSource) next() (item, error) {
	if !s.named {
		if err := s.names(); err != nil {
			return item{}, err
		}
		s.named = true
	}
	line, err := s.read()
	if err != nil {
		return item{}, err
	}
	rec := record.Record{Key: s.key, Value: append([]byte{}, s.rec.text...)}
	if s.field >= 0 {
		if s.field >= len(s.rec.ends) {
			return item{}, malformed(line, "the record has %d fields, the key is field %d",
				len(s.rec.ends), s.field+1)
		}
		rec.Key = s.rec.field(s.field)
	}
	return item{rec, line}, nil
}

// names reads the names of the fields and finds the key's.
func (s *csvSource) names() error {
	line, err := s.read()
	if err != nil {
		return err
	}
	s.field = -1
	if s.keyField == "" {
		return nil
	}
	names := make([]string, len(s.rec.ends))
	for i := range names {
		names[i] = string(s.rec.field(i))
	}
	for i, name := range names {
		if name == s.keyField {
			s.field = i
			return nil
		}
	}
	if n, err := strconv.Atoi(s.keyField); err == nil && n >= 1 && n <= len(names) {
		s.field = n - 1
		return nil
	}
	return withHint(usage("line %d names no field %q, and has %d fields", line, s.keyField, len(names)),
		"the fields are %s", strings.Join(names, ", "))
}

// read reads the next record that is not an empty line, and returns the line
// at which it begins.
func (s *csvSource) read() (uint64, error) {
	for {
		line, err := s.in.next(maxLine)
		if err != nil {
			return 0, err
		}
		begin := s.in.line
		if begin == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(chomp(line)) == 0 {
			continue
		}
		s.rec.reset()
		for {
			more, ok := s.rec.scan(line)
			if !ok {
				return 0, malformed(s.in.line, "field %d goes on after its closing quote", len(s.rec.ends)+1)
			}
			if !more {
				return begin, nil
			}
			line, err = s.in.next(maxLine - len(s.rec.text))
			if errors.Is(err, io.EOF) {
				return 0, malformed(begin, "the quote that opens field %d is never closed", len(s.rec.ends)+1)
			}
			if err != nil {
				return 0, err
			}
		}
	}
}

// csvRecord is one record that is read line by line.
type csvRecord struct {
	text []byte
	// ends are where the fields end; each begins after the comma before it.
	ends  []int
	state csvState
}

// csvState is where in a field the scanner stands.
type csvState uint8

const (
	atField csvState = iota
	inPlain
	inQuotes
	// afterQuote: at a quote within quotes, which closes the field or is the
	// first of two that stand for one.
	afterQuote
)

func (r *csvRecord) reset() { r.text, r.ends, r.state = r.text[:0], r.ends[:0], atField }

// scan takes the record's next line. more says that the record goes on in the
// line after it; ok is false where a quoted field goes on after its quote. A
// quote within a field that does not begin with one is text.
func (r *csvRecord) scan(line []byte) (more, ok bool) {
	at := len(r.text)
	r.text = append(r.text, line...)
	for i, c := range line {
		switch {
		case r.state == inQuotes:
			if c == '"' {
				r.state = afterQuote
			}
		case c == ',':
			r.ends = append(r.ends, at+i)
			r.state = atField
		case c == '"' && r.state != inPlain:
			r.state = inQuotes
		case r.state == afterQuote && c != '\r' && c != '\n':
			return false, false
		case r.state == atField:
			r.state = inPlain
		}
	}
	if r.state == inQuotes {
		return true, true
	}
	r.text = chomp(r.text)
	r.ends = append(r.ends, len(r.text))
	return false, true
}

// field returns a copy of the text of a field, without its quotes.
func (r *csvRecord) field(i int) []byte {
	begin := 0
	if i > 0 {
		begin = r.ends[i-1] + 1
	}
	text := append([]byte{}, r.text[begin:r.ends[i]]...)
	if len(text) < 2 || text[0] != '"' {
		return text
	}
	text = text[1 : len(text)-1]
	if bytes.IndexByte(text, '"') >= 0 {
		text = bytes.ReplaceAll(text, []byte(`""`), []byte{'"'})
	}
	return text
}
