// docs/clients.md against the daemon: its JavaScript, Python and curl, as they stand there but for the address, the key
// and the model. Python's blocks run where python3 has their packages, and are compiled everywhere. Exit 77 where the
// npm packages are not installed.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keys, modulesWith, run, serve } from './daemon.mjs';

const modules = modulesWith('openai', '@langchain/core', '@langchain/openai', '@langchain/ollama');
const page = readFileSync(join(process.env.FLYBALL_SOURCE_DIR, 'docs', 'clients.md'), 'utf8');
const home = mkdtempSync(join(tmpdir(), 'flyball-guide-'));
process.on('exit', () => rmSync(home, { recursive: true, force: true }));
symlinkSync(modules, join(home, 'node_modules'));
const daemon = await serve();

const standIn = (text) => text.replaceAll('http://127.0.0.1:8080', daemon.url).replaceAll('KEY', keys.main).replaceAll('qwen3', 'demo');

// Runs a program and gives its output. A program that fails is the test's failure.
async function output(command, ...args) {
  const child = spawn(command, args, { cwd: home, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stdout.on('data', (data) => {
    out += data;
  });
  child.stderr.on('data', (data) => {
    err += data;
  });
  const code = await new Promise((resolve) => child.on('close', resolve));
  assert.equal(code, 0, `${out}${err}`);
  return out;
}

// The blocks of the page in a language, each with the heading that it stands under.
function blocks(language) {
  const found = [];
  let heading = '';
  for (const [, title, of, text] of page.matchAll(/^## (.*)$|^```(\w+)\n([^]*?)^```$/gm)) {
    if (title) heading = title;
    else if (of === language) found.push({ heading, text });
  }
  return found.map((block, at) => ({ ...block, name: `${block.heading}, ${at + 1}` }));
}

const tests = {};
for (const { name, text } of blocks('js'))
  tests[`JavaScript: ${name}`] = async () => {
    const file = join(home, 'snippet.mjs');
    writeFileSync(file, standIn(text));
    assert.match(await output(process.execPath, file), /\w\w/);
  };

for (const { name, text } of blocks('python')) {
  const [, module] = /^from (\w+) import/m.exec(text);
  const has = spawnSync('python3', ['-c', `import ${module}`]).status === 0;
  if (!has) console.log(`only compiled: Python: ${name}: python3 has no ${module}`);
  tests[`Python: ${name}`] = async () => {
    const compiled = 'import sys; compile(sys.argv[1], "snippet", "exec")';
    if (!has) return output('python3', '-c', compiled, standIn(text));
    assert.match(await output('python3', '-c', standIn(text)), /\w\w/);
  };
}

const curls = [...page.matchAll(/^```sh\n(curl [^]*?)^```$|`(curl [^`]*)`/gm)].map(([, block, inline]) => block ?? inline);
for (const [at, text] of curls.entries())
  tests[`curl: ${at + 1}`] = async () => {
    const answer = JSON.parse(await output('sh', '-c', standIn(text)));
    assert(answer.choices?.[0].message.content || answer.data?.length > 0, JSON.stringify(answer));
  };

tests['the page has what is run here'] = async () => {
  assert.deepEqual([blocks('js').length, blocks('python').length, curls.length], [3, 3, 2]);
  assert.deepEqual([...new Set(page.match(/http:\/\/127\.0\.0\.1:8080(\/\w+)?/g))].sort(), [
    'http://127.0.0.1:8080',
    'http://127.0.0.1:8080/v1',
  ]);
};

await run(daemon, tests);
