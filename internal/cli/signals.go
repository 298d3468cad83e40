package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible returns a context that the first interrupt or termination
// signal cancels. After it the signals have their usual effect again, so that
// a second one ends a process that takes too long over its farewell.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
