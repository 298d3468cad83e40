package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/quirelog/quire/internal/bench"
)

// report is the outcome of the comparisons. Its form in JSON is kept in
// bench/results.
type report struct {
	Machine      bench.Machine     `json:"machine"`
	Versions     map[string]string `json:"versions"`
	Alternations int               `json:"alternations"`
	Seconds      float64           `json:"duration_seconds"`
	Records      uint64            `json:"records"`
	Rows         []*row            `json:"comparisons"`

	dir string
}

// row is one comparison.
type row struct {
	Shape  string `json:"shape"`
	Always bool   `json:"sync_each_write"`
	Way    string `json:"peer_way"`
	Quire  string `json:"quire_command"`
	Peer   job    `json:"peer_job"`
	Quires []side `json:"quire"`
	Peers  []side `json:"peer"`
	Ratio  spread `json:"per_second_ratio"`
	P50    spread `json:"p50_ratio"`
	CPU    spread `json:"cpu_ratio"`
}

// side is what one run of one system measured.
type side struct {
	PerSecond float64 `json:"per_second"`
	bench.Quantiles
	CPU   *float64     `json:"cpu_us_per_op"`
	Floor *bench.Floor `json:"floor,omitempty"`
}

func sideOf(r bench.Result) side { return side{r.PerSecond, r.Quantiles, r.CPU, r.Floor} }

// spread are the ratios of the pairs of runs, each pair one after the other:
// Quire to the peer.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(ratios []float64) spread {
	if len(ratios) == 0 {
		return spread{}
	}
	return spread{median(ratios), slices.Min(ratios), slices.Max(ratios)}
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func newReport(dir string, s settings, sys systems) *report {
	r := &report{
		Machine: bench.MachineOf(dir), Versions: sys.versions, Alternations: s.alternations, Records: s.records, dir: dir,
	}
	if s.records == 0 {
		r.Seconds = s.duration.Seconds()
	}
	return r
}

// compare gives each system its turns.
func (r *report) compare(ctx context.Context, s settings, chosen []comparison, sys systems, progress io.Writer) error {
	for _, c := range chosen {
		for i := range s.alternations {
			fmt.Fprintf(progress, "peers: %s, %d of %d\n", c.Name(), i+1, s.alternations)
			if err := r.alternate(ctx, c, sys, s, uint64(i)); err != nil {
				return fmt.Errorf("%s: %w", c.Name(), err)
			}
		}
	}
	return nil
}

// alternate runs both systems once and adds the pair to the comparison's row.
func (r *report) alternate(ctx context.Context, c comparison, sys systems, s settings, i uint64) error {
	if i == 0 {
		r.Rows = append(r.Rows, &row{
			Shape: c.Shape, Always: c.Always, Way: c.Peer.Way,
			Quire: "quire " + strings.Join(c.quireArgs(s), " "), Peer: c.Peer,
		})
	}
	row := r.Rows[len(r.Rows)-1]
	q, err := c.quire(ctx, sys, s, r.dir, i+1)
	if err != nil {
		return fmt.Errorf("quire: %w", err)
	}
	p, err := c.peer(ctx, sys, s, r.dir, i+1)
	if err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	row.add(sideOf(q), sideOf(p))
	return nil
}

// add adds a pair and sums up anew.
func (w *row) add(q, p side) {
	w.Quires, w.Peers = append(w.Quires, q), append(w.Peers, p)
	var rate, p50, cpu []float64
	for i := range w.Quires {
		q, p := w.Quires[i], w.Peers[i]
		if p.PerSecond > 0 {
			rate = append(rate, q.PerSecond/p.PerSecond)
		}
		if p.P50 > 0 {
			p50 = append(p50, q.P50/p.P50)
		}
		if q.CPU != nil && p.CPU != nil && *p.CPU > 0 {
			cpu = append(cpu, *q.CPU / *p.CPU)
		}
	}
	w.Ratio, w.P50, w.CPU = spreadOf(rate), spreadOf(p50), spreadOf(cpu)
}

// table prints the ratios, Quire to the peer, as a table of Markdown.
func (r *report) table(out io.Writer) error {
	fmt.Fprintf(out, "%d cores, %s %s, %s; quire %s, nats-server %s; %d alternations\n\n",
		r.Machine.Cores, r.Machine.OS, r.Machine.Kernel, r.Machine.Filesystem,
		r.Versions["quire"], r.Versions["nats-server"], r.Alternations)
	w := tabwriter.NewWriter(out, 0, 8, 1, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(w, "| "+strings.Join(cells, "\t| ")+"\t|") }
	line("shape", "sync", "JetStream's way", "Quire /s", "JetStream /s", "rate", "spread", "p50", "CPU of the server")
	line("---", "---", "---", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, c := range r.Rows {
		if len(c.Quires) == 0 {
			continue
		}
		sync := "1 s : 2 min"
		if c.Always {
			sync = "always"
		}
		line(c.Shape, sync, c.Way, rate(c.Quires), rate(c.Peers), times(c.Ratio.Median),
			times(c.Ratio.Min)+"–"+times(c.Ratio.Max), times(c.P50.Median), times(c.CPU.Median))
	}
	return w.Flush()
}

// rate is the median of the runs' rates.
func rate(sides []side) string {
	var rates []float64
	for _, s := range sides {
		rates = append(rates, s.PerSecond)
	}
	return fmt.Sprintf("%.0f", median(rates))
}

// times writes a ratio with two digits that matter.
func times(ratio float64) string {
	switch {
	case ratio >= 10:
		return fmt.Sprintf("%.0f×", ratio)
	case ratio >= 1:
		return fmt.Sprintf("%.1f×", ratio)
	}
	return fmt.Sprintf("%.2f×", ratio)
}

// write keeps the report in a file.
func (r *report) write(name string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
