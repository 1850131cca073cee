// `flyball serve` for the suites of clients: on a free port, with the demo model and with one that is slow enough to be
// interrupted; and the running of a suite against it.
//   FLYBALL               the program
//   FLYBALL_NODE_MODULES  folder with the clients' packages (or <FLYBALL_BINARY_DIR>/node_modules)
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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

export const keys = { main: 'suite-key-of-the-main-app-0123456789', small: 'suite-key-of-the-small-app-012345678' };
const sha256 = (key) => createHash('sha256').update(key).digest('hex');
const tail = (text, lines) => text.trimEnd().split('\n').slice(-lines).map((line) => `      ${line}`).join('\n');

// { url, log(), stop() }; exits with 1 where the daemon does not come up.
export async function serve() {
  const flyball = process.env.FLYBALL;
  assert(flyball && existsSync(flyball), 'FLYBALL must name the program');
  const home = mkdtempSync(join(tmpdir(), 'flyball-suite-'));
  mkdirSync(join(home, 'apps.d'));
  // Thousands of tokens at a fraction of the demo's pace: what is to be met half way takes seconds on any machine, so that
  // no test depends on who is scheduled first.
  execFileSync(flyball, ['make-model', '--out', join(home, 'slow.gguf'), '--shape', 'small,context=8192', '--type', 'Q8_0', '--quiet']);
  writeFileSync(join(home, 'config.yaml'), `schema: flyball.config/v1
listeners:
  local: {tcp: "127.0.0.1:0"}
models:
  demo: {embedded: true, aliases: [claude-sonnet-4-5-20250929]}
  slow: {path: slow.gguf, context: 8192, aliases: [org/slow]}
default_model: demo
operator: {loopback: true}
state_dir: state  # a daemon of this user may run, and has its own
cache_dir: cache
worker: {heartbeat: 100ms}  # how old the engine's own figures in /metrics are
`);
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

  const daemon = spawn(flyball, ['serve', '--config', join(home, 'config.yaml'), '--print-url'], { stdio: ['ignore', 'pipe', 'pipe'] });
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
  return {
    url,
    log: () => log,
    async stop() {
      daemon.kill('SIGTERM');
      const end = await stopped;
      rmSync(home, { recursive: true, force: true });
      return end;
    },
  };
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

const kTestLimit = 120;  // seconds; a loaded or instrumented build takes a tenth of it
async function bounded(test) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${kTestLimit} s`)), kTestLimit * 1000);
  });
  await Promise.race([test(), late]).finally(() => clearTimeout(timer));
}

// Runs the tests by their names, stops the daemon and exits. A failure prints the daemon's log and state.
export async function run(daemon, tests) {
  let failures = 0;
  try {
    for (const [name, test] of Object.entries(tests)) {
      const begin = Date.now();
      try {
        await bounded(test);
        console.log(`ok    ${name} (${Date.now() - begin} ms)`);
      } catch (error) {
        failures += 1;
        console.log(`FAIL  ${name} (${Date.now() - begin} ms)\n${inspect(error)}`);
        const state = await metrics(daemon.url).catch((e) => String(e));
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
  console.log(failures === 0 ? `all ${Object.keys(tests).length} passed` : `${failures} failed`);
  process.exit(failures === 0 ? 0 : 1);
}
