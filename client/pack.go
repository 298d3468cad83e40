package client

import (
	"time"

	"github.com/quirelog/quire/internal/batch"
	"github.com/quirelog/quire/internal/keyspace"
	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/internal/wire/quirev1"
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
	// first is the number of its first record, counted by the producer.
	first uint64
	// since is when its first record came; kept only for a linger.
	since time.Time
	// dones are the callbacks of its records, in their order; those behind the
	// last one that is not nil are left out. completed counts the records whose
	// callbacks have run.
	dones     []func(error)
	completed int

	// band is where its keys are.
	band keyspace.Band
	// bands is how many lanes there were when it was sent last.
	bands int

	state packState
	// unknowns counts the connections that broke while they had the batch.
	unknowns int
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
	k.p.learn(resp.Cuts)
	return true, nil
}

// fail is the handler's.
func (k *pack) fail(err error) {
	if !k.p.ground(k, err) {
		k.p.settle(k, outcome(err, true))
	}
}

// settle notes the outcome. The caller holds the producer's lock.
func (k *pack) settle(err error) {
	if k.unknowns > 0 {
		err = afterUnknown(err)
	}
	k.state, k.err = settled, err
}

// fits says whether a record of about size more bytes goes into the pack.
func (k *pack) fits(size int, cfg *producerConfig) bool {
	return k.records == 0 || k.records < cfg.batchRecords && k.builder.Size()+size <= cfg.batchBytes
}
