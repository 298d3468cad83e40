// Package gate holds the rules of this repository as tests, so that
// `go test ./...` is the whole gate: formatting, vet, staticcheck, the import
// table, the purity of the cores, package comments, the page of guarantees and
// the tables of the documents; the builds for other systems are in crossbuild.
//
// It has no code of its own and nothing imports it. A rule is a function from
// the tree of files to the problems that it finds; testdata/rules has a small
// tree for each way to break a rule, so that a rule that has gone blind is
// noticed. The tree is read by the test itself: Go caches the result of a test
// by the files that the test opened, and does not see what its children read.
package gate
