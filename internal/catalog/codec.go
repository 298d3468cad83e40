package catalog

import (
	"bytes"
	"errors"
	"fmt"

	pb "github.com/quirelog/quire/internal/catalog/catalogpb"
	"github.com/quirelog/quire/internal/ident"
	"github.com/quirelog/quire/status"
)

// CommandVersion is the version of the commands that this code writes.
const CommandVersion = 3

// MaxCommand bounds an encoded command.
const MaxCommand = 64 << 10

// errUnknownFields: bytes decode, but not to all that they say.
var errUnknownFields = errors.New("it has parts that this version does not know, or not in the canonical form")

// MarshalCommand encodes a command. The same command gives the same bytes. It
// refuses, wrapping ErrMalformed, what the bytes could not say.
func MarshalCommand(c Command) ([]byte, error) { return marshalCommand(c, CommandVersion) }

func marshalCommand(c Command, version uint32) ([]byte, error) {
	if version < since(c) {
		return nil, fmt.Errorf("%w: version %d has no %T", ErrMalformed, version, c)
	}
	m, err := commandToPB(c)
	if err != nil {
		return nil, err
	}
	m.Version = version
	if n := m.SizeVT(); n > MaxCommand {
		return nil, fmt.Errorf("%w: a %T of %d bytes, at most %d", ErrMalformed, c, n, MaxCommand)
	}
	b, err := m.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("encode a %T: %w", c, err)
	}
	return b, nil
}

// UnmarshalCommand decodes what MarshalCommand encoded, in this or an earlier
// version, and nothing else: the
// error is a *status.Error of code data_newer for an unknown version, and of
// code data_corrupt for all other bytes. It keeps nothing of b.
func UnmarshalCommand(b []byte) (Command, error) {
	if len(b) > MaxCommand {
		return nil, status.New(status.DataCorrupt, "catalog command of %d bytes, at most %d", len(b), MaxCommand)
	}
	var m pb.Command
	if err := m.UnmarshalVT(b); err != nil {
		return nil, status.New(status.DataCorrupt, "catalog command: %w", err)
	}
	if err := checkVersion("command", m.Version, CommandVersion); err != nil {
		return nil, err
	}
	c, err := commandFromPB(&m)
	if err != nil {
		return nil, status.New(status.DataCorrupt, "catalog command: %w", err)
	}
	again, err := marshalCommand(c, m.Version)
	if err != nil {
		return nil, status.New(status.DataCorrupt, "catalog command: %w", err)
	}
	if !bytes.Equal(again, b) {
		return nil, status.New(status.DataCorrupt, "catalog command: %w", errUnknownFields)
	}
	return c, nil
}

func checkVersion(what string, got, known uint32) error {
	switch {
	case got == 0:
		return status.New(status.DataCorrupt, "catalog %s without a version", what)
	case got > known:
		return status.New(status.DataNewer, "catalog %s of version %d, this program knows version %d", what, got, known)
	}
	return nil
}

// since is the first version that has a command.
func since(c Command) uint32 {
	switch c.(type) {
	case Split, Merge:
		return 2
	case OpenSession:
		return 3
	}
	return 1
}

func commandToPB(c Command) (*pb.Command, error) {
	m := &pb.Command{}
	switch c := c.(type) {
	case CreateTopic:
		if err := c.Settings.Check(); err != nil {
			return nil, fmt.Errorf("%w: create %s: %w", ErrMalformed, c.Name, err)
		}
		m.Command = &pb.Command_CreateTopic{CreateTopic: &pb.CreateTopic{
			Id: idBytes(c.ID), Name: nameToPB(c.Name), Type: pb.TopicType(c.Type), Settings: settingsToPB(c.Settings),
			CreatedUs: int64(c.Created), Owner: ownerToPB(c.Owner), Deletions: c.Deletions,
		}}
	case AlterTopic:
		if err := c.Settings.Check(); err != nil {
			return nil, fmt.Errorf("%w: alter %v: %w", ErrMalformed, c.Topic, err)
		}
		m.Command = &pb.Command_AlterTopic{AlterTopic: &pb.AlterTopic{
			Topic: idBytes(c.Topic), Version: c.Version, Token: idBytes(c.Token), Settings: settingsToPB(c.Settings),
		}}
	case DeleteTopic:
		m.Command = &pb.Command_DeleteTopic{DeleteTopic: &pb.DeleteTopic{
			Topic: idBytes(c.Topic), DeletedUs: int64(c.Deleted),
		}}
	case Grant:
		m.Command = &pb.Command_Grant{Grant: &pb.Grant{
			Topic: idBytes(c.Topic), Range: uint64(c.Range), Epoch: uint64(c.Epoch), Version: c.Version,
			Open: uint64(c.Open), Seal: sealToPB(c.Seal), Owner: ownerToPB(c.Owner),
		}}
	case Roll:
		m.Command = &pb.Command_Roll{Roll: &pb.Roll{
			Topic: idBytes(c.Topic), Range: uint64(c.Range), Epoch: uint64(c.Epoch), Version: c.Version,
			Open: uint64(c.Open), Seal: sealToPB(c.Seal),
		}}
	case Split:
		m.Command = &pb.Command_Split{Split: &pb.Split{
			Topic: idBytes(c.Topic), Ending: endingToPB(c.Ending), At: uint64(c.At),
		}}
	case Merge:
		m.Command = &pb.Command_Merge{Merge: &pb.Merge{
			Topic: idBytes(c.Topic), Left: endingToPB(c.Left), Right: endingToPB(c.Right),
		}}
	case OpenSession:
		m.Command = &pb.Command_OpenSession{OpenSession: &pb.OpenSession{Topic: idBytes(c.Topic), Sessions: c.Sessions}}
	case Trim:
		m.Command = &pb.Command_Trim{Trim: &pb.Trim{
			Topic: idBytes(c.Topic), TopicVersion: c.TopicVersion, Range: uint64(c.Range), Through: uint64(c.Through),
		}}
	case ConfirmRetired:
		confirm := &pb.ConfirmRetired{}
		for _, r := range c.Retired {
			confirm.Retired = append(confirm.Retired, retiredToPB(r))
		}
		m.Command = &pb.Command_ConfirmRetired{ConfirmRetired: confirm}
	default:
		return nil, fmt.Errorf("%w: a %T is no command", ErrMalformed, c)
	}
	return m, nil
}

func commandFromPB(m *pb.Command) (Command, error) {
	var d decoder
	var c Command
	switch m := m.Command.(type) {
	case *pb.Command_CreateTopic:
		m2 := m.CreateTopic
		c = CreateTopic{
			ID: d.id(m2.Id), Name: nameFromPB(m2.Name), Type: TopicType(m2.Type), Settings: settingsFromPB(m2.Settings),
			Created: ident.Timestamp(m2.CreatedUs), Owner: d.owner(m2.Owner), Deletions: m2.Deletions,
		}
	case *pb.Command_AlterTopic:
		m2 := m.AlterTopic
		c = AlterTopic{
			Topic: d.id(m2.Topic), Version: m2.Version, Token: d.id(m2.Token), Settings: settingsFromPB(m2.Settings),
		}
	case *pb.Command_DeleteTopic:
		m2 := m.DeleteTopic
		c = DeleteTopic{Topic: d.id(m2.Topic), Deleted: ident.Timestamp(m2.DeletedUs)}
	case *pb.Command_Grant:
		m2 := m.Grant
		c = Grant{
			Topic: d.id(m2.Topic), Range: ident.RangeID(m2.Range), Epoch: ident.Epoch(m2.Epoch), Version: m2.Version,
			Open: ident.SegmentID(m2.Open), Seal: sealFromPB(m2.Seal), Owner: d.owner(m2.Owner),
		}
	case *pb.Command_Roll:
		m2 := m.Roll
		c = Roll{
			Topic: d.id(m2.Topic), Range: ident.RangeID(m2.Range), Epoch: ident.Epoch(m2.Epoch), Version: m2.Version,
			Open: ident.SegmentID(m2.Open), Seal: sealFromPB(m2.Seal),
		}
	case *pb.Command_Split:
		c = Split{Topic: d.id(m.Split.Topic), Ending: endingFromPB(m.Split.Ending), At: ident.Position(m.Split.At)}
	case *pb.Command_Merge:
		c = Merge{Topic: d.id(m.Merge.Topic), Left: endingFromPB(m.Merge.Left), Right: endingFromPB(m.Merge.Right)}
	case *pb.Command_OpenSession:
		c = OpenSession{Topic: d.id(m.OpenSession.Topic), Sessions: m.OpenSession.Sessions}
	case *pb.Command_Trim:
		m2 := m.Trim
		c = Trim{
			Topic: d.id(m2.Topic), TopicVersion: m2.TopicVersion, Range: ident.RangeID(m2.Range),
			Through: ident.SegmentID(m2.Through),
		}
	case *pb.Command_ConfirmRetired:
		var confirm ConfirmRetired
		for _, r := range m.ConfirmRetired.Retired {
			confirm.Retired = append(confirm.Retired, d.retired(r))
		}
		c = confirm
	default:
		return nil, errors.New("it has no kind that this version knows")
	}
	return c, d.err
}
