package control

import (
	"fmt"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// The kinds of records of a log of before Raft: the first byte of each value.
const (
	entrySnapshot = 's'
	entryCommand  = 'c'
)

// loadBeforeRaft reads a log of before Raft: the snapshot of the catalog, then
// the commands. A command that the catalog refuses now was refused when it was
// first applied.
func loadBeforeRaft(store *segment.Store, info segment.Info) (*catalog.State, error) {
	l := loader{snapshot: catalog.NewLoader()}
	if err := eachRecord(store, info, l.entry); err != nil {
		return nil, err
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
