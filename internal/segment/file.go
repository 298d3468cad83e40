package segment

import (
	"fmt"

	"github.com/quirelog/quire/internal/ident"
)

// A segment file is a header, the batches one behind the other, and once the
// segment is sealed a footer.
const (
	headerMagic = 0x47455351 // "QSEG"
	footerMagic = 0x444e4551 // "QEND"
	// fileVersion is the version of segment files that this code writes.
	fileVersion = 1

	headerSize = 4 + 4 + 16 + 8 + metaSize + 4
	footerSize = 4 + 4 + 16 + 8 + 8 + tipSize + 8 + 4
)

// startTip is the tip of a segment without records.
func (m *Meta) startTip() tip {
	return tip{
		length: headerSize,
		tail:   Tail{Base: m.Base, UserBefore: m.UserBefore, Chain: m.Chain, LastTime: m.NotBefore},
	}
}

// segmentPath is where a segment lives within the data directory. The local
// instance tells two lives of one segment id apart.
func segmentPath(id ident.SegmentID, instance uint64) string {
	return fmt.Sprintf("%s/%016x-%x.seg", segmentDir, uint64(id), instance)
}

func encodeHeader(store ident.StoreID, instance uint64, m *Meta) []byte {
	e := encoder{make([]byte, 0, headerSize)}
	e.u32(headerMagic)
	e.u32(fileVersion)
	e.bytes(store[:])
	e.u64(instance)
	e.meta(m)
	e.seal(0)
	return e.b
}

func encodeFooter(store ident.StoreID, instance uint64, id ident.SegmentID, t *tip, lost uint64) []byte {
	e := encoder{make([]byte, 0, footerSize)}
	e.u32(footerMagic)
	e.u32(fileVersion)
	e.bytes(store[:])
	e.u64(instance)
	e.u64(uint64(id))
	e.tip(t)
	e.u64(lost)
	e.seal(0)
	return e.b
}
