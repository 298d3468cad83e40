package segment

import (
	"fmt"

	"github.com/quirelog/quire/status"
)

// CorruptError says which bytes are damaged. Every damage that is found below
// the durable mark is reported as one, under the code data_corrupt.
type CorruptError struct {
	// File is the path within the data directory, and Offset the byte in it
	// at which the damage was noticed: the beginning of the damaged piece.
	File   string
	Offset int64
	What   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", e.File, e.Offset, e.What)
}

// corrupt makes the error that users see of a damage.
func corrupt(file string, offset int64, format string, args ...any) error {
	return status.New(status.DataCorrupt, "%w", &CorruptError{File: file, Offset: offset, What: fmt.Sprintf(format, args...)})
}
