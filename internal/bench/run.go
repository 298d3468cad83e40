package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/status"
)

// Options say where a run happens. Either Program or Addr must be set.
type Options struct {
	// Program is the command line that runs a broker; flags for the data
	// directory and the addresses are added to it. Env is its environment.
	Program []string
	Env     []string
	// Addr is a broker that runs already, and Metrics its HTTP address, if its
	// meters are to be read.
	Addr, Metrics string
	// Dir is the directory in which temporary ones are made: for the broker's
	// data and to measure the floor. Empty is the system's.
	Dir string
	// Timeout is how long the run waits for a broker that does not answer; 0 is
	// the client's default.
	Timeout time.Duration
	// Tell is told what the run does; nil tells nobody.
	Tell func(what string)
}

// run is one run.
type run struct {
	Options
	Settings
	shape string

	// home is the temporary directory of the run, data the broker's in it.
	home, data string
	broker     *broker
	clients    []*client.Client
	// names are the topics.
	names []string

	content *Content
	ledger  *Ledger
	// of the floor
	syncs, answered *Latencies
	result          *Result
	// measured says that the result has its figures.
	measured bool
}

// Run runs a shape. When it was measured and yet something is wrong (a record
// is lost, or some were not acknowledged) there is both a result and an error.
// It ends every process that it has started and removes what it has written.
func Run(ctx context.Context, shape string, s Settings, opts Options) (*Result, error) {
	r, err := newRun(shape, s, opts)
	if err != nil {
		return nil, err
	}
	return r.run(ctx)
}

func newRun(shape string, s Settings, opts Options) (*run, error) {
	s.OwnBroker = opts.Addr == ""
	if err := s.complete(shape); err != nil {
		return nil, err
	}
	plan := s.plan()
	if plan.Workers > maxWorkers {
		return nil, status.New(status.UsageError, "%d writers are too many", plan.Workers)
	}
	return &run{
		Options: opts, Settings: s, shape: shape,
		content: NewContent(s.Seed, s.Payload, s.Keys, plan), ledger: NewLedger(plan.Workers),
		syncs: NewLatencies(), answered: NewLatencies(), result: &Result{Shape: shape, Settings: s},
	}, nil
}

// run is Run.
func (r *run) run(ctx context.Context) (_ *Result, err error) {
	remove, err := r.prepare()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(r.explain(err), r.close())
	}
	if err = r.measure(ctx); err != nil {
		err = r.explain(err)
	}
	if e := r.close(); err == nil {
		err = e
	}
	if !r.measured || err != nil && ctx.Err() != nil {
		return nil, err
	}
	return r.result, err
}

// measure runs the shape.
func (r *run) measure(ctx context.Context) (err error) {
	switch r.shape {
	case Produce:
		err = r.produce(ctx)
	case Fetch:
		err = r.fetch(ctx)
	case Fanout:
		err = r.fanout(ctx)
	case Recovery:
		err = r.recovery(ctx)
	case Split:
		err = r.split(ctx)
	default:
		return status.New(status.UsageError, "there is no shape %q", r.shape)
	}
	if err != nil {
		return err
	}
	return r.failures()
}

// count notes what was done, of which the result speaks from now on.
func (r *run) count(operations uint64, took time.Duration) {
	r.measured = true
	r.result.Count(operations, took, r.weight())
}

// failures is the error of a run in which records failed.
func (r *run) failures() error {
	if r.result.Errors == 0 {
		return nil
	}
	_, first := r.ledger.Errors()
	return fmt.Errorf("%d records were not acknowledged, the first: %w", r.result.Errors, first)
}

// prepare makes the run's directory and says how it is removed.
func (r *run) prepare() (remove func() error, err error) {
	r.home, err = os.MkdirTemp(r.Dir, "quire-bench-")
	if err != nil {
		return nil, status.New(status.UsageError, "cannot make a directory for the run: %w", err)
	}
	r.data = filepath.Join(r.home, "data")
	r.result.Machine = MachineOf(r.home)
	if r.OwnBroker && r.durable() && r.result.Machine.Filesystem == "tmpfs" {
		r.tell("the data is on a tmpfs, which is memory: name a directory on a disk with --dir")
	}
	return func() error {
		if err := os.RemoveAll(r.home); err != nil {
			return status.New(status.Internal, "cannot remove the run's data: %w", err)
		}
		return nil
	}, nil
}

// open starts the broker, if it is the run's own, connects, and makes the
// topics.
func (r *run) open(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	return r.createTopics(ctx)
}

// start starts or finds the broker and connects.
func (r *run) start(ctx context.Context) (err error) {
	if r.OwnBroker {
		if r.broker, err = launch(ctx, r.Options, r.data); err != nil {
			return err
		}
		r.Addr, r.Metrics = r.broker.addr, r.broker.http
	}
	for range r.Connections {
		if _, err := r.dial(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dial makes one more connection, which close closes.
func (r *run) dial(ctx context.Context) (*client.Client, error) {
	opts := []client.Option{client.WithName("quire-bench")}
	if r.Timeout > 0 {
		opts = append(opts, client.WithDialTimeout(r.Timeout), client.WithReconnectTimeout(r.Timeout))
	}
	c, err := client.Dial(ctx, r.Addr, opts...)
	if err == nil {
		r.clients = append(r.clients, c)
	}
	return c, err
}

// disconnect closes the connections.
func (r *run) disconnect() {
	for _, c := range r.clients {
		_ = c.Close()
	}
	r.clients = nil
}

// close deletes the topics from a broker that was there before, and ends one
// of the run's own.
func (r *run) close() (err error) {
	if !r.OwnBroker {
		err = r.deleteTopics()
	}
	r.disconnect()
	if r.broker != nil {
		err = r.broker.stop()
	}
	return err
}

// explain adds what the broker said last to an error that may come from it.
func (r *run) explain(err error) error {
	if r.broker == nil {
		return err
	}
	if said := r.broker.said.String(); said != "" {
		return fmt.Errorf("%w; the broker said last: %s", err, said)
	}
	return err
}

func (r *run) tell(format string, args ...any) {
	if r.Tell != nil {
		r.Tell(fmt.Sprintf(format, args...))
	}
}

// spend runs work and notes what the broker and this process used for it.
func (r *run) spend(ctx context.Context, work func() error) (spent func(), err error) {
	var u usage
	look := func(m *meters) (err error) {
		if r.Metrics != "" {
			*m, err = scrape(ctx, r.Metrics)
		}
		return err
	}
	if err := look(&u.before); err != nil {
		return nil, err
	}
	before, known := ownCPU()
	if err := work(); err != nil {
		return nil, err
	}
	after, _ := ownCPU()
	if err := look(&u.after); err != nil {
		return nil, err
	}
	if r.result.Floor != nil {
		r.result.Floor.FlushBytes = u.flushBytes()
	}
	return func() { r.result.spent(u, after-before, known) }, nil
}

// floorBefore begins to measure the floor, if the shape is a durable one on a
// disk that can be reached.
func (r *run) floorBefore(ctx context.Context) error {
	if !r.durable() || r.shape == Fetch || (!r.OwnBroker && r.Dir == "") {
		return nil
	}
	r.tell("measuring the floor: small syncs, alone and as answers, a growing file, the loopback")
	r.result.Floor = &Floor{}
	return r.smallSyncs(ctx)
}

// smallSyncs is measured before and after the load, since a disk that others
// use changes.
func (r *run) smallSyncs(ctx context.Context) error {
	n, err := syncFloor(ctx, r.home, r.syncs, r.answered)
	r.result.Floor.Syncs += n
	return err
}

// floorAfter measures the rest of the floor.
func (r *run) floorAfter(ctx context.Context) error {
	f := r.result.Floor
	if f == nil {
		return nil
	}
	if err := r.smallSyncs(ctx); err != nil {
		return err
	}
	q := r.syncs.Quantiles()
	f.SyncP50, f.SyncP99 = q.P50, q.P99
	q = r.answered.Quantiles()
	f.AnsweredP50, f.AnsweredP99 = q.P50, q.P99
	if r.shape == Produce && !r.Batched && r.InFlight > 1 {
		var err error
		if f.AnsweredRate, err = groupFloor(ctx, r.home, r.InFlight, r.Payload); err != nil {
			return err
		}
	}
	if f.FlushBytes > 0 {
		var err error
		if f.Growing, err = growingFloor(ctx, r.home, f.FlushBytes); err != nil {
			return err
		}
	}
	trips := NewLatencies()
	if err := loopbackFloor(trips); err != nil {
		return err
	}
	q = trips.Quantiles()
	f.LoopbackP50, f.LoopbackP99 = q.P50, q.P99
	r.result.ratios()
	return nil
}

// readingFloor measures what a read is set against, if there is a directory to
// measure it in.
func (r *run) readingFloor(ctx context.Context) error {
	if !r.OwnBroker && r.Dir == "" {
		return nil
	}
	var f Floor
	var err error
	if f.Streaming, err = streamingFloor(ctx, r.home); err != nil {
		return err
	}
	r.result.Floor = &f
	r.result.ratios()
	return nil
}

// patience is how long a run waits for a reader that makes no progress.
const patience = 30 * time.Second
