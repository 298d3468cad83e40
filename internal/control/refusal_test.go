package control

import (
	"iter"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

// sum is a machine that counts.
type sum struct{ n int }

func (s *sum) Apply([]byte) (any, error) {
	s.n++
	return s.n, nil
}
func (s *sum) Snapshot() iter.Seq[[]byte]     { return func(func([]byte) bool) {} }
func (s *sum) Restore(iter.Seq[[]byte]) error { return nil }

// What became durable just before the disk was full is answered with yes, however
// much it is, and only what was refused with no.
func TestOnlyWhatWasRefusedIsAnsweredSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New(faultfs.Config{})
		store, err := segment.Open(disk, "d", segment.Config{JournalFileBytes: 64 << 10, MinFreeBytes: -1, BallastReserve: -1})
		if err != nil {
			t.Fatal(err)
		}
		m := &sum{}
		cfg := Config{
			Clock: time.Now, Groups: []consensus.GroupID{Root}, Voters: []ident.StoreID{store.Identity()},
			Machine: func(consensus.GroupID) Machine { return m },
			Host:    consensus.Config{MaxMessageBytes: 1000}, // a few commands are handed out at a time
		}
		d, err := OpenDriver(store, cfg)
		if err != nil {
			t.Fatal(err)
		}
		var all []*proposal
		propose := func(n int) {
			for range n {
				p := &proposal{token: number(uint64(len(all) + 1)), data: make([]byte, 100), done: make(chan struct{})}
				all = append(all, p)
				d.enqueue(Root, p)
			}
			d.process()
		}
		answers := func(n int) { // waits until so many are in the inbox
			for {
				d.inbox.mu.Lock()
				there := len(d.inbox.work)
				d.inbox.mu.Unlock()
				if there >= n {
					return
				}
				<-time.After(time.Millisecond)
			}
		}
		d.inbox.post(func() {
			propose(50)
			answers(1)
			disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
				if op.Kind == faultfs.Write {
					return faultfs.Fault{Err: syscall.ENOSPC}
				}
				return faultfs.Fault{}
			})
			propose(1)
			answers(2)
			disk.SetInjector(nil)
		})
		synctest.Wait()
		<-time.After(time.Minute)
		for i, p := range all {
			<-p.done
			if want := i == 50; (p.err != nil) != want || want && status.CodeOf(p.err) != status.DiskFull {
				t.Errorf("command %d: %v", i, p.err)
			}
		}
		if _, err := d.Propose(Root, number(100), nil); err != nil || m.n != 51 {
			t.Errorf("%v, and %d were applied", err, m.n)
		}
		d.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
