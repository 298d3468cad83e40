package catalog

import (
	"cmp"
	"strings"

	"github.com/quirelog/quire/status"
)

// Limits and fixed names.
const (
	// MaxNamePart is the most bytes that a part of a name may have.
	MaxNamePart = 249
	// DefaultTenant and DefaultNamespace are the scope of a short name.
	DefaultTenant    = "default"
	DefaultNamespace = "default"
	// reserved begins the names of the broker's own topics.
	reserved = "_quire"
)

// Name is the full name of a topic.
type Name struct {
	Tenant, Namespace, Topic string
}

// ParseName reads the name of a user's topic: "orders", short for
// "default/default/orders", or the long form. An error is a *status.Error of
// code invalid_name that says which part is wrong and why.
func ParseName(s string) (Name, error) {
	n, err := ParseInternalName(s)
	if err != nil {
		return Name{}, err
	}
	for _, p := range n.parts() {
		if strings.HasPrefix(p.text, reserved) {
			return Name{}, status.New(status.InvalidName, "%s name %s begins with %s, which is kept for internal topics",
				p.what, quote(p.text), reserved)
		}
	}
	return n, nil
}

// ParseInternalName is ParseName for the broker itself, which may also use the
// reserved names that begin with _quire.
func ParseInternalName(s string) (Name, error) {
	if s == "" {
		return Name{}, status.New(status.InvalidName, "the topic name is empty")
	}
	var n Name
	switch parts := strings.SplitN(s, "/", 4); len(parts) {
	case 1:
		n = Name{DefaultTenant, DefaultNamespace, s}
	case 3:
		n = Name{parts[0], parts[1], parts[2]}
	default:
		return Name{}, status.New(status.InvalidName,
			"topic name %s is neither NAME nor TENANT/NAMESPACE/NAME", quote(s))
	}
	if err := n.check(); err != nil {
		return Name{}, err
	}
	return n, nil
}

// String is the canonical long form, tenant/namespace/topic.
func (n Name) String() string { return n.Tenant + "/" + n.Namespace + "/" + n.Topic }

// Short is the name as people write it: without tenant and namespace if both
// are the default.
func (n Name) Short() string {
	if n.Tenant == DefaultTenant && n.Namespace == DefaultNamespace {
		return n.Topic
	}
	return n.String()
}

// IsInternal says whether the name is one of the broker's own.
func (n Name) IsInternal() bool {
	for _, p := range n.parts() {
		if strings.HasPrefix(p.text, reserved) {
			return true
		}
	}
	return false
}

// Compare orders names by tenant, namespace and topic, each by its bytes.
func (n Name) Compare(m Name) int {
	return cmp.Or(
		strings.Compare(n.Tenant, m.Tenant),
		strings.Compare(n.Namespace, m.Namespace),
		strings.Compare(n.Topic, m.Topic),
	)
}

type namePart struct{ what, text string }

func (n Name) parts() [3]namePart {
	return [3]namePart{{"tenant", n.Tenant}, {"namespace", n.Namespace}, {"topic", n.Topic}}
}

func (n Name) check() error {
	for _, p := range n.parts() {
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

func (p namePart) check() error {
	switch {
	case p.text == "":
		return status.New(status.InvalidName, "the %s name is empty", p.what)
	case len(p.text) > MaxNamePart:
		return status.New(status.InvalidName, "%s name %s has %d bytes, at most %d are allowed",
			p.what, quote(p.text), len(p.text), MaxNamePart)
	case p.text == "." || p.text == "..":
		return status.New(status.InvalidName, "%s name %s is not allowed", p.what, quote(p.text))
	}
	for i, r := range p.text {
		if !allowed(r) {
			return status.New(status.InvalidName, "%s name %s has %q at byte %d, allowed are a-z A-Z 0-9 . _ -",
				p.what, quote(p.text), r, i)
		}
	}
	return nil
}

func allowed(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
}
