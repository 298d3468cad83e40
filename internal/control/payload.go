package control

import (
	"encoding/binary"
	"iter"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/varint"
	"github.com/quirelog/quire/status"
)

// payloadVersion is the version of the snapshots of a group that this code
// writes: the tokens, and then the chunks of the machine.
const payloadVersion = 1

// maxTokens is how many of a group's last commands are remembered by their
// tokens. A command that is proposed again after so many others is applied again.
const maxTokens = 4096

// tokens remembers what was applied (C2). It is part of a group's state: all
// members must refuse the same commands.
type tokens struct {
	ring []consensus.Token // oldest at next once it is full
	next int
	seen map[consensus.Token]bool
}

func newTokens() tokens { return tokens{seen: map[consensus.Token]bool{}} }

func (t *tokens) add(k consensus.Token) {
	t.seen[k] = true
	if len(t.ring) < maxTokens {
		t.ring = append(t.ring, k)
		return
	}
	delete(t.seen, t.ring[t.next])
	t.ring[t.next] = k
	t.next = (t.next + 1) % maxTokens
}

// encode gives the head of a payload.
func (t *tokens) encode() []byte {
	b := make([]byte, 0, 4+len(t.ring)*len(consensus.Token{}))
	b = append(b, payloadVersion)
	b = binary.AppendUvarint(b, uint64(len(t.ring)))
	for i := range t.ring {
		k := &t.ring[(t.next+i)%len(t.ring)]
		b = append(b, k[:]...)
	}
	return b
}

// payload gives the snapshot of a group in pieces. What it is made of is taken
// at the call, and it may be walked by another goroutine.
func payload(t *tokens, m Machine) iter.Seq[[]byte] {
	head, chunks := t.encode(), m.Snapshot()
	return func(yield func([]byte) bool) {
		b := head
		for c := range chunks {
			b = binary.AppendUvarint(b, uint64(len(c)))
			b = append(b, c...)
			if len(b) >= pieceBytes {
				if !yield(b) {
					return
				}
				b = nil
			}
		}
		if len(b) > 0 {
			yield(b)
		}
	}
}

// openPayload reads what payload gave into a machine, and gives the tokens.
func openPayload(b []byte, m Machine) (tokens, error) {
	t := newTokens()
	if len(b) > 0 && b[0] > payloadVersion {
		return t, status.New(status.DataNewer, "a snapshot of version %d, this program knows version %d", b[0], payloadVersion)
	}
	if len(b) == 0 || b[0] == 0 {
		return t, status.New(status.DataCorrupt, "%d bytes are no snapshot of a group", len(b))
	}
	s := varint.Scanner{Rest: b[1:]}
	n := s.Uvarint()
	if n > maxTokens {
		return t, status.New(status.DataCorrupt, "a snapshot has %d tokens, at most %d", n, maxTokens)
	}
	for range n {
		var k consensus.Token
		copy(k[:], s.Take(uint64(len(k))))
		if s.Bad || t.seen[k] {
			return t, status.New(status.DataCorrupt, "a snapshot's tokens are not in order")
		}
		t.add(k)
	}
	err := m.Restore(func(yield func([]byte) bool) {
		for len(s.Rest) > 0 {
			if c := s.Take(s.Uvarint()); s.Bad || !yield(c) {
				return
			}
		}
	})
	if err == nil && s.Bad {
		err = status.New(status.DataCorrupt, "a snapshot ends before its last chunk does")
	}
	return t, err
}
