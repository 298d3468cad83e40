package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// source yields the records of an input, one after the other, until io.EOF.
// The records it gives are the caller's.
type source interface {
	next() (item, error)
}

// item is a record and the line of the input at which it begins, from 1.
type item struct {
	rec  record.Record
	line uint64
}

// maxLine bounds what one record may take in the input: the largest value that
// a topic can take, with room for a key, headers and the escapes of JSON.
const maxLine = 2*record.MaxValueBound + 1<<20

// lineReader cuts an input into lines and counts them. A line ends with LF or
// CRLF, or with the input.
type lineReader struct {
	in   *bufio.Reader
	line uint64
	// long is where a line is put together that is longer than in's buffer.
	long []byte
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 256<<10)}
}

// next returns the next line with its end, valid until the call after it. room
// is how many bytes it may have.
func (r *lineReader) next(room int) ([]byte, error) {
	r.line++
	line, err := r.in.ReadSlice('\n')
	if err == nil && len(line) <= room {
		return line, nil
	}
	r.long = append(r.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) && len(r.long) <= room {
		line, err = r.in.ReadSlice('\n')
		r.long = append(r.long, line...)
	}
	switch {
	case len(r.long) > room:
		return nil, status.New(status.RecordTooLarge,
			"line %d: the record goes on for more than %d bytes", r.line, maxLine)
	case errors.Is(err, io.EOF) && len(r.long) > 0:
		return r.long, nil
	case err == nil:
		return r.long, nil
	}
	return nil, err
}

// idle says that reading on may wait for more input.
func (r *lineReader) idle() bool { return r.in.Buffered() == 0 }

// chomp cuts the line end off.
func chomp(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}

// lineSource makes each line a value.
type lineSource struct {
	in  *lineReader
	key []byte
}

func (s *lineSource) next() (item, error) {
	line, err := s.in.next(maxLine)
	if err != nil {
		return item{}, err
	}
	value := append([]byte{}, chomp(line)...)
	return item{record.Record{Key: s.key, Value: value}, s.in.line}, nil
}

// malformed is the error of an input that does not have the format that was
// asked for.
func malformed(line uint64, format string, args ...any) error {
	err := status.New(status.InvalidArgument, format, args...)
	err.Message = "line " + number(line) + ": " + err.Message
	return withHint(err, "correct the input, or choose its format with --format")
}
