#!/usr/bin/env bash
# The official Python client's own tests, as its source distribution has them, against the development broker.
# The last line is "N passed, M failed"; 0 only if all passed, so a test that was skipped or never came has failed.
# An argument names the broker to imitate: kraken-0.10 (default) or kraken-0.4. The cloud profile sends publishers no copy of
# their own messages, as the newest documents of the cloud say, and the tests want that copy.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tests/conformance/official-python/common.sh

readonly broker=${1:-kraken-0.10}
readonly expected_tests=44 expected_steps=39
readonly tokens=(suite-token-one suite-token-two) app=suite

# Tests that no broker can pass. Nothing else is left out.
readonly connection=tests/e2e/test_kraken.py::TestConnection
readonly subscribing=tests/e2e/test_kraken.py::TestSubscribeUnsubscribe
readonly impossible=(
    # It waits for the event "disconnect" after disconnect(), which cancels the task that would emit it: the client
    # emits it for lost connections only.
    "$connection::test_emit_disconnect_event"
    # It wants the callback to have run when subscribe() returns, but subscribe() returns once the frame is sent, and
    # the callback runs when the broker's answer is read, which needs another turn of the event loop.
    "$subscribing::test_subscribe_to_topic"
)

make_environment 'pytest>=8,<10' 'pytest-asyncio>=1,<2'
if [ ! -f "$cache/nolag-$sdk.tar.gz" ]; then
    pip download --no-binary :all: --no-deps --dest "$cache" "nolag==$sdk"
fi
cargo build --quiet -p nolag-cli --bin nolag
start_run
tar -xzf "$cache/nolag-$sdk.tar.gz" -C "$work"
start_broker --broker "$broker" --auth "$here/suite-auth.json"

export NOLAG_TEST_URL=$url NOLAG_TEST_TOKEN=${tokens[0]} NOLAG_TEST_TOKEN_2=${tokens[1]}
readonly interpreter=$python
cd "$work/nolag-$sdk"

# The integration test knows only the cloud's address, which is a default of the client: its clients get ours.
sed -i 's/NoLagOptions(debug=False)/NoLagOptions(debug=False, url=os.environ["NOLAG_TEST_URL"])/' integration_test.py
[ "$(grep -c 'url=os.environ' integration_test.py)" -eq 2 ] || { echo "the address could not be replaced"; exit 1; }

timeout 150 "$interpreter" -m pytest tests -p no:cacheprovider -rA "${impossible[@]/#/--deselect=}" \
    >"$work/tests" 2>&1 &
tests=$!
timeout 150 "$interpreter" integration_test.py "token1=${tokens[0]}" "token2=${tokens[1]}" "appSlug=$app" \
    >"$work/steps" 2>&1 &
steps=$!
tests_status=0 steps_status=0
wait $tests || tests_status=$?
wait $steps || steps_status=$?

# One line each, without colours; details only where something failed.
sed -n 's/^PASSED /ok /p' "$work/tests" >"$work/passed_tests"
sed 's/\x1b\[[0-9]*m//g' "$work/steps" | sed -n 's/^  PASS  /ok integration: /p' >"$work/passed_steps"
cat "$work/passed_tests" "$work/passed_steps"
passed_tests=$(wc -l <"$work/passed_tests") passed_steps=$(wc -l <"$work/passed_steps")
[ "$passed_tests" -eq $expected_tests ] && [ "$tests_status" -eq 0 ] || cat "$work/tests"
[ "$passed_steps" -eq $expected_steps ] && [ "$steps_status" -eq 0 ] || cat "$work/steps"
verdict $((expected_tests + expected_steps)) $((passed_tests + passed_steps)) "$tests_status" "$steps_status"
