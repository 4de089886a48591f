#!/bin/sh
# zkit beside raw zmq and CZMQ: run.sh [--quick] [part of a workload's name...]
set -eu

cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
czmq=$target/peers/czmq
: "${CC:=cc}"

if echo '#include <czmq.h>' | $CC -E - >/dev/null 2>&1; then
    mkdir -p "$target/peers"
    # shellcheck disable=SC2086 # CC and CFLAGS may be several words.
    $CC -std=gnu11 -O2 -Wall ${CFLAGS:-} -o "$czmq" benches/peers/czmq.c -lczmq -lzmq -lpthread
    # Not relative: cargo runs benches in the package's directory, wherever that is.
    set -- --czmq "$(cd "$target/peers" && pwd)/czmq" "$@"
else
    echo "libczmq is not installed (Debian: libczmq-dev): its columns stay empty" >&2
fi
cargo bench --quiet --bench peers -- "$@"
