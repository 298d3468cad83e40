package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
)

// printer writes records to stdout through a buffer. Where somebody follows,
// what is in the buffer is written after a moment, also when nothing comes
// after it.
type printer struct {
	json   bool
	keys   bool
	follow bool
	stderr io.Writer
	// stop ends the reading: nobody takes what it would print.
	stop func()

	mu    sync.Mutex
	out   *bufio.Writer
	line  []byte
	armed bool
}

// soon is how long a record may stay in the buffer while somebody follows.
const soon = 10 * time.Millisecond

func (a *app) newPrinter(f consumeFlags, stop func()) *printer {
	return &printer{
		json: a.json, keys: f.format == "kv", follow: f.follow,
		stderr: a.stderr, stop: stop, out: bufio.NewWriterSize(a.stdout, 64<<10),
	}
}

// record prints one record.
func (p *printer) record(rec record.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = p.line[:0]
	switch {
	case p.json:
		p.line = recordJSON(p.line, rec)
	case p.keys:
		p.line = append(append(append(p.line, rec.Key...), '\t'), rec.Value...)
	default:
		p.line = append(p.line, rec.Value...)
	}
	return p.write(append(p.line, '\n'))
}

// recordJSON appends the object of a record.
func recordJSON(dst []byte, rec record.Record) []byte {
	dst = jsonBytes(append(dst, `{"type":"record","key":`...), rec.Key)
	value := rec.Value
	if value == nil {
		value = []byte{}
	}
	dst = jsonBytes(append(dst, `,"value":`...), value)
	dst = jsonHeaders(append(dst, `,"headers":`...), rec.Headers)
	dst = append(append(dst, `,"time":"`...), jsonTime(rec.Time)...)
	dst = append(append(dst, `","append_time":"`...), jsonTime(rec.AppendTime)...)
	return append(dst, `"}`...)
}

// gap reports records that are missing: in their place in JSON, on stderr
// otherwise.
func (p *printer) gap(g client.Gap) error {
	if !p.json {
		_, err := fmt.Fprintf(p.stderr, "quire: gap: %s\n", g)
		return err
	}
	out := struct {
		Type    string  `json:"type"`
		Reason  string  `json:"reason"`
		Records *uint64 `json:"records"`
	}{Type: "gap", Reason: g.Reason}
	if g.Known {
		out.Records = &g.Records
	}
	line, err := json.Marshal(out)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write(append(line, '\n'))
}

// write puts line into the buffer. Its caller holds mu.
func (p *printer) write(line []byte) error {
	if _, err := p.out.Write(line); err != nil {
		return err
	}
	if p.follow && !p.armed {
		p.armed = true
		time.AfterFunc(soon, func() {
			if p.flush() != nil {
				p.stop()
			}
		})
	}
	return nil
}

// flush writes what is in the buffer. An error is kept there and comes back
// with the next write and the next flush.
func (p *printer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	return p.out.Flush()
}
