package bench

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/quirelog/quire/status"
)

// meters are the broker's counters at one moment, by name and labels as its
// /metrics has them. Nil if they cannot be had.
type meters map[string]float64

// scrapeLimit bounds one look at the meters: in time, and in bytes.
const (
	scrapeLimit = 10 * time.Second
	scrapeBytes = 4 << 20
)

// scrape reads the meters of the broker whose HTTP port is at addr.
func scrape(ctx context.Context, addr string) (meters, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, status.New(status.UsageError, "the address of the metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, status.New(status.Unavailable, "cannot read the broker's metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, status.New(status.Unavailable, "cannot read the broker's metrics: %s", resp.Status)
	}
	return parseMeters(io.LimitReader(resp.Body, scrapeBytes))
}

// parseMeters reads the text format of Prometheus: a name with its labels, a
// space, a value.
func parseMeters(r io.Reader) (meters, error) {
	m := meters{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, status.New(status.Internal, "the broker's metrics have the line %q", line)
		}
		m[line[:at]] = value
	}
	if err := lines.Err(); err != nil {
		return nil, status.New(status.Unavailable, "cannot read the broker's metrics: %w", err)
	}
	return m, nil
}

// The names of the meters that are looked at.
const (
	meterCPU    = "process_cpu_seconds_total"
	meterMemory = "process_resident_memory_bytes"
	meterBytes  = "quire_produce_bytes_total"
)

func meterSyncs(kind string) string { return `quire_fsync_seconds_count{kind="` + kind + `"}` }

// syncKinds are the reasons for which the broker calls fdatasync.
var syncKinds = []string{"journal", "direct", "checkpoint"}

// usage is what the broker spent between two looks.
type usage struct{ before, after meters }

func (u usage) known() bool { return u.before != nil && u.after != nil }

func (u usage) of(name string) float64 { return u.after[name] - u.before[name] }

func (u usage) cpu() time.Duration { return time.Duration(u.of(meterCPU) * float64(time.Second)) }

// syncs counts the calls of fdatasync by their reason, and all of them.
func (u usage) syncs() (by map[string]uint64, all uint64) {
	by = map[string]uint64{}
	for _, kind := range syncKinds {
		by[kind] = uint64(u.of(meterSyncs(kind)))
		all += by[kind]
	}
	return by, all
}

// flushBytes is how much an acknowledged write made durable at a time.
func (u usage) flushBytes() int {
	by, _ := u.syncs()
	n := by["journal"] + by["direct"]
	if n == 0 {
		return 0
	}
	return int(u.of(meterBytes)) / int(n)
}
