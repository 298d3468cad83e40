package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quirelog/quire/internal/bench"
)

// TestEachWayWritesAndChecks runs JetStream for a moment in each of its ways.
func TestEachWayWritesAndChecks(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "nats-server")
	if out, err := exec.Command("go", "build", "-o", program, natsServer).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range comparisons() {
		if c.Shape == "batched-4k" {
			continue // as batched
		}
		j := c.Peer
		j.Always, j.Records, j.Seed, j.Server, j.Dir = c.Always, 1500, 7, program, dir
		t.Run(c.Name(), func(t *testing.T) {
			r, err := j.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := j.Records * uint64(max(j.Subscribers, 1))
			if r.Operations != want || !r.Verified || r.P50 <= 0 || r.PerSecond <= 0 || r.CPU == nil {
				t.Errorf("%+v, want %d operations, verified", r, want)
			}
		})
	}
}

// TestAMessageThatIsNotThereIsNoticed runs a job whose ledger has one message
// more than was written.
func TestAMessageThatIsNotThereIsNoticed(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "nats-server")
	if out, err := exec.Command("go", "build", "-o", program, natsServer).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p, err := job{
		Way: wayAsync, Payload: 64, InFlight: 10, Connections: 1, Records: 100, Server: program, Dir: dir,
	}.start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	p.ledger.Sending(0)
	if _, err := p.measure(t.Context()); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("%v, want a lost record", err)
	}
}

func TestAMessageOfAnotherIsNoticed(t *testing.T) {
	plan := bench.Plan{Workers: 1, Topics: 1}
	c, l := bench.NewContent(1, 64, 10, plan), bench.NewLedger(1)
	data := make([]byte, bench.KeySize+64)
	copy(data, c.Record(l.Sending(0), data[bench.KeySize:]))
	for _, harm := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:10] },
		func(b []byte) []byte { b[0]++; return b },
		func(b []byte) []byte { b[len(b)-1]++; return b },
	} {
		v := bench.NewVerifier(c, l)
		v.Topic(0)
		if err := check(v, harm(append([]byte(nil), data...))); err == nil {
			t.Error("a message that is not as it was written was taken")
		}
	}
}
