package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

func openStore(t *testing.T, fs vfs.FS) *segment.Store {
	t.Helper()
	store, err := segment.Open(fs, "d", segment.Config{JournalFileBytes: 64 << 10, MinFreeBytes: -1, BallastReserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// alone is the configuration of a store that is the only member.
func alone(store *segment.Store) Config {
	return Config{Clock: time.Now, Voters: []ident.StoreID{store.Identity()}}
}

func command(store *segment.Store, topic string) catalog.CreateTopic {
	return catalog.CreateTopic{
		ID: ident.NewIncarnation(), Name: catalog.Name{Tenant: "default", Namespace: "default", Topic: topic},
		Type: catalog.Log, Settings: catalog.DefaultSettings(), Created: 1,
		Owner: catalog.Owner{Store: store.Identity(), Process: ident.Incarnation{1}},
	}
}

// put appends a record and waits for it.
func put(t *testing.T, l *segmentLog, v []byte) {
	t.Helper()
	done := make(chan error, 1)
	if err := l.append(v, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// beforeRaft writes a log as versions before Raft did: a snapshot, and commands.
func beforeRaft(t *testing.T, store *segment.Store, whole bool) {
	t.Helper()
	l, err := createLog(store, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	state := catalog.New()
	for i := range 10 {
		if _, err := state.Apply(command(store, fmt.Sprint("old", i))); err != nil {
			t.Fatal(err)
		}
	}
	for chunk := range state.Snapshot() {
		put(t, l, append([]byte{entrySnapshot}, chunk...))
		if !whole {
			return
		}
	}
	for _, name := range []string{"old0", "then"} { // the first is refused, as it was
		b, err := catalog.MarshalCommand(command(store, name))
		if err != nil {
			t.Fatal(err)
		}
		put(t, l, append([]byte{entryCommand}, b...))
	}
}

func topics(c *Control) (n int) {
	c.View(func(s *catalog.State) { n = s.Len() })
	return n
}

// A store of before Raft is opened with its topics, and from then on is one of
// Raft; a log that such a version had only begun is passed over.
func TestAStoreOfBeforeRaftKeepsItsTopics(t *testing.T) {
	fs := vfs.NewMem()
	store := openStore(t, fs)
	beforeRaft(t, store, true)
	beforeRaft(t, store, false)
	for life := range 3 {
		c, err := Open(store, alone(store))
		if err != nil {
			t.Fatal(err)
		}
		if n := topics(c); n != 11+life {
			t.Errorf("life %d: %d topics", life, n)
		}
		if n := len(logSegments(store)); n != 1 {
			t.Errorf("%d logs", n)
		}
		if _, err := c.Propose(command(store, fmt.Sprint("new", life))); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		store = openStore(t, fs)
	}
}

// A log that a repair has ended is gone on with in another one.
func TestALogThatWasEndedIsReplaced(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	for life := range 3 {
		c, err := Open(store, alone(store))
		if err != nil {
			t.Fatal(err)
		}
		if n := topics(c); n != life {
			t.Errorf("life %d: %d topics", life, n)
		}
		if _, err := c.Propose(command(store, fmt.Sprint("t", life))); err != nil {
			t.Fatal(err)
		}
		c.Close()
		log, _ := store.Segment(logSegments(store)[0].ID)
		if _, err := log.Seal(); err != nil {
			t.Fatal(err)
		}
	}
}

// What a newer version wrote is refused by name.
func TestALogOfANewerVersionIsRefused(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	l, err := createLog(store, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	put(t, l, []byte{entryRaft, RecordVersion + 1, 0})
	if _, err := Open(store, alone(store)); status.CodeOf(err) != status.DataNewer {
		t.Errorf("open: %v", err)
	}
}
