package batch

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// The zstd coders are made on first use and shared: both are safe for
// concurrent use of the calls made here and keep one state per processor.
var (
	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		// The batch has a checksum of its own, and is known to be small.
		return zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true),
			zstd.WithWindowSize(1<<20))
	})
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		// The limit to the capacity of the output is what bounds a payload
		// that expands beyond its declared size.
		return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0),
			zstd.WithDecoderMaxWindow(MaxSize), zstd.WithDecoderMaxMemory(MaxSize+sparseSlack))
	})
)

// compress writes raw compressed into scratch, which it may replace by a larger
// one. It is false where compression does not shrink.
func compress(c Compression, scratch, raw []byte) ([]byte, bool) {
	switch c {
	case S2:
		scratch = s2.Encode(scratch[:cap(scratch)], raw)
	case Zstd:
		enc, err := zstdEncoder()
		if err != nil {
			return scratch, false
		}
		scratch = enc.EncodeAll(raw, scratch[:0])
	default:
		return scratch, false
	}
	return scratch, len(scratch) < len(raw)
}

// decompress decodes b into scratch, whose length is the size that the batch
// declares. Anything but exactly that many bytes is an error, and nothing is
// allocated for them.
func decompress(c Compression, scratch, b []byte) error {
	var out []byte
	var err error
	switch c {
	case S2:
		var n int
		if n, err = s2.DecodedLen(b); err == nil && n == len(scratch) {
			out, err = s2.Decode(scratch, b)
		}
	case Zstd:
		var dec *zstd.Decoder
		if dec, err = zstdDecoder(); err == nil {
			out, err = dec.DecodeAll(b, scratch[:0:len(scratch)])
		}
	}
	if err != nil {
		return fmt.Errorf("%w: payload: %w", ErrCorrupt, err)
	}
	if len(out) != len(scratch) || &out[0] != &scratch[0] {
		return fmt.Errorf("%w: payload does not expand to the %d bytes that the header says", ErrCorrupt, len(scratch))
	}
	return nil
}
