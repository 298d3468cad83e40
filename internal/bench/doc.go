// Package bench is the load generator behind `quire bench`. It runs in a
// process of its own, against a broker that it starts as another one, and
// checks what it counts: what a record holds follows from the seed and the
// record's number, so that every record that was acknowledged is read back and
// compared without being kept, in the order of its key.
//
// A run always says all of its settings, what the disk and the loopback can do
// at best in the same run, and how many syncs the broker made. A run that loses
// a record, or gets one that nobody wrote, fails.
//
// The command line calls it; the comparison with peers in bench/peers drives
// other systems with the same records and the same check.
package bench
