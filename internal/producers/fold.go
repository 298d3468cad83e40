package producers

import (
	"fmt"

	"github.com/quirelog/quire/internal/batch"
)

// Fold takes a stored batch of the range's log into the state: the batches of
// producers, and of the broker's control batches what Carry and CloseRecord
// made. Others say nothing here. Batches come whole, in the order of the log,
// and each once, from a segment's head on. Errors wrap those of package batch,
// ErrCorrupt or ErrLog; the state is of no use then.
func (s *State) Fold(stored []byte) error {
	var r batch.Reader
	if err := r.Reset(stored); err != nil {
		return fmt.Errorf("fold producers: %w", err)
	}
	h := r.Header()
	var err error
	switch p, has := r.Producer(); {
	case h.Kind == batch.Control:
		err = s.foldControl(&r)
	case h.Kind == batch.Data && has:
		err = s.foldData(&r, &p)
	}
	if err != nil {
		return fmt.Errorf("fold producers at offset %d: %w", h.Base, err)
	}
	return nil
}

func (s *State) foldData(r *batch.Reader, p *batch.Producer) error {
	if s.pending != nil {
		return fmt.Errorf("%w: records behind %d parts of a state", ErrLog, s.pending.parts)
	}
	h := r.Header()
	records, err := AppendRecords(make([]Record, 0, h.Count), r)
	if err != nil {
		return err
	}
	return s.Accept(p, records, h.Epoch, h.Base, h.AppendTime)
}

func (s *State) foldControl(r *batch.Reader) error {
	for r.Next() {
		var err error
		switch v := r.Record(); string(v.Key) {
		case CarryKey:
			err = s.foldPart(v.Value)
		case CloseKey:
			err = s.foldClose(v.Value)
		}
		if err != nil {
			return err
		}
	}
	return r.Err()
}
