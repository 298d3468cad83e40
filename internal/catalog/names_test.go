package catalog

import (
	"strings"
	"testing"

	"github.com/quirelog/quire/status"
)

func TestParseNameReadsShortAndLongForms(t *testing.T) {
	longest := strings.Repeat("x", MaxNamePart)
	for _, tc := range []struct{ in, long, short string }{
		{"orders", "default/default/orders", "orders"},
		{"default/default/orders", "default/default/orders", "orders"},
		{"acme/eu/orders", "acme/eu/orders", "acme/eu/orders"},
		{"default/eu/orders", "default/eu/orders", "default/eu/orders"},
		{"A.b_c-9", "default/default/A.b_c-9", "A.b_c-9"},
		{"...", "default/default/...", "..."},
		{"-", "default/default/-", "-"},
		{"quire", "default/default/quire", "quire"},
		{"a_quire", "default/default/a_quire", "a_quire"},
		{longest, "default/default/" + longest, longest},
	} {
		n, err := ParseName(tc.in)
		if err != nil {
			t.Errorf("ParseName(%q): %v", tc.in, err)
			continue
		}
		if n.String() != tc.long || n.Short() != tc.short {
			t.Errorf("ParseName(%q) = %s, short %s; want %s, short %s", tc.in, n, n.Short(), tc.long, tc.short)
		}
		for _, form := range []string{n.String(), n.Short()} {
			if again, err := ParseName(form); err != nil || again != n {
				t.Errorf("ParseName(%q) = %v, %v; want %v", form, again, err, n)
			}
		}
	}
}

func TestParseNameSaysWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ in, says string }{
		{"", "the topic name is empty"},
		{"a//c", "the namespace name is empty"},
		{"/b/c", "the tenant name is empty"},
		{"a/b/", "the topic name is empty"},
		{"a/b", `topic name "a/b" is neither NAME nor TENANT/NAMESPACE/NAME`},
		{"a/b/c/d", `topic name "a/b/c/d" is neither NAME nor TENANT/NAMESPACE/NAME`},
		{"/", `topic name "/" is neither NAME nor TENANT/NAMESPACE/NAME`},
		{".", `topic name "." is not allowed`},
		{"..", `topic name ".." is not allowed`},
		{"a/../c", `namespace name ".." is not allowed`},
		{"a b", `topic name "a b" has ' ' at byte 1, allowed are a-z A-Z 0-9 . _ -`},
		{"café", `topic name "café" has 'é' at byte 3, allowed are a-z A-Z 0-9 . _ -`},
		{"a\x00", `topic name "a\x00" has '\x00' at byte 1, allowed are a-z A-Z 0-9 . _ -`},
		{"a\xff", `topic name "a\xff" has '�' at byte 1, allowed are a-z A-Z 0-9 . _ -`},
		{"_quire", `topic name "_quire" begins with _quire, which is kept for internal topics`},
		{"_quire.x", `topic name "_quire.x" begins with _quire, which is kept for internal topics`},
		{"_quire/a/b", `tenant name "_quire" begins with _quire, which is kept for internal topics`},
		{
			strings.Repeat("x", 250),
			`topic name "` + strings.Repeat("x", 64) + `"… has 250 bytes, at most 249 are allowed`,
		},
		{
			strings.Repeat("x/", 1<<20),
			`topic name "` + strings.Repeat("x/", 32) + `"… is neither NAME nor TENANT/NAMESPACE/NAME`,
		},
	} {
		_, err := ParseName(tc.in)
		if got := message(err); got != tc.says {
			t.Errorf("ParseName(%.70q):\n got %s\nwant %s", tc.in, got, tc.says)
		}
		if status.CodeOf(err) != status.InvalidName {
			t.Errorf("ParseName(%.70q): code %s", tc.in, status.CodeOf(err))
		}
	}
}

func TestReservedNamesAreForTheBroker(t *testing.T) {
	for in, internal := range map[string]bool{
		"_quire": true, "_quire/groups/x": true, "a/_quire2/x": true, "orders": false, "a/b/c": false,
	} {
		n, err := ParseInternalName(in)
		if err != nil {
			t.Errorf("ParseInternalName(%q): %v", in, err)
		}
		if n.IsInternal() != internal {
			t.Errorf("%s: IsInternal %v", n, n.IsInternal())
		}
	}
	if _, err := ParseInternalName("_quire/a b/x"); status.CodeOf(err) != status.InvalidName {
		t.Errorf("a reserved name with a bad character: %v", err)
	}
}

func TestNamesAreInOrderPartByPart(t *testing.T) {
	names := []Name{
		{"a", "a", "z"}, {"a", "a-b", "a"}, {"a", "b", "a"}, {"a", "b", "b"}, {"a.b", "a", "a"}, {"b", "a", "a"},
	}
	for i, a := range names {
		for j, b := range names {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%s against %s: %d, want %d", a, b, got, want)
			}
		}
	}
}

// message is what an error says, without its code.
func message(err error) string {
	if err == nil {
		return "no error"
	}
	if e, ok := err.(*status.Error); ok {
		return e.Message
	}
	return err.Error()
}
