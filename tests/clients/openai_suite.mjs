// The official npm client against the daemon: what its users do, and every error shape. Exit 77 where the openai package
// is not installed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { eventually, keys, metrics as metricsOf, model, modulesWith, run, serve } from './daemon.mjs';

const modules = modulesWith('openai');
const { default: OpenAI } = await import(pathToFileURL(join(modules, 'openai', 'index.mjs')));
const daemon = await serve({ models: ['slow', 'coder'] });
const { url } = daemon;
const { version } = JSON.parse(readFileSync(join(modules, 'openai', 'package.json'), 'utf8'));
console.log(`node ${process.version}, openai ${version}, ${url}`);

const client = new OpenAI({ apiKey: keys.main, baseURL: `${url}/v1`, maxRetries: 0, timeout: 120_000 });
const messages = [{ role: 'user', content: 'Which engine for a Mac?' }];
const greedy = { model, messages, temperature: 0, max_tokens: 24 };
const weather = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } };
const asked = { model: 'demo', input: messages[0].content, temperature: 0, max_output_tokens: 24 };
const lookup = { type: 'function', name: 'lookup', strict: true, parameters: { type: 'object', properties: { engine: { enum: ['cpu', 'gpu'] } }, required: ['engine'], additionalProperties: false } };
const kLong = 8000;
const long = { model: 'slow', messages, temperature: 0, max_tokens: kLong, ignore_eos: true };

const metrics = () => metricsOf(url);
// The sum over the series of this name that carry these labels, given as they are printed.
function metric(text, name, ...labels) {
  const lines = text.split('\n').filter((line) => /^[^{ ]+/.exec(line)?.[0] === name && labels.every((label) => line.includes(label)));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}
// What the slow engine says of itself, and how many requests the daemon has open.
async function slow() {
  const text = await metrics();
  const of = (name) => metric(text, name, 'model="slow"');
  return {
    open: metric(text, 'flyball_requests_running') + metric(text, 'flyball_requests_waiting'),
    busy: of('flyball_engine_requests_running') + of('flyball_engine_requests_waiting'),
    generated: of('flyball_engine_completion_tokens'),
  };
}
async function refused(promise, status, code, param = undefined) {
  const error = await promise.then((answer) => assert.fail(`expected ${code}, got ${inspect(answer)}`), (e) => e);
  assert(error instanceof OpenAI.APIError, inspect(error));
  assert.equal(error.status, status, error.message);
  assert.equal(error.code, code, error.message);
  assert.equal(typeof error.type, 'string');
  assert(error.error.message.length > 0);
  if (param !== undefined) assert.equal(error.param, param);
  assert.match(error.headers.get('x-request-id'), /^req-/);
  return error;
}

// ---- the fields that the client's types name ---------------------------------------------------------------------

// The names of an interface's members in the package's declarations.
function members(file, type) {
  const text = readFileSync(join(modules, 'openai', 'resources', file), 'utf8').replace(/\/\*[^]*?\*\//g, '');
  const start = text.search(new RegExp(`^ *(export )?interface ${type} `, 'm'));
  assert(start >= 0, `${file} has no interface ${type}`);
  const names = [];
  let depth = 0;
  for (const line of text.slice(start).split('\n')) {
    const member = /^ *(\w+)\??: /.exec(line);
    if (depth === 1 && member) names.push(member[1]);
    depth += line.split('{').length - line.split('}').length;
    if (depth === 0) break;
  }
  assert(names.length > 0, `${type} has no members`);
  return names;
}
// The tables of request parameters and fields in docs/http-api.md.
function table() {
  const text = readFileSync(join(process.env.FLYBALL_SOURCE_DIR, 'docs', 'http-api.md'), 'utf8');
  const rows = [];
  for (const line of text.split('\n')) {
    const cells = line.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, ''));
    const names = [...cells[0].matchAll(/`(\w+)`/g)].map((match) => match[1]);
    if (!line.startsWith('| `') || cells.length !== 5 || names.length === 0) continue;
    const field = /^(served|accepted|refused)/.exec(cells[3]);
    if (field) rows.push({ names, of: cells[1], where: cells[2].split(', '), use: field[1] });
    else rows.push({ names, of: 'body', where: [cells[1]], use: 'served' });
  }
  assert(rows.length > 80, `docs/http-api.md has ${rows.length} rows`);
  return rows;
}
const odd = [{ no: 1 }];  // a value that no field takes
// The error's code, or "ok".
async function explained(body) {
  return client.post('/route/explain', { body }).then(() => 'ok', (error) => error.code);
}

// ---- the suite ---------------------------------------------------------------------------------------------------

const tests = {
  async 'list and retrieve models'() {
    const list = await client.models.list();
    assert.deepEqual(list.data.map((model) => model.id).sort(), ['coder', 'demo', 'slow']);
    assert.equal((await client.models.retrieve('demo')).object, 'model');
    assert.equal((await client.models.retrieve('org/slow')).id, 'slow');
  },

  async 'chat'() {
    const { data, response } = await client.chat.completions.create(greedy).withResponse();
    assert.equal(data.object, 'chat.completion');
    assert.equal(data.model, model);
    assert.equal(data.choices[0].message.role, 'assistant');
    assert(data.choices[0].message.content.length > 0);
    assert(['stop', 'length'].includes(data.choices[0].finish_reason));
    assert(data.usage.prompt_tokens > 0 && data.usage.completion_tokens > 0);
    assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
    assert.match(response.headers.get('x-flyball-route'), /^backend=\w+; rule=\S+; model=\S+$/);
    const receipt = await client.get(`/route/receipts/${response.headers.get('x-request-id')}`);
    assert.equal(receipt.state, 'done');
    assert.equal(receipt.usage.completion_tokens, data.usage.completion_tokens);
  },

  async 'stream with usage equals the whole answer'() {
    const whole = await client.chat.completions.create(greedy);
    const stream = await client.chat.completions.create({ ...greedy, stream: true, stream_options: { include_usage: true } });
    let text = '';
    let reason = null;
    let usage = null;
    for await (const chunk of stream) {
      assert.equal(chunk.object, 'chat.completion.chunk');
      if (chunk.choices.length === 0) usage = chunk.usage;
      else assert.equal(chunk.usage, null);
      text += chunk.choices[0]?.delta?.content ?? '';
      reason = chunk.choices[0]?.finish_reason ?? reason;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(reason, whole.choices[0].finish_reason);
    assert.equal(usage.total_tokens, whole.usage.total_tokens);
    const runner = await client.chat.completions.stream({ ...greedy }).finalContent();
    assert.equal(runner, text);
  },

  async 'the demo model calls a tool and answers from its result'() {
    const tool = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } };
    const turn = [{ role: 'user', content: 'What is the weather in Paris?' }];
    const { choices: [{ message, finish_reason }] } = await client.chat.completions.create({ ...greedy, max_tokens: 100, messages: turn, tools: [tool] });
    assert.equal(finish_reason, 'tool_calls');
    const [call] = message.tool_calls;
    assert.equal(call.function.name, 'get_weather');
    assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Paris' });
    turn.push(message, { role: 'tool', tool_call_id: call.id, content: '21 degrees, sunny' });
    const answer = await client.chat.completions.create({ ...greedy, max_tokens: 100, messages: turn, tools: [tool] });
    assert.match(answer.choices[0].message.content, /21 degrees.*sunny.*Paris/);
  },

  async 'tools are told in a system message to a model whose template has no place for them'() {
    const asked = { ...greedy, model: 'slow', tools: [weather], parallel_tool_calls: false, reasoning_effort: 'low' };
    const { data, response } = await client.chat.completions.create(asked).withResponse();
    const plain = await client.chat.completions.create({ ...greedy, model: 'slow' });
    assert(data.usage.prompt_tokens > plain.usage.prompt_tokens);
    assert.match(response.headers.get('x-flyball-note'), /^Tools and calls are told to the model as text/);
    const receipt = await client.get(`/route/receipts/${response.headers.get('x-request-id')}`);
    assert.equal(receipt.tools_in_system_message, true);
    assert.equal(await client.chat.completions.stream(asked).finalContent(), data.choices[0].message.content);
    const none = await client.chat.completions.create({ ...asked, tool_choice: 'none' });
    assert.equal(none.usage.prompt_tokens, plain.usage.prompt_tokens);
  },

  async 'calls: required, named, streamed and answered'() {
    const place = { type: 'function', function: { name: 'weather', parameters: {
      type: 'object', properties: { city: { enum: ['Oslo', 'Lima'] } }, required: ['city'], additionalProperties: false } } };
    const asked = { ...greedy, max_tokens: 200, tools: [place], parallel_tool_calls: false };
    for (const tool_choice of ['required', { type: 'function', function: { name: 'weather' } }]) {
      const { choices: [{ message, finish_reason }] } = await client.chat.completions.create({ ...asked, tool_choice });
      assert.equal(finish_reason, 'tool_calls');
      assert.equal(message.content, null);
      assert.equal(message.tool_calls.length, 1);
      const [call] = message.tool_calls;
      assert.deepEqual([call.type, call.function.name], ['function', 'weather']);
      assert(['Oslo', 'Lima'].includes(JSON.parse(call.function.arguments).city));
      const streamed = await client.chat.completions.stream({ ...asked, tool_choice }).finalMessage();
      assert.equal(streamed.tool_calls[0].function.arguments, call.function.arguments);
      const result = { role: 'tool', tool_call_id: call.id, content: 'sunny' };
      const next = await client.chat.completions.create({ ...asked, messages: [...greedy.messages, message, result], max_tokens: 4 });
      assert(next.usage.prompt_tokens > 0);
    }
  },

  async 'the history of an agent'() {
    const [question, more] = [{ role: 'user', content: 'Once' }, { role: 'user', content: 'And then?' }];
    const tokens = async (...history) => (await client.chat.completions.create({ ...greedy, max_tokens: 1, messages: history })).usage.prompt_tokens;
    const { message } = (await client.chat.completions.create(greedy)).choices[0];
    assert.equal(await tokens(question, message, more), await tokens(question, { role: message.role, content: message.content }, more));
    assert.equal(await tokens(question, { ...message, tool_calls: [], audio: null, function_call: null, name: null }, more),
      await tokens(question, message, more));
    const call = (args) => ({ role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'w', arguments: args } }] });
    const result = { role: 'tool', tool_call_id: 'c1', content: 'sunny' };
    assert(await tokens(question, call('{"city": "Paris"}'), result, more) > 0);
    const { response } = await client.chat.completions.create({ ...greedy, messages: [question, call('not json'), result] }).withResponse();
    assert.match(response.headers.get('x-flyball-note'), /^messages\[1\]\.tool_calls\[0\]\.function\.arguments is not readable as a JSON object/);
    await refused(client.chat.completions.create({ ...greedy, messages: [question, { role: 'assistant', content: null }] }),
      400, 'missing_field', 'messages[1].content');
  },

  async 'max_tokens ends with length'() {
    const answer = await client.chat.completions.create({ ...greedy, max_tokens: 3, ignore_eos: true });
    assert.equal(answer.choices[0].finish_reason, 'length');
    assert.equal(answer.usage.completion_tokens, 3);
    const other = await client.chat.completions.create({ ...greedy, max_tokens: undefined, max_completion_tokens: 3, ignore_eos: true });
    assert.equal(other.usage.completion_tokens, 3);
  },

  async 'stop'() {
    const whole = (await client.chat.completions.create(greedy)).choices[0].message.content;
    const at = Math.floor(whole.length / 2);
    const stop = whole.slice(at, at + 3);
    const cut = await client.chat.completions.create({ ...greedy, stop: [stop, 'never seen'] });
    assert.equal(cut.choices[0].message.content, whole.slice(0, whole.indexOf(stop)));
    assert.equal(cut.choices[0].finish_reason, 'stop');
    const stream = await client.chat.completions.create({ ...greedy, stop, stream: true });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? '';
    assert.equal(text, whole.slice(0, whole.indexOf(stop)));
  },

  async 'seed'() {
    const ask = async (seed) => (await client.chat.completions.create({ ...greedy, temperature: 1.5, seed })).choices[0].message.content;
    assert.equal(await ask(42), await ask(42));
    const others = new Set();
    for (const seed of [1, 2, 3, 4, 5, 6]) others.add(await ask(seed));
    assert(others.size > 1, 'six seeds gave one answer');
  },

  async 'logprobs'() {
    const answer = await client.chat.completions.create({ ...greedy, max_tokens: 5, logprobs: true, top_logprobs: 3 });
    const { content } = answer.choices[0].logprobs;
    assert(content.length > 0 && content.length <= 5);
    for (const one of content) {
      assert(one.logprob <= 0);
      assert.equal(one.top_logprobs.length, 3);
      assert.equal(one.top_logprobs[0].token, one.token);  // greedy takes the likeliest
      assert.deepEqual(one.top_logprobs.map((t) => t.logprob), one.top_logprobs.map((t) => t.logprob).sort((a, b) => b - a));
    }
    assert.equal(Buffer.from(content.flatMap((one) => one.bytes)).toString(), answer.choices[0].message.content);
  },

  async 'n'() {
    const answer = await client.chat.completions.create({ ...greedy, temperature: 1.5, seed: 7, n: 3 });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2]);
    const stream = await client.chat.completions.create({ ...greedy, temperature: 1.5, seed: 7, n: 3, stream: true });
    const texts = ['', '', ''];
    for await (const chunk of stream) for (const choice of chunk.choices) texts[choice.index] += choice.delta.content ?? '';
    assert.deepEqual(texts, answer.choices.map((choice) => choice.message.content));
  },

  async 'structured output'() {
    const schema = {
      type: 'object', required: ['engine', 'cores'], additionalProperties: false,
      properties: { engine: { type: 'string', maxLength: 12 }, cores: { type: 'integer', minimum: 1, maximum: 64 } },
    };
    const format = { type: 'json_schema', json_schema: { name: 'choice', strict: true, schema } };
    const ask = { ...greedy, max_tokens: 200, response_format: format };
    const check = (text) => {
      const value = JSON.parse(text);
      assert.deepEqual(Object.keys(value), ['engine', 'cores']);
      assert(typeof value.engine === 'string' && [...value.engine].length <= 12, text);
      assert(Number.isInteger(value.cores) && value.cores >= 1 && value.cores <= 64, text);
    };
    const whole = (await client.chat.completions.create(ask)).choices[0];
    assert.equal(whole.finish_reason, 'stop');
    check(whole.message.content);
    const stream = await client.chat.completions.create({ ...ask, stream: true });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? '';
    assert.equal(text, whole.message.content);
    const choices = ['the CPU', 'the GPU'];
    const chosen = (await client.chat.completions.create({ ...greedy, guided_choice: choices })).choices[0];
    assert(choices.includes(chosen.message.content), chosen.message.content);
    assert.equal(chosen.finish_reason, 'stop');
  },

  async 'legacy completions'() {
    const answer = await client.completions.create({ model, prompt: ['Once upon', 'The'], temperature: 0, max_tokens: 6, logprobs: 2 });
    assert.equal(answer.object, 'text_completion');
    assert.equal(answer.choices.length, 2);
    const { logprobs, text } = answer.choices[0];
    assert(text.length > 0);
    assert.equal(logprobs.tokens.length, logprobs.token_logprobs.length);
    assert.equal(logprobs.text_offset[0], 0);
    const stream = await client.completions.create({ model, prompt: 'Once upon', temperature: 0, max_tokens: 6, stream: true });
    let streamed = '';
    for await (const chunk of stream) streamed += chunk.choices[0]?.text ?? '';
    assert.equal(streamed, text);
  },

  async 'legacy completions: a prompt is echoed and scored'() {
    const legacy = (fields) => client.completions.create({ model: 'demo', temperature: 0, ...fields });
    const answer = (await legacy({ prompt: 'Once upon', max_tokens: 6, logprobs: 1 })).choices[0];
    const echoed = await legacy({ prompt: 'Once upon', max_tokens: 6, logprobs: 1, echo: true });
    const { text, logprobs, finish_reason } = echoed.choices[0];
    assert.equal(text, `Once upon${answer.text}`);
    assert.equal(finish_reason, answer.finish_reason);
    const { prompt_tokens, completion_tokens } = echoed.usage;
    for (const list of Object.values(logprobs)) assert.equal(list.length, prompt_tokens + completion_tokens);
    assert.equal(logprobs.token_logprobs[0], null);
    assert.equal(logprobs.top_logprobs[0], null);
    assert.deepEqual(logprobs.token_logprobs.slice(prompt_tokens), answer.logprobs.token_logprobs);
    const begins = logprobs.text_offset.slice(prompt_tokens).map((at) => at - 'Once upon'.length);
    assert.deepEqual(begins, answer.logprobs.text_offset);
    // lm-evaluation-harness asks so: the tokens of the whole text score what the model has said as it said it.
    const { tokens } = await client.post('/../tokenize', { body: { model: 'demo', prompt: text } });
    for (const max_tokens of [0, 1]) {
      const scored = await legacy({ prompt: [tokens, tokens], max_tokens, logprobs: 1, echo: true });
      assert.deepEqual(scored.choices.map((choice) => choice.index), [0, 1]);
      for (const choice of scored.choices) {
        assert.equal(choice.logprobs.tokens.length, tokens.length + max_tokens);
        assert.equal(choice.text.startsWith(text), true);
        const scores = choice.logprobs.token_logprobs.slice(1, tokens.length);
        assert(scores.every((x) => x <= 0), `a log probability above 0: ${scores}`);
        // The text splits into the tokens that were generated, so that they score as they did then.
        assert.deepEqual(choice.logprobs.tokens.slice(0, tokens.length), logprobs.tokens);
        logprobs.token_logprobs.slice(1).forEach((x, i) => assert(Math.abs(x - scores[i]) < 1e-3, `${x} against ${scores[i]}`));
      }
      assert.equal(scored.usage.completion_tokens, 2 * max_tokens);
    }
    const stream = await legacy({ prompt: 'Once upon', max_tokens: 6, logprobs: 1, echo: true, stream: true });
    let streamed = '';
    const listed = [];
    for await (const { choices: [choice] } of stream) {
      streamed += choice.text;
      listed.push(...(choice.logprobs?.token_logprobs ?? []));
    }
    assert.equal(streamed, text);
    assert.deepEqual(listed, logprobs.token_logprobs);
  },

  async 'legacy completions: an empty answer'() {
    const none = await client.completions.create({ model: 'demo', prompt: 'Once upon', max_tokens: 0 });
    assert.equal(none.choices[0].text, '');
    assert.equal(none.choices[0].finish_reason, 'length');
    assert.equal(none.usage.completion_tokens, 0);
    assert(none.usage.prompt_tokens > 0);
    const echoed = await client.completions.create({ model: 'demo', prompt: 'Once upon', max_tokens: 0, echo: true });
    assert.equal(echoed.choices[0].text, 'Once upon');
  },

  async 'legacy completions: a suffix, where the model has infill tokens'() {
    const fill = (fields) => client.completions.create({ model: 'coder', temperature: 0, max_tokens: 12, ...fields });
    const tokens = async (prompt) => (await client.post('/../tokenize', { body: { model: 'coder', prompt } })).tokens;
    const [before, after] = ['def add(a, b):\n    ', '\n\nprint(add(1, 2))'];
    const parts = await Promise.all(['<|fim_prefix|>', before, '<|fim_suffix|>', after, '<|fim_middle|>'].map(tokens));
    assert.deepEqual([parts[0].length, parts[2].length, parts[4].length], [1, 1, 1]);
    const expected = await fill({ prompt: parts.flat(), logprobs: 1 });
    const filled = await fill({ prompt: before, suffix: after, logprobs: 1 });
    assert.equal(filled.choices[0].text, expected.choices[0].text);
    // The model's likeliest token follows from the one before; how likely it is, from all.
    const scores = (answer) => answer.choices[0].logprobs.token_logprobs;
    scores(filled).forEach((x, i) => assert(Math.abs(x - scores(expected)[i]) < 1e-3, `${x} against ${scores(expected)[i]}`));
    assert.notDeepEqual(scores(await fill({ prompt: after, suffix: before, logprobs: 1 })), scores(filled), 'the order of the texts changes nothing');
    assert.equal(filled.usage.prompt_tokens, parts.flat().length);
    const several = await fill({ prompt: [before, 'x = '], suffix: after, n: 2, logprobs: 1 });
    assert.equal(several.choices.length, 4);
    assert.equal(several.choices[1].text, filled.choices[0].text);
    assert.equal(several.choices[1].logprobs.tokens.length, 12);
    let streamed = '';
    for await (const { choices: [choice] } of await fill({ prompt: before, suffix: after, stream: true })) streamed += choice?.text ?? '';
    assert.equal(streamed, filled.choices[0].text);
    // A token's spelling in a text is text.
    assert((await fill({ prompt: '<|fim_middle|>', suffix: after })).usage.prompt_tokens > parts[3].length + 4);
    assert.equal((await fill({ prompt: before, suffix: '' })).usage.prompt_tokens, parts[1].length);
    const { capabilities } = await client.models.retrieve('coder');
    assert.equal(capabilities.infill.served, 'limit');
    assert.equal((await client.models.retrieve('demo')).capabilities.infill.served, 'no');
    await refused(fill({ model: 'demo', prompt: before, suffix: after }), 400, 'unsupported_feature', 'suffix');
    await refused(fill({ prompt: before, suffix: after, echo: true }), 400, 'unsupported_value', 'echo');
    await refused(fill({ prompt: parts[1], suffix: after }), 400, 'unsupported_value', 'suffix');
    await refused(fill({ prompt: before, suffix: 'word '.repeat(20_000) }), 400, 'context_length_exceeded', 'prompt');
  },

  // That it is within a step is shown in tests/backends/engine, where a step is something that a test makes happen.
  async 'abort mid-stream stops the engine'() {
    const before = (await slow()).generated;
    const stream = await client.chat.completions.create({ ...long, n: 4, stream: true });
    let seen = 0;
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta?.content && ++seen === 4) break;  // breaking aborts
    }
    const after = await eventually('the engine works on nothing', async () => {
      const now = await slow();
      return now.open === 0 && now.busy === 0 && now.generated >= before + seen && now;
    });
    const made = after.generated - before;
    assert(made < 4 * kLong / 2, `${made} of ${4 * kLong} tokens generated after an abort at the first few`);
    await eventually('logged as 499', async () => metric(await metrics(), 'flyball_requests_total', 'model="slow"', 'status="499"') === 1);
  },

  async 'abort of an answer that is not streamed'() {
    const before = (await slow()).generated;
    const controller = new AbortController();
    const pending = client.chat.completions.create(long, { signal: controller.signal });
    const rejected = assert.rejects(pending, OpenAI.APIUserAbortError);
    await eventually('the engine works on it', async () => (await slow()).busy === 1);
    controller.abort();
    await rejected;
    const after = await eventually('the engine works on nothing', async () => {
      const now = await slow();
      return now.open === 0 && now.busy === 0 && now;
    });
    assert(after.generated - before < kLong, 'the answer was computed to its end');
  },

  async 'explain'() {
    const receipt = await client.post('/route/explain', { body: { ...greedy, facts: { 'workload.class': 'rag' } } });
    assert.equal(receipt.state, 'explained');
    assert(receipt.request_id.startsWith('req-'));
  },

  // The table of docs/http-api.md, which a unit test keeps equal to the parser's, has each field of the client's types, and
  // the daemon treats it as the table says.
  async 'every field of the types is served, accepted or refused'() {
    for (const [file, type, kind] of [
      ['chat/completions/completions.d.ts', 'ChatCompletionCreateParamsBase', 'chat'],
      ['completions.d.ts', 'CompletionCreateParamsBase', 'completions'],
    ]) {
      const names = members(file, type);
      assert(names.length >= 17, `${type} has ${names}`);
      const body = kind === 'chat' ? { messages } : { prompt: 'Once' };
      for (const name of names) {
        const use = table().find((row) => row.of === 'body' && row.names.includes(name) && row.where.some((one) => ['all', 'both', kind].includes(one)))?.use;
        const code = await explained({ ...body, [name]: odd });
        const expected = { served: ['invalid_value', 'unsupported_value', 'missing_field'], accepted: ['ok'], refused: ['unsupported_value', 'unsupported_feature'] }[use];
        assert(expected?.includes(code), `${type}.${name} is ${use} in the table; the daemon answered ${code}`);
      }
    }
    assert.equal(await explained({ messages, no_such_field: odd }), 'unknown_field');
  },

  async 'every member of the types of messages and tools is known'() {
    const chat = 'chat/completions/completions.d.ts';
    const message = (more) => ({ messages: [{ role: 'assistant', content: 'a', ...more }] });
    const tool = (more) => ({ messages, tools: [{ type: 'function', function: { name: 'f' }, ...more }] });
    for (const [file, type, of, inside] of [
      [chat, 'ChatCompletionStreamOptions', 'stream_options', (more) => ({ messages, stream: true, stream_options: more })],
      [chat, 'ChatCompletionMessage', 'messages[]', message],
      [chat, 'ChatCompletionAssistantMessageParam', 'messages[]', message],
      [chat, 'ChatCompletionDeveloperMessageParam', 'messages[]', message],
      [chat, 'ChatCompletionUserMessageParam', 'messages[]', message],
      [chat, 'ChatCompletionToolMessageParam', 'messages[]', message],
      [chat, 'ChatCompletionContentPartText', 'messages[].content[]', (more) => message({ content: [{ type: 'text', text: 'a', ...more }] })],
      [chat, 'ChatCompletionMessageFunctionToolCall', 'messages[].tool_calls[]', (more) => message({ tool_calls: [{ function: { name: 'f' }, ...more }] })],
      [chat, 'ChatCompletionFunctionTool', 'tools[]', tool],
      ['shared.d.ts', 'FunctionDefinition', 'tools[].function', (more) => tool({ function: { name: 'f', ...more } })],
    ])
      for (const name of members(file, type)) {
        assert(table().some((row) => row.of === of && row.names.includes(name)), `${type}.${name} is not in the table as a member of ${of}`);
        assert.notEqual(await explained(inside({ [name]: odd })), 'unknown_field', `${type}.${name}`);
      }
    assert.equal(await explained(message({ no_such_field: odd })), 'unknown_field');
    assert.equal(await explained(tool({ no_such_field: odd })), 'unknown_field');
  },

  // ---- responses -------------------------------------------------------------------------------------------------

  async 'responses: whole'() {
    const { data, response } = await client.responses.create({ ...asked, instructions: 'Be brief.', metadata: { a: 'b' } }).withResponse();
    assert.match(data.id, /^resp_/);
    assert.equal(data.object, 'response');
    assert.equal(data.model, 'demo');
    assert(data.output_text.length > 0);
    assert.equal(data.output[0].type, 'message');
    assert.equal(data.output[0].content[0].text, data.output_text);
    assert.equal(data.instructions, 'Be brief.');
    assert.deepEqual(data.metadata, { a: 'b' });
    assert.deepEqual(data.text, { format: { type: 'text' } });
    assert.equal(data.store, false);
    assert.equal(data.error, null);
    assert.equal(data.usage.total_tokens, data.usage.input_tokens + data.usage.output_tokens);
    const receipt = await client.get(`/route/receipts/${response.headers.get('x-request-id')}`);
    assert.equal(receipt.usage.completion_tokens, data.usage.output_tokens);
  },

  async 'responses: a response is what a chat completion is'() {
    const chat = await client.chat.completions.create({ ...greedy, messages: [{ role: 'system', content: 'Be brief.' }, ...messages] });
    const { output_text, usage } = await client.responses.create({ ...asked, instructions: 'Be brief.' });
    assert.equal(output_text, chat.choices[0].message.content);
    assert.equal(usage.input_tokens, chat.usage.prompt_tokens);
    assert.equal(usage.output_tokens, chat.usage.completion_tokens);
    const items = await client.responses.create({ ...asked, input: [
      { role: 'developer', content: 'Be brief.' }, { type: 'message', role: 'user', content: [{ type: 'input_text', text: messages[0].content }] }] });
    assert.equal(items.output_text, output_text);
  },

  async 'responses: cut by max_output_tokens'() {
    const cut = await client.responses.create({ ...asked, max_output_tokens: 2, ignore_eos: true });
    assert.equal(cut.status, 'incomplete');
    assert.equal(cut.incomplete_details.reason, 'max_output_tokens');
    assert.equal(cut.max_output_tokens, 2);
    assert.equal(cut.output.at(-1).status, 'incomplete');
    assert.equal(cut.usage.output_tokens, 2);
  },

  async 'responses: events are numbered, and the last one has the whole'() {
    const whole = await client.responses.create(asked);
    const stream = await client.responses.create({ ...asked, stream: true, stream_options: { include_obfuscation: false } });
    const events = [];
    for await (const event of stream) events.push(event);
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
    assert.deepEqual(events.slice(0, 4).map((event) => event.type),
      ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added']);
    const deltas = events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta).join('');
    assert.equal(deltas, whole.output_text);
    const last = events.at(-1);
    assert.equal(last.type, `response.${whole.status}`);
    assert.equal(last.response.output[0].content[0].text, whole.output_text);
    assert.deepEqual(last.response.output[0], events.findLast((event) => event.type === 'response.output_item.done').item);
    assert.deepEqual(last.response.usage.output_tokens, whole.usage.output_tokens);
    assert.deepEqual(Object.keys(last.response).sort(), Object.keys(whole).filter((name) => name !== 'output_text').sort());
  },

  async 'responses: the stream helper'() {
    const whole = await client.responses.create(asked);
    let text = '';
    const stream = client.responses.stream(asked).on('response.output_text.delta', (event) => {
      text += event.delta;
      assert.equal(event.snapshot, text);
    });
    const final = await stream.finalResponse();
    assert.equal(final.output_text, whole.output_text);
    assert.equal(text, whole.output_text);
  },

  async 'responses: parse a JSON schema'() {
    const schema = { type: 'object', properties: { engine: { enum: ['cpu', 'gpu'] }, fast: { type: 'boolean' } }, required: ['engine', 'fast'], additionalProperties: false };
    const format = { type: 'json_schema', name: 'choice', strict: true, schema };
    const parsed = await client.responses.parse({ ...asked, max_output_tokens: 64, text: { format } });
    assert.equal(parsed.status, 'completed');
    assert(['cpu', 'gpu'].includes(parsed.output_parsed.engine));
    assert.equal(typeof parsed.output_parsed.fast, 'boolean');
    assert.deepEqual(parsed.text.format, format);
    const streamed = await client.responses.stream({ ...asked, max_output_tokens: 64, text: { format } }).finalResponse();
    assert.deepEqual(JSON.parse(streamed.output_text), parsed.output_parsed);
  },

  async 'responses: a JSON object'() {
    const { output_text, status } = await client.responses.create({ ...asked, max_output_tokens: 200, text: { format: { type: 'json_object' } } });
    if (status === 'completed') assert.equal(typeof JSON.parse(output_text), 'object');
    assert(output_text.trimStart().startsWith('{'), output_text);
  },

  async 'responses: a required call, whole and streamed'() {
    const body = { ...asked, max_output_tokens: 200, tools: [lookup], tool_choice: 'required', parallel_tool_calls: false };
    const whole = await client.responses.create(body);
    const call = whole.output.find((item) => item.type === 'function_call');
    assert.equal(call.name, 'lookup');
    assert(['cpu', 'gpu'].includes(JSON.parse(call.arguments).engine));
    assert.equal(call.status, 'completed');
    assert.deepEqual(whole.tools, [{ ...lookup, description: null }]);
    const stream = client.responses.stream(body);
    let text = '';
    stream.on('response.function_call_arguments.delta', (event) => { text += event.delta; });
    const final = await stream.finalResponse();
    const streamed = final.output.find((item) => item.type === 'function_call');
    assert.equal(streamed.arguments, call.arguments);
    assert.equal(text, call.arguments);
  },

  async 'responses: a named call, and allowed tools'() {
    const clock = { ...lookup, name: 'clock' };
    const body = { ...asked, max_output_tokens: 200, tools: [lookup, clock] };
    for (const tool_choice of [{ type: 'function', name: 'clock' }, { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'clock' }] }]) {
      const { output } = await client.responses.create({ ...body, tool_choice });
      assert.equal(output.find((item) => item.type === 'function_call').name, 'clock');
    }
    const none = await client.responses.create({ ...body, tool_choice: 'none' });
    assert.deepEqual(none.tools, []);
    assert.deepEqual(none.output.map((item) => item.type), ['message']);
  },

  async 'responses: the turn after a call'() {
    const body = { ...asked, max_output_tokens: 200, tools: [lookup], tool_choice: 'required', parallel_tool_calls: false };
    const first = await client.responses.create(body);
    const outputs = first.output.filter((item) => item.type === 'function_call').map((item) => ({ type: 'function_call_output', call_id: item.call_id, output: '{"fast":true}' }));
    assert(outputs.length > 0);
    const input = [{ role: 'user', content: asked.input }, ...first.output, ...outputs];
    const second = await client.responses.create({ ...asked, input, tools: [lookup] });
    assert(second.output.length > 0);
    assert(second.usage.input_tokens > first.usage.input_tokens);
  },

  async 'responses: what a client sends back is taken'() {
    const parsed = await client.responses.parse({ ...asked, max_output_tokens: 8 });
    const input = [{ role: 'user', content: asked.input }, ...parsed.output,
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: null }, { role: 'user', content: 'Go on.' }];
    assert((await client.responses.create({ ...asked, input })).output_text.length > 0);
  },

  async 'responses: log probabilities'() {
    const body = { ...asked, max_output_tokens: 4, top_logprobs: 2, include: ['message.output_text.logprobs'] };
    const whole = await client.responses.create(body);
    const { text, logprobs } = whole.output[0].content[0];
    assert.equal(logprobs.length, whole.usage.output_tokens);
    assert(logprobs.every((token) => token.top_logprobs.length === 2 && token.logprob <= 0));
    assert.equal(Buffer.from(logprobs.flatMap((token) => token.bytes)).toString(), text);
    const events = [];
    for await (const event of await client.responses.create({ ...body, stream: true })) events.push(event);
    const deltas = events.filter((event) => event.type === 'response.output_text.delta').flatMap((event) => event.logprobs);
    assert.deepEqual(deltas, logprobs);
    assert.deepEqual(events.at(-1).response.output[0].content[0].logprobs, logprobs);
  },

  async 'responses: sampling and seeds'() {
    const body = { ...asked, temperature: 1, top_p: 0.9, top_k: 20, seed: 7 };
    const [a, b] = [await client.responses.create(body), await client.responses.create(body)];
    assert.equal(a.output_text, b.output_text);
    assert.equal(a.temperature, 1);
    assert.equal(a.top_p, 0.9);
    const stopped = await client.responses.create({ ...asked, stop: [' '] });
    assert(!stopped.output_text.includes(' '));
  },

  async 'responses: labels are accepted'() {
    const body = { ...asked, max_output_tokens: 1, user: 'u', safety_identifier: 's', prompt_cache_key: 'k', prompt_cache_retention: '24h', service_tier: 'auto', store: false,
      background: false, truncation: 'disabled', max_tool_calls: 3, include: ['reasoning.encrypted_content'], reasoning: { effort: 'low', summary: 'auto' },
      text: { verbosity: 'medium' }, previous_response_id: null, conversation: null };
    const { reasoning } = await client.responses.create(body);
    assert.deepEqual(reasoning, { effort: 'low', summary: 'auto' });
  },

  async 'responses: refusals'() {
    const wrong = (fields, code, param) => refused(client.responses.create({ ...asked, ...fields }), 400, code, param);
    await wrong({ store: true }, 'unsupported_value', 'store');
    await wrong({ previous_response_id: 'resp_1' }, 'unsupported_value', 'previous_response_id');
    await wrong({ conversation: 'conv_1' }, 'unsupported_value', 'conversation');
    await wrong({ background: true }, 'unsupported_value', 'background');
    await wrong({ prompt: { id: 'pmpt_1' } }, 'unsupported_value', 'prompt');
    await wrong({ truncation: 'auto' }, 'unsupported_value', 'truncation');
    await wrong({ text: { verbosity: 'low' } }, 'unsupported_value', 'text.verbosity');
    for (const type of ['web_search', 'file_search', 'computer', 'code_interpreter', 'image_generation', 'mcp', 'local_shell', 'custom'])
      assert.match((await wrong({ tools: [{ type, name: 'x' }] }, 'unsupported_feature', 'tools[0].type')).message, new RegExp(`"${type}"`));
    assert.match((await wrong({ input: [{ type: 'item_reference', id: 'msg_1' }] }, 'unsupported_feature', 'input[0].type')).message, /store: false/);
    await wrong({ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'http://x' }] }] }, 'unsupported_feature', 'input[0].content[0].type');
    await wrong({ input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'x' }] }] }, 'unsupported_feature', 'input[0].content[0].type');
    await wrong({ input: undefined }, 'missing_field', 'input');
    await wrong({ input: [] }, 'invalid_value', 'input');
    await wrong({ messages }, 'unsupported_value', 'messages');
    await wrong({ max_output_tokens: 0 }, 'invalid_value', 'max_output_tokens');
    const unclosed = { ...lookup, name: 'unclosed', parameters: { type: 'object', properties: { q: { type: 'string', pattern: '(' } } } };
    await wrong({ tools: [lookup, unclosed], text: { format: { type: 'json_object' } } }, 'invalid_value', 'tools[1].parameters');
    await wrong({ tool_choice: 'required' }, 'invalid_value', 'tool_choice');
    await wrong({ include: ['everything'] }, 'invalid_value', 'include[0]');
    await wrong({ tempreature: 1 }, 'unknown_field', 'tempreature');
  },

  async 'responses: none is kept'() {
    for (const method of ['retrieve', 'delete', 'cancel'])
      assert.match((await refused(client.responses[method]('resp_1'), 404, 'not_found')).message, /No response is kept/);
    const items = client.responses.inputItems.list('resp_1');
    await refused(Promise.resolve(items), 404, 'not_found');
  },

  async 'responses: every field of the types has a row'() {
    const text = readFileSync(join(process.env.FLYBALL_SOURCE_DIR, 'docs', 'responses.md'), 'utf8');
    const rows = text.split('\n').filter((line) => line.startsWith('| `')).map((line) => line.split(' | '));
    const named = (of) => new Set(rows.filter((cells) => cells[1] === of).flatMap((cells) => [...cells[0].matchAll(/`(\w+)`/g)].map((match) => match[1])));
    const file = join('responses', 'responses.d.ts');
    const check = (type, of) => {
      for (const name of members(file, type)) assert(named(of).has(name), `docs/responses.md has no row for ${name} of ${of} (${type})`);
    };
    check('ResponseCreateParamsBase', 'body');
    check('FunctionTool', 'tools[]');
    check('ResponseTextConfig', 'text');
    check('ResponseFormatTextJSONSchemaConfig', 'text.format');
    check('EasyInputMessage', 'input[] message');
    check('ResponseOutputMessage', 'input[] message');
    check('ResponseFunctionToolCall', 'input[] function_call');
    check('FunctionCallOutput', 'input[] function_call_output');
    check('ResponseReasoningItem', 'input[] reasoning');
    check('ResponseInputText', 'input[] parts');
    check('ResponseOutputText', 'input[] parts');
    check('ToolChoiceAllowed', 'tool_choice');
    for (const name of members('shared.d.ts', 'Reasoning')) assert(named('reasoning').has(name), `docs/responses.md has no row for ${name} of reasoning`);
  },

  async 'errors: who asks'() {
    const stranger = new OpenAI({ apiKey: 'no-such-key', baseURL: `${url}/v1`, maxRetries: 0 });
    assert(await refused(stranger.models.list(), 401, 'invalid_api_key') instanceof OpenAI.AuthenticationError);
    assert(await refused(client.chat.completions.create({ ...greedy, model: 'gpt-4o' }), 404, 'model_not_found', 'model') instanceof OpenAI.NotFoundError);
    await refused(client.models.retrieve('nothing'), 404, 'model_not_found');
    await refused(client.get('/nothing'), 404, 'not_found');
    await refused(client.embeddings.create({ model, input: 'a' }), 400, 'unsupported_feature');
    await refused(client.images.generate({ prompt: 'a' }), 400, 'unsupported_feature');
    await refused(client.audio.speech.create({ model, voice: 'alloy', input: 'a' }), 400, 'unsupported_feature');
    await refused(client.fineTuning.jobs.create({ model: 'demo', training_file: 'a' }), 400, 'unsupported_feature');
    await refused(client.delete(`/models/${model}`), 405, 'method_not_allowed');
  },

  async 'errors: what is asked'() {
    const wrong = (fields, code, param, status = 400) => refused(client.chat.completions.create({ ...greedy, ...fields }), status, code, param);
    assert(await wrong({ temperature: 3 }, 'invalid_value', 'temperature') instanceof OpenAI.BadRequestError);
    await wrong({ n: 5_000_000 }, 'invalid_value', 'n');
    await wrong({ top_p: 'much' }, 'invalid_value', 'top_p');
    await wrong({ messages: [] }, 'invalid_value', 'messages');
    await wrong({ messages: undefined }, 'missing_field', 'messages');
    await wrong({ messages: [{ role: 'robot', content: 'x' }] }, 'invalid_value', 'messages[0].role');
    await wrong({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'http://x' } }] }] }, 'unsupported_feature');
    await wrong({ response_format: { type: 'xml' } }, 'unsupported_value', 'response_format.type');
    await wrong({ tool_choice: 'required' }, 'invalid_value', 'tool_choice');
    await wrong({ tools: [weather], tool_choice: { type: 'function', function: { name: 'time' } } }, 'invalid_value', 'tool_choice.function.name');
    await wrong({ tools: [weather, weather] }, 'invalid_value', 'tools[1].function.name');
    await wrong({ tools: [weather], guided_regex: 'a' }, 'unsupported_feature', 'tools');
    const unclosed = { type: 'function', function: { name: 'unclosed', parameters: { type: 'object', properties: { q: { type: 'string', pattern: '(' } } } } };
    await wrong({ tools: [weather, unclosed], response_format: { type: 'json_object' } }, 'invalid_value', 'tools[1].function.parameters');
    await wrong({ reasoning_effort: 'some' }, 'invalid_value', 'reasoning_effort');
    await wrong({ tempreature: 0.5 }, 'unknown_field', 'tempreature');
    await wrong({ guided_json: { not: { unevaluatedProperties: false } } }, 'unsupported_feature', 'guided_json');
    await wrong({ grammar: 'root ::= yes' }, 'invalid_value', 'grammar');
    await wrong({ messages: [{ role: 'user', content: 'x', contnet: 'y' }] }, 'unknown_field', 'messages[0].contnet');
    const long = await wrong({ messages: [{ role: 'user', content: 'word '.repeat(20_000) }] }, 'context_length_exceeded');
    assert.match(long.message, /\d{5}.*\b1024\b/);  // what was asked for, and what there is
    await wrong({ messages: [{ role: 'user', content: 'word '.repeat(20_000) }], stream: true }, 'context_length_exceeded');
    const deep = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST', body: '['.repeat(3000) + ']'.repeat(3000),
      headers: { authorization: `Bearer ${keys.main}`, 'content-type': 'application/json' },
    });
    assert.equal(deep.status, 400);
    assert.equal((await deep.json()).error.code, 'json_too_deep');
  },

  async 'errors: how much is asked'() {
    const small = new OpenAI({ apiKey: keys.small, baseURL: `${url}/v1`, maxRetries: 0 });
    const ask = (fields) => small.chat.completions.create({ ...greedy, max_tokens: 1, ...fields });
    await refused(ask({ max_tokens: kLong + 1 }), 400, 'invalid_value', 'max_tokens');
    await refused(ask({ n: 3 }), 400, 'invalid_value', 'n');  // more than the app could ever hold
    // Two answers in the making are all that the app may have.
    const stream = await small.chat.completions.create({ ...long, n: 2, stream: true });
    for await (const _ of stream) {
      const error = await refused(ask({}), 429, 'rate_limited');
      assert(error instanceof OpenAI.RateLimitError);
      assert(Number(error.headers.get('retry-after')) >= 1);
      break;
    }
    await eventually('the place is free again', async () => (await slow()).open === 0);
    await ask({});
  },
};

const gpu = ['stream with usage equals the whole answer', 'calls: required, named, streamed and answered'];
const own = [
  'legacy completions: a suffix, where the model has infill tokens',
  'list and retrieve models', 'the demo model calls a tool and answers from its result',
  'tools are told in a system message to a model whose template has no place for them', 'the history of an agent', 'abort mid-stream stops the engine',
  'abort of an answer that is not streamed', 'errors: what is asked', 'errors: how much is asked'];

await run(daemon, tests, { gpu, own });
