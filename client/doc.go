// Package client talks to a Quire broker.
//
// A [Client] keeps one connection, over which all its requests travel at the
// same time; it is made again when it breaks. Records are written with
// [Client.Produce] (one batch, all or none) or a [Producer] (many records,
// batched), and read with [Client.Read] (up to the present end),
// [Client.Subscribe] (as they come) or [Client.Fetch] (one stretch). Where a
// reader is, is a cursor: an opaque text that can be kept anywhere and
// continues exactly there.
//
// # Outcomes
//
// Errors are [*status.Error] values, found with errors.As, errors.Is or
// [status.CodeOf]. An error that ends a write says what became of it: most
// codes mean that nothing was written; [status.Unknown], [status.Timeout] and
// [status.Canceled] of a request that was under way mean that it may have
// been. A [Producer] sends again what has no answer, and the broker recognizes
// what it has: each record is there once, in the order of its key. A plain
// [Client.Produce] is not sent again unless [WithProduceRetries] allows it:
// then a record is there at least once, perhaps more often. Reads are always
// tried again.
//
// # Goroutines and memory
//
// A Client, a Producer and the Cursor and Close methods of a reading may be
// used by many goroutines; an iterator belongs to one. Everything that waits
// takes a context. Every buffer has a limit, which an option states. What
// reads return belongs to the caller for ever: the bytes of a record are never
// changed or used again. They share one buffer with their neighbours of the
// same delivery, so a program that keeps a few out of many should copy those.
package client
