package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/batch"
)

// pieceReader gives the bytes of a file at a position: n of them, or fewer
// where the file ends or cannot be read.
type pieceReader func(pos, n int64) ([]byte, error)

// pieces reads from a file into a buffer that is used again.
func pieces(f vfs.File) pieceReader {
	var buf []byte
	return func(pos, n int64) ([]byte, error) {
		if int64(cap(buf)) < n {
			buf = make([]byte, n)
		}
		got, err := f.ReadAt(buf[:n], pos)
		if got < int(n) && err != nil && !errors.Is(err, io.EOF) {
			return buf[:got], err
		}
		return buf[:got], nil
	}
}

// verify walks every batch of a segment up to want: its checksums, its place
// and its chain. It gives how far all is good, and where that is short of want
// the damage.
func verify(name string, m *Meta, want tip, read pieceReader) (tip, error) {
	const window = batch.MaxSize + 1<<20
	good := m.startTip()
	for good.length < want.length {
		buf, rerr := read(good.length, min(window, want.length-good.length))
		used := 0
		for used < len(buf) {
			b := buf[used:]
			h, err := batch.ParseHeader(b)
			switch {
			case err != nil && len(b) < batch.HeaderSize && used > 0:
			case err != nil:
				return good, corrupt(name, good.length, "%v", err)
			case int(h.Size) > len(b) && used > 0:
				err = errShort
			case int(h.Size) > len(b):
				return good, corrupt(name, good.length, "the file ends within a batch: %v", rerr)
			}
			if err != nil {
				break
			}
			b = b[:h.Size]
			if _, err := batch.Check(b); err != nil {
				return good, corrupt(name, good.length, "%v", err)
			}
			if !good.continues(m, &h) {
				return good, corrupt(name, good.length, "a batch at offset %d does not continue the chain at %d", h.Base, good.tail.Base)
			}
			good.advance(&h, b)
			used += len(b)
		}
		if used == 0 {
			return good, corrupt(name, good.length, "it ends before byte %d, through which it was durable: %v", want.length, rerr)
		}
	}
	if want.first == 0 {
		want.first = good.first // it was not known yet
	}
	if good != want {
		return good, corrupt(name, good.length, "it ends at offset %d, and offset %d was durable", good.tail.Base, want.tail.Base)
	}
	return good, nil
}

// Scrub reads every segment from beginning to durable end, at most rate bytes
// a second (0: as fast as it goes), and reports each damage. It returns early
// when ctx ends or the store closes.
func (s *Store) Scrub(ctx context.Context, rate int64, report func(error)) error {
	for _, info := range s.Segments() {
		g, ok := s.Segment(info.ID)
		if !ok {
			continue
		}
		if err := g.scrub(paced(ctx, s.closeRequested, rate)); err != nil {
			if ctx.Err() != nil || s.closing() {
				return ctx.Err()
			}
			if _, still := s.Segment(info.ID); still {
				report(err)
			}
		}
	}
	return nil
}

// scrub verifies one segment up to what is durable now.
func (g *Segment) scrub(pace func(int64) error) error {
	g.mu.Lock()
	want, sealed, lost := g.durable, g.sealed, g.lost
	g.mu.Unlock()
	if want.length == headerSize && !sealed {
		return nil
	}
	f, err := g.store.handles.get(g)
	if err != nil {
		return err
	}
	defer g.store.handles.put(g)
	header := encodeHeader(g.store.id, g.instance, &g.meta)
	if err := expect(f, g.path, 0, header, "its header"); err != nil {
		return err
	}
	read := pieces(f)
	_, err = verify(g.path, &g.meta, want, func(pos, n int64) ([]byte, error) {
		if err := pace(n); err != nil {
			return nil, err
		}
		return read(pos, n)
	})
	if err == nil && sealed {
		footer := encodeFooter(g.store.id, g.instance, g.meta.ID, &want, lost)
		err = expect(f, g.path, want.length, footer, "its footer")
	}
	return err
}

// expect checks that a file has the given bytes at a position.
func expect(f vfs.File, name string, at int64, want []byte, what string) error {
	got := make([]byte, len(want))
	if n, err := f.ReadAt(got, at); n < len(got) || string(got) != string(want) {
		return corrupt(name, at, "%s is not the one that was written (%v)", what, err)
	}
	return nil
}

// paced gives a function that waits so that no more than rate bytes a second
// pass it.
func paced(ctx context.Context, closed <-chan struct{}, rate int64) func(int64) error {
	return func(n int64) error {
		if rate <= 0 {
			return ctx.Err()
		}
		t := time.NewTimer(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-closed:
			return fmt.Errorf("scrub: %w", errClosed)
		}
	}
}
