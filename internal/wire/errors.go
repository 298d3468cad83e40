package wire

import (
	"context"
	"errors"
	"strings"

	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// maxErrorMessage bounds the text of an Error message. Texts name what the
// client sent, which may be long.
const maxErrorMessage = 4 << 10

// ErrorMessage is the message for err, which is not nil. An error that has no
// code is internal, unless it is that of a context.
func ErrorMessage(err error) *quirev1.Error {
	e := asStatus(err)
	text := e.Message
	if len(text) > maxErrorMessage {
		text = text[:maxErrorMessage] + "…"
	}
	// Other languages refuse strings that are not UTF-8, and a text may quote
	// bytes that a client sent.
	return &quirev1.Error{Code: string(e.Code), Message: strings.ToValidUTF8(text, "\uFFFD")}
}

func asStatus(err error) *status.Error {
	var e *status.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return status.New(status.Canceled, "the request was canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(status.Timeout, "the request ran out of time")
	}
	return &status.Error{Code: status.Internal, Message: err.Error(), Err: err}
}

// StatusError is the error that m stands for. A code that this program does
// not know is kept; one that is missing is internal.
func StatusError(m *quirev1.Error) *status.Error {
	code := status.Code(m.GetCode())
	if code == "" {
		code = status.Internal
	}
	text := m.GetMessage()
	if text == "" {
		text = status.Lookup(code).What
	}
	return &status.Error{Code: code, Message: text}
}
