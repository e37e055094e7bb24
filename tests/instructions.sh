#!/usr/bin/env bash
# Counts the instructions of the core's hot paths, which the machine's mood does not change, and compares them with
# tests/instructions.txt. Needs valgrind; without it there is nothing to count. `--update` stores what was counted.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "valgrind is not installed: nothing is counted"; exit 0; }

export CARGO_INCREMENTAL=0
baseline=tests/instructions.txt
# A bench's name has a hash behind it; cargo tells the path.
binary=$(cargo bench -p nolag-core --bench instructions --no-run 2>&1 | sed -n 's/.*(\(.*instructions-[0-9a-f]*\)).*/\1/p')

# Instructions of a whole run.
run() {
    valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$binary" "$@" 2>&1 |
        sed -n 's/.*I *refs: *//p' | tr -d ,
}

# Of one piece of work: the start and the end are the same in both runs.
one() {
    local few=2000 many=12000
    echo $((($(run "$1" $many) - $(run "$1" $few)) / (many - few)))
}

failed=0
# NAME, WORK, BY HAND
row() {
    local ours hand stored
    ours=$(one "$2") hand=$(one "$3")
    echo "$1: $ours instructions, $hand by hand, ratio $(awk "BEGIN { printf \"%.2f\", $ours / $hand }")"
    if [[ ${update:-} ]]; then
        echo "$2 $ours" >>"$baseline"
    else
        stored=$(awk -v work="$2" '$1 == work { print $2 }' "$baseline")
        # Compilers differ a little; what a change of ours costs shows.
        if ((ours * 100 > stored * 105)); then
            echo "  more than 5 % above the $stored of $baseline" >&2
            failed=1
        fi
    fi
}

if [[ ${1:-} == --update ]]; then
    update=1
    : >"$baseline"
fi
row "core receive path, 300 B" receive decode-by-hand
row "core publish path, 300 B" publish encode-by-hand
exit $failed
