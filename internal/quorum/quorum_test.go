package quorum

import (
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// seedVariable names the one seed to run, with its trace if a promise is broken.
const seedVariable = "QUIRE_QUORUM_SEED"

// countVariable is how many seeds to run, instead of the default.
const countVariable = "QUIRE_QUORUM_SEEDS"

const (
	seeds  = 300
	faulty = 10 * time.Second // of simulated time, before the faults end
)

// run is one life of a range: faults, then calm. A broken promise is an error.
func run(seed uint64, broken rule, tracing bool) (c counts, err error) {
	var s *sim
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
			if _, ours := r.(string); !ours || strings.HasPrefix(fmt.Sprint(r), "quorum:") {
				err = fmt.Errorf("%v\n%s", r, debug.Stack())
			}
		}
		if err != nil && tracing && s != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(s.trace, "\n"))
		}
	}()
	s = newSim(seed, broken)
	s.tracing = tracing
	s.run(Instant(faulty))
	err = s.settle()
	return s.counts, err
}

func TestARangeKeepsItsPromisesUnderFaults(t *testing.T) {
	first, last := uint64(1), uint64(seeds)
	env := os.Getenv(seedVariable)
	if many := os.Getenv(countVariable); many != "" {
		n, err := strconv.ParseUint(many, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	if env != "" {
		n, err := strconv.ParseUint(env, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, last = n, n
	}
	var sum counts
	for seed := first; seed <= last; seed++ {
		c, err := run(seed, ruleNone, env != "")
		if err != nil {
			t.Errorf("seed %d: %v\n\treplay it with its trace: %s=%d go test ./internal/quorum -run %s", seed, err, seedVariable, seed, t.Name())
		}
		sum.add(&c)
	}
	t.Logf("%+v", sum)
	if env != "" {
		return
	}
	v := reflect.ValueOf(sum)
	for i := range v.NumField() {
		if v.Field(i).Int() == 0 {
			t.Errorf("in all the runs there was no %s", v.Type().Field(i).Name)
		}
	}
}

func (c *counts) add(d *counts) {
	to, from := reflect.ValueOf(c).Elem(), reflect.ValueOf(d).Elem()
	for i := range to.NumField() {
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
}
