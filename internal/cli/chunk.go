package cli

import (
	"context"
	"errors"
	"io"
)

// chunk is a few records on their way from the reading goroutine to the
// sending one, and the error that ended the reading, if it did.
type chunk struct {
	items []item
	err   error
}

// Bounds of a chunk. It goes out earlier when reading on might wait.
const (
	chunkItems = 256
	chunkBytes = 256 << 10
)

// read reads src in a goroutine of its own and sends chunks until the input or
// ctx ends. Reading cannot be interrupted, so nobody waits for the goroutine:
// when ctx ends while it waits for stdin, it stays until the process ends.
func read(ctx context.Context, src source, idle func() bool) <-chan chunk {
	chunks := make(chan chunk)
	go func() {
		defer close(chunks)
		for {
			c, end := readChunk(src, idle)
			select {
			case chunks <- c:
			case <-ctx.Done():
				return
			}
			if end {
				return
			}
		}
	}()
	return chunks
}

// readChunk gathers a chunk. end says that it is the last.
func readChunk(src source, idle func() bool) (c chunk, end bool) {
	for bytes := 0; len(c.items) < chunkItems && bytes < chunkBytes; {
		it, err := src.next()
		if errors.Is(err, io.EOF) {
			return c, true
		}
		if err != nil {
			c.err = err
			return c, true
		}
		c.items = append(c.items, it)
		bytes += len(it.rec.Key) + len(it.rec.Value)
		if idle() {
			break
		}
	}
	return c, false
}
