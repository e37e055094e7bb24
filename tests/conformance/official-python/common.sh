# Sourced by the scripts beside it, from the root of the repository: the official Python client in a virtual
# environment, our broker, and the processes of a run. Needs python3 with venv, and a package index for the first run.

readonly sdk=2.6.0
readonly here=tests/conformance/official-python
readonly target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
readonly cache=$target/official-python
readonly venv=$cache/venv-$sdk
readonly python=$venv/bin/python
readonly binaries=$target/debug

pip() { timeout 60 "$python" -m pip --quiet --disable-pip-version-check "$@"; }

# Makes the environment if it is not there, with the client and whatever else is named.
make_environment() { # PACKAGE...
    [ -x "$python" ] || python3 -m venv "$venv"
    pip install "nolag==$sdk" "$@"
}

# Makes a temporary directory; when the script ends, it goes, and so do the processes that were started.
start_run() {
    work=$(mktemp -d)
    trap end_run EXIT
}

end_run() {
    for pid in $(jobs -pr); do kill "$pid" 2>/dev/null || true; done
    wait || true
    rm -rf "$work"
}

# Waits until the file has a line that starts with the word; the process must live until then.
wait_for() { # FILE WORD PID
    for _ in $(seq 100); do
        if grep -q "^$2" "$1" 2>/dev/null; then return; fi
        if ! kill -0 "$3" 2>/dev/null; then break; fi
        sleep 0.1
    done
    grep -q "^$2" "$1" || { echo "no \"$2\" in time:"; cat "$1"; return 1; }
}

# Runs a development broker on a free port and sets `url`.
start_broker() { # OPTION...
    "$binaries/nolag" dev --port 0 "$@" >"$work/dev" 2>"$work/dev.err" &
    wait_for "$work/dev" ready $! || { cat "$work/dev.err"; return 1; }
    url=$(sed -n 's/^ready //p' "$work/dev")
}

# The last line, and the exit status: what was expected and did not pass has failed, and so has whatever ended badly.
verdict() { # EXPECTED PASSED STATUS...
    local wanted=$1 good=$2 failed=$(($1 - $2)) status
    shift 2
    for status in "$@"; do
        if [ "$failed" -eq 0 ] && [ "$status" -ne 0 ]; then failed=1; fi
    done
    if [ "$failed" -lt 0 ]; then echo "more than $wanted passed"; failed=1; fi
    echo "$good passed, $failed failed"
    [ "$failed" -eq 0 ]
}
