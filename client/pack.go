package client

import (
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
	"github.com/quirelog/quire/status"
)

// pack is one batch of a producer, from its first record until its callbacks
// have run. The producer's lock guards it, except where said.
type pack struct {
	p *Producer

	// builder has the records while they gather, payload is the batch that was
	// made of them. Sealing is the sender's and needs no lock.
	builder *batch.Builder
	payload []byte

	records int
	// bytes is what the pack takes of the producer's buffer.
	bytes int
	// first and last are the sequences of its first and its last record.
	first, last uint64
	// fields are the producer fields of the batch, as they are when it is made.
	fields batch.Producer
	// sent says that the payload has been on its way, so that it may not be
	// written to any more.
	sent bool
	// since is when its first record came; kept only for a linger.
	since time.Time
	// dones are the callbacks of its records, in their order; those behind the
	// last one that is not nil are left out. completed counts the records whose
	// callbacks have run.
	dones     []func(error)
	completed int

	// band is where its records are; era counts the cuts that the producer has
	// heard of, up to those that the band is from.
	band keyspace.Band
	era  int
	// bands is how many lanes there were when it was sent last.
	bands int

	state packState
	// unknown is since when the outcome of a try is not known; zero if there is
	// no such try.
	unknown time.Time
	// refusal is why the broker refused it for now, if it did.
	refusal error
	err     error // why it failed, once settled
}

// packState is zero while records are added, and until the first try.
type packState uint8

const (
	// flying: the connection has it.
	flying packState = iota + 1
	// grounded: it was refused for now, or comes from a broken connection, and
	// is to be sent again.
	grounded
	// settled: its outcome is known, as far as it will be.
	settled
)

// answer is the handler's.
func (k *pack) answer(f wire.Frame) (bool, error) {
	var resp quirev1.ProduceResponse
	if err := expect(f, wire.TypeProduceResponse, &resp); err != nil {
		return false, err
	}
	k.p.settle(k, nil)
	if len(resp.Cuts) > 0 {
		k.p.mu.Lock()
		k.p.learn(resp.Cuts)
		k.p.mu.Unlock()
	}
	return true, nil
}

// fail is the handler's.
func (k *pack) fail(err error) {
	if !k.p.ground(k, err) {
		k.p.settle(k, asStatus(status.Internal, outcome(err, true)))
	}
}

// settle notes the outcome. The caller holds the producer's lock.
func (k *pack) settle(err error) {
	if !k.unknown.IsZero() {
		err = afterUnknown(err)
	}
	k.state, k.err = settled, err
}

// fits says whether a record of about size more bytes goes into the pack.
func (k *pack) fits(size int) bool {
	return k.records == 0 || k.records < k.p.cfg.batchRecords && k.builder.Size()+size <= k.p.batchBytes
}
