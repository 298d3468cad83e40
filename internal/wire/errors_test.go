package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

func TestErrorsKeepCodeAndTextOverTheWire(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code status.Code
		text string
	}{
		{status.New(status.TopicNotFound, "no topic %q", "orders"), status.TopicNotFound, `no topic "orders"`},
		{fmt.Errorf("describe: %w", status.New(status.DiskFull, "full")), status.DiskFull, "full"},
		{context.Canceled, status.Canceled, "the request was canceled"},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), status.Timeout, "the request ran out of time"},
		{errors.New("broken"), status.Internal, "broken"},
	} {
		encoded, err := ErrorMessage(tc.err).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		var m quirev1.Error
		if err := m.UnmarshalVT(encoded); err != nil {
			t.Fatal(err)
		}
		if got := StatusError(&m); got.Code != tc.code || got.Message != tc.text {
			t.Errorf("%v became %v", tc.err, got)
		}
	}
}

func TestErrorTextIsShortAndValidUTF8(t *testing.T) {
	m := ErrorMessage(status.New(status.InvalidName, "name %s", strings.Repeat("é", maxErrorMessage)+"\xff"))
	if len(m.Message) > maxErrorMessage+10 || !utf8.ValidString(m.Message) {
		t.Errorf("%d bytes, valid %v", len(m.Message), utf8.ValidString(m.Message))
	}
	if m := ErrorMessage(status.New(status.InvalidName, "\xff")); !utf8.ValidString(m.Message) {
		t.Errorf("%q", m.Message)
	}
}

func TestErrorOfANewerBrokerKeepsItsCode(t *testing.T) {
	if got := StatusError(&quirev1.Error{Code: "tomorrow"}); got.Code != "tomorrow" || got.Message == "" {
		t.Errorf("%v", got)
	}
	if got := StatusError(&quirev1.Error{}); got.Code != status.Internal {
		t.Errorf("%v", got)
	}
}
