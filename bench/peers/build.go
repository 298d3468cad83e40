package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// systems are the programs that are compared.
type systems struct {
	self, quire, nats string
	// versions are what they say of themselves.
	versions map[string]string
}

const natsServer = "github.com/nats-io/nats-server/v2"

// build builds Quire from the checkout that this module lies in, and the peer
// from the module that go.mod names.
func build(ctx context.Context, dir string) (systems, error) {
	s := systems{quire: filepath.Join(dir, "quire"), nats: filepath.Join(dir, "nats-server")}
	var err error
	if s.self, err = self(); err != nil {
		return s, err
	}
	here, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return s, err
	}
	if _, err := output(ctx, filepath.Join(here, "..", ".."), "go", "build", "-buildvcs=true", "-o", s.quire, "./cmd/quire"); err != nil {
		return s, err
	}
	if _, err := output(ctx, "", "go", "build", "-o", s.nats, natsServer); err != nil {
		return s, err
	}
	s.versions = moduleVersions()
	if s.versions["nats-server"], err = output(ctx, "", s.nats, "--version"); err != nil {
		return s, err
	}
	s.versions["nats-server"] = strings.TrimPrefix(s.versions["nats-server"], "nats-server: ")
	s.versions["quire"], err = quireVersion(ctx, s.quire)
	return s, err
}

// quireVersion is version and commit, and whether the checkout has changes.
func quireVersion(ctx context.Context, program string) (string, error) {
	var v struct {
		Version, Commit string
		Modified        bool
	}
	text, err := output(ctx, "", program, "version", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(text), &v)
	}
	version := v.Version
	if !strings.Contains(version, v.Commit[:min(len(v.Commit), 12)]) {
		version += " " + v.Commit
	}
	if v.Modified && !strings.Contains(version, "dirty") {
		version += " modified"
	}
	return version, err
}

// moduleVersions are those of the peer's client libraries.
func moduleVersions() map[string]string {
	versions := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/nats-io/nats.go":
			versions["nats.go"] = m.Version
		case "github.com/synadia-io/orbit.go/jetstreamext":
			versions["jetstreamext"] = m.Version
		}
	}
	return versions
}

// output runs a command in a directory and gives what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
