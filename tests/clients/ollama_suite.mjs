// The official npm client of Ollama against the daemon: chats, texts, models, and every kind of refusal. Exit 77 where the
// ollama package is not installed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { eventually, keys, metrics, model, modulesWith, run, serve, words } from './daemon.mjs';

const modules = modulesWith('ollama', 'whatwg-fetch');
const { Ollama } = await import(pathToFileURL(join(modules, 'ollama', 'dist', 'index.mjs')));
const daemon = await serve({ models: ['slow', 'coder'] });
const { url } = daemon;
const { version } = JSON.parse(readFileSync(join(modules, 'ollama', 'package.json'), 'utf8'));
console.log(`node ${process.version}, ollama ${version}, ${url}`);

const headers = { Authorization: `Bearer ${keys.main}` };
const client = new Ollama({ host: url, headers });
const question = 'Which engine for a Mac?';
const messages = [{ role: 'user', content: question }];
const options = { temperature: 0, num_predict: 24 };
const chat = { model, messages, options };

async function refused(promise, status, message) {
  const error = await promise.then((answer) => assert.fail(`expected ${status}, got ${inspect(answer)}`), (e) => e);
  assert.equal(error.status_code, status, inspect(error));
  assert.match(error.message, message);
}
async function drained(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}
function checkEnd(last, tokens) {
  assert.equal(last.done, true);
  assert(last.prompt_eval_count > 0);
  assert.equal(last.eval_count, tokens);
  for (const name of ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration'])
    assert(Number.isInteger(last[name]) && last[name] >= 0, `${name}: ${last[name]}`);
  assert(last.total_duration >= last.prompt_eval_duration + last.eval_duration);
  assert(!Number.isNaN(Date.parse(last.created_at)));
}

// The names of an interface's members in the package's declarations.
function members(type) {
  const text = readFileSync(join(modules, 'ollama', 'dist', 'index.d.ts'), 'utf8') + readFileSync(join(modules, 'ollama', 'dist', 'browser.d.ts'), 'utf8');
  const found = new RegExp(`^interface ${type} \\{$([^]*?)^\\}$`, 'm').exec(text);
  assert(found, `the package has no interface ${type}`);
  return [...found[1].matchAll(/^    (\w+)\??:/gm)].map((match) => match[1]);
}
// The rows of docs/ollama.md that have a name of this object at this path.
function documented(of, where) {
  const rows = readFileSync(join(process.env.FLYBALL_SOURCE_DIR, 'docs', 'ollama.md'), 'utf8').split('\n').map((line) => line.split(' | '));
  return rows.filter((cells) => cells[1] === of && (cells.length < 5 || ['integer', 'number', 'boolean', 'both', where].includes(cells[2])))
    .flatMap((cells) => [...cells[0].matchAll(/`(\w+)`/g)].map((match) => match[1]));
}

const tests = {
  'every field of the types is served, accepted or refused'() {
    const places = [['ChatRequest', 'body', 'chat'], ['GenerateRequest', 'body', 'generate'], ['Options', 'options', 'both'],
      ['Message', 'messages[]', 'chat'], ['ToolCall', 'messages[].tool_calls[]', 'chat'], ['Tool', 'tools[]', 'chat'], ['ShowRequest', 'body', 'show']];
    for (const [type, of, where] of places) {
      const unknown = members(type).filter((name) => !documented(of, where).includes(name));
      assert.deepEqual(unknown, [], type);
    }
  },

  async 'models: list, show, ps, version'() {
    const { models } = await client.list();
    assert.deepEqual(models.map((model) => model.name).sort(), ['coder:latest', 'demo:latest', 'slow:latest']);
    const demo = models.find((model) => model.model === 'demo:latest');
    assert.equal(demo.details.family, 'llama');
    assert.match(demo.details.parameter_size, /^[0-9.]+M$/);
    assert(demo.size > 1e6);
    const shown = await client.show({ model: 'demo:latest' });
    assert.equal(shown.model_info['general.architecture'], 'llama');
    assert(shown.model_info['llama.context_length'] > 100);
    assert.deepEqual(shown.capabilities, ['completion', 'tools']);
    assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
    await client.chat({ ...chat, stream: false });
    const loaded = await client.ps();
    assert(loaded.models.some((model) => model.name === 'demo:latest' && /^[0-9a-f]{64}$/.test(model.digest)));
  },

  async 'chat'() {
    const answer = await client.chat({ ...chat, stream: false });
    assert.equal(answer.model, model);
    assert.equal(answer.message.role, 'assistant');
    assert.match(answer.message.content, words);
    assert.equal(answer.done_reason, 'length');
    checkEnd(answer, 24);
  },

  async 'chat: the name with its default tag, and an alias'() {
    assert.equal((await client.chat({ ...chat, model: 'demo:latest' })).model, 'demo:latest');
    await client.chat({ ...chat, model: 'org/slow', options: { num_predict: 1 } });
  },

  async 'chat: streamed, the same text'() {
    const whole = await client.chat({ ...chat, stream: false });
    const parts = await drained(await client.chat({ ...chat, stream: true }));
    assert.equal(parts.map((part) => part.message.content).join(''), whole.message.content);
    assert(parts.length > 3);
    assert(parts.slice(0, -1).every((part) => part.done === false));
    checkEnd(parts.at(-1), 24);
  },

  async 'chat: system, history and sampling'() {
    const history = [{ role: 'system', content: 'Answer briefly.' }, ...messages, { role: 'assistant', content: 'MLX.' }, ...messages];
    const sampled = { num_predict: 12, temperature: 1.2, top_k: 50, top_p: 0.95, min_p: 0.01, repeat_penalty: 1.1, seed: 7, num_ctx: 512, num_gpu: 1, stop: ['\n\n'] };
    const once = await client.chat({ model, messages: history, options: sampled, keep_alive: '10m', think: false });
    const again = await client.chat({ model, messages: history, options: sampled, keep_alive: 0 });
    assert.equal(once.message.content, again.message.content);
  },

  async 'chat: a stop string ends it'() {
    const whole = (await client.chat(chat)).message.content;
    const stop = whole.split(' ')[2];
    const cut = await client.chat({ ...chat, options: { ...options, stop: [stop] } });
    assert.equal(cut.done_reason, 'stop');
    assert(whole.startsWith(cut.message.content) && !cut.message.content.includes(stop));
  },

  async 'a schema is enforced, and json'() {
    const format = {
      type: 'object',
      properties: { engine: { enum: ['cpu', 'gpu'] }, cores: { type: 'integer', minimum: 1, maximum: 64 } },
      required: ['engine', 'cores'],
      additionalProperties: false,
    };
    const asked = { ...chat, format, options: { temperature: 0 } };
    const answer = JSON.parse((await client.chat(asked)).message.content);
    assert(['cpu', 'gpu'].includes(answer.engine) && answer.cores >= 1 && answer.cores <= 64, inspect(answer));
    const parts = await drained(await client.chat({ ...asked, stream: true }));
    assert.deepEqual(JSON.parse(parts.map((part) => part.message.content).join('')), answer);
    const text = (await client.generate({ model, prompt: question, format: 'json', options: { temperature: 0, num_predict: 200 } })).response;
    assert.match(text, /^\s*\{/);
    const { status } = await fetch(`${url}/api/chat`, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...chat, format: { type: 'object', propertis: {} } }),
    });
    assert.equal(status, 400);
  },

  async 'generate: as a chat, with a system text, raw, streamed'() {
    const whole = await client.generate({ model, prompt: question, options });
    assert.equal(whole.response, (await client.chat(chat)).message.content);
    checkEnd(whole, 24);
    const parts = await drained(await client.generate({ model, prompt: question, options, stream: true }));
    assert.equal(parts.map((part) => part.response).join(''), whole.response);
    checkEnd(parts.at(-1), 24);
    const told = await client.generate({ model, system: 'Answer briefly.', prompt: question, options });
    const asChat = await client.chat({ ...chat, messages: [{ role: 'system', content: 'Answer briefly.' }, ...messages] });
    assert.equal(told.response, asChat.message.content);
    assert.equal(told.prompt_eval_count, asChat.prompt_eval_count);
    const raw = await client.generate({ model, prompt: 'Once upon a time', raw: true, options });
    assert(raw.prompt_eval_count < whole.prompt_eval_count);
  },

  // The demo model's chat template has a place for tools, and none for think.
  async 'tools and think'() {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }];
    const told = await client.chat({ ...chat, tools, think: true });
    const plain = await client.chat(chat);
    assert(told.prompt_eval_count > plain.prompt_eval_count);
    const parts = await drained(await client.chat({ ...chat, tools, think: 'low', stream: true }));
    assert.equal(parts.map((part) => part.message.content).join(''), told.message.content);
    assert.equal((await client.chat({ ...chat, think: false })).message.content, plain.message.content);
    assert((await client.show({ model: 'demo' })).capabilities.includes('tools'));
  },

  async 'the greeting at /'() {
    assert.equal(await (await fetch(url)).text(), 'Ollama is running');
    assert.equal((await fetch(url, { method: 'HEAD' })).status, 200);
  },

  async 'a request without a prompt loads its model, and an app unloads none'() {
    const generated = await client.generate({ model: 'demo:latest', prompt: '' });
    assert.deepEqual({ ...generated, created_at: '' },
      { model: 'demo:latest', created_at: '', response: '', done_reason: 'load', done: true });
    const asked = await client.chat({ model, messages: [], keep_alive: '10m' });
    assert.deepEqual(asked.message, { role: 'assistant', content: '' });
    assert.equal(asked.done_reason, 'load');
    const [streamed] = await drained(await client.generate({ model, prompt: '', stream: true }));
    assert.equal(streamed.done_reason, 'load');
    assert((await client.ps()).models.some((one) => one.name === 'demo:latest'));
    await refused(client.generate({ model, prompt: '', keep_alive: 0 }), 400, /only the operator may unload it/);
    await refused(client.generate({ model: 'nope', prompt: '' }), 404, /no model "nope"/);
  },

  async 'all of Ollama\'s options at once'() {
    const all = {
      num_keep: 5, seed: 42, num_predict: 1, top_k: 20, top_p: 0.9, min_p: 0, typical_p: 0.7, repeat_last_n: 64, temperature: 0.8,
      repeat_penalty: 1.2, presence_penalty: 1.5, frequency_penalty: 1, penalize_newline: true, stop: ['\n\n\n'], numa: false,
      num_ctx: 512, num_batch: 2, num_gpu: 1, main_gpu: 0, use_mmap: true, num_thread: 8, mirostat: 0, tfs_z: 1,
    };
    checkEnd(await client.generate({ model, prompt: question, options: all }), 1);
    await refused(client.generate({ model, prompt: question, options: { ...all, repeat_last_n: 33 } }), 400, /repeat_last_n/);
  },

  async 'paths with slashes to spare, bodies without a type, the default tag in other APIs'() {
    const post = (path, body) => fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    const told = await post('//api/chat/', { ...chat, model: 'demo:latest', stream: false });  // as text/plain
    assert.equal(told.status, 200);
    assert.equal((await told.json()).message.content, (await client.chat(chat)).message.content);
    const openai = await post('/v1//chat/completions', { model: 'demo:latest', messages, max_tokens: 4 });
    assert.equal(openai.status, 200);
    assert.equal((await openai.json()).model, 'demo:latest');
    const nowhere = await fetch(`${url}/api/blobs/x`, { headers });
    assert.equal(nowhere.status, 404);
    assert.equal(typeof (await nowhere.json()).error, 'string');
    assert.deepEqual(await (await fetch(`${url}/health`)).json(), { status: 'ok' });
  },

  async 'a stream that is given up frees the engine'() {
    const stream = await client.chat({ model: 'slow', messages, options: { num_predict: 8000, temperature: 0 }, stream: true });
    for await (const _ of stream) break;
    stream.abort();
    await eventually('no request is open', async () => /^flyball_requests_running 0$/m.test(await metrics(url)));
  },

  async 'generate: a suffix, where the model has infill tokens'() {
    const [prompt, suffix] = ['def add(a, b):\n    ', '\n\nprint(add(1, 2))'];
    const fill = (fields) => client.generate({ model: 'coder', options: { temperature: 0, num_predict: 12 }, ...fields });
    const filled = await fill({ prompt, suffix });
    checkEnd(filled, 12);
    // The template's own form, as a client writes it that sends raw prompts.
    const raw = await fill({ prompt: `<|fim_prefix|>${prompt}<|fim_suffix|>${suffix}<|fim_middle|>`, raw: true });
    assert.equal(filled.response, raw.response);
    assert.equal(filled.prompt_eval_count, raw.prompt_eval_count);
    const parts = await drained(await fill({ prompt, suffix, stream: true }));
    assert.equal(parts.map((part) => part.response).join(''), filled.response);
    assert((await fill({ prompt: '', suffix })).prompt_eval_count > 3, 'a gap at the beginning');
    const shown = await client.show({ model: 'coder' });
    assert.deepEqual(shown.capabilities, ['completion', 'tools', 'insert']);
    await refused(fill({ prompt, suffix, system: 'Be brief.' }), 400, /'system' is only allowed without 'suffix'/);
    await refused(fill({ prompt, suffix, raw: true }), 400, /'suffix' is only allowed where 'raw' is not true/);
  },

  async 'refused: each with its reason'() {
    await refused(client.chat({ ...chat, model: 'nope' }), 404, /no model "nope"/);
    await refused(client.chat({ ...chat, options: { temperature: 9 } }), 400, /'options.temperature' is 9/);
    await refused(client.chat({ ...chat, options: { temperatur: 1 } }), 400, /did you mean "temperature"/);
    await refused(client.chat({ ...chat, options: { mirostat: 2 } }), 400, /'options.mirostat' is not served/);
    await refused(client.chat({ ...chat, think: 'hard' }), 400, /'think'/);
    await refused(client.chat({ ...chat, logprobs: true }), 400, /'logprobs'/);
    await refused(client.chat({ ...chat, format: 'yaml' }), 400, /'format' must be "json" or a JSON schema/);
    await refused(client.chat({ ...chat, format: { type: 'sting' } }), 400, /format/);
    await refused(client.chat({ ...chat, messages: [{ role: 'bot', content: 'x' }] }), 400, /messages\[0\].role/);
    await refused(client.chat({ ...chat, messages: [{ role: 'user', content: 'x', images: ['aGk='] }] }), 400, /images/);
    await refused(client.generate({ model, prompt: 'a', suffix: 'b' }), 400, /'suffix' is not served.*no infill tokens/);
    await refused(client.generate({ model, prompt: 'a', context: [1] }), 400, /'context' is not served/);
    await refused(client.generate({ model, prompt: 'a', template: '{{ .Prompt }}' }), 400, /'template' is not served/);
    await refused(client.generate({ model, prompt: 'x '.repeat(5000), options }), 400, /context/);
    await refused(client.pull({ model: 'llama3' }), 400, /\/api\/pull is not served/);
    await refused(client.push({ model: 'llama3' }), 400, /\/api\/push is not served/);
    await refused(client.create({ model: 'mine', from: 'demo' }), 400, /\/api\/create is not served/);
    await refused(client.copy({ source: 'demo', destination: 'mine' }), 400, /\/api\/copy is not served/);
    await refused(client.delete({ model: 'demo' }), 400, /\/api\/delete is not served/);
    await refused(client.embed({ model: 'demo', input: 'a' }), 400, /embeddings/);
    await refused(client.show({ model: 'nope' }), 404, /no model/);
    const stranger = new Ollama({ host: url, headers: { Authorization: 'Bearer nobody' } });
    await refused(stranger.chat(chat), 401, /key/);
  },

  async 'refused before a stream begins: a status, and the error alone'() {
    const answer = await fetch(`${url}/api/chat`, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...chat, stream: true, messages: [{ role: 'user', content: 'x '.repeat(5000) }] }),
    });
    assert.equal(answer.status, 400);
    assert.deepEqual(Object.keys(await answer.json()), ['error']);
  },
};

const gpu = ['chat: streamed, the same text', 'a schema is enforced, and json'];
const own = [
  'models: list, show, ps, version', 'chat: the name with its default tag, and an alias', 'tools and think',
  'a request without a prompt loads its model, and an app unloads none',
  'paths with slashes to spare, bodies without a type, the default tag in other APIs',
  'generate: a suffix, where the model has infill tokens',
  'a stream that is given up frees the engine', 'refused: each with its reason', 'refused before a stream begins: a status, and the error alone'];

await run(daemon, tests, { gpu, own });
