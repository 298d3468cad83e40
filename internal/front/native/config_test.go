package native

import (
	"strings"
	"testing"
	"time"

	"github.com/quirelog/quire/internal/wire"
)

func TestConfigHasItsDefaults(t *testing.T) {
	c, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if c.MaxConnections != 10_000 || c.MaxInFlight != 1024 || c.ProduceBytes != 64<<20 ||
		c.QueuedBytes != 64<<20 ||
		c.ProduceBytesInAll != 1<<30 || c.QueuedBytesInAll != 1<<30 || c.HandshakeTimeout != 10*time.Second ||
		c.FrameTimeout != time.Minute || c.WriteStall != 30*time.Second || c.Log == nil || c.Name == "" {
		t.Errorf("%+v", c)
	}
}

func TestConfigOutOfItsBoundsIsRefused(t *testing.T) {
	for field, c := range map[string]Config{
		"MaxConnections":    {MaxConnections: -1},
		"MaxInFlight":       {MaxInFlight: wire.MaxInFlight + 1},
		"ProduceBytes":      {ProduceBytes: 1},
		"ProduceBytesInAll": {ProduceBytesInAll: 32 << 20},
		"QueuedBytes":       {QueuedBytes: wire.MaxFrame - 1},
		"QueuedBytesInAll":  {QueuedBytesInAll: 1},
		"HandshakeTimeout":  {HandshakeTimeout: -time.Second},
		"FrameTimeout":      {FrameTimeout: 2 * time.Hour},
		"WriteStall":        {WriteStall: -1},
	} {
		if _, err := New(&fakeBroker{}, c); err == nil || !strings.Contains(err.Error(), field+" ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
