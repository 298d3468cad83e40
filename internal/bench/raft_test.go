package bench

import (
	"encoding/binary"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/control"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// What the control plane costs: three nodes in this process, each with a store on
// the disk of the temporary directory, 64 groups, frames handed over in memory.
//
//	go test ./internal/bench -run '^$' -bench Raft -benchtime 50000x

const raftGroups = 64

// counter is a state machine that only counts.
type counter struct{ n uint64 }

func (c *counter) Apply([]byte) (any, error) {
	c.n++
	return c.n, nil
}

func (c *counter) Snapshot() iter.Seq[[]byte] {
	b := binary.LittleEndian.AppendUint64(nil, c.n)
	return func(yield func([]byte) bool) { yield(b) }
}

func (c *counter) Restore(chunks iter.Seq[[]byte]) error {
	for b := range chunks {
		c.n = binary.LittleEndian.Uint64(b)
	}
	return nil
}

// raftNodes are three drivers and the links between them.
type raftNodes struct {
	drivers map[ident.StoreID]*control.Driver
	links   map[[2]ident.StoreID]chan []byte
	token   atomic.Uint64
}

// link is the transport of one node.
type link struct {
	nodes *raftNodes
	from  ident.StoreID
}

func (l link) Send(to ident.StoreID, frame []byte) {
	select {
	case l.nodes.links[[2]ident.StoreID{l.from, to}] <- frame:
	default: // lost, as a slow network would
	}
}

func startRaft(b *testing.B) *raftNodes {
	b.Helper()
	n := &raftNodes{drivers: map[ident.StoreID]*control.Driver{}, links: map[[2]ident.StoreID]chan []byte{}}
	var stores []*segment.Store
	var ids []ident.StoreID
	for range 3 {
		s, err := segment.Open(vfs.Default, b.TempDir(), segment.Config{BallastReserve: -1})
		if err != nil {
			b.Fatal(err)
		}
		stores, ids = append(stores, s), append(ids, s.Identity())
	}
	var groups []consensus.GroupID
	for g := range raftGroups {
		groups = append(groups, consensus.GroupID(g+1))
	}
	var links sync.WaitGroup
	for _, from := range ids {
		for _, to := range ids {
			n.links[[2]ident.StoreID{from, to}] = make(chan []byte, 4096)
		}
	}
	for _, s := range stores {
		d, err := control.OpenDriver(s, control.Config{
			Clock: time.Now, Groups: groups, Voters: ids, Transport: link{n, s.Identity()},
			Machine: func(consensus.GroupID) control.Machine { return &counter{} },
		})
		if err != nil {
			b.Fatal(err)
		}
		n.drivers[s.Identity()] = d
	}
	for ends, frames := range n.links {
		links.Go(func() {
			for f := range frames {
				if err := n.drivers[ends[1]].Receive(ends[0], f); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.Cleanup(func() {
		for _, d := range n.drivers {
			d.Close()
		}
		for _, frames := range n.links {
			close(frames)
		}
		links.Wait()
		for _, s := range stores {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	return n
}

// leaders waits until all groups are led.
func (n *raftNodes) leaders() map[consensus.GroupID]*control.Driver {
	leaders := map[consensus.GroupID]*control.Driver{}
	for len(leaders) < raftGroups {
		for _, d := range n.drivers {
			for g := range raftGroups {
				id := consensus.GroupID(g + 1)
				if s, ok := d.Status(id); ok && s.Leading {
					leaders[id] = d
				}
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	return leaders
}

func (n *raftNodes) propose(b *testing.B, leaders map[consensus.GroupID]*control.Driver, command []byte) {
	i := n.token.Add(1)
	var token consensus.Token
	binary.LittleEndian.PutUint64(token[:], i)
	id := consensus.GroupID(1 + i%raftGroups)
	if _, err := leaders[id].Propose(id, token, command); err != nil {
		b.Error(err)
	}
}

func BenchmarkRaft(b *testing.B) {
	for _, inflight := range []int{192, 1} {
		b.Run(fmt.Sprintf("inflight=%d", inflight), func(b *testing.B) {
			n := startRaft(b)
			leaders := n.leaders()
			command := make([]byte, 100)
			took := NewLatencies()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			cpu, _ := ownCPU()
			for w := range inflight {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						began := time.Now()
						n.propose(b, leaders, command)
						took.Add(w, time.Since(began))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			q := took.Quantiles()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "proposals/s")
			b.ReportMetric(q.P50, "p50-µs")
			b.ReportMetric(q.P99, "p99-µs")
			now, _ := ownCPU()
			b.ReportMetric(float64((now-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
	b.Run("idle", func(b *testing.B) {
		n := startRaft(b)
		leaders := n.leaders()
		for range 10_000 {
			n.propose(b, leaders, make([]byte, 100))
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		const rest = 5 * time.Second
		cpu, _ := ownCPU()
		<-time.After(rest)
		now, _ := ownCPU()
		used := now - cpu
		b.ReportMetric(100*used.Seconds()/rest.Seconds()/3, "%core/node")
		b.ReportMetric(float64(m.HeapInuse+m.StackInuse)/3/(1<<20), "MiB/node")
		b.ReportMetric(float64(runtime.NumGoroutine())/3, "goroutines/node")
	})
}
