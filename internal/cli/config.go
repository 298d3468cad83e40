package cli

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// setting is one setting of serve. Its name is the flag, the key in the file,
// and, as QUIRE_NAME, the variable in the environment.
type setting struct{ name, fallback, usage string }

// serveSettings are all of them.
func serveSettings() []setting {
	host, _ := os.Hostname()
	return []setting{
		{"data", "./quire-data", "directory of the data; made if it is not there"},
		{"listen", defaultAddr, "address of the native port"},
		{"http", "127.0.0.1:4680", "address of the HTTP port, for health and metrics; off for none"},
		{"node", cmp.Or(host, "quire"), "name of this node in logs and answers"},
		{"insecure", "false", "allow listeners that other hosts can reach, without TLS and authentication"},
		{"log-format", "text", "text or json"},
		{"log-level", "info", "debug, info, warn or error"},
	}
}

// serveConfig is what serve is told, wherever it was said.
type serveConfig struct {
	data, listen, http, node string
	insecure                 bool
	log                      slog.HandlerOptions
	logJSON                  bool
}

// loadConfig reads the settings: flags over environment over the file at path,
// if one is named, over defaults.
func loadConfig(flags *pflag.FlagSet, environ []string, path string) (serveConfig, error) {
	k := koanf.New(".")
	settings := serveSettings()
	defaults, named := map[string]any{}, map[string]any{}
	for _, s := range settings {
		defaults[s.name] = s.fallback
		if f := flags.Lookup(s.name); f.Changed {
			named[s.name] = f.Value.String()
		}
	}
	variables := env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			name = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, envPrefix)), "_", "-")
			if _, known := defaults[name]; !known || value == "" {
				return "", nil
			}
			return name, value
		},
	})
	if err := k.Load(confmap.Provider(defaults, ""), nil); err != nil {
		return serveConfig{}, err
	}
	if path != "" {
		if err := loadFile(k, path, defaults); err != nil {
			return serveConfig{}, err
		}
	}
	if err := k.Load(variables, nil); err != nil {
		return serveConfig{}, err
	}
	if err := k.Load(confmap.Provider(named, ""), nil); err != nil {
		return serveConfig{}, err
	}
	return parseConfig(k)
}

const envPrefix = "QUIRE_"

// loadFile adds a file, all of whose keys must be known.
func loadFile(k *koanf.Koanf, path string, known map[string]any) error {
	in := koanf.New(".")
	if err := in.Load(file.Provider(path), yaml.Parser()); err != nil {
		return withHint(usage("cannot read the configuration %s: %w", path, err),
			"it is YAML with one `name: value` a line, as packaging/quire.yaml shows")
	}
	for _, key := range in.Keys() {
		if _, ok := known[key]; !ok {
			return withHint(usage("the configuration %s has the unknown key %q", path, key),
				"the keys are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if in.Get(key) == nil {
			return usage("the configuration %s gives %q no value", path, key)
		}
	}
	return k.Merge(in)
}

// parseConfig reads the values, which may be text or what YAML made of it.
func parseConfig(k *koanf.Koanf) (cfg serveConfig, err error) {
	text := func(name string) string { return fmt.Sprint(k.Get(name)) }
	cfg = serveConfig{data: text("data"), listen: text("listen"), http: text("http"), node: text("node")}
	if cfg.data == "" {
		return cfg, usage("data names no directory")
	}
	if cfg.http == "off" || cfg.http == "false" {
		cfg.http = ""
	}
	if cfg.insecure, err = strconv.ParseBool(text("insecure")); err != nil {
		return cfg, usage("insecure is %q; it is true or false", text("insecure"))
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(text("log-level"))); err != nil {
		return cfg, usage("log-level is %q; it is debug, info, warn or error", text("log-level"))
	}
	cfg.log.Level = level
	switch format := text("log-format"); format {
	case "text", "json":
		cfg.logJSON = format == "json"
	default:
		return cfg, usage("log-format is %q; it is text or json", format)
	}
	return cfg, nil
}
