package httpfront

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quirelog/quire/status"
)

// broker is a broker of which only the readiness is asked.
type broker struct{ err error }

func (b *broker) Ready() error { return b.err }

// start serves b on a loopback listener and returns its address.
func start(t *testing.T, b *broker, metrics prometheus.Gatherer) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(b, metrics, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, "http://" + l.Addr().String()
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	resp, err := http.Get(url)
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

func TestHealthSaysThatTheProcessAnswersEvenWhenTheBrokerDoesNotServe(t *testing.T) {
	_, url := start(t, &broker{err: status.New(status.DiskFull, "no space")}, prometheus.NewRegistry())
	if code, body := get(t, url+"/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
}

func TestReadinessFollowsTheBrokerAndEndsWithTheDrain(t *testing.T) {
	b := &broker{}
	s, url := start(t, b, prometheus.NewRegistry())
	if code, _ := get(t, url+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz of a broker that serves: %d", code)
	}
	b.err = status.New(status.StoreFailed, "sync failed")
	code, body := get(t, url+"/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "sync failed (store_failed)") {
		t.Errorf("readyz of a broker that does not: %d %q", code, body)
	}
	b.err = nil
	s.Drain()
	if code, _ := get(t, url+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz while draining: %d", code)
	}
}

func TestMetricsAreThoseOfTheRegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "quire_test_total", Help: "A test."})
	reg.MustRegister(c)
	c.Add(3)
	_, url := start(t, &broker{}, reg)
	if code, body := get(t, url+"/metrics"); code != http.StatusOK || !strings.Contains(body, "quire_test_total 3") {
		t.Errorf("metrics: %d %q", code, body)
	}
}

func TestProfilesAreServedToThisHostOnly(t *testing.T) {
	tests := []struct {
		name                string
		local, remote, host string
		want                int
	}{
		{"loopback", "127.0.0.1:4680", "127.0.0.1:5000", "127.0.0.1:4680", http.StatusOK},
		{"loopback by name", "[::1]:4680", "[::1]:5000", "localhost:4680", http.StatusOK},
		{"from elsewhere", "10.0.0.1:4680", "10.0.0.2:5000", "10.0.0.1:4680", http.StatusForbidden},
		{"from here to a public listener", "10.0.0.1:4680", "127.0.0.1:5000", "127.0.0.1:4680", http.StatusForbidden},
		{"under a foreign name", "127.0.0.1:4680", "127.0.0.1:5000", "evil.example:4680", http.StatusForbidden},
	}
	s := New(&broker{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			local, err := net.ResolveTCPAddr("tcp", tt.local)
			if err != nil {
				t.Fatal(err)
			}
			req := httptest.NewRequest(http.MethodGet, "http://"+tt.host+"/debug/pprof/cmdline", nil)
			req = req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, local))
			req.RemoteAddr = tt.remote
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, req)
			if w.Code != tt.want {
				t.Errorf("status %d, want %d", w.Code, tt.want)
			}
		})
	}
}

// endless is a listener to which somebody always connects.
type endless struct {
	net.Listener
	accepted int
}

func (l *endless) Accept() (net.Conn, error) {
	l.accepted++
	c, _ := net.Pipe()
	return c, nil
}

func (l *endless) Close() error { return nil }

func TestTheListenerHoldsBackWhatIsOverTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &endless{}
		l := limit(inner, 2)
		conns := make(chan net.Conn, 10)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				conns <- c
			}
		}()
		synctest.Wait()
		if inner.accepted != 2 {
			t.Errorf("%d connections accepted, want the limit of 2", inner.accepted)
		}
		c := <-conns
		c.Close()
		c.Close() // gives its place back once
		synctest.Wait()
		if inner.accepted != 3 {
			t.Errorf("%d connections accepted after one was closed, want 3", inner.accepted)
		}
		l.Close()
	})
}

func TestClosingAListenerAtItsLimitEndsAccept(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit(inner, 0)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	l.Close()
	if err := <-ended; err == nil {
		t.Error("Accept gave a connection of a closed listener")
	}
}
