package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/quirelog/quire/client"
	"github.com/quirelog/quire/internal/faultfs"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/internal/segment"
	"github.com/quirelog/quire/record"
	"github.com/quirelog/quire/status"
)

// patience bounds what a test waits for.
const patience = time.Minute

// running is a daemon on a file system in memory.
type running struct {
	native, http string
	stop         context.CancelFunc
	ended        chan error
}

// start runs a daemon and waits until it is ready.
func start(t *testing.T, fs *faultfs.FS) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, ended: make(chan error, 1)}
	ready := make(chan struct{})
	cfg := config(fs)
	cfg.Ready = func(native, http net.Addr) {
		r.native, r.http = native.String(), http.String()
		close(ready)
	}
	go func() { r.ended <- Run(ctx, cfg) }()
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-r.ended:
		t.Fatalf("the daemon ended: %v", err)
	}
	return r
}

func config(fs *faultfs.FS) Config {
	return Config{
		Node:   node.Config{Dir: "data", FS: fs, Store: segment.Config{JournalFileBytes: 1 << 20}},
		Listen: "127.0.0.1:0",
		HTTP:   "127.0.0.1:0",
	}
}

// end waits for the daemon's end.
func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the daemon does not end")
		return nil
	}
}

func (r *running) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), r.native)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ready asks the HTTP front.
func (r *running) ready(t *testing.T) (code int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + r.http + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestADaemonServesAndStopsCleanlyWhileReadersWait(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	d := start(t, fs)
	if code, body := d.ready(t); code != http.StatusOK {
		t.Errorf("readyz: %d %s", code, body)
	}
	c := d.client(t)
	if _, err := c.CreateTopic(t.Context(), "t", client.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Produce(t.Context(), "t", record.Record{Value: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	sub, err := c.Subscribe(t.Context(), "t", client.Start())
	if err != nil {
		t.Fatal(err)
	}
	seen, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for _, err := range sub.All() {
			if err == nil {
				seen <- struct{}{}
			}
		}
	}()
	<-seen // from here on it waits for a second record
	begin := time.Now()
	d.stop()
	if err := d.end(t); err != nil {
		t.Errorf("a clean stop: %v", err)
	}
	if took := time.Since(begin); took > DrainLimit {
		t.Errorf("stopping took %s: a subscription held it up", took)
	}
	_ = c.Close()
	<-over

	d = start(t, fs)
	got, err := d.client(t).Fetch(t.Context(), "t", client.Start())
	if err != nil || len(got.Records) != 1 || string(got.Records[0].Value) != "hello" {
		t.Errorf("after a restart: %v, %v", got.Records, err)
	}
}

func TestADaemonEndsWithAClearErrorWhenItsDiskFails(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	d := start(t, fs)
	c := d.client(t)
	if _, err := c.CreateTopic(t.Context(), "t", client.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	fs.SetInjector(func(op faultfs.Op) (f faultfs.Fault) {
		if op.Kind.IsSync() {
			f.Err = syscall.EIO
		}
		return f
	})
	if _, err := c.Produce(t.Context(), "t", record.Record{Value: []byte("lost")}); err == nil {
		t.Error("a record was acknowledged that no sync covers")
	}
	if err := d.end(t); status.CodeOf(err) != status.StoreFailed {
		t.Errorf("the daemon ended with %v, want %s", err, status.StoreFailed)
	}
}

func TestAnAddressInUseIsSaidAndLeavesTheDirectoryFree(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	fs := faultfs.New(faultfs.Config{})
	for name, set := range map[string]func(*Config){
		"native": func(c *Config) { c.Listen = taken.Addr().String() },
		"http":   func(c *Config) { c.HTTP = taken.Addr().String() },
	} {
		cfg := config(fs)
		set(&cfg)
		if err := Run(t.Context(), cfg); status.CodeOf(err) != status.Unavailable {
			t.Errorf("%s: %v, want %s", name, err, status.Unavailable)
		}
	}
	start(t, fs)
}

func TestASecondDaemonOnTheSameDirectoryIsRefused(t *testing.T) {
	fs := faultfs.New(faultfs.Config{})
	start(t, fs)
	if err := Run(t.Context(), config(fs)); status.CodeOf(err) != status.DataLocked {
		t.Errorf("%v, want %s", err, status.DataLocked)
	}
}
