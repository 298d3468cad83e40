package control

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// logBit marks the segments that hold the catalog's log: the catalog itself
// never gives out an id with it.
const logBit ident.SegmentID = 1 << 63

// The kinds of entries: the first byte of each record's value.
const (
	entrySnapshot = 's'
	entryCommand  = 'c'
)

// errUnfinished: a log does not begin with a whole snapshot.
var errUnfinished = errors.New("the log has no whole snapshot")

// logSegments lists the store's logs, oldest first.
func logSegments(store *segment.Store) []segment.Info {
	return slices.DeleteFunc(store.Segments(), func(i segment.Info) bool { return i.ID&logBit == 0 })
}

// load reads a log: the snapshot, then the commands. A command that the
// catalog refuses now was refused when it was first applied.
func load(store *segment.Store, info segment.Info) (*catalog.State, error) {
	log, ok := store.Segment(info.ID)
	if !ok {
		return nil, fmt.Errorf("segment %v is gone", info.ID)
	}
	l := loader{snapshot: catalog.NewLoader()}
	var r batch.Reader
	for at := info.Base; at < info.Tail.Base; {
		batches, err := log.Read(at, segment.Limit{Bytes: 4 << 20, Records: math.MaxInt32})
		if err != nil {
			return nil, err
		}
		for _, b := range batches.List {
			if err := r.Reset(b); err != nil {
				return nil, err
			}
			for r.Next() {
				if err := l.entry(r.Record().Value); err != nil {
					return nil, fmt.Errorf("entry %d of %v: %w", r.Record().Offset, info.ID, err)
				}
			}
			if err := r.Err(); err != nil {
				return nil, err
			}
			at = r.Header().End()
		}
	}
	if err := l.finishSnapshot(); err != nil {
		return nil, err
	}
	return l.state, nil
}

type loader struct {
	snapshot *catalog.Loader
	state    *catalog.State
}

func (l *loader) entry(v []byte) error {
	if len(v) == 0 {
		return status.New(status.DataCorrupt, "an empty entry")
	}
	switch v[0] {
	case entrySnapshot:
		return l.snapshot.Add(v[1:])
	case entryCommand:
		if err := l.finishSnapshot(); err != nil {
			return err
		}
		cmd, err := catalog.UnmarshalCommand(v[1:])
		if err != nil {
			return err
		}
		_, _ = l.state.Apply(cmd)
		return nil
	default:
		return status.New(status.DataNewer, "an entry of kind %q, which this program does not know", v[0])
	}
}

func (l *loader) finishSnapshot() error {
	if l.state != nil {
		return nil
	}
	state, err := l.snapshot.State()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnfinished, err)
	}
	l.state = state
	return nil
}
