#!/usr/bin/env bash
# The official Python client and ours talk in one room of the development broker, both ways.
# The last line is "N passed, M failed"; 0 only if every message arrived intact and was acknowledged.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tests/conformance/official-python/common.sh

readonly count=5
# Per side: connected, subscribed, and for each message one ack and one arrival. Python also looks for strays.
readonly expected=$((2 * (2 + 2 * count) + 1))

make_environment
cargo build --quiet -p nolag-cli --bin nolag --example chat_peer
start_run
start_broker

timeout 30 "$binaries/examples/chat_peer" "$url" dev-token-bob $count >"$work/rust" 2>&1 &
peer=$!
wait_for "$work/rust" ready "$peer"

python_status=0 peer_status=0
timeout 30 "$python" "$here/chat.py" "$url" dev-token-alice $count >"$work/python" 2>&1 || python_status=$?
wait "$peer" || peer_status=$?

cat "$work/rust" "$work/python" | grep -v '^ready$'
passed=$(cat "$work/rust" "$work/python" | grep -c '^ok ' || true)
verdict $expected "$passed" "$python_status" "$peer_status"
