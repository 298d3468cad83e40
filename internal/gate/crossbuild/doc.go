// Package crossbuild builds the module for the systems that the machine at hand
// is not, as a test. It is a package of its own because go test gives each
// package ten minutes, and on a new machine these builds compile everything,
// the standard library included.
//
// Like the rest of the gate it has no code of its own, and nothing imports it.
package crossbuild
