package producers

import (
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/ident"
)

// How long a producer is remembered after its last use, in log time. A client
// stops retrying after an hour, so what is forgotten is not sent again.
const (
	// ChosenLifetime is that of ids that the user chose.
	ChosenLifetime = 7 * 24 * time.Hour
	// DrawnLifetime is that of ids that nobody chose: each is of one run of one
	// producer.
	DrawnLifetime = 2 * time.Hour
)

// drawnBit tells the two kinds of ids apart, since a fold has only the log.
const drawnBit = 0x80

// Drawn says whether the id was drawn at random, rather than a user chose it.
func Drawn(id batch.ProducerID) bool { return id[0]&drawnBit != 0 }

// DrawnID makes of random bytes the id of a producer that nobody has named.
func DrawnID(random [16]byte) batch.ProducerID {
	random[0] |= drawnBit
	return random
}

// ChosenID makes of a digest of a user's name for a producer its id.
func ChosenID(digest [16]byte) batch.ProducerID {
	digest[0] &^= drawnBit
	return digest
}

const forever = ident.Timestamp(1<<63 - 1)

// expiry is when a producer that was last used at a time expires.
func expiry(id batch.ProducerID, last ident.Timestamp) ident.Timestamp {
	lifetime := ident.Timestamp(ChosenLifetime.Microseconds())
	if Drawn(id) {
		lifetime = ident.Timestamp(DrawnLifetime.Microseconds())
	}
	if last > forever-lifetime {
		return forever
	}
	return last + lifetime
}

func expired(id batch.ProducerID, last, now ident.Timestamp) bool { return now >= expiry(id, last) }

// room says whether one more producer may be remembered.
func (s *State) room(now ident.Timestamp) bool {
	if len(s.producers) < MaxProducers {
		return true
	}
	if now < s.soonest {
		return false
	}
	live := 0
	for id, p := range s.producers {
		if !expired(id, p.last, now) {
			live++
		}
	}
	return live < MaxProducers
}

// evict forgets the expired producers if there are too many. No verdict depends
// on when it does: an expired producer is as good as unknown.
func (s *State) evict(now ident.Timestamp) {
	if len(s.producers) < MaxProducers || now < s.soonest {
		return
	}
	s.soonest = forever
	for id, p := range s.producers {
		if expired(id, p.last, now) {
			delete(s.producers, id)
		} else {
			s.soonest = min(s.soonest, expiry(id, p.last))
		}
	}
}
