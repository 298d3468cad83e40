package demo

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"

	"github.com/quirelog/quire/record"
)

// The earthquakes of 2016. ANSS composite catalogue, via NCEDC,
// doi:10.7932/NCEDC.
//
//go:embed data/earthquakes-2016.csv.gz
var compressed []byte

// Source is the acknowledgement that goes with the data.
const Source = "ANSS composite catalogue, via NCEDC, doi:10.7932/NCEDC"

// quakes are the earthquakes as records: the line of the catalogue, and as key
// the seismic network that reported it. A third of them share one key, so the
// load is skewed as real load is.
type quakes struct {
	records []record.Record
	bytes   int
	// perKey has for each key the indices of its records, in order.
	perKey map[string][]int
}

func load() (*quakes, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("embedded data: %w", err)
	}
	text, err := io.ReadAll(unzip)
	if err != nil {
		return nil, fmt.Errorf("embedded data: %w", err)
	}
	return parse(text)
}

// parse reads a catalogue. No field of it holds a line end.
func parse(text []byte) (*quakes, error) {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("embedded data: %w", err)
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if len(lines) != len(rows) {
		return nil, fmt.Errorf("embedded data: %d rows in %d lines", len(rows), len(lines))
	}
	source := -1
	for i, name := range rows[0] {
		if name == "Source" {
			source = i
		}
	}
	if source < 0 {
		return nil, fmt.Errorf("embedded data: no field Source")
	}
	q := &quakes{perKey: map[string][]int{}}
	for i, line := range lines[1:] {
		key := rows[i+1][source]
		q.records = append(q.records, record.Record{Key: []byte(key), Value: line})
		q.perKey[key] = append(q.perKey[key], i)
		q.bytes += len(key) + len(line)
	}
	return q, nil
}
