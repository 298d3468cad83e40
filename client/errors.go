package client

import (
	"context"
	"errors"

	"github.com/quirelog/quire/status"
)

// ErrClosed is in the chain of the errors of calls on a closed [Client],
// [Producer] or [Subscription].
var ErrClosed = errors.New("closed")

func closedError(what string) error {
	return &status.Error{Code: status.Canceled, Message: "the " + what + " is closed", Err: ErrClosed}
}

func invalid(format string, args ...any) error {
	return status.New(status.InvalidArgument, format, args...)
}

// brokenError is why a connection ended. It never reaches users as it is: a
// request that was not sent is tried again, another becomes unknownOutcome.
type brokenError struct {
	cause error
	// sent says that the broker may have the whole request.
	sent bool
}

func (e *brokenError) Error() string { return "the connection broke: " + e.cause.Error() }

func (e *brokenError) Unwrap() error { return e.cause }

// asBroken gives the *brokenError in err's chain, if there is one.
func asBroken(err error) (*brokenError, bool) {
	var b *brokenError
	ok := errors.As(err, &b)
	return b, ok
}

// movedError refuses a batch because it has to be cut otherwise.
type movedError struct {
	err  *status.Error
	cuts []uint64
}

func (e *movedError) Error() string { return e.err.Error() }

func (e *movedError) Unwrap() error { return e.err }

// outcome is what a caller is told of err, which may be a *brokenError.
func outcome(err error, write bool) error {
	broken, is := asBroken(err)
	switch {
	case !is:
		return err
	case broken.sent && write:
		return unknown("no answer to a request that was sent", broken.cause)
	default:
		return asStatus(status.Unavailable, broken.cause)
	}
}

func unknown(what string, cause error) error {
	return &status.Error{Code: status.Unknown, Message: what + ": " + cause.Error(), Err: cause}
}

// afterUnknown is what a caller is told of err if an earlier try of the same
// write had no answer: whatever became of this one, that may have been made.
func afterUnknown(err error) error {
	if err == nil || status.CodeOf(err) == status.Unknown {
		return err
	}
	return unknown("no answer to a request that was sent, and then", err)
}

// contextError says that ctx ended while the client did what is said. It
// keeps context.Canceled or context.DeadlineExceeded in its chain.
func contextError(ctx context.Context, doing string) error {
	code, what := status.Canceled, "canceled"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code, what = status.Timeout, "timed out"
	}
	return &status.Error{Code: code, Message: what + " while " + doing, Err: ctx.Err()}
}

// asStatus gives every error that leaves the package its code.
func asStatus(code status.Code, err error) error {
	var e *status.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &status.Error{Code: code, Message: err.Error(), Err: err}
}
