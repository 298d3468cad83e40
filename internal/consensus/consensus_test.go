package consensus

import (
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"testing"
)

// seedVariable names the one seed to run, with the stack of what went wrong.
const seedVariable = "QUIRE_CONSENSUS_SEED"

// seeds and steps of the default run.
const (
	seeds = 120
	steps = 8000
)

// run is one life of a cluster: faults, then calm. A broken promise is an error.
func run(seed uint64, steps int) (c counts, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
			if os.Getenv(seedVariable) != "" {
				err = fmt.Errorf("%v\n%s", r, debug.Stack())
			}
		}
	}()
	s := newSim(seed)
	for range steps {
		s.step()
	}
	err = s.settle()
	return s.counts, err
}

func TestManyGroupsKeepTheirPromisesUnderFaults(t *testing.T) {
	first, last := uint64(1), uint64(seeds)
	if env := os.Getenv(seedVariable); env != "" {
		n, err := strconv.ParseUint(env, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, last = n, n
	}
	var sum counts
	for seed := first; seed <= last; seed++ {
		c, err := run(seed, steps)
		if err != nil {
			t.Errorf("seed %d: %v\n\treplay it: %s=%d go test ./internal/consensus -run %s", seed, err, seedVariable, seed, t.Name())
		}
		to, from := reflect.ValueOf(&sum).Elem(), reflect.ValueOf(c)
		for i := range to.NumField() {
			to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
		}
	}
	t.Logf("%+v", sum)
	for i, v := range reflect.ValueOf(sum).Fields() {
		if first != last && v.Int() == 0 {
			t.Errorf("no run has met: %s", i.Name)
		}
	}
}
