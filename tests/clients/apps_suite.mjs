// Apps whose packages no test can install, by the requests that their sources send and the fields that they read of the
// answers: tests/clients/apps has a file for each.
import aider from './apps/aider.mjs';
import cline from './apps/cline.mjs';
import continueDev from './apps/continue.mjs';
import jan from './apps/jan.mjs';
import openWebui from './apps/open_webui.mjs';
import others from './apps/others.mjs';
import zed from './apps/zed.mjs';
import { Wire } from './apps/wire.mjs';
import { keys, run, serve } from './daemon.mjs';

const daemon = await serve({ models: ['slow', 'coder'] });
console.log(`node ${process.version}, ${daemon.url}`);

const bearer = { Authorization: `Bearer ${keys.main}` };
const openai = new Wire(`${daemon.url}/v1`, bearer);
const ollama = new Wire(daemon.url, bearer);
const anthropic = new Wire(`${daemon.url}/v1`, { 'x-api-key': keys.main, 'anthropic-version': '2023-06-01' });

const apps = { 'Open WebUI': openWebui, Continue: continueDev, Cline: cline, aider, Jan: jan, Zed: zed, other: others };
const tests = {};
for (const [app, of] of Object.entries(apps))
  for (const [name, test] of Object.entries(of(openai, ollama, anthropic))) tests[`${app}: ${name}`] = test;

await run(daemon, tests);
