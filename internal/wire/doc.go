// Package wire has the bytes of the native protocol: the preface of a
// connection, the frames that follow it, and the protobuf messages inside
// them (quirev1). Both ends use it, the broker's door and the client;
// docs/native-protocol.md is its description for other languages.
//
// The package reads and writes bytes and has no policy: who may send what and
// when is decided by the ends.
package wire
