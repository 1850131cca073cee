#!/bin/sh
# packaging/quickstart from the moment the program is built: what it says when the daemon does not start, and that a taken
# port is no obstacle. Install and build are stood in for.
set -eu
for tool in bash curl python3; do command -v $tool >/dev/null || { echo "SKIPPED: no $tool"; exit 77; }; done
work=$(mktemp -d)
holder=""
cleanup() {
  [ -z "$holder" ] || kill "$holder" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
mkdir -p "$work/tree/packaging" "$work/tree/build/release" "$work/bin"
cp "$FLYBALL_SOURCE_DIR/packaging/quickstart" "$work/tree/packaging/"
ln -s "$FLYBALL_SOURCE_DIR/config" "$work/tree/config"
printf '#!/bin/sh\n' | tee "$work/tree/packaging/install-deps" "$work/bin/cmake" >/dev/null
chmod +x "$work/tree/packaging/install-deps" "$work/bin/cmake"
export PATH="$work/bin:$PATH" HOME="$work"
unset FLYBALL_PORT || true

# quickstart EXPECTED_STATUS: output in $work/out
quickstart() {
  status=0
  "$work/tree/packaging/quickstart" --once >"$work/out" 2>&1 || status=$?
  [ "$status" = "$1" ] || { echo "exit $status, expected $1"; cat "$work/out"; exit 1; }
}
says() {
  grep -qF -- "$1" "$work/out" || { echo "missing: $1"; cat "$work/out"; exit 1; }
}
says_not() {
  ! grep -qF -- "$1" "$work/out" || { echo "should not be there: $1"; cat "$work/out"; exit 1; }
}

# The daemon ends at once for a reason of its own.
cat >"$work/tree/build/release/flyball" <<'END'
#!/bin/sh
echo "the moon is in the wrong phase" >&2
exit 78
END
chmod +x "$work/tree/build/release/flyball"
quickstart 1
says "the daemon ended with exit code 78 before it served"
says "the moon is in the wrong phase"
says_not "port"

# Port 8080 is taken, by us if by nobody else.
ln -sf "$FLYBALL" "$work/tree/build/release/flyball"
python3 -c '
import socket, time
s = socket.socket()
try:
    s.bind(("127.0.0.1", 8080))
    s.listen()
except OSError:
    pass
print("taken", flush=True)
time.sleep(600)' >"$work/holder" &
holder=$!
while [ ! -s "$work/holder" ]; do sleep 0.1; done
quickstart 0
says "port 8080 is taken, using another"
says "tokens per second"
says 'demo model calls: get_weather({"city": "Paris"})'

# A port that somebody asked for is not exchanged for another.
FLYBALL_PORT=8080
export FLYBALL_PORT
quickstart 1
says "127.0.0.1:8080: Cannot listen: port 8080 is taken"
says_not "using another"
unset FLYBALL_PORT

# Another daemon of this user has the state directory: the quickstart takes one of its own and another port.
cat >"$work/tree/config.yaml" <<END
schema: flyball.config/v1
listeners: {local: {tcp: "127.0.0.1:0"}}
loopback_without_key: true
default_app: example
models: {demo: {embedded: true}}
END
kill "$holder"
"$FLYBALL" serve --config "$work/tree/config.yaml" --print-url >"$work/other" 2>/dev/null &
holder=$!
while [ ! -s "$work/other" ]; do
  kill -0 "$holder" || { echo "the other daemon did not start"; exit 1; }
  sleep 0.1
done
quickstart 0
says "another daemon of this user runs: this one has a temporary state directory"
says "tokens per second"
