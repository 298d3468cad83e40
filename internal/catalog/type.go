package catalog

import "github.com/quirelog/quire/status"

// TopicType says what compaction may drop of a topic: of a log nothing, of a
// cache the older values of a key, of a counter the deltas that were applied.
type TopicType uint8

// The types. The numbers are part of the format.
const (
	Log     TopicType = 1
	Cache   TopicType = 2
	Counter TopicType = 3
)

// ParseTopicType reads what String wrote.
func ParseTopicType(s string) (TopicType, error) {
	for t := Log; t <= Counter; t++ {
		if t.String() == s {
			return t, nil
		}
	}
	return 0, status.New(status.InvalidArgument, "topic type %s is not allowed, allowed are log, cache, counter", quote(s))
}

// Valid says whether t is one of the types.
func (t TopicType) Valid() bool { return Log <= t && t <= Counter }

func (t TopicType) String() string {
	switch t {
	case Log:
		return "log"
	case Cache:
		return "cache"
	case Counter:
		return "counter"
	default:
		return "unknown"
	}
}
