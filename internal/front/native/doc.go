// Package native is the broker's door for Quire's own clients: it speaks the
// protocol of docs/native-protocol.md over TCP and hands every request to the
// broker. It has no rules of its own about topics and records.
//
// A connection has two goroutines, one that reads requests and one that writes
// answers; long polls, subscriptions and requests about topics have one each.
// No request waits for another one's answer, and everything that a client can
// make grow has a bound: requests in flight, bytes of batches on their way in,
// bytes of answers that wait to be read. At a bound the connection's own
// reading or delivering waits. A client that stays there does not hold memory
// for long: it is cut.
//
// The command line and the embedded broker compose it over a node.
package native
