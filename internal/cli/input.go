package cli

import (
	"io"
	"sync/atomic"
)

// input is where the records of a produce come from.
type input struct {
	source
	reader io.Reader
	file   io.Closer
	// idle says that reading on may wait for more input.
	idle func() bool
	// size is how many bytes there are, 0 if that is not known; read is how
	// many have been read.
	size int64
	read atomic.Int64
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.reader.Read(p)
	in.read.Add(int64(n))
	return n, err
}

func (in *input) Close() error { return in.file.Close() }

// once is a source of one record.
type once struct{ item *item }

func (o *once) next() (item, error) {
	if o.item == nil {
		return item{}, io.EOF
	}
	it := *o.item
	o.item = nil
	return it, nil
}
