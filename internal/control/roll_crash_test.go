package control_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/quirelog/quire/internal/consensus"
	"github.com/quirelog/quire/internal/control"
	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
)

// ledgerOn opens a store with one group that it is alone in.
func ledgerOn(disk *faultfs.FS, roll int64) (*segment.Store, *control.Driver, *ledger, error) {
	store, err := segment.Open(disk, "d", storeConfig)
	if err != nil {
		return nil, nil, nil, err
	}
	m := &ledger{}
	d, err := control.OpenDriver(store, control.Config{
		Clock: time.Now, Groups: []consensus.GroupID{1}, Voters: []ident.StoreID{store.Identity()}, RollBytes: roll,
		Machine: func(consensus.GroupID) control.Machine { return m },
	})
	if err != nil {
		_ = store.Close()
		return nil, nil, nil, err
	}
	return store, d, m, nil
}

// The machine stops in place of each change that the disk sees while a log is
// rolled, once losing all that was not synced and once keeping it: what was
// acknowledged is there.
func TestACrashAtAnyStepOfARollLosesNothing(t *testing.T) {
	before := runtime.GOMAXPROCS(1) // a run is the same up to where it is stopped
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	rolled, sites := 0, 0
	for _, survive := range []int{0, 100} {
		for site, whole := int64(0), false; !whole; site++ {
			synctest.Test(t, func(t *testing.T) {
				disk := faultfs.New(faultfs.Config{Seed: 1})
				store, d, _, err := ledgerOn(disk, 3000)
				if err != nil {
					t.Fatal(err)
				}
				first := store.Segments()[0].ID
				disk.CrashAt(disk.Changes() + site)
				var sure []string
				for i := range 40 {
					line := fmt.Sprintf("line %d, and as much again so that the log grows %060d", i, i)
					if _, err := d.Propose(1, tokenOf(uint64(i)), []byte(line)); err != nil {
						break
					}
					sure = append(sure, line)
				}
				synctest.Wait()
				if all := store.Segments(); all[len(all)-1].ID > first {
					rolled++
				}
				whole = !disk.Frozen()
				left := disk.Crash(faultfs.CrashOptions{Survive: survive})
				disk.Freeze()
				d.Close()
				store.Close() //nolint:errcheck // its machine has stopped

				store, d, m, err := ledgerOn(left, 3000)
				if err != nil {
					t.Fatalf("site %d: %v", site, err)
				}
				if got := m.all(); len(got) < len(sure) || !slices.Equal(got[:len(sure)], sure) {
					t.Errorf("site %d, %d percent survive: %d lines were acknowledged, there are %d", site, survive, len(sure), len(got))
				}
				d.Close()
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			sites++
		}
	}
	t.Logf("%d sites, %d with a roll", sites, rolled)
	if sites < 100 || rolled < 20 {
		t.Errorf("%d sites, and a roll at %d of them", sites, rolled)
	}
}

// A member among others whose log a repair has shortened forgot what it promised:
// it does not come back as itself.
func TestAMemberWhoseLogWasRepairedStaysAway(t *testing.T) {
	for name, voters := range map[string]int{"alone": 1, "among others": 3} {
		disk := faultfs.New(faultfs.Config{Seed: 1})
		store, err := segment.Open(disk, "d", storeConfig)
		if err != nil {
			t.Fatal(err)
		}
		id := store.Identity()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		all := []ident.StoreID{id, {1}, {2}}[:voters]
		open := func() (*segment.Store, *control.Driver, error) {
			store, err := segment.Open(disk, "d", storeConfig)
			if err != nil {
				t.Fatal(err)
			}
			d, err := control.OpenDriver(store, control.Config{
				Clock: time.Now, Groups: []consensus.GroupID{1}, Voters: all,
				Machine: func(consensus.GroupID) control.Machine { return &ledger{} },
			})
			return store, d, err
		}
		store, d, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if voters > 1 {
			// Another one campaigns, and this one promises it its vote.
			vote(t, d, id, all[1])
		}
		d.Close()
		log := store.Segments()[0]
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := disk.FlipBit(fmt.Sprintf("d/segments/%016x-1.seg", uint64(log.ID)), log.Bytes-5, 1); err != nil {
			t.Fatal(err)
		}
		if r, err := segment.Doctor(disk, "d", true); err != nil || len(r.Findings) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		store, d, err = open()
		if (err == nil) != (voters == 1) {
			t.Errorf("%s: %v", name, err)
		}
		if d != nil {
			d.Close()
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// vote asks a driver for its vote, and waits until the disk has it.
func vote(t *testing.T, d *control.Driver, id, other ident.StoreID) {
	t.Helper()
	s, _ := d.Status(1)
	me, _ := s.Members.Find(id)
	from, _ := s.Members.Find(other)
	m := raftpb.Message{Type: raftpb.MsgVote, From: uint64(from), To: uint64(me), Term: 9, LogTerm: 1, Index: 1}
	frame := consensus.EncodeMessage(consensus.Message{From: other, To: id, Raft: []consensus.GroupMessage{{Group: 1, Message: m}}})
	if err := d.Receive(other, frame); err != nil {
		t.Fatal(err)
	}
	d.Status(1) // what came of the frame is seen by the next one
	if s, _ = d.Status(1); s.Term != 9 {
		t.Fatalf("%+v", s)
	}
}
