#!/bin/sh
# `flyball check`, `explain`, `probe` and `simulate` as a person runs them: what they print, and the exit codes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME="$work" XDG_CONFIG_HOME="$work/config"

# run EXPECTED_STATUS ARGUMENTS...: output in $work/out
run() {
  expected=$1
  shift
  status=0
  "$FLYBALL" "$@" >"$work/out" 2>&1 || status=$?
  if [ "$status" != "$expected" ]; then
    echo "flyball $*: exit $status, expected $expected"
    cat "$work/out"
    exit 1
  fi
}
says() {
  grep -qF -- "$1" "$work/out" || { echo "missing: $1"; cat "$work/out"; exit 1; }
}

run 0 check
says "0 errors, 0 warnings"

cat >"$work/bad.yaml" <<'END'
schema: flyball.config/v1
listeners: {l: {tcp: "127.0.0.1:1"}}
models: {m: {pth: x}}
max_que: 3
END
run 78 check "$work/bad.yaml"
says "bad.yaml:3:14: error: unknown key \"pth\" in models.m; did you mean \"path\"?"
says "bad.yaml:4:1: error: unknown key \"max_que\"; did you mean \"max_queue\"?"
says "2 errors"

# A file of the operator's that cannot be read is a wrong configuration to every command, and is named once.
for command in check "serve --config" "explain --config" "prove --config" "check --policy" "prove --policy"; do
  run 78 $command "$work/nothing.yaml"
  says "$work/nothing.yaml: "
  says "cannot be read: No such file"
  [ "$(grep -c nothing.yaml "$work/out")" = "$(grep -o nothing.yaml "$work/out" | wc -l)" ] || { cat "$work/out"; exit 1; }
done

printf 'schema: flyball.policy/v1\ndefault: {because: b, use: [cpu, cpu]}\n' >"$work/warns.yaml"
run 0 check --policy "$work/warns.yaml"
says "warns.yaml:2:34: warning:"
printf 'schema: flyball.policy/v1\ndefault: {because: b, use: ollama}\n' >"$work/ollama.yaml"
run 78 check --policy "$work/ollama.yaml"
says "there is no such target on purpose"

# The configuration names an app that no manifest declares.
mkdir -p "$work/site/apps.d"
printf 'schema: flyball.app/v1\napp: chat\nmodels: [m]\n' >"$work/site/apps.d/chat.yaml"
printf 'schema: flyball.config/v1\nlisteners: {l: {tcp: "127.0.0.1:1"}}\nmodels: {m: {embedded: true}}\ndefault_app: chta\n' >"$work/site/config.yaml"
run 78 check "$work/site/config.yaml"
says "config.yaml:4:14: error: default_app: no manifest declares the app \"chta\"; did you mean \"chat\"?"
head='schema: flyball.config/v1\nlisteners: {l: {tcp: "127.0.0.1:1"}}\nmodels: {m: {embedded: true}}\n'
printf "${head}policy_path: gone.yaml\napps_dir: none.d\n" >"$work/paths.yaml"
run 78 check "$work/paths.yaml"
says "paths.yaml:4:14: error: policy_path: $work/gone.yaml cannot be read: No such file"
says "paths.yaml:5:11: error: apps_dir: $work/none.d"
run 78 prove --config "$work/paths.yaml"
says "paths.yaml:4:14: policy_path: $work/gone.yaml cannot be read"
printf "${head}worker: {heartbeat: 10s, heartbeat_timeout: 5s}\n" >"$work/beats.yaml"
run 78 check "$work/beats.yaml"
says "beats.yaml:4:45: error: worker.heartbeat_timeout: 5s, and must be longer than heartbeat, which is 10s"

# What this machine does not give is a warning: the daemon starts all the same.
mkdir -p "$work/machine"
touch "$work/machine/file"
printf "${head}state_dir: file/state\nkv_spill: {directory: file/kv}\nmemory: {limit: 1B}\nopencl: {device: no-such-device}\nvulkan: {device: no-such-device}\nlog_level: warning\n" >"$work/machine/config.yaml"
run 0 check "$work/machine/config.yaml"
says "config.yaml:4:12: warning: state_dir: $work/machine/file/state cannot be made or written ($work/machine/file: "
says "config.yaml:5:23: warning: kv_spill.directory: $work/machine/file/kv cannot be made"
says "config.yaml:6:17: warning: memory.limit: 1B has no room for the model \"m\": its weights alone are "
says "config.yaml:7:18: warning: opencl.device: no OpenCL device called no-such-device ran the probe's kernel"
says "config.yaml:8:18: warning: vulkan.device: no Vulkan device called no-such-device ran the probe's kernel"
says "app: no request can act as \"example\""
says "0 errors, 6 warnings"

# What an engine would refuse only when a request comes.
printf 'schema: flyball.config/v1\nlisteners: {l: {tcp: "127.0.0.1:1"}}\nmodels: {big: {embedded: true, context: 1000000}, gone: {path: %s/none.gguf}, junk: {path: %s/out}}\n' "$work" "$work" >"$work/models.yaml"
run 78 check "$work/models.yaml"
says "models.yaml:3:41: error: models.big: A context of 1000000 tokens is asked for; the model was made for"
says "error: models.gone: $work/none.gguf: cannot read the model file: No such file"
says "error: models.junk: $work/out: "
says "3 errors"

# A policy that lies beside the configuration and is not named there.
mkdir "$work/beside"
printf 'schema: flyball.config/v1\nlisteners: {l: {tcp: "127.0.0.1:1"}}\nmodels: {m: {embedded: true}}\n' >"$work/beside/config.yaml"
cp "$FLYBALL_SOURCE_DIR/config/defaults/policy.yaml" "$work/beside/policy.yaml"
run 0 check "$work/beside/config.yaml"
says "0 errors, 1 warning"
echo '# mine' >>"$work/beside/policy.yaml"
run 0 check "$work/beside/config.yaml"
says "$work/beside/policy.yaml: warning: $work/beside/policy.yaml is not used: <shipped policy.yaml> holds. To use it, add \"policy_path: policy.yaml\" to the configuration beside it."
says "0 errors, 2 warnings"
echo 'policy_path: policy.yaml' >>"$work/beside/config.yaml"
run 0 check "$work/beside/config.yaml"
! grep -q "is not used" "$work/out" || { cat "$work/out"; exit 1; }
run 0 make-model --out "$work/narrow.gguf" --shape dim=64,layers=1,heads=4,kv_heads=2,ffn=64,vocab=512 --type F16
printf 'schema: flyball.config/v1\nlisteners: {l: {tcp: "127.0.0.1:1"}}\nmodels: {m: {path: narrow.gguf, kv_type: q8_0}}\n' >"$work/kv.yaml"
run 78 check "$work/kv.yaml"
says "kv.yaml:3:42: error: models.m: $work/narrow.gguf: A KV cache of q8_0 needs heads of a multiple of 32 values; the model's have 16"
run 64 inspect "$work/narrow.gguf" --kv q8_0
says "f16 takes any"
run 0 inspect --kv q8_0
says "as q8_0"
run 64 inspect --kv q4_0
run 65 inspect "$work/models.yaml"
says "models.yaml: "
run 65 inspect --context 1000000
says "the model was made for"

for which in config policy app; do
  run 0 check --print-schema $which
  says "draft/2020-12"
done

cat >"$work/rtx.json" <<'END'
{"hardware.gpu.count": 1, "hardware.gpu.discrete_count": 1, "hardware.memory.unified": false,
 "hardware.cluster.nodes": 1, "backend.opencl.available": true}
END
run 0 explain --facts "$work/rtx.json"
says "opencl, by rule one_gpu_one_user"
run 0 explain --facts "$work/rtx.json" --json
says '"outcome": "chosen"'
echo '{"backend.cpu.available": false, "backend.cpu.reason": "off"}' >"$work/none.json"
run 69 explain --facts "$work/none.json"
says "no target, by rule default"
echo '{"hardware.gpu.cuont": 1}' >"$work/typo.json"
run 65 explain --facts "$work/typo.json"
says "did you mean \"hardware.gpu.count\"?"
echo '{"hardware.gpu.count": "one"}' >"$work/type.json"
run 65 explain --facts "$work/type.json"
says "is of type integer"
echo '{"workload.class": "caht"}' >"$work/word.json"
run 65 explain --facts "$work/word.json"
says "did you mean \"chat\"?"
echo '{"workload.concurrency": -5}' >"$work/negative.json"
run 65 advise --facts "$work/negative.json"
says "workload.concurrency is never negative, got -5"
run 65 advise --fact hardware.gpu.count=-1
run 65 advise blorp
says "Skipped: \"blorp\""
run 0 advise no GPU, RTX 4090
says "contradict each other"
run 0 why-not vllm RTX 4090, blorp
says "skipped \"blorp\""
run 65 prove --assume app.privacy=local_only --assume app.privacy=any --never cpu
says "no facts meet app.privacy=local_only and app.privacy=any together"
# Deep JSON: writing it into the message used to overflow the stack.
{
  printf '{"hardware.gpu.count": '
  head -c 400000 /dev/zero | tr '\0' '['
  head -c 400000 /dev/zero | tr '\0' ']'
  printf '}'
} >"$work/deep.json"
run 65 explain --facts "$work/deep.json"
says "deep.json: The file nests deeper than 64 levels (at byte "
run 65 explain --app exampel --facts "$work/rtx.json"
says "no manifest declares the app \"exampel\"; did you mean \"example\"? (there are: example)"
run 65 explain --model dmo --facts "$work/rtx.json"
says "There is no model \"dmo\" that is open to this app. It may use: demo."
# An app hears of the models that are open to it, as from the daemon, and of no others.
mkdir -p "$work/shared/apps.d"
for models in one:a two:a,b none:gone every:; do
  printf 'schema: flyball.app/v1\napp: %s\n' "${models%%:*}" >"$work/shared/apps.d/${models%%:*}.yaml"
  [ -z "${models#*:}" ] || printf 'models: [%s]\n' "${models#*:}" >>"$work/shared/apps.d/${models%%:*}.yaml"
done
printf 'schema: flyball.config/v1\nlisteners: {l: {tcp: "127.0.0.1:1"}}\nmodels: {a: {embedded: true}, b: {embedded: true}, c: {embedded: true}}\ndefault_model: c\n' >"$work/shared/config.yaml"
ask="explain --config $work/shared/config.yaml --facts $work/rtx.json"
run 65 $ask --app one --model c
says "There is no model \"c\" that is open to this app"
says "It may use: a. [model_not_found]"
run 0 $ask --app one
run 65 $ask --app two
says "'model' is required: no default_model is open to this app. It may use: a, b. [missing_field]"
run 65 $ask --app none
says "There is no model that is open to this app. [model_not_found]"
run 0 $ask --app every
echo '{"model.bytes": 5,}' >"$work/odd.json"
run 65 explain --facts "$work/odd.json"
says "odd.json: The file is not valid JSON (at byte 18)."
echo '[{"model.bytes": 5}]' >"$work/odd.json"
run 65 explain --facts "$work/odd.json"
says "expected a JSON object of fact names and values, got an array"
run 69 explain req-1 --url http://127.0.0.1:1
run 64 explain --url http://127.0.0.1:1
says "explain --url: which request?"
run 64 explain --store "$work/none.db"
says "explain --store: which request?"

run 0 prove
run 0 prove --json
says '"proved": true'
run 1 prove --never cpu --json
says '"reach": "possible"'
says '"schema": "flyball.receipt/v1"'
run 65 prove --never vllmm
says "did you mean \"vllm\"? (--never takes remote, cpu, vulkan"
run 65 prove --assume app.privacy
says "app.privacy has no value: expected app.privacy=VALUE, and VALUE one of: local_only any"
run 65 prove --assume model.bytes=lots
says "model.bytes: expected a whole number or a size such as 16GiB, got \"lots\""
run 65 why-not vllmm
says "did you mean \"vllm\"? (targets: cpu, vulkan, opencl, vllm"
for size in 12 12GB 0B 80% GiB -1GiB; do
  run 64 plan --memory "$size"
  says "--memory: \"$size\" is no whole number from 1 and B, KiB, MiB, GiB or TiB, such as 24GiB"
  says "See flyball plan --help."
done
# The nearest option or command is named, as the nearest of everything else is.
run 64 plan --contxt 8
says "The following argument was not expected: --contxt; did you mean '--context'?"
run 64 run --max-token=3 hello
says "--max-token=3; did you mean '--max-tokens'?"
run 64 app sugest example
says "A subcommand is required; did you mean 'suggest'?"
says "See flyball app --help."
run 64 plan --no-such-thing-at-all
says "The following argument was not expected: --no-such-thing-at-all"
! grep -q "did you mean" "$work/out" || { cat "$work/out"; exit 1; }
# With another mistake before it, the message is about that one.
run 64 plan --memory 12 --contxt 8
says "--memory: \"12\" is no whole number"
! grep -q "did you mean" "$work/out" || { cat "$work/out"; exit 1; }
run 64 make-model --shpe tiny
says "--out is required"
! grep -q "did you mean" "$work/out" || { cat "$work/out"; exit 1; }
for command in plan inspect bench profile tune "run hello --model"; do
  run 74 $command "$work/none.gguf"
  says "$work/none.gguf: cannot read the model file: No such file"
done
run 74 inspect hf.co/someone/some-model
says "Flyball fetches no models: download the file, and give its path on this machine"
run 74 inspect --json "$work/none.gguf"
says '{"error":{"code":"io_error","message":"cannot read the model file: No such file or directory"}}'
run 64 plan --kv q4
says "--kv: q4 not in {f16,q8_0}"
run 64 explain 'no/such id'
says "\"no/such id\" is no request id: expected up to 200 letters, digits, -, _ and .,"
run 65 explain req-1 --url ftp://x

run 0 probe --json
says '"flyball.probe/v1"'
run 0 probe
says "hardware.cpu.isa"
isa=$(awk '$1 == "hardware.cpu.isa" {print $2}' "$work/out")
run 0 version
says "(used: $isa)"
run 64 probe --child metal

# A past of 200 requests, decided again.
"$FLYBALL_BINARY_DIR/tests/daemon/route/record_fixture" "$work"
run 0 simulate "$work/old.yaml" --store "$work/recorded.db" --max-moved 0
says "200 recorded requests decided again by $work/old.yaml: 0 (0.0%) would go elsewhere, 0 would lose their target"
sed 's/use: cpu}/use: opencl}/' "$work/old.yaml" >"$work/lost.yaml"
run 1 simulate "$work/lost.yaml" --store "$work/recorded.db"
says "160 would lose their target"
sed 's/8GiB/1GiB/' "$work/old.yaml" >"$work/moved.yaml"
run 0 simulate "$work/moved.yaml" --store "$work/recorded.db" --max-moved 80
run 1 simulate "$work/moved.yaml" --store "$work/recorded.db" --max-moved 79 --json
says '"moved": 160'
run 0 simulate "$work/moved.yaml" --store "$work/recorded.db" --max-moved 0 --since 1m
says "0 recorded requests"
run 64 simulate "$work/moved.yaml" --store "$work/recorded.db" --since lately
run 74 simulate "$work/moved.yaml" --store "$work/none.db"
run 64 simulate
run 78 simulate "$work/bad.yaml" --store "$work/recorded.db"
run 0 explain req-1007 --store "$work/recorded.db"
says "cpu, by rule default (old.yaml:"
run 1 explain req-1007 --store "$work/recorded.db" --app somebody-else
# A configuration stands for the database that its daemon keeps.
mkdir -p "$work/kept/state"
cp "$work/recorded.db" "$work/kept/state/flyball.db"
printf "${head}state_dir: state\n" >"$work/kept/config.yaml"
run 0 explain req-1007 --config "$work/kept/config.yaml"
says "cpu, by rule default (old.yaml:"
run 1 explain req-1007 --config "$work/kept/config.yaml" --app somebody-else
run 1 explain req-7 --config "$work/kept/config.yaml"
says "$work/kept/state/flyball.db holds no request req-7"
run 78 explain req-1007 --config "$work/bad.yaml"
# What would be ignored is refused.
for other in "--config c.yaml" "--url http://127.0.0.1:1" "--key-file k"; do
  run 64 explain req-1007 --store "$work/recorded.db" $other
  says "excludes"
done
run 64 explain req-1007 --config "$work/kept/config.yaml" --url http://127.0.0.1:1
says "excludes"
for other in "--policy $work/old.yaml" "--model m" "--facts $work/rtx.json"; do
  run 64 explain req-1007 --store "$work/recorded.db" $other
  says "request_id excludes ${other%% *}"
done
run 64 explain req-1007 --app somebody
says "explain --app: a daemon tells an app of its own requests"
run 64 explain req-1007 --app somebody --key-file k
says "leave --app out, or ask the database instead, with --store or --config"
# An empty name is a file that cannot be read, not the default.
run 74 explain req-1007 --key-file ""
run 74 explain req-1007 --store ""
run 78 explain req-1007 --config ""
run 64 explain --store ""
says "explain --store: which request?"
run 1 explain req-7 --store "$work/recorded.db"
says "holds no request req-7"
run 64 graph --since 7d --url http://127.0.0.1:1
echo "check, explain, probe, simulate: ok"
