package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/quirelog/quire/internal/daemon"
	"github.com/quirelog/quire/internal/node"
	"github.com/quirelog/quire/status"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: "Run a broker until SIGTERM or an interrupt, which drain what is under way for\n" +
			"at most 10 seconds and stop cleanly; a second one stops at once. When it is\n" +
			"ready it says so on stderr: quire ready listen=… http=…\n\n" +
			"Each flag can also be a QUIRE_… variable (QUIRE_DATA, QUIRE_LOG_LEVEL) or a line\n" +
			"of the file that --config names. Flags win over variables, variables over the\n" +
			"file.",
		Example: "  quire serve --data ./quire-data\n" +
			"  quire serve --config /etc/quire/quire.yaml --log-format json",
		GroupID: groupBroker,
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.String("config", "", "file with settings, in YAML")
	for _, s := range serveSettings() {
		if s.fallback == "false" {
			flags.Bool(s.name, false, s.usage)
		} else {
			flags.String(s.name, s.fallback, s.usage)
		}
	}
	cmd.RunE = a.run(func(ctx context.Context, _ []string) error {
		path, err := flags.GetString("config")
		if err != nil {
			return err
		}
		cfg, err := loadConfig(flags, a.environ, cmp.Or(path, a.getenv("QUIRE_CONFIG", "")))
		if err != nil {
			return err
		}
		return a.serve(ctx, cfg)
	})
	return cmd
}

// serve runs the daemon until ctx ends.
func (a *app) serve(ctx context.Context, cfg serveConfig) error {
	var handler slog.Handler = slog.NewTextHandler(a.stderr, &cfg.log)
	if cfg.logJSON {
		handler = slog.NewJSONHandler(a.stderr, &cfg.log)
	}
	log := slog.New(handler).With("node", cfg.node)
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if cfg.insecure {
		a.warnOfExposure(cfg)
	}
	err := daemon.Run(ctx, daemon.Config{
		Node:     node.Config{Dir: cfg.data, Log: log, Registry: registry},
		Name:     "quire/" + buildVersion().Version,
		Listen:   cfg.listen,
		HTTP:     cfg.http,
		Insecure: cfg.insecure,
		Ready: func(native, http net.Addr) {
			line := "quire ready listen=" + native.String()
			if http != nil {
				line += " http=" + http.String()
			}
			fmt.Fprintln(a.stderr, line)
		},
	})
	return explainServe(err)
}

// warnOfExposure says loudly what --insecure opens.
func (a *app) warnOfExposure(cfg serveConfig) {
	for _, addr := range []string{cfg.listen, cfg.http} {
		if private, err := daemon.IsLoopback(addr); err != nil || private || addr == "" {
			continue
		}
		fmt.Fprintf(a.stderr, "quire: WARNING: %s is open to the network, without TLS or authentication:\n"+
			"quire: WARNING: whoever reaches it can read, write and delete everything\n", addr)
	}
}

// explainServe gives hints that fit the one who runs a broker.
func explainServe(err error) error {
	var sys *net.OpError
	if status.CodeOf(err) == status.Unavailable && errors.As(err, &sys) {
		return withHint(err, "stop what uses the address, or choose another with --listen or --http")
	}
	return err
}
