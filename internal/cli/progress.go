package cli

import (
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// isTerminal says whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// meter is a progress bar on stderr, or nothing where nobody looks at it.
type meter struct {
	all *mpb.Progress
	bar *mpb.Bar
}

// meter begins a progress bar. A total of 0 is one that is not known. unit is
// one of decor's sizes, or plainCount.
func (a *app) meter(name string, total int64, unit any) *meter {
	if !isTerminal(a.stderr) {
		return &meter{}
	}
	all := mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(48))
	before, gone := mpb.PrependDecorators(decor.Name(name)), mpb.BarRemoveOnComplete()
	verb, speed := "%d", decor.AverageSpeed(unit, "  %.0f/s")
	if unit != plainCount {
		verb, speed = "% .1f", decor.AverageSpeed(unit, "  % .1f")
	}
	if total <= 0 {
		after := mpb.AppendDecorators(decor.Current(unit, verb), speed)
		return &meter{all, all.AddSpinner(0, before, after, gone)}
	}
	after := mpb.AppendDecorators(decor.Counters(unit, verb+" / "+verb), speed)
	return &meter{all, all.AddBar(total, before, after, gone)}
}

// plainCount is the unit of a meter that counts records.
const plainCount = 0

// Set moves the bar to n.
func (m *meter) Set(n int64) {
	if m.bar != nil {
		m.bar.SetCurrent(n)
	}
}

// End takes the bar away.
func (m *meter) End() {
	if m.bar != nil {
		m.bar.Abort(true)
		m.all.Wait()
	}
}
