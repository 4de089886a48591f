#!/bin/sh
# zkit beside its peers: run.sh [--all] [--quick | --rounds N] [part of a workload's name...]
#
# zkit, raw zmq and CZMQ; with --all every peer that can be had here, and docs/benchmarks.md and its
# plots are made of what is measured.
set -eu

cd "$(dirname "$0")/../.."
mkdir -p "${CARGO_TARGET_DIR:-target}/peers"
# Not relative: cargo runs benches in the package's directory, wherever that is.
peers=$(cd "${CARGO_TARGET_DIR:-target}/peers" && pwd)
: "${CC:=cc}"

all=
if [ "${1-}" = --all ]; then
    all=yes
    shift
fi

without() { echo "$1: its figures stay out" >&2; }

if echo '#include <czmq.h>' | $CC -E - >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # CC and CFLAGS may be several words.
    $CC -std=gnu11 -O2 -Wall ${CFLAGS:-} -o "$peers/czmq" benches/peers/czmq.c -lczmq -lzmq -lpthread
    set -- --peer "$peers/czmq" "$@"
else
    without "libczmq is not installed (Debian: libczmq-dev)"
fi

if [ "$all" ]; then
    # Several peers in one package, each of which may fail to build.
    others=$peers/others/release
    rm -f "$others/omq" "$others/rzmq" "$others/zeromq" "$others/tmq"
    cargo build --keep-going --quiet --release --manifest-path benches/peers/others/Cargo.toml \
        --target-dir "$peers/others" || true
    for peer in omq rzmq zeromq tmq; do
        if [ -x "$others/$peer" ]; then
            set -- --peer "$others/$peer" "$@"
        else
            without "$peer does not build"
        fi
    done

    if { [ -x "$peers/venv/bin/python" ] || python3 -m venv "$peers/venv"; } &&
        "$peers/venv/bin/pip" install --quiet --disable-pip-version-check pyzmq==27.3.0; then
        printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' \
            "$peers/venv/bin/python" "$PWD/benches/peers/pyzmq.py" >"$peers/pyzmq"
        chmod +x "$peers/pyzmq"
        set -- --peer "$peers/pyzmq" "$@"
    else
        without "pyzmq cannot be installed"
    fi

    set -- --save "$peers/results.json" "$@"
fi

cargo bench -p zkit-benches --quiet --bench peers -- "$@"
[ ! "$all" ] || cargo bench -p zkit-benches --quiet --bench peers -- --report "$peers/results.json" "$PWD/docs"
