package control_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/quirelog/quire/internal/catalog"
	"github.com/quirelog/quire/internal/control"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/status"
)

func open(t *testing.T, fs vfs.FS) (*segment.Store, *control.Control) {
	t.Helper()
	store, err := segment.Open(fs, "d", segment.Config{JournalFileBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	c, err := control.Open(store, control.Config{Clock: time.Now, Voters: []ident.StoreID{store.Identity()}})
	if err != nil {
		t.Fatal(err)
	}
	return store, c
}

func create(store *segment.Store, topic string) catalog.CreateTopic {
	return catalog.CreateTopic{
		ID:       ident.NewIncarnation(),
		Name:     catalog.Name{Tenant: "default", Namespace: "default", Topic: topic},
		Type:     catalog.Log,
		Settings: catalog.DefaultSettings(),
		Created:  1,
		Owner:    catalog.Owner{Store: store.Identity(), Process: ident.Incarnation{1}},
	}
}

// What was answered is there after any number of restarts, each of which
// begins a new log, and what was refused is not.
func TestCommandsSurviveRestarts(t *testing.T) {
	fs := vfs.NewMem()
	for restart := range 4 {
		store, c := open(t, fs)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if _, err := c.Propose(create(store, fmt.Sprintf("t%d-%d", restart, i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		_, err := c.Propose(create(store, fmt.Sprintf("t%d-0", restart)))
		if status.CodeOf(err) != status.TopicExists {
			t.Errorf("second topic of a name: %v", err)
		}
		c.View(func(s *catalog.State) {
			if s.Len() != 20*(restart+1) {
				t.Errorf("after restart %d: %d topics", restart, s.Len())
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
		c.Close()
		if _, err := c.Propose(create(store, "late")); err == nil {
			t.Error("a closed catalog took a command")
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A store that failed answers that the outcome is unknown.
func TestAFailedStoreLeavesTheOutcomeUnknown(t *testing.T) {
	fs := vfs.NewMem()
	store, c := open(t, fs)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := c.Propose(create(store, "t"))
	var e *status.Error
	if !errors.As(err, &e) {
		t.Fatalf("propose on a closed store: %v", err)
	}
	c.View(func(s *catalog.State) {
		if s.Len() != 0 {
			t.Error("a command was applied that is not durable")
		}
	})
}
