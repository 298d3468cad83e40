package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/quirelog/quire/record"
)

// jsonSource reads one JSON object a line, with key, value, headers and time
// as `quire consume --json` prints them, so that its output can be produced
// again.
type jsonSource struct {
	in  *lineReader
	key []byte
}

// jsonRecord is one line. Type and AppendTime are there because consume prints
// them.
type jsonRecord struct {
	Type       string          `json:"type"`
	Key        *jsonText       `json:"key"`
	Value      *jsonText       `json:"value"`
	Headers    json.RawMessage `json:"headers"`
	Time       *time.Time      `json:"time"`
	AppendTime *time.Time      `json:"append_time"`
}

func (s *jsonSource) next() (item, error) {
	for {
		line, err := s.in.next(maxLine)
		if err != nil {
			return item{}, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if s.skips(line) {
			continue
		}
		rec, err := s.parse(line)
		if err != nil {
			return item{}, malformed(s.in.line, "%w", err)
		}
		return item{rec, s.in.line}, nil
	}
}

// skips says whether line is one of the other objects that consume prints.
func (s *jsonSource) skips(line []byte) bool {
	if !bytes.Contains(line, []byte(`"type"`)) {
		return false
	}
	var kind struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(line, &kind) == nil && (kind.Type == "cursor" || kind.Type == "gap")
}

func (s *jsonSource) parse(line []byte) (record.Record, error) {
	if !utf8.Valid(line) {
		return record.Record{}, errors.New(`it is not UTF-8: write other bytes as {"base64": "…"}`)
	}
	var in jsonRecord
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return record.Record{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return record.Record{}, errors.New("there is more than one JSON value in it")
	}
	if in.Type != "" && in.Type != "record" {
		return record.Record{}, errors.New(`"type" is not "record"`)
	}
	headers, err := parseHeaders(in.Headers)
	rec := record.Record{Key: s.key, Headers: headers}
	if in.Key != nil {
		rec.Key = in.Key.bytes
	}
	if in.Value != nil {
		rec.Value = in.Value.bytes
	}
	if in.Time != nil {
		rec.Time = *in.Time
	}
	return rec, err
}

// jsonText is bytes in JSON: a string, or {"base64": "…"}.
type jsonText struct{ bytes []byte }

func (t *jsonText) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		t.bytes = []byte(s)
		return nil
	}
	var o struct {
		Base64 *[]byte `json:"base64"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil || o.Base64 == nil {
		return errors.New(`keys and values are strings or {"base64": "…"}`)
	}
	t.bytes = *o.Base64
	return nil
}

// parseHeaders reads an object of values, in its order. An array stands for
// several headers of one name.
func parseHeaders(raw json.RawMessage) ([]record.Header, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New(`"headers" is not an object`)
	}
	var headers []record.Header
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		values := []jsonText{{}}
		if value[0] == '[' {
			err = json.Unmarshal(value, &values)
		} else {
			err = json.Unmarshal(value, &values[0])
		}
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			headers = append(headers, record.Header{Key: name.(string), Value: v.bytes})
		}
	}
	return headers, nil
}
