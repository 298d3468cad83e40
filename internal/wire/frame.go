package wire

import (
	"strconv"

	"github.com/quirelog/quire/internal/wire/quirev1"
)

// The limits of a frame: what its length field may say.
const (
	// MaxFrame is the limit once the handshake is done.
	MaxFrame = 16 << 20
	// MaxHandshakeFrame is the limit before.
	MaxHandshakeFrame = 64 << 10
)

// MaxInFlight is how many requests a connection may have in flight.
const MaxInFlight = 1024

// Version is the version of the protocol that this code speaks.
const Version = 1

// A frame, both ways. Numbers are little-endian.
//
//	 0  u32  length of what follows
//	 4  u16  type
//	 6  u16  zero
//	 8  u64  correlation id
//	16  u32  length of the message
//	20       message (protobuf), then payload (raw batches)
const (
	// HeaderSize is what a frame has before its message.
	HeaderSize = 20
	// lengthSize is the part of the header that its length does not count.
	lengthSize = 4
)

// Type says which message a frame carries.
type Type uint16

// The types: requests from the client, and their answers from the broker. An
// Error may answer any request; Credit and Cancel speak of a request in
// flight and have no answer of their own.
const (
	TypeHelloRequest          Type = 1
	TypeHelloResponse         Type = 2
	TypeError                 Type = 3
	TypeCreateTopicRequest    Type = 10
	TypeCreateTopicResponse   Type = 11
	TypeListTopicsRequest     Type = 12
	TypeListTopicsResponse    Type = 13
	TypeDescribeTopicRequest  Type = 14
	TypeDescribeTopicResponse Type = 15
	TypeAlterTopicRequest     Type = 16
	TypeAlterTopicResponse    Type = 17
	TypeDeleteTopicRequest    Type = 18
	TypeDeleteTopicResponse   Type = 19
	TypeProduceRequest        Type = 20
	TypeProduceResponse       Type = 21
	TypeFetchRequest          Type = 22
	TypeDelivery              Type = 23
	TypeSubscribeRequest      Type = 24
	TypeCredit                Type = 25
	TypeCancel                Type = 26
	TypeSplitTopicRequest     Type = 28
	TypeSplitTopicResponse    Type = 29
	TypeMergeTopicRequest     Type = 30
	TypeMergeTopicResponse    Type = 31
	TypeCloseProducerRequest  Type = 32
	TypeCloseProducerResponse Type = 33
	TypeOpenProducerRequest   Type = 34
	TypeOpenProducerResponse  Type = 35
	TypeRestripeTopicRequest  Type = 36
	TypeRestripeTopicResponse Type = 37
)

// messages has an empty message of each type.
var messages = map[Type]func() Message{
	TypeHelloRequest:          func() Message { return new(quirev1.HelloRequest) },
	TypeHelloResponse:         func() Message { return new(quirev1.HelloResponse) },
	TypeError:                 func() Message { return new(quirev1.Error) },
	TypeCreateTopicRequest:    func() Message { return new(quirev1.CreateTopicRequest) },
	TypeCreateTopicResponse:   func() Message { return new(quirev1.CreateTopicResponse) },
	TypeListTopicsRequest:     func() Message { return new(quirev1.ListTopicsRequest) },
	TypeListTopicsResponse:    func() Message { return new(quirev1.ListTopicsResponse) },
	TypeDescribeTopicRequest:  func() Message { return new(quirev1.DescribeTopicRequest) },
	TypeDescribeTopicResponse: func() Message { return new(quirev1.DescribeTopicResponse) },
	TypeAlterTopicRequest:     func() Message { return new(quirev1.AlterTopicRequest) },
	TypeAlterTopicResponse:    func() Message { return new(quirev1.AlterTopicResponse) },
	TypeDeleteTopicRequest:    func() Message { return new(quirev1.DeleteTopicRequest) },
	TypeDeleteTopicResponse:   func() Message { return new(quirev1.DeleteTopicResponse) },
	TypeProduceRequest:        func() Message { return new(quirev1.ProduceRequest) },
	TypeProduceResponse:       func() Message { return new(quirev1.ProduceResponse) },
	TypeFetchRequest:          func() Message { return new(quirev1.FetchRequest) },
	TypeDelivery:              func() Message { return new(quirev1.Delivery) },
	TypeSubscribeRequest:      func() Message { return new(quirev1.SubscribeRequest) },
	TypeCredit:                func() Message { return new(quirev1.Credit) },
	TypeCancel:                func() Message { return new(quirev1.Cancel) },
	TypeSplitTopicRequest:     func() Message { return new(quirev1.SplitTopicRequest) },
	TypeSplitTopicResponse:    func() Message { return new(quirev1.SplitTopicResponse) },
	TypeMergeTopicRequest:     func() Message { return new(quirev1.MergeTopicRequest) },
	TypeMergeTopicResponse:    func() Message { return new(quirev1.MergeTopicResponse) },
	TypeCloseProducerRequest:  func() Message { return new(quirev1.CloseProducerRequest) },
	TypeCloseProducerResponse: func() Message { return new(quirev1.CloseProducerResponse) },
	TypeOpenProducerRequest:   func() Message { return new(quirev1.OpenProducerRequest) },
	TypeOpenProducerResponse:  func() Message { return new(quirev1.OpenProducerResponse) },
	TypeRestripeTopicRequest:  func() Message { return new(quirev1.RestripeTopicRequest) },
	TypeRestripeTopicResponse: func() Message { return new(quirev1.RestripeTopicResponse) },
}

// New is an empty message of type t, or nil if there is no such type.
func New(t Type) Message {
	if make, ok := messages[t]; ok {
		return make()
	}
	return nil
}

// HasPayload says whether raw batches may follow the message of type t.
func (t Type) HasPayload() bool { return t == TypeProduceRequest || t == TypeDelivery }

// String is the name of the message, or the number of an unknown type.
func (t Type) String() string {
	if m := New(t); m != nil {
		return string(m.ProtoReflect().Descriptor().Name())
	}
	return "type " + strconv.Itoa(int(t))
}

// Frame is one frame as it was read.
type Frame struct {
	Type Type
	// ID is the correlation id: an answer has that of its request. 0 speaks
	// of the connection as a whole.
	ID uint64
	// Message is the encoded message. It is valid until the next call of the
	// Reader.
	Message []byte
	// Payload is what follows the message. It belongs to whoever read the
	// frame.
	Payload []byte
}
