package native

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quirelog/quire/internal/wire"
	"github.com/quirelog/quire/status"
)

// The limits that are counted when they are hit.
const (
	limitConnections  = "connections"
	limitInFlight     = "requests_in_flight"
	limitProduceBytes = "produce_bytes"
	limitQueuedBytes  = "queued_bytes"
	limitFrame        = "frame"
	limitHandshake    = "handshake_timeout"
	limitFrameTime    = "frame_timeout"
	limitWriteStall   = "write_stall"
)

// metrics are what the front counts.
type metrics struct {
	connections prometheus.Gauge
	accepted    prometheus.Counter
	requests    *prometheus.CounterVec
	bytesIn     prometheus.Counter
	bytesOut    prometheus.Counter
	limits      *prometheus.CounterVec
	// succeeded has the counters of requests that ended well, by type: they
	// are counted often.
	succeeded map[wire.Type]prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quire_native_connections", Help: "Open connections on the native port.",
		}),
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quire_native_accepted_total", Help: "Connections that the native port has accepted.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quire_native_requests_total", Help: "Requests that have ended, by type and by code, ok for success.",
		}, []string{"type", "code"}),
		bytesIn: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quire_native_received_bytes_total", Help: "Bytes of frames received on the native port.",
		}),
		bytesOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quire_native_sent_bytes_total", Help: "Bytes sent on the native port.",
		}),
		limits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quire_native_limit_hits_total", Help: "How often a limit of the native port was hit.",
		}, []string{"limit"}),
		succeeded: map[wire.Type]prometheus.Counter{},
	}
	for t := range requestTypes {
		m.succeeded[t] = m.requests.WithLabelValues(t.String(), "ok")
	}
	if r == nil {
		return m, nil
	}
	all := []prometheus.Collector{m.connections, m.accepted, m.requests, m.bytesIn, m.bytesOut, m.limits}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) limit(name string) { m.limits.WithLabelValues(name).Inc() }

// ended counts a request of type t with its outcome.
func (m *metrics) ended(t wire.Type, err error) {
	if err == nil {
		m.succeeded[t].Inc()
		return
	}
	m.requests.WithLabelValues(t.String(), string(status.CodeOf(err))).Inc()
}
