package faultfs

import "fmt"

// Kind is the kind of an operation.
type Kind uint8

// The kinds of operations. Those from Create on change, or may change, what a
// crash leaves behind.
const (
	Open Kind = iota
	List
	Stat
	Read
	Close
	Usage
	Lock
	Create
	Link
	Remove
	Rename
	Mkdir
	Write
	Preallocate
	Sync
	SyncData
	SyncTo
	SyncDir
)

var kindNames = [...]string{
	"open", "list", "stat", "read", "close", "usage", "lock", "create", "link", "remove", "rename",
	"mkdir", "write", "preallocate", "sync", "syncdata", "syncto", "syncdir",
}

func (k Kind) String() string { return kindNames[k] }

// Changes says whether operations of this kind count as changes.
func (k Kind) Changes() bool { return k >= Create }

// IsSync says whether operations of this kind promise durability.
func (k Kind) IsSync() bool { return k >= Sync }

// Op is one operation, as an Injector sees it before it takes effect.
type Op struct {
	// N numbers all operations, Change those that may change the disk; an
	// operation that does not has the number of the next one that does.
	N, Change int64
	Kind      Kind
	// Path is what the file was opened as. To is the new name of a link or a
	// rename.
	Path, To string
	// Offset and Len are what a read, a write or a reservation spans.
	Offset int64
	Len    int64
}

func (o Op) String() string {
	s := fmt.Sprintf("#%d %s %s", o.Change, o.Kind, o.Path)
	switch o.Kind {
	case Read, Write, Preallocate, SyncTo:
		s += fmt.Sprintf(" [%d,+%d)", o.Offset, o.Len)
	case Link, Rename:
		s += " -> " + o.To
	}
	return s
}

// Fault is what happens to one operation. The zero Fault lets it pass.
type Fault struct {
	// Err is what the operation returns: syscall.EIO, syscall.ENOSPC,
	// io.ErrShortWrite, … Without Done it has no effect, with three
	// exceptions: a write stores Bytes bytes, a read delivers Bytes bytes, and
	// a sync turns dirty sectors clean without storing them.
	Err error
	// Bytes is the part of a failed write or read that was done.
	Bytes int
	// Done makes the operation take its full effect before it returns Err: the
	// answer got lost, not the work.
	Done bool
	// Crash stops the machine in place of this operation.
	Crash bool
}

// Injector decides about one operation. It is called with the file system
// locked: it must be quick and must not call back.
type Injector func(Op) Fault

// admit numbers an operation and asks whether it may happen.
func (f *FS) admit(op *Op) (Fault, error) {
	if f.frozen {
		return Fault{}, ErrCrashed
	}
	op.N, op.Change = f.ops, f.changes
	var fault Fault
	if f.inject != nil {
		fault = f.inject(*op)
	}
	if fault.Crash || op.Kind.Changes() && op.Change == f.crashAt {
		f.frozen = true
		f.trace(*op, ErrCrashed)
		return Fault{}, ErrCrashed
	}
	f.ops++
	if op.Kind.Changes() {
		f.changes++
	}
	return fault, nil
}

func (f *FS) trace(op Op, err error) {
	if f.cfg.Trace != nil {
		f.cfg.Trace(op, err)
	}
}

// do runs one operation that either happens or does not.
func (f *FS) do(op Op, effect func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault, err := f.admit(&op)
	if err != nil {
		return wrap(op, err)
	}
	if fault.Err == nil || fault.Done {
		err = effect()
	}
	if err == nil {
		err = fault.Err
	}
	f.trace(op, err)
	return wrap(op, err)
}
