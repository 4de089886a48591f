#!/usr/bin/env bash
# What a program that uses zkit has of libzmq: all of zkit-engine's and nothing of that which the crate
# zmq-sys compiles. As a program, a cdylib and a staticlib, by each linker that is here.
set -euo pipefail
cd "$(dirname "$0")/../.."

project=$PWD
mkdir -p "${CARGO_TARGET_DIR:-target}/dependent"
target=$(cd "${CARGO_TARGET_DIR:-target}/dependent" && pwd)
unset CARGO_TARGET_DIR

# Outside of the project, whose configuration of Cargo would leave the older libzmq out.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r engine/tests/dependent/{src,main.c} "$folder"
sed "s|PROJECT|$project|" engine/tests/dependent/Cargo.in.toml >"$folder/Cargo.toml"
cp Cargo.lock "$folder"
cd "$folder"

fail() {
    echo "$*" >&2
    exit 1
}

cargo build --release --target-dir "$target"

# Nothing is shown unless there is something to be taken by mistake.
older=$(ls -t "$target"/release/deps/libzmq_sys-*.rlib | head -n 1)
objects=$(ar t "$older" | grep -c -E '^[0-9a-f]{16}-[a-z0-9_]+\.o$') || fail "$older has no libzmq"
echo "the older libzmq is there: $objects objects"

# What a program says of itself, what its linker took, and the names of sources in its assertions.
check() {
    local what=$1 program=$2 map=$3
    [ "$("$program" | grep -c 'libzmq 4.3.5 with ipc.*curve')" = 1 ] || fail "$what: not zkit's engine"
    if grep -E 'libzmq_sys[^ ]*rlib[^ ]*[0-9a-f]{16}-[a-z0-9_]+\.o' "$map"; then
        fail "$what: objects of the older libzmq"
    fi
    if LC_ALL=C grep -q 'zeromq-src-0' "$program"; then
        fail "$what: sources of the older libzmq"
    fi
    echo "$what: one libzmq, 4.3.5"
}

linkers=0
for linker in bfd lld mold; do
    command -v "ld.$linker" >/dev/null || { echo "no ld.$linker here"; continue; }
    linkers=$((linkers + 1))
    by="-C link-arg=-fuse-ld=$linker -C link-arg=-Wl,-Map=$folder/map"
    # shellcheck disable=SC2086 # They are several words.
    cargo rustc --quiet --release --target-dir "$target" --bin dependent -- $by
    check "a program by $linker" "$target/release/dependent" map

    # shellcheck disable=SC2086
    cargo rustc --quiet --release --target-dir "$target" --lib --crate-type cdylib -- $by
    LC_ALL=C grep -q 'zeromq-src-0' "$target/release/libdependent.so" &&
        fail "a cdylib by $linker: sources of the older libzmq"
    cc "-fuse-ld=$linker" -o shared main.c -L"$target/release" -ldependent "-Wl,-rpath,$target/release"
    check "a cdylib by $linker" ./shared map

    cargo rustc --quiet --release --target-dir "$target" --lib --crate-type staticlib
    cc "-fuse-ld=$linker" -o static main.c "$target/release/libdependent.a" \
        "-Wl,-Map=$folder/map" -lstdc++ -lpthread -ldl -lm
    check "a staticlib by $linker" ./static map
    # In the one archive, both have objects; those of the older one have the hashed prefix of many files.
    older_prefix=$(ar t "$older" | grep -E -- '-ctx\.o$' | cut -d- -f1)
    if grep -q "libdependent.a.*$older_prefix-" map; then
        fail "a staticlib by $linker: objects of the older libzmq"
    fi
done
[ "$linkers" -gt 0 ] || fail "no linker was tried"
