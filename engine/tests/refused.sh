#!/usr/bin/env bash
# What zkit-engine's build script says where it cannot build, and that what it builds depends on nothing
# but its input. The script is run as Cargo does, in environments that Cargo seldom meets.
set -euo pipefail
cd "$(dirname "$0")/../.."

script=$(cargo build -p zkit-engine --message-format=json 2>/dev/null | python3 -c '
import json, sys
for line in sys.stdin:
    artifact = json.loads(line)
    package = artifact.get("package_id", "")
    if "zkit-engine" in package and artifact.get("target", {}).get("kind") == ["custom-build"]:
        print(*artifact.get("filenames", []), sep="\n")
' | grep build-script-build | tail -n 1)
[ -x "$script" ] || { echo "no build script" >&2; exit 1; }
host=$(rustc -vV | sed -n 's/^host: //p')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# run OUT VARIABLE=VALUE...: the script for this machine, without CURVE.
run() {
    local out=$1
    shift
    mkdir -p "$out"
    (
        cd engine
        env OUT_DIR="$out" TARGET="$host" HOST="$host" OPT_LEVEL=0 DEBUG=true PROFILE=debug NUM_JOBS=2 \
            CARGO_MANIFEST_DIR="$PWD" "${family:-CARGO_CFG_UNIX}"= CARGO_CFG_TARGET_OS=linux CARGO_CFG_TARGET_ENV=gnu \
            CARGO_CFG_TARGET_ARCH="${host%%-*}" CARGO_CFG_TARGET_FEATURE=fxsr DEP_ZMQ_ENGINE=zkit "$@" "$script"
    )
}

# refused NAME WORD... -- VARIABLE=VALUE...: it fails, and says all of the words.
refused() {
    local name=$1 words=() text
    shift
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    if text=$(run "$folder/refused" "$@" 2>&1); then
        echo "$name: it was built" >&2
        exit 1
    fi
    for word in "${words[@]}"; do
        grep -qF -- "$word" <<<"$text" || { printf '%s: no "%s" in:\n%s\n' "$name" "$word" "$text" >&2; exit 1; }
    done
    echo "$name: refused in words"
}

refused "no compiler" "no C++ compiler works for $host" "Debian: g++" "cargo/system-libzmq.toml" \
    -- CXX=/nonexistent/c++
refused "a compiler that fails" "no C++ compiler works for $host" "or name one in the variable CXX" \
    -- CXX=false
family=CARGO_CFG_WINDOWS refused "no Unix" "x86_64-pc-windows-msvc is not a Unix" \
    -- TARGET=x86_64-pc-windows-msvc
# This machine may have the header in a place of its own.
printf '#!/bin/sh\ncase "$*" in *sodium.cpp*) exit 1 ;; esac\nexec c++ "$@"\n' >"$folder/c++"
chmod +x "$folder/c++"
refused "no sodium.h" "no sodium.h in /nonexistent" "libsodium-dev" 'the feature "curve"' \
    -- CARGO_FEATURE_CURVE=1 DEP_SODIUM_INCLUDE=/nonexistent CXX="$folder/c++"
printf 'Name: libzmq\nDescription: old\nVersion: 4.2.5\nLibs: -lzmq\n' >"$folder/libzmq.pc"
refused "an old libzmq of the system" "the system's libzmq is 4.2.5" "4.3.0 or newer" \
    -- DEP_ZMQ_ENGINE=system PKG_CONFIG_PATH="$folder"
refused "a folder that cannot be worked in" "cannot" \
    -- OUT_DIR=/proc/nowhere

told=$(run "$folder/system" DEP_ZMQ_ENGINE=system PKG_CONFIG_PATH=)
if grep -q rustc-link <<<"$told" || [ -n "$(ls "$folder/system")" ]; then
    echo "with the system's libzmq, something was built" >&2
    exit 1
fi
echo "with the system's libzmq, nothing is built"

# Paths with spaces, other flags of Cargo's: the same archive.
run "$folder/a place" >/dev/null
run "$folder/another" OPT_LEVEL=3 DEBUG=false PROFILE=release NUM_JOBS=1 >/dev/null
cmp "$folder/a place/libzkit-libzmq.a" "$folder/another/libzkit-libzmq.a"
if LC_ALL=C grep -q "$HOME" "$folder/another/libzkit-libzmq.a"; then
    echo "the archive names folders of this machine" >&2
    exit 1
fi
echo "the same archive in each folder and profile, which names none of them"

# No network: where the system lets one have a network of one's own.
if unshare -rn true 2>/dev/null; then
    (export -f run; export script host; unshare -rn bash -c "run '$folder/alone' >/dev/null")
    cmp "$folder/alone/libzkit-libzmq.a" "$folder/another/libzkit-libzmq.a"
    echo "and without a network"
fi
