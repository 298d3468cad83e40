package segment

// publish makes the part's batches readable. A checkpoint that ran since they
// were written did not know of them, so the mark is set again.
func (g *Segment) publish(p *part, generation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.durable
	for _, o := range p.ops {
		if o.kind == opAppend {
			g.index.note(&at, o.tip.tail.LastTime)
			g.store.tail.add(g, cached{base: at.tail.Base, end: o.tip.tail.Base, batch: o.batch})
			at = o.tip
		}
	}
	g.durable = p.end
	if p.direct {
		g.checkpointed = checkpointed{tip: p.end, sealed: p.seal}
		g.dirtyFrom.Store(0)
	} else {
		g.markDirty(generation)
	}
	if p.seal {
		g.sealed, g.sealing = true, true
	}
}

// applyCut sets the tips of a segment whose tail was cut.
func (g *Segment) applyCut(t tip) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cutting = false
	g.term++
	g.cuts++
	g.submitted, g.durable = t, t
	if g.checkpointed.tip.length > t.length {
		g.checkpointed.tip = t
	}
	g.index.cut(t.tail.Base)
	g.store.tail.drop(g)
	g.ends = recentEnds{}
}

// uncut lets appends in again after a cut that was refused.
func (g *Segment) uncut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cutting = false
}

// undelete takes back a deletion that was refused.
func (g *Segment) undelete() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deleted, g.sealing = false, g.sealed
}
