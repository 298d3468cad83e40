package daemon

import (
	"context"
	"net"
	"time"

	"github.com/quirelog/quire/status"
)

// checkAddresses refuses addresses that others than this host can reach,
// unless the configuration says that they may.
func checkAddresses(cfg Config) error {
	for _, addr := range []string{cfg.Listen, cfg.HTTP} {
		if addr == "" {
			continue
		}
		private, err := IsLoopback(addr)
		if err != nil {
			return err
		}
		if !private && !cfg.Insecure {
			return status.New(status.InsecureListen,
				"%s can be reached from outside this host, and this version has neither TLS nor authentication", addr)
		}
	}
	return nil
}

// IsLoopback says whether a listener on addr, HOST:PORT, can be reached from
// this host only. A name must resolve to loopback addresses alone.
func IsLoopback(addr string) (bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return false, status.New(status.UsageError, "the address %q is not of the form HOST:PORT", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return false, status.New(status.UsageError, "the address %q has no valid port", addr)
	}
	if host == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveLimit)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false, status.New(status.UsageError, "cannot resolve the address %q: %w", addr, err)
	}
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return false, nil
		}
	}
	return true, nil
}

// resolveLimit bounds the resolving of a listener's name.
const resolveLimit = 5 * time.Second

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, status.New(status.Unavailable, "cannot listen on %s: %w", addr, err)
	}
	return l, nil
}

func addrOf(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}
