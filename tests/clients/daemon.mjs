// `flyball serve` for the suites of clients: on a free port, with the demo model and with one that is slow enough to be
// interrupted; and the running of a suite against it.
//   FLYBALL               the program
//   FLYBALL_NODE_MODULES  folder with the clients' packages (or <FLYBALL_BINARY_DIR>/node_modules)
//   FLYBALL_ENGINE        vulkan or opencl: the tests that a suite marks `gpu` run on that kind's software device
//   FLYBALL_URL           a running daemon instead of one of its own; the tests that a suite marks `own` are SKIPPED
//   FLYBALL_KEY, FLYBALL_MODEL  the key of an app of the running daemon, and a model of it that writes no reasoning
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';

// The folder that holds these packages. Exits with 77 where there is none.
export function modulesWith(...packages) {
  const places = [process.env.FLYBALL_NODE_MODULES, process.env.FLYBALL_BINARY_DIR && join(process.env.FLYBALL_BINARY_DIR, 'node_modules')];
  const modules = places.find((place) => place && packages.every((name) => existsSync(join(place, name))));
  if (modules) return modules;
  console.log(`SKIPPED: not installed: the npm package ${packages.join(', ')} (FLYBALL_NODE_MODULES)`);
  process.exit(77);
}

// { load, versions }: `require` of the folder that holds these packages, and a text with their versions.
export function loaderOf(...packages) {
  const modules = modulesWith(...packages);
  const version = (name) => JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8')).version;
  return { load: createRequire(join(modules, 'suite.cjs')), versions: packages.map((name) => `${name} ${version(name)}`).join(', ') };
}

const running = process.env.FLYBALL_URL?.replace(/\/(v1\/?)?$/, '');
const engine = process.env.FLYBALL_ENGINE ?? 'cpu';
const kDevices = { cpu: '', vulkan: 'vulkan: {device: llvmpipe}', opencl: 'opencl: {device: pthread}' };

export const keys = {
  main: running ? process.env.FLYBALL_KEY : 'suite-key-of-the-main-app-0123456789',
  small: 'suite-key-of-the-small-app-012345678',
};
export const model = (running && process.env.FLYBALL_MODEL) || 'demo';
// In the answer to "Which engine for a Mac?".
export const words = running ? /\S/ : /MLX/;
const sha256 = (key) => createHash('sha256').update(key).digest('hex');
const tail = (text, lines) => text.trimEnd().split('\n').slice(-lines).map((line) => `      ${line}`).join('\n');

// Its template opens reasoning and has a place for tools; its weights are random.
const kReasoner = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>
{% endfor %}{{ tools | tojson if tools }}<|im_start|>assistant
<think>
{# <tool_call> </think> #}`;

// { url, log(), stop() }; exits with 1 where the daemon does not come up, with 77 where it has no device of the engine.
// models: of "slow", "reasoner" and "coder", beside "demo".
export async function serve({ models = ['slow'] } = {}) {
  if (running) {
    assert(keys.main, 'FLYBALL_KEY must be the key of an app of the running daemon');
    return { url: running, log: () => '', stop: async () => ({ code: 0 }) };
  }
  const flyball = process.env.FLYBALL;
  assert(flyball && existsSync(flyball), 'FLYBALL must name the program');
  assert(engine in kDevices, `FLYBALL_ENGINE is ${engine}`);
  const home = mkdtempSync(join(tmpdir(), 'flyball-suite-'));
  mkdirSync(join(home, 'apps.d'));
  const make = (name, ...options) => execFileSync(flyball, ['make-model', '--out', join(home, name), '--type', 'Q8_0', '--quiet', ...options]);
  const entries = {
    // Thousands of tokens at a fraction of the demo's pace: what is to be met half way takes seconds on any machine, so
    // that no test depends on who is scheduled first.
    slow() {
      make('slow.gguf', '--shape', 'small,context=8192');
      return 'slow: {path: slow.gguf, context: 8192, aliases: [org/slow]}';
    },
    reasoner() {
      writeFileSync(join(home, 'reasoner.jinja'), kReasoner);
      make('reasoner.gguf', '--shape', 'tiny,context=4096', '--chat-template', join(home, 'reasoner.jinja'));
      return 'reasoner: {path: reasoner.gguf, context: 4096}';
    },
    // Fills in between two texts, with random words.
    coder() {
      make('coder.gguf', '--shape', 'tiny,context=2048', '--infill');
      return 'coder: {path: coder.gguf, context: 2048}';
    },
  };
  writeFileSync(join(home, 'policy.yaml'), `schema: flyball.policy/v1
default: {because: the engine under test, use: [${engine}]}
`);
  writeFileSync(join(home, 'config.yaml'), `schema: flyball.config/v1
listeners:
  local: {tcp: "127.0.0.1:0"}
models:
  demo: {embedded: true, aliases: [claude-sonnet-4-5-20250929]}
${models.map((name) => `  ${entries[name]()}\n`).join('')}default_model: demo
operator: {loopback: true}
state_dir: state  # a daemon of this user may run, and has its own
cache_dir: cache
worker: {heartbeat: 100ms}  # how old the engine's own figures in /metrics are
${engine === 'cpu' ? '' : `policy_path: policy.yaml
calibrate: {ceilings: false}
${kDevices[engine]}
`}`);
  writeFileSync(join(home, 'apps.d', 'main.yaml'), `schema: flyball.app/v1
app: main
key_sha256: ${sha256(keys.main)}
limits: {in_flight: 64}
`);
  writeFileSync(join(home, 'apps.d', 'small.yaml'), `schema: flyball.app/v1
app: small
key_sha256: ${sha256(keys.small)}
limits: {in_flight: 2, max_tokens: 8000}
`);

  const options = engine === 'cpu' ? [] : ['--probe-timeout-ms', '60000'];
  const daemon = spawn(flyball, ['serve', '--config', join(home, 'config.yaml'), '--print-url', ...options], { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  daemon.stderr.on('data', (data) => { log += data; });
  const stopped = new Promise((resolve) => daemon.on('close', (code, signal) => resolve({ code, signal })));
  const printed = new Promise((resolve) => {
    let text = '';
    daemon.stdout.on('data', (data) => {
      text += data;
      const found = text.match(/^(http:\S+)\n/m);
      if (found) resolve(found[1]);
    });
  });
  const url = await Promise.race([printed, stopped]);
  if (typeof url !== 'string') {
    console.log(`FAIL  the daemon ended before it served: ${JSON.stringify(url)}\n${tail(log, 40)}`);
    process.exit(1);
  }
  const served = {
    url,
    log: () => log,
    async stop() {
      daemon.kill('SIGTERM');
      const end = await stopped;
      rmSync(home, { recursive: true, force: true });
      return end;
    },
  };
  if (engine !== 'cpu' && !await found(url)) {
    await served.stop();
    console.log(`SKIPPED: the probe found no device for ${engine}`);
    process.exit(77);
  }
  return served;
}

// Whether the policy's one target can be used. Loads the model.
async function found(url) {
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${keys.main}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ model, prompt: 'Once', max_tokens: 1 }),
  });
  const { error } = await answer.json();
  if (error && error.code !== 'no_target') console.log(`the first request: ${inspect(error)}`);
  return error?.code !== 'no_target';
}

export async function metrics(url) {
  return (await fetch(`${url}/metrics`)).text();
}

export async function eventually(what, check, seconds = 60) {
  const until = Date.now() + seconds * 1000;
  for (;;) {
    const last = await check();
    if (last) return last;
    if (Date.now() > until) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const kTestLimit = engine === 'cpu' ? 120 : 400;  // seconds; a loaded or instrumented build takes a tenth of it
async function bounded(test) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${kTestLimit} s`)), kTestLimit * 1000);
  });
  await Promise.race([test(), late]).finally(() => clearTimeout(timer));
}

// Runs the tests by their names, stops the daemon and exits. A failure prints the daemon's log and state.
//   gpu  names of the tests that run on Vulkan and OpenCL, about one in ten
//   own  names of the tests that need the suites' configuration: its models, keys and /metrics; all, where it is not given
export async function run(daemon, tests, { gpu = [], own = Object.keys(tests) } = {}) {
  for (const name of [...gpu, ...own]) assert(name in tests, `a mark names no test: ${name}`);
  const names = Object.keys(tests).filter((name) => engine === 'cpu' || gpu.includes(name));
  let failures = 0;
  let skipped = 0;
  try {
    for (const name of names) {
      if (running && own.includes(name)) {
        skipped += 1;
        console.log(`SKIPPED ${name}: it needs the suites' configuration`);
        continue;
      }
      const begin = Date.now();
      try {
        await bounded(tests[name]);
        console.log(`ok    ${name} (${Date.now() - begin} ms)`);
      } catch (error) {
        failures += 1;
        console.log(`FAIL  ${name} (${Date.now() - begin} ms)\n${inspect(error)}`);
        const state = running ? '' : await metrics(daemon.url).catch((e) => String(e));
        console.log(`    state\n${tail(state.split('\n').filter((line) => !/^#|_bucket| 0$/.test(line)).join('\n'), 60)}`);
        console.log(`    the daemon's log\n${tail(daemon.log(), 30)}`);
      }
    }
  } finally {
    const end = await daemon.stop();
    if (end.code !== 0) {
      failures += 1;
      console.log(`FAIL  the daemon ended with ${JSON.stringify(end)}\n${tail(daemon.log(), 30)}`);
    }
  }
  const left = skipped ? `, ${skipped} SKIPPED` : '';
  console.log(failures === 0 ? `all ${names.length - skipped} passed${left}` : `${failures} failed${left}`);
  process.exit(failures === 0 ? 0 : 1);
}
