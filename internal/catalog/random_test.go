package catalog

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
)

// history drives a State with commands as random proposers would make them:
// from what is there now, from what was there before, twice, and wrong.
type history struct {
	state *State
	// replica gets the same commands by way of their bytes.
	replica *State
	// applied are the commands that were, made all that were proposed.
	applied, made []Command
	// read are topics as readers got them, with deep copies of then.
	read []reading
	ids  byte
}

type reading struct {
	topic *Topic
	copy  Topic
}

func TestRandomHistoriesKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{state: New(), replica: New()}
		t.Repeat(map[string]func(*rapid.T){
			"create":  func(t *rapid.T) { h.propose(t, h.drawCreate(t)) },
			"alter":   h.onTopic(h.drawAlter),
			"session": h.onTopic(h.drawSession),
			"delete": h.onTopic(func(t *rapid.T, topic *Topic) Command {
				return DeleteTopic{Topic: topic.ID, Deleted: ident.Timestamp(len(h.made))}
			}),
			"grant":   h.onTopic(h.drawGrant),
			"roll":    h.onTopic(h.drawRoll),
			"trim":    h.onTopic(h.drawTrim),
			"split":   h.onTopic(h.drawSplit),
			"merge":   h.onTopic(h.drawMerge),
			"confirm": func(t *rapid.T) { h.propose(t, h.drawConfirm(t)) },
			"late":    h.proposeLate,
			"again":   h.applyAgain,
			"reload":  h.reload,
			"":        h.check,
		})
	})
}

// propose applies a command to both states. A refusal changes nothing, and a
// second time changes nothing either.
func (h *history) propose(t *rapid.T, c Command) {
	h.made = append(h.made, c)
	before := snapshot(h.state)
	res, err := h.state.Apply(c)
	after := snapshot(h.state)
	switch unchanged := slices.EqualFunc(before, after, slices.Equal); {
	case err != nil && !unchanged:
		t.Fatalf("refused, and changed the state: %+v: %v", c, err)
	case err == nil && res.Repeated != unchanged:
		t.Fatalf("repeated %v, state unchanged %v: %+v", res.Repeated, unchanged, c)
	case err == nil && !res.Repeated:
		h.applied = append(h.applied, c)
		h.mustChangeNothing(t, c)
		if res.Topic != nil {
			h.read = append(h.read, reading{res.Topic, deepCopy(res.Topic)})
		}
	}
	h.replicate(t, c, res, err)
}

// replicate gives the replica the bytes of a command: it must see the same.
func (h *history) replicate(t *rapid.T, c Command, want Result, wantErr error) {
	b, err := MarshalCommand(c)
	if err != nil {
		if wantErr == nil {
			t.Fatalf("applied, and does not encode: %+v: %v", c, err)
		}
		return
	}
	back, err := UnmarshalCommand(b)
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Fatalf("%+v decodes as %+v, %v", c, back, err)
	}
	got, err := h.replica.Apply(back)
	if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("the replica answers %+v, %v; want %+v, %v", got, err, want, wantErr)
	}
}

func (h *history) mustChangeNothing(t *rapid.T, c Command) {
	before := snapshot(h.state)
	res, err := h.state.Apply(c)
	if !slices.EqualFunc(before, snapshot(h.state), slices.Equal) || err == nil && !res.Repeated {
		t.Fatalf("applied twice: %+v: %+v, %v", c, res, err)
	}
}

// applyAgain applies, however late, what was applied before.
func (h *history) applyAgain(t *rapid.T) {
	if len(h.applied) == 0 {
		t.Skip("nothing was applied yet")
	}
	h.mustChangeNothing(t, rapid.SampledFrom(h.applied).Draw(t, "applied"))
}

// proposeLate proposes what was proposed before, accepted or not.
func (h *history) proposeLate(t *rapid.T) {
	if len(h.made) == 0 {
		t.Skip("nothing was proposed yet")
	}
	h.propose(t, rapid.SampledFrom(h.made).Draw(t, "late"))
}

// reload makes the replica anew from a snapshot, which must lose nothing.
func (h *history) reload(t *rapid.T) {
	chunks := snapshot(h.state)
	loaded, err := load(chunks)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(chunks, snapshot(loaded), slices.Equal) {
		t.Fatal("a loaded snapshot gives another snapshot")
	}
	h.replica = loaded
}

func (h *history) check(t *rapid.T) {
	if err := h.state.Check(); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(snapshot(h.state), snapshot(h.replica), slices.Equal) {
		t.Fatal("the replica differs")
	}
	for _, r := range h.read {
		if !reflect.DeepEqual(*r.topic, r.copy) {
			t.Fatalf("topic %s changed under its reader", r.topic.Name)
		}
	}
}

func load(chunks [][]byte) (*State, error) {
	l := NewLoader()
	for _, c := range chunks {
		if err := l.Add(c); err != nil {
			return nil, err
		}
	}
	return l.State()
}

func deepCopy(t *Topic) Topic {
	c := *t
	c.Ranges = nil
	for _, r := range t.Ranges {
		copied := *r
		copied.Segments = slices.Clone(r.Segments)
		copied.Parents, copied.Children = slices.Clone(r.Parents), slices.Clone(r.Children)
		if r.Open != nil {
			open := *r.Open
			copied.Open = &open
		}
		c.Ranges = append(c.Ranges, &copied)
	}
	return c
}
