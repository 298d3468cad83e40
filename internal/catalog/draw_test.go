package catalog

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/quirelog/quire/internal/ident"
)

// onTopic is an action on a topic that is there, or was when a reader read it.
func (h *history) onTopic(draw func(*rapid.T, *Topic) Command) func(*rapid.T) {
	return func(t *rapid.T) {
		topics := slices.Collect(h.state.After(Name{}))
		for _, r := range h.read {
			topics = append(topics, r.topic)
		}
		if len(topics) == 0 {
			t.Skip("there is no topic yet")
		}
		h.propose(t, draw(t, rapid.SampledFrom(topics).Draw(t, "topic")))
	}
}

func (h *history) drawIdentity() ident.Incarnation {
	h.ids++
	return ident.Incarnation{0: 1, 15: h.ids}
}

func drawOwner(t *rapid.T) Owner {
	return rapid.SampledFrom([]Owner{process1, process2, process3}).Draw(t, "owner")
}

func (h *history) drawCreate(t *rapid.T) Command {
	c := CreateTopic{
		ID:        h.drawIdentity(),
		Name:      Name{"default", rapid.SampledFrom([]string{"default", "default", "default", "none"}).Draw(t, "scope"), ""},
		Type:      rapid.SampledFrom([]TopicType{Log, Log, Cache, 0}).Draw(t, "type"),
		Settings:  drawSettings(t),
		Created:   ident.Timestamp(len(h.made)),
		Owner:     drawOwner(t),
		Deletions: h.state.Deletions(),
	}
	c.Name.Topic = rapid.SampledFrom([]string{"a", "b", "c", "d.e", "", "_quire"}).Draw(t, "name")
	return c
}

func (h *history) drawAlter(t *rapid.T, topic *Topic) Command {
	return AlterTopic{
		Topic: topic.ID, Version: topic.Version, Token: h.drawIdentity(), Settings: drawSettings(t),
	}
}

func (h *history) drawSession(_ *rapid.T, topic *Topic) Command {
	return OpenSession{Topic: topic.ID, Sessions: topic.Sessions}
}

// drawSeal ends a segment, mostly in a way that it can have ended.
func drawSeal(t *rapid.T, r *Range) Seal {
	records := rapid.Uint64Range(0, 100).Draw(t, "records")
	if records == 0 {
		return EmptySeal(*r.Open)
	}
	return Seal{
		End:      r.Open.Base + ident.Offset(records),
		Digest:   rapid.Uint64().Draw(t, "digest"),
		Users:    rapid.Uint64Range(0, records+records/20).Draw(t, "users"),
		Bytes:    rapid.Uint64().Draw(t, "bytes"),
		LastTime: r.LastTime + ident.Timestamp(rapid.Int64Range(-1, 10).Draw(t, "later")),
	}
}

// drawOpen draws a range that takes appends.
func drawOpen(t *rapid.T, topic *Topic) *Range {
	open := slices.DeleteFunc(slices.Clone(topic.Ranges), (*Range).Sealed)
	return rapid.SampledFrom(open).Draw(t, "range")
}

func (h *history) drawGrant(t *rapid.T, topic *Topic) Command {
	r := drawOpen(t, topic)
	return Grant{
		Topic: topic.ID, Range: r.ID, Epoch: r.Epoch, Version: r.Version, Open: r.Open.ID,
		Seal: drawSeal(t, r), Owner: drawOwner(t),
	}
}

func (h *history) drawRoll(t *rapid.T, topic *Topic) Command {
	r := drawOpen(t, topic)
	return Roll{
		Topic: topic.ID, Range: r.ID, Epoch: r.Epoch, Version: r.Version, Open: r.Open.ID, Seal: drawSeal(t, r),
	}
}

func (h *history) drawTrim(t *rapid.T, topic *Topic) Command {
	r := rapid.SampledFrom(topic.Ranges).Draw(t, "range")
	c := Trim{Topic: topic.ID, TopicVersion: topic.Version, Range: r.ID, Through: 1}
	if n := len(r.Segments); n > 0 {
		c.Through = r.Segments[rapid.IntRange(0, n-1).Draw(t, "through")].ID
	} else if r.Open != nil {
		c.Through = r.Open.ID
	}
	return c
}

func drawEnding(t *rapid.T, r *Range) Ending {
	return Ending{Range: r.ID, Epoch: r.Epoch, Version: r.Version, Open: r.Open.ID, Seal: drawSeal(t, r)}
}

// drawSplit splits at an eighth of the keyspace, which is in the range or not.
func (h *history) drawSplit(t *rapid.T, topic *Topic) Command {
	at := ident.Position(rapid.Uint64Range(0, 7).Draw(t, "eighth")) << 61
	return Split{Topic: topic.ID, Ending: drawEnding(t, drawOpen(t, topic)), At: at}
}

// drawMerge merges a range with the one behind it, and now and then with any.
func (h *history) drawMerge(t *rapid.T, topic *Topic) Command {
	left, right := drawOpen(t, topic), drawOpen(t, topic)
	if next := topic.Route(left.Band.Last + 1); rapid.IntRange(0, 9).Draw(t, "neighbour") > 0 && next != nil {
		right = next
	}
	return Merge{Topic: topic.ID, Left: drawEnding(t, left), Right: drawEnding(t, right)}
}

// drawConfirm confirms what waits for it, and now and then what does not.
func (h *history) drawConfirm(t *rapid.T) Command {
	var c ConfirmRetired
	waiting := h.state.RetiredOn(drawOwner(t).Store)
	for range rapid.IntRange(0, 3).Draw(t, "confirmed") {
		pick := rapid.Uint64Range(0, 50).Draw(t, "segment")
		r := Retired{
			Segment: ident.SegmentID(pick), Topic: ident.TopicID{0: 1, 15: byte(pick % 4)}, Store: store1,
		}
		if len(waiting) > 0 && pick > 5 {
			r = waiting[int(pick)%len(waiting)]
		}
		c.Retired = append(c.Retired, r)
	}
	return c
}
