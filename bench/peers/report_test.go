package main

import (
	"testing"

	"github.com/quirelog/quire/internal/bench"
)

func TestRatiosAreThoseOfPairs(t *testing.T) {
	us := func(v float64) *float64 { return &v }
	var w row
	// The machine is slow in the second pair: the ratio of the medians would
	// say something else.
	for _, pair := range [][2]float64{{100, 10}, {30, 2}, {90, 10}} {
		w.add(side{PerSecond: pair[0], Quantiles: bench.Quantiles{P50: 1}, CPU: us(2)},
			side{PerSecond: pair[1], Quantiles: bench.Quantiles{P50: 4}, CPU: us(8)})
	}
	if want := (spread{Median: 10, Min: 9, Max: 15}); w.Ratio != want {
		t.Errorf("rates: %+v, want %+v", w.Ratio, want)
	}
	if want := (spread{0.25, 0.25, 0.25}); w.P50 != want || w.CPU != want {
		t.Errorf("p50 %+v and CPU %+v, want %+v", w.P50, w.CPU, want)
	}
}

func TestMedianOfAnEvenNumberLiesBetween(t *testing.T) {
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("%g, want 2.5", got)
	}
}
