#!/bin/sh
# What is done with the protobuf messages under proto/, with the tools pinned
# in tools/go.mod:
#
#   tools/proto.sh lint      style of the messages
#   tools/proto.sh breaking  compatibility with proto/baseline.binpb
#   tools/proto.sh generate  write the Go code
#   tools/proto.sh fresh     fail if the committed Go code is not what generate writes
#   tools/proto.sh check     lint, breaking and fresh
#   tools/proto.sh baseline  make the present messages the baseline, at a release
set -eu
cd "$(dirname "$0")/.."

buf() { go tool -modfile=tools/go.mod buf "$@"; }

fresh() {
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
	buf generate -o "$out"
	# Generated files that are missing, differ, or are left over from a
	# message that is gone.
	(cd "$out" && find . -name '*.pb.go') | sort >"$out/new"
	find . -name '*.pb.go' -not -path './.git/*' | sort >"$out/old"
	diff -u "$out/old" "$out/new" >&2 || stale
	while read -r file; do
		diff -u "$file" "$out/$file" >&2 || stale
	done <"$out/new"
}

stale() {
	echo 'The generated code is stale: run tools/proto.sh generate and commit the result.' >&2
	exit 1
}

case "${1:-}" in
lint) buf lint ;;
breaking) buf breaking --against proto/baseline.binpb ;;
generate) buf generate ;;
fresh) fresh ;;
check)
	buf lint
	buf breaking --against proto/baseline.binpb
	fresh
	;;
baseline) buf build --exclude-source-info -o proto/baseline.binpb ;;
*)
	sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
