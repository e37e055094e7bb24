#!/usr/bin/env bash
# The official Python client and ours talk in one room of the development broker, both ways.
# The last line is "N passed, M failed"; 0 only if every message arrived intact and was acknowledged.
# Needs python3 with venv, and a package index for the first run.
set -euo pipefail
cd "$(dirname "$0")/../../.."

readonly sdk=2.6.0 count=5
# Per side: connected, subscribed, and for each message one ack and one arrival. Python also looks for strays.
readonly expected=$((2 * (2 + 2 * count) + 1))
readonly here=tests/conformance/official-python
readonly venv=${CARGO_TARGET_DIR:-target}/official-python/venv-$sdk
readonly python=$venv/bin/python

if ! "$python" -c 'import nolag' 2>/dev/null; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$python" -m pip install --quiet --disable-pip-version-check "nolag==$sdk"
fi
cargo build --quiet -p nolag-cli --bin nolag --example chat_peer
readonly binaries=${CARGO_TARGET_DIR:-target}/debug

work=$(mktemp -d)
clean_up() {
    for pid in $(jobs -pr); do kill "$pid" 2>/dev/null || true; done
    wait || true
    rm -rf "$work"
}
trap clean_up EXIT

# Waits until the file has a line that starts with the word; the process must live until then.
wait_for() { # FILE WORD PID
    for _ in $(seq 100); do
        if grep -q "^$2" "$1" 2>/dev/null; then return; fi
        if ! kill -0 "$3" 2>/dev/null; then break; fi
        sleep 0.1
    done
    grep -q "^$2" "$1" || { echo "no \"$2\" in time:"; cat "$1"; return 1; }
}

"$binaries/nolag" dev --port 0 >"$work/dev" 2>"$work/dev.err" &
wait_for "$work/dev" ready $!
url=$(sed -n 's/^ready //p' "$work/dev")

timeout 30 "$binaries/examples/chat_peer" "$url" dev-token-bob $count >"$work/rust" 2>&1 &
peer=$!
wait_for "$work/rust" ready "$peer"

python_code=0 peer_code=0
timeout 30 "$python" "$here/chat.py" "$url" dev-token-alice $count >"$work/python" 2>&1 || python_code=$?
wait "$peer" || peer_code=$?

cat "$work/rust" "$work/python" | grep -v '^ready$'
passed=$(cat "$work/rust" "$work/python" | grep -c '^ok ' || true)
failed=$((expected - passed))
if [ "$failed" -eq 0 ] && [ "$python_code" -ne 0 -o "$peer_code" -ne 0 ]; then failed=1; fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
