package wire

//go:generate ../../tools/proto.sh generate
