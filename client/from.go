package client

import (
	"fmt"
	"time"
)

// From says where a reading begins. The zero value is [Start].
type From struct {
	kind   fromKind
	time   time.Time
	cursor string
}

type fromKind uint8

const (
	fromStart fromKind = iota
	fromEnd
	fromTime
	fromCursor
)

// Start begins at the oldest record that the topic still has.
func Start() From { return From{} }

// End begins after the newest record: only what comes later is read.
func End() From { return From{kind: fromEnd} }

// At begins at the first record that the broker appended at t or later.
func At(t time.Time) From { return From{kind: fromTime, time: t} }

// Cursor continues exactly where the reading was that gave the cursor.
func Cursor(cursor string) From { return From{kind: fromCursor, cursor: cursor} }

// String describes f for a log line.
func (f From) String() string {
	switch f.kind {
	case fromEnd:
		return "end"
	case fromTime:
		return f.time.Format(time.RFC3339Nano)
	case fromCursor:
		return fmt.Sprintf("cursor %s", f.cursor)
	default:
		return "start"
	}
}
