package bench

import (
	"runtime"
	"time"
)

// Result is what a run tells. Its names in JSON are stable; what could not be
// measured is null.
type Result struct {
	Shape    string   `json:"shape"`
	Settings Settings `json:"settings"`
	Machine  Machine  `json:"machine"`

	// Operations are records acknowledged (produce), read (fetch), delivered
	// (fanout) or recovered (recovery) in Seconds. Bytes are those of keys and
	// values.
	Operations     uint64  `json:"operations"`
	Seconds        float64 `json:"seconds"`
	PerSecond      float64 `json:"per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Latency says what the quantiles are of.
	Latency string `json:"latency"`
	Quantiles
	// CPU is the broker's time for one operation, GeneratorCPU that of this
	// process, verification included where it goes on at the same time.
	CPU          *float64 `json:"cpu_us_per_op"`
	GeneratorCPU *float64 `json:"generator_cpu_us_per_op"`
	// Memory is what the broker had resident when the run was over.
	Memory *uint64 `json:"broker_memory_bytes"`
	// Fdatasyncs is how often the broker called fdatasync meanwhile, Syncs how
	// often for which reason.
	Fdatasyncs *uint64           `json:"fdatasyncs"`
	Syncs      map[string]uint64 `json:"fdatasyncs_by_reason"`

	// Errors counts records that were not acknowledged. Verified says that all
	// others were read back and compared, in order.
	Errors   uint64 `json:"errors"`
	Verified bool   `json:"verified"`

	// Floor is there for topics that sync each write, and for reading. The
	// ratios are P50 to its small sync and to one that is answered over TCP,
	// PerSecond to the answers of as many callers, and BytesPerSecond to its
	// growing file or, for reading, its stream.
	Floor          *Floor   `json:"floor"`
	P50ToSync      *float64 `json:"p50_to_sync"`
	P50ToAnswered  *float64 `json:"p50_to_answered_sync"`
	RateToAnswered *float64 `json:"rate_to_answered,omitempty"`
	BytesToFloor   *float64 `json:"bytes_to_floor"`
	*RecoveryTimes `json:",omitempty"`
	*SplitTimes    `json:",omitempty"`
}

// Machine is what the run ran on, without anything that names it.
type Machine struct {
	Cores      int    `json:"cores"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"`
	Go         string `json:"go"`
}

// MachineOf describes this machine and the file system of dir.
func MachineOf(dir string) Machine {
	return Machine{
		Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Kernel: kernel(), Filesystem: filesystem(dir), Go: runtime.Version(),
	}
}

// RecoveryTimes are what the start after a kill took.
type RecoveryTimes struct {
	// Ready and First count from the start of the process: until it served,
	// and until the first record was fetched. Replay is the broker's own
	// figure for its recovery.
	Ready  float64 `json:"ready_us"`
	First  float64 `json:"first_record_us"`
	Replay float64 `json:"replay_us"`
	// Acknowledged and Unknown are what was known of the records when the
	// broker was killed; UnknownThere how many of the latter it has.
	Acknowledged uint64 `json:"acknowledged"`
	Unknown      uint64 `json:"unknown"`
	UnknownThere uint64 `json:"unknown_there"`
}

// Count fills in operations, of so many bytes each, and what follows from them.
func (r *Result) Count(operations uint64, took time.Duration, weight float64) {
	r.Operations, r.Seconds = operations, took.Seconds()
	if took > 0 {
		r.PerSecond = float64(operations) / took.Seconds()
		r.BytesPerSecond = r.PerSecond * weight
	}
}

// spent fills in what the broker and this process used.
func (r *Result) spent(u usage, own time.Duration, ownKnown bool) {
	each := func(d time.Duration) *float64 {
		v := micros(d) / float64(max(r.Operations, 1))
		return &v
	}
	if ownKnown {
		r.GeneratorCPU = each(own)
	}
	if !u.known() {
		return
	}
	r.CPU = each(u.cpu())
	memory := uint64(u.after[meterMemory])
	r.Memory = &memory
	by, all := u.syncs()
	r.Syncs, r.Fdatasyncs = by, &all
}

// ratios compares with the floor.
func (r *Result) ratios() {
	f := r.Floor
	if f == nil {
		return
	}
	ratio := func(x, y float64) *float64 {
		if y <= 0 {
			return nil
		}
		v := x / y
		return &v
	}
	switch r.Shape {
	case Fetch:
		r.BytesToFloor = ratio(r.BytesPerSecond, f.Streaming)
		return
	case Produce:
	default:
		return
	}
	r.P50ToSync = ratio(r.P50, f.SyncP50)
	r.P50ToAnswered = ratio(r.P50, f.AnsweredP50)
	r.RateToAnswered = ratio(r.PerSecond, f.AnsweredRate)
	r.BytesToFloor = ratio(r.BytesPerSecond, f.Growing)
}
