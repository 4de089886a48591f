#!/usr/bin/env bash
# Runs the tests of frames, messages and the codec under valgrind. Fails on any memory error and
# any definite leak. Takes less than a minute.
set -euo pipefail
cd "$(dirname "$0")/.."

binaries=(frame msg codec)
# Fewer cases and rounds: valgrind is some thirty times slower.
export PROPTEST_CASES=8 ZKIT_SLOW=1

paths=$(cargo test --no-run --message-format=json "${binaries[@]/#/--test=}" | python3 -c '
import json, sys
for line in sys.stdin:
    artifact = json.loads(line)
    if artifact.get("executable") and artifact.get("profile", {}).get("test"):
        print(artifact["target"]["name"], artifact["executable"])
')

log=$(mktemp)
trap 'rm -f "$log"' EXIT

failed=0
for binary in "${binaries[@]}"; do
    path=$(awk -v name="$binary" '$1 == name { print $2 }' <<<"$paths")
    if [[ -z $path ]]; then
        echo "$binary: not built"
        failed=1
        continue
    fi
    status=0
    valgrind -q --error-exitcode=9 --leak-check=full \
        --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect \
        "$path" --test-threads=1 >"$log" 2>&1 || status=$?
    ran=$(sed -n 's/^test result: .*[^0-9]\([0-9]\+\) passed.*/\1/p' "$log")
    if [[ $status -eq 0 && ${ran:-0} -gt 0 ]]; then
        echo "$binary: $ran tests ran, no errors, no leaks"
    else
        cat "$log"
        echo "$binary: ${ran:-no} tests passed, exit status $status"
        failed=1
    fi
done
exit "$failed"
