package cli

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/record"
)

func TestRecordsAppearInJSONAsTheyAre(t *testing.T) {
	at := time.Date(2016, 1, 1, 0, 30, 4, 910_000_000, time.UTC)
	for _, tt := range []struct {
		rec  record.Record
		want string
	}{
		{record.Record{}, `"key":null,"value":"","headers":{}`},
		{record.Record{Key: []byte{}, Value: []byte("a\"\\\n\t\x01<é")}, `"key":"","value":"a\"\\\n\t\u0001<é","headers":{}`},
		{record.Record{Key: []byte("\xff"), Value: []byte("\x80\x81")}, `"key":{"base64":"/w=="},"value":{"base64":"gIE="},"headers":{}`},
		{
			record.Record{Headers: []record.Header{
				{Key: "b", Value: []byte("1")},
				{Key: "a"},
				{Key: "b", Value: []byte("\xfe")},
			}},
			`"key":null,"value":"","headers":{"b":["1",{"base64":"/g=="}],"a":""}`,
		},
	} {
		tt.rec.Time, tt.rec.AppendTime = at, at.Add(time.Second)
		want := `{"type":"record",` + tt.want +
			`,"time":"2016-01-01T00:30:04.910000Z","append_time":"2016-01-01T00:30:05.910000Z"}`
		got := recordJSON(nil, tt.rec)
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if !json.Valid(got) {
			t.Errorf("not JSON: %s", got)
		}
	}
}

func TestGapsAreToldWhereTheyAre(t *testing.T) {
	known := client.Gap{Reason: "retention", Records: 120, Known: true}
	unknown := client.Gap{Reason: "lost"}
	print := func(a *app) {
		p := a.newPrinter(consumeFlags{format: "value"}, func() {})
		for _, err := range []error{
			p.record(record.Record{Value: []byte("a")}), p.gap(known), p.gap(unknown),
			p.record(record.Record{Value: []byte("b")}), p.flush(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var stdout, stderr bytes.Buffer
	print(&app{stdout: &stdout, stderr: &stderr})
	if stdout.String() != "a\nb\n" {
		t.Errorf("stdout %q", &stdout)
	}
	want := "quire: gap: 120 records are missing here (retention)\n" +
		"quire: gap: records are missing here (lost)\n"
	if stderr.String() != want {
		t.Errorf("stderr %q", &stderr)
	}

	stdout.Reset()
	stderr.Reset()
	print(&app{stdout: &stdout, stderr: &stderr, json: true})
	lines := bytes.Split(bytes.TrimSpace(stdout.Bytes()), []byte("\n"))
	if len(lines) != 4 || string(lines[1]) != `{"type":"gap","reason":"retention","records":120}` ||
		string(lines[2]) != `{"type":"gap","reason":"lost","records":null}` || stderr.Len() > 0 {
		t.Errorf("stdout %s stderr %s", &stdout, &stderr)
	}
}

func TestWhatIsFollowedIsWrittenWithoutMoreToCome(t *testing.T) {
	out := make(chan string, 1)
	a := &app{stdout: lines(func(p []byte) { out <- string(p) })}
	p := a.newPrinter(consumeFlags{format: "value", follow: true}, func() {})
	if err := p.record(record.Record{Value: []byte("now")}); err != nil {
		t.Fatal(err)
	}
	if got := <-out; got != "now\n" {
		t.Errorf("written %q", got)
	}
}

type lines func([]byte)

func (l lines) Write(p []byte) (int, error) {
	l(p)
	return len(p), nil
}
