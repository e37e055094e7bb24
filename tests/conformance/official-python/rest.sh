#!/usr/bin/env bash
# The official Python client uses the control plane of the development broker, and our client sends the same requests as
# it does, up to the differences that DIFFERENCES in rest.py lists.
# The last line is "N passed, M failed"; 0 only if the control plane did all that was asked and all requests are the same.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tests/conformance/official-python/common.sh

# Per call one comparison, and one of how many there were.
readonly expected_checks=34 expected_comparisons=$((43 + 1))

make_environment
cargo build --quiet -p nolag-cli --bin nolag
cargo build --quiet -p nolag --features rest --example rest_peer
start_run
start_broker
read -r api_url key < <(sed -n 's/^REST API: \(.*\), key \(.*\)$/\1 \2/p' "$work/dev.err")

drive_status=0 compare_status=0
timeout 60 "$python" "$here/rest.py" drive "$api_url" "$key" >"$work/drive" 2>&1 || drive_status=$?
timeout 60 "$python" "$here/rest.py" compare "$binaries/examples/rest_peer" >"$work/compare" 2>&1 || compare_status=$?

cat "$work/drive" "$work/compare"
passed=$(cat "$work/drive" "$work/compare" | grep -c '^ok ' || true)
verdict $((expected_checks + expected_comparisons)) "$passed" "$drive_status" "$compare_status"
