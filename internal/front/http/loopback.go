package httpfront

import (
	"net"
	"net/http"
	"net/netip"
)

// loopbackOnly lets a request through that came from this host, to a loopback
// address, under a name of this host. The name matters too: a web page whose
// own host name resolves to 127.0.0.1 would make a browser ask us otherwise.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if local == nil || !isLoopback(local.String()) || !isLoopback(r.RemoteAddr) || !isLoopback(r.Host) {
			http.Error(w, "profiles are served to this host only, over loopback", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback says whether addr, with or without a port, is this host's
// loopback interface.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
