package daemon

import (
	"context"
	"testing"

	"github.com/quirelog/quire/status"
)

func TestAddressesThatOtherHostsReachAreRefusedBeforeAnythingIsOpened(t *testing.T) {
	tests := []struct {
		listen, http string
		insecure     bool
		want         status.Code
	}{
		{"0.0.0.0:0", "", false, status.InsecureListen},
		{":4600", "", false, status.InsecureListen},
		{"[::]:4600", "", false, status.InsecureListen},
		{"192.0.2.1:4600", "", false, status.InsecureListen},
		{"127.0.0.1:0", "0.0.0.0:4680", false, status.InsecureListen},
		{"127.0.0.1", "", false, status.UsageError},
		{"127.0.0.1:", "", false, status.UsageError},
		{"127.0.0.1:99999", "", false, status.UsageError},
		{"127.0.0.1:notaport", "", true, status.UsageError},
		{"127.0.0.1:4600", "[::1]:4680", false, ""},
		{"127.5.5.5:4600", "localhost:4680", false, ""},
		{"0.0.0.0:4600", ":4680", true, ""},
	}
	for _, tt := range tests {
		cfg := Config{Listen: tt.listen, HTTP: tt.http, Insecure: tt.insecure}
		if got := status.CodeOf(checkAddresses(cfg)); got != tt.want {
			t.Errorf("listen %q, http %q, insecure %v: %q, want %q", tt.listen, tt.http, tt.insecure, got, tt.want)
		}
	}
	err := Run(context.Background(), Config{Listen: "0.0.0.0:0"})
	if got := status.CodeOf(err); got != status.InsecureListen {
		t.Errorf("Run: %v, want %s", err, status.InsecureListen)
	}
}
