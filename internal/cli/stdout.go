package cli

import (
	"errors"
	"io"
	"syscall"

	"github.com/quirelog/quire/status"
)

// errPipe says that the reader of stdout went away, as head does when it has
// enough. It ends a command quietly.
var errPipe = errors.New("stdout was closed")

func isPipe(err error) bool { return errors.Is(err, errPipe) }

// answer is stdout. It tells a reader that went away from other failures, and
// both from those of the network.
type answer struct{ w io.Writer }

func (a *answer) Write(p []byte) (int, error) {
	n, err := a.w.Write(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe):
		return n, errPipe
	}
	err = status.New(status.Internal, "cannot write the answer: %w", err)
	return n, withHint(err, "see where stdout goes")
}
