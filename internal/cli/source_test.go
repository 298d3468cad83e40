package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// collect reads all of a source, as key=value@line.
func collect(src source) (got []string, err error) {
	for {
		it, err := src.next()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		key := string(it.rec.Key)
		if it.rec.Key == nil {
			key = "none"
		}
		got = append(got, fmt.Sprintf("%s=%s@%d", key, it.rec.Value, it.line))
	}
}

func in(s string) *lineReader { return newLineReader(strings.NewReader(s)) }

func TestEachLineIsAValueWhateverItsEnd(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	got, err := collect(&lineSource{in("a\nb\r\n\n" + long + "\nc\rd\nlast"), nil})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"none=a@1", "none=b@2", "none=@3", "none=" + long + "@4", "none=c\rd@5", "none=last@6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCSVKeepsTheTextOfARecordAndFindsItsKey(t *testing.T) {
	const header = "id,Source,note\r\n"
	tests := []struct {
		name, input, keyField string
		want                  []string
	}{
		{"no key", header + "1,nc,x\r\n", "", []string{"none=1,nc,x@2"}},
		{"key by name", header + "1,nc,x\n2,us,y\n", "Source", []string{"nc=1,nc,x@2", "us=2,us,y@3"}},
		{"key by number", header + "1,nc,x", "2", []string{"nc=1,nc,x@2"}},
		{"a name goes before a number", "2,b\nx,y\n", "2", []string{"x=x,y@2"}},
		{"a quoted line end", header + "1,nc,\"a\r\nb\"\r\n2,us,z\r\n", "Source", []string{"nc=1,nc,\"a\r\nb\"@2", "us=2,us,z@4"}},
		{"quoted commas and quotes in the key", header + "1,\"n,\"\"c\"\"\",x\n", "Source", []string{"n,\"c\"=1,\"n,\"\"c\"\"\",x@2"}},
		{"a quote within a plain field is text", header + "1,nc,5\" pipe\n2,us,y\n", "Source", []string{"nc=1,nc,5\" pipe@2", "us=2,us,y@3"}},
		{"an empty key is a key", header + "1,,x\n2,\"\",y\n", "Source", []string{"=1,,x@2", "=2,\"\",y@3"}},
		{"empty lines are no records", header + "\n1,nc,x\n\r\n\n", "Source", []string{"nc=1,nc,x@3"}},
		{"a byte order mark is not part of a name", "\ufeffSource,b\nnc,1\n", "Source", []string{"nc=nc,1@2"}},
		{"quoted names", "\"a b\",c\n1,2\n", "a b", []string{"1=1,2@2"}},
		{"names alone", header, "Source", nil},
		{"nothing", "", "Source", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := collect(&csvSource{in: in(tt.input), keyField: tt.keyField})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJSONLinesHaveKeysValuesHeadersAndBytes(t *testing.T) {
	src := &jsonSource{in: in(`{"key":"a","value":"b","headers":{"h":"1","i":["2",{"base64":"/w=="}]}}
{"key":{"base64":"/wA="},"value":{"base64":""}}

{"type":"gap","reason":"retention","records":3}
{"type":"record","key":null,"value":"c","headers":{},"time":"2016-01-01T00:30:04.91Z"}
{"type":"cursor","cursor":"x"}
`)}
	var got []record.Record
	for {
		it, err := src.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.rec)
	}
	if len(got) != 3 {
		t.Fatalf("%d records, want 3", len(got))
	}
	headers := []record.Header{{Key: "h", Value: []byte("1")}, {Key: "i", Value: []byte("2")}, {Key: "i", Value: []byte{0xff}}}
	if diff := cmp.Diff(headers, got[0].Headers); diff != "" {
		t.Error(diff)
	}
	if string(got[1].Key) != "\xff\x00" {
		t.Errorf("key %q from base64", got[1].Key)
	}
	if got[2].Key != nil || got[2].Time.UnixMilli() != 1451608204910 {
		t.Errorf("record %+v", got[2])
	}
}

func TestMalformedInputIsRefusedWithItsLine(t *testing.T) {
	tests := []struct {
		name string
		src  source
		want string
		code status.Code
	}{
		{"text after a quote", &csvSource{in: in("a,b\n1,\"x\"y\n")}, "line 2: field 2 goes on", status.InvalidArgument},
		{"a quote that stays open", &csvSource{in: in("a,b\n1,\"x\n2,y\n")}, "line 2: the quote that opens field 2", status.InvalidArgument},
		{"a row without the key", &csvSource{in: in("a,b\n1\n"), keyField: "b"}, "line 2: the record has 1 fields", status.InvalidArgument},
		{"no such field", &csvSource{in: in("a,b\n1,2\n"), keyField: "c"}, `names no field "c"`, status.UsageError},
		{"a field number too high", &csvSource{in: in("a,b\n1,2\n"), keyField: "3"}, `names no field "3"`, status.UsageError},
		{"no JSON", &jsonSource{in: in("{}\nhello\n")}, "line 2: ", status.InvalidArgument},
		{"two objects", &jsonSource{in: in("{} {}\n")}, "more than one JSON value", status.InvalidArgument},
		{"a name that nobody knows", &jsonSource{in: in(`{"vlaue":"x"}`)}, `unknown field "vlaue"`, status.InvalidArgument},
		{"a value that is no text", &jsonSource{in: in(`{"value":1}`)}, "strings or", status.InvalidArgument},
		{"bytes that are no text", &jsonSource{in: in("{\"value\":\"\xff\"}")}, "base64", status.InvalidArgument},
		{"headers that are no object", &jsonSource{in: in(`{"headers":[]}`)}, "not an object", status.InvalidArgument},
		{"another type", &jsonSource{in: in(`{"type":"node"}`)}, `not "record"`, status.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := collect(tt.src)
			if err == nil || !strings.Contains(err.Error(), tt.want) || status.CodeOf(err) != tt.code {
				t.Errorf("%v, want %q (%s)", err, tt.want, tt.code)
			}
		})
	}
}

// endlessLine never comes to its end.
type endlessLine struct{ read int }

func (e *endlessLine) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '"'
	}
	e.read += len(p)
	return len(p), nil
}

func TestALineWithoutEndIsGivenUpAtTheLimit(t *testing.T) {
	for name, src := range map[string]func(*lineReader) source{
		"lines": func(r *lineReader) source { return &lineSource{r, nil} },
		"csv":   func(r *lineReader) source { return &csvSource{in: r} },
		"jsonl": func(r *lineReader) source { return &jsonSource{in: r} },
	} {
		t.Run(name, func(t *testing.T) {
			endless := &endlessLine{}
			_, err := collect(src(newLineReader(endless)))
			if status.CodeOf(err) != status.RecordTooLarge {
				t.Errorf("%v, want %s", err, status.RecordTooLarge)
			}
			if endless.read > maxLine+1<<20 {
				t.Errorf("%d bytes were read for a limit of %d", endless.read, maxLine)
			}
		})
	}
}

// FuzzCSVLosesNothing checks that the records of an input, with their line
// ends, are the input.
func FuzzCSVLosesNothing(f *testing.F) {
	f.Add("a,b\n1,\"x\ny\"\n")
	f.Add("a\r\n\"\"\"\"\r\n")
	f.Fuzz(func(t *testing.T, input string) {
		if strings.HasPrefix(input, "\ufeff") {
			return
		}
		src := &csvSource{in: in(input)}
		rest := input
		for {
			_, err := src.read()
			if err != nil {
				return
			}
			for strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, "\r\n") {
				rest = strings.TrimPrefix(strings.TrimPrefix(rest, "\r"), "\n")
			}
			if !strings.HasPrefix(rest, string(src.rec.text)) {
				t.Fatalf("record %q is not what stands at %q", src.rec.text, rest)
			}
			rest = rest[len(src.rec.text):]
		}
	})
}
