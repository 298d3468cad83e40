package lineage

import (
	"fmt"

	"github.com/quirelog/quire/internal/ident"
)

// Step is how far an entry has been read: everything before Next, in an epoch.
// Hidden is as in Place.
type Step struct {
	Epoch  ident.Epoch
	Next   ident.Offset
	Hidden uint64
}

// Advance is the token after the entry of the cursor has moved. For more than one
// step a Tracker is cheaper.
func Advance(token string, entry int, to Step) (string, error) {
	t, err := NewTracker(token)
	if err != nil {
		return "", err
	}
	if err := t.Advance(entry, to); err != nil {
		return "", err
	}
	return t.Token(), nil
}

// Tracker moves a cursor record by record and writes its token only when
// somebody asks for it. It is not safe for concurrent use.
type Tracker struct {
	cursor Cursor
	token  string // empty when the cursor has moved on
}

// NewTracker begins at a token.
func NewTracker(token string) (*Tracker, error) {
	c, err := Decode(token)
	if err != nil {
		return nil, err
	}
	return &Tracker{cursor: c, token: token}, nil
}

// Advance moves an entry.
func (t *Tracker) Advance(entry int, to Step) error {
	if entry < 0 || entry >= len(t.cursor.Entries) {
		return fmt.Errorf("%w: entry %d of %d", ErrMalformed, entry, len(t.cursor.Entries))
	}
	p := &t.cursor.Entries[entry].Place
	p.Epoch, p.Offset, p.Hidden = to.Epoch, to.Next, to.Hidden
	t.token = ""
	return nil
}

// Token is the token of where the cursor is now.
func (t *Tracker) Token() string {
	if t.token == "" {
		t.token = t.cursor.Encode()
	}
	return t.token
}
