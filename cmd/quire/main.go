// Command quire is the broker and its command line in one binary.
package main

import (
	"context"
	"os"

	"github.com/quirelog/quire/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
