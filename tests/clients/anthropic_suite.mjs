// The official npm client of Anthropic against the daemon: messages, streams, models, and every kind of refusal. Exit 77
// where @anthropic-ai/sdk is not installed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { eventually, keys, metrics, model, modulesWith, run, serve, words } from './daemon.mjs';

const modules = modulesWith('@anthropic-ai/sdk');
const home = join(modules, '@anthropic-ai', 'sdk');
const { default: Anthropic } = await import(pathToFileURL(join(home, 'index.mjs')));
const daemon = await serve();
const { url } = daemon;
const { version } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
console.log(`node ${process.version}, @anthropic-ai/sdk ${version}, ${url}`);

const clientWith = (options) => new Anthropic({ baseURL: url, apiKey: keys.main, maxRetries: 0, ...options });
const client = clientWith({});
const messages = [{ role: 'user', content: 'Which engine for a Mac?' }];
const ask = { model, max_tokens: 24, temperature: 0, messages };
const tool = { name: 'weather', description: 'Tells it.', input_schema: { type: 'object', properties: { city: { type: 'string' } } } };
const textOf = (message) => message.content.map((block) => block.text).join('');

async function refused(promise, type, status, message, param) {
  const error = await Promise.resolve(promise).then((answer) => assert.fail(`expected ${status}, got ${inspect(answer)}`), (e) => e);
  assert(error instanceof type, inspect(error));
  assert.equal(error.status, status, inspect(error));
  assert.equal(error.error.type, 'error');
  assert.match(error.error.error.message, message);
  if (param) assert.equal(error.error.error.param, param);
  assert.match(error.error.request_id, /^req-[0-9a-f]{16}$/);
  assert.equal(error.requestID, error.error.request_id);
  return error;
}
const bad = (members, message, param) => refused(client.messages.create({ ...ask, ...members }), Anthropic.BadRequestError, 400, message, param);
const post = (body, headers = {}) => fetch(`${url}/v1/messages`, {
  method: 'POST',
  headers: { 'x-api-key': keys.main, 'Content-Type': 'application/json', 'anthropic-version': '2023-06-01', ...headers },
  body: JSON.stringify(body),
});
function checkUsage(usage, tokens) {
  assert(usage.input_tokens + usage.cache_read_input_tokens > 0, inspect(usage));
  assert.equal(usage.cache_creation_input_tokens, 0);
  assert.equal(usage.output_tokens, tokens);
}

// The names of an interface's members in the package's declarations.
function members(type, file) {
  const text = readFileSync(join(home, 'resources', ...file), 'utf8');
  const found = new RegExp(`^export interface ${type} \\{$([^]*?)^\\}$`, 'm').exec(text);
  assert(found, `the package has no interface ${type}`);
  return [...found[1].matchAll(/^    (\w+)\??:/gm)].map((match) => match[1]);
}
// The rows of docs/anthropic.md that have a name of this object.
function documented(of) {
  const rows = readFileSync(join(process.env.FLYBALL_SOURCE_DIR, 'docs', 'anthropic.md'), 'utf8').split('\n').map((line) => line.split(' | '));
  return rows.filter((cells) => cells[1] === of).flatMap((cells) => [...cells[0].matchAll(/`(\w+)`/g)].map((match) => match[1]));
}

const tests = {
  'every field of the types is served, accepted or refused'() {
    const stable = ['messages', 'messages.d.ts'], beta = ['beta', 'messages', 'messages.d.ts'];
    const places = [
      ['MessageCreateParamsBase', 'body'], ['MessageCountTokensParams', 'body'], ['UserMessageParam', 'messages[]'], ['AssistantMessageParam', 'messages[]'],
      ['SystemMessageParam', 'messages[]'], ['TextBlockParam', 'messages[].content[]'], ['ToolUseBlockParam', 'messages[].content[]'],
      ['ToolResultBlockParam', 'messages[].content[]'], ['ThinkingBlockParam', 'messages[].content[]'], ['RedactedThinkingBlockParam', 'messages[].content[]'],
      ['Tool', 'tools[]'], ['ToolChoiceAuto', 'tool_choice'], ['ToolChoiceAny', 'tool_choice'], ['ToolChoiceTool', 'tool_choice'], ['ToolChoiceNone', 'tool_choice'],
      ['ThinkingConfigEnabled', 'thinking'], ['ThinkingConfigAdaptive', 'thinking'], ['ThinkingConfigDisabled', 'thinking'],
      ['OutputConfig', 'output_config'], ['JSONOutputFormat', 'output_format'], ['Message', 'messages[]']];
    for (const [type, of] of places)
      for (const [name, file] of [[type, stable], [/Params/.test(type) ? type : `Beta${type}`, beta]]) {
        if (name === 'BetaMessage') continue;
        const unknown = members(name, file).filter((member) => !documented(of).includes(member));
        assert.deepEqual(unknown, [], name);
      }
  },

  async 'message'() {
    const answer = await client.messages.create(ask);
    assert.equal(answer.type, 'message');
    assert.equal(answer.role, 'assistant');
    assert.equal(answer.model, model);
    assert.match(answer.id, /^msg_[0-9a-f]{16}$/);
    assert.equal(answer.content.length, 1);
    assert.equal(answer.content[0].type, 'text');
    assert.match(textOf(answer), words);
    assert.equal(answer.stop_reason, 'max_tokens');
    assert.equal(answer.stop_sequence, null);
    checkUsage(answer.usage, 24);
  },

  async 'message: an alias names the model'() {
    assert.equal((await client.messages.create({ ...ask, model: 'claude-sonnet-4-5-20250929', max_tokens: 1 })).model, 'claude-sonnet-4-5-20250929');
    await client.messages.create({ ...ask, model: 'org/slow', max_tokens: 1 });
  },

  async 'message: blocks of text are the text'() {
    const text = textOf(await client.messages.create(ask));
    const blocks = [{ role: 'user', content: [{ type: 'text', text: messages[0].content, cache_control: { type: 'ephemeral' } }] }];
    assert.equal(textOf(await client.messages.create({ ...ask, messages: blocks })), text);
  },

  async 'message: one that was sent before costs no new input'() {
    const long = { ...ask, max_tokens: 1, messages: [{ role: 'user', content: 'Which engine for a Mac, and why? '.repeat(8) }] };
    const first = await client.messages.create(long);
    const again = await client.messages.create(long);
    assert(again.usage.cache_read_input_tokens > 0, inspect(again.usage));
    assert.equal(again.usage.input_tokens + again.usage.cache_read_input_tokens, first.usage.input_tokens + first.usage.cache_read_input_tokens);
  },

  async 'system: a text and blocks are the same'() {
    const one = await client.messages.create({ ...ask, system: 'Answer briefly.\nBe kind.' });
    const two = await client.messages.create({ ...ask, system: [{ type: 'text', text: 'Answer briefly.' }, { type: 'text', text: 'Be kind.' }] });
    assert.equal(textOf(two), textOf(one));
    const sum = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;
    assert.equal(sum(two), sum(one));
    assert(sum(one) > sum(await client.messages.create(ask)));
  },

  async "system: Claude Code's billing line is no part of the prompt"() {
    const line = (cch) => ({ type: 'text', text: `x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=${cch};` });
    const body = { ...ask, system: [line('eb6c6'), { type: 'text', text: 'Answer briefly.' }] };
    const { data, response } = await client.messages.create(body).withResponse();
    assert.match(response.headers.get('x-flyball-note'), /billing line/);
    const plain = await client.messages.create({ ...ask, system: 'Answer briefly.' }).withResponse();
    assert.equal(plain.response.headers.get('x-flyball-note'), null);
    assert.equal(textOf(data), textOf(plain.data));
  },

  async 'history: thinking, calls and results of earlier turns'() {
    const history = [
      ...messages,
      { role: 'assistant', content: [{ type: 'thinking', thinking: 'A Mac.', signature: '' }, { type: 'text', text: 'MLX.' }] },
      ...messages];
    assert.match(textOf(await client.messages.create({ ...ask, messages: history })), words);
  },

  async 'stream: the events of a text'() {
    const events = [];
    for await (const event of await client.messages.create({ ...ask, stream: true })) events.push(event);
    const types = events.map((event) => event.type).filter((type, i, all) => type !== all[i - 1]);
    assert.deepEqual(types, ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
    const { message } = events[0];
    assert.deepEqual([message.content, message.stop_reason, message.usage.output_tokens], [[], null, 0]);
    assert(message.usage.input_tokens + message.usage.cache_read_input_tokens > 0);
    const text = events.filter((event) => event.type === 'content_block_delta').map((event) => event.delta.text).join('');
    assert.equal(text, textOf(await client.messages.create(ask)));
    const delta = events.at(-2);
    assert.equal(delta.delta.stop_reason, 'max_tokens');
    checkUsage(delta.usage, 24);
  },

  async 'stream: the helper gathers the message'() {
    const stream = client.messages.stream(ask);
    let text = '';
    stream.on('text', (piece) => { text += piece; });
    const message = await stream.finalMessage();
    assert.equal(text, textOf(message));
    assert.equal(text, textOf(await client.messages.create(ask)));
    assert.equal(message.stop_reason, 'max_tokens');
    checkUsage(message.usage, 24);
    assert.equal(await client.messages.stream(ask).finalText(), text);
  },

  async 'stream: events have names'() {
    const answer = await post({ ...ask, stream: true });
    assert.match(answer.headers.get('content-type'), /^text\/event-stream/);
    const frames = (await answer.text()).trimEnd().split('\n\n').filter((frame) => !frame.startsWith(':'));
    for (const frame of frames) {
      const [name, data] = frame.split('\n');
      assert.equal(name, `event: ${JSON.parse(data.replace(/^data: /, '')).type}`);
    }
  },

  async 'stream: one that is given up frees the engine'() {
    const stream = await client.messages.create({ model: 'slow', max_tokens: 8000, temperature: 0, messages, stream: true });
    for await (const event of stream) if (event.type === 'content_block_delta') break;
    stream.controller.abort();
    await eventually('no request is open', async () => /^flyball_requests_running 0$/m.test(await metrics(url)));
  },

  async 'a stop sequence ends it'() {
    const whole = textOf(await client.messages.create(ask));
    const stop = whole.split(' ')[2];
    const cut = await client.messages.create({ ...ask, stop_sequences: ['never there', stop] });
    assert.equal(cut.stop_reason, 'stop_sequence');
    assert.equal(cut.stop_sequence, stop);
    assert(whole.startsWith(textOf(cut)) && !textOf(cut).includes(stop));
    const streamed = await client.messages.stream({ ...ask, stop_sequences: [stop] }).finalMessage();
    assert.deepEqual([streamed.stop_reason, streamed.stop_sequence, textOf(streamed)], ['stop_sequence', stop, textOf(cut)]);
  },

  async 'an answer that comes to its end'() {
    const answer = await client.messages.create({ ...ask, max_tokens: 300 });
    assert.equal(answer.stop_reason, 'end_turn');
    assert(answer.usage.output_tokens < 300);
  },

  async 'sampling'() {
    const sampled = { ...ask, temperature: 1, top_k: 40, top_p: 0.9 };
    assert.equal((await client.messages.create(sampled)).usage.output_tokens, 24);
  },

  async 'thinking: every form is taken'() {
    for (const thinking of [{ type: 'enabled', budget_tokens: 1024 }, { type: 'adaptive', display: 'summarized' }, { type: 'disabled' }])
      assert((await client.messages.create({ ...ask, thinking })).usage.output_tokens > 0);
    await bad({ thinking: { type: 'deep' } }, /thinking.type/, 'thinking.type');
  },

  async "what Claude Code sends beside that is taken"() {
    const answer = await client.beta.messages.create({
      ...ask,
      betas: ['claude-code-20250219', 'interleaved-thinking-2025-05-14', 'context-management-2025-06-27'],
      metadata: { user_id: 'user_0_account__session_1' },
      thinking: { type: 'adaptive' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      output_config: { effort: 'high' },
      service_tier: 'auto',
      cache_control: { type: 'ephemeral' },
    });
    assert.match(textOf(answer), words);
  },

  async 'a schema is enforced, in both its fields'() {
    const schema = {
      type: 'object',
      properties: { engine: { enum: ['cpu', 'gpu'] }, cores: { type: 'integer', minimum: 1, maximum: 64 } },
      required: ['engine', 'cores'],
      additionalProperties: false,
    };
    const format = { type: 'json_schema', schema };
    for (const members of [{ output_config: { format } }, { output_format: format }]) {
      const answer = JSON.parse(textOf(await client.beta.messages.create({ ...ask, max_tokens: 200, ...members })));
      assert(['cpu', 'gpu'].includes(answer.engine) && answer.cores >= 1 && answer.cores <= 64, inspect(answer));
    }
    await bad({ output_config: { format: { type: 'json_schema', schema: { type: 'sting' } } } }, /output_config.format.schema/, 'output_config.format.schema');
  },

  async 'tools: a call that is asked for, streamed, answered, and its prompt counted'() {
    const place = { ...tool, input_schema: { type: 'object', properties: { city: { enum: ['Oslo', 'Lima'] } }, required: ['city'], additionalProperties: false } };
    const asked = { ...ask, max_tokens: 200, tools: [place], tool_choice: { type: 'any', disable_parallel_tool_use: true } };
    const answer = await client.messages.create(asked);
    assert.equal(answer.stop_reason, 'tool_use', inspect(answer));
    assert.equal(answer.content.length, 1, inspect(answer.content));
    const [call] = answer.content;
    assert.deepEqual([call.type, call.name], ['tool_use', 'weather']);
    assert.match(call.id, /^[a-zA-Z0-9_-]+$/);
    assert(['Oslo', 'Lima'].includes(call.input.city), inspect(call));
    const streamed = await client.messages.stream(asked).finalMessage();
    assert.deepEqual(streamed.content[0].input, call.input);
    assert.equal(streamed.stop_reason, 'tool_use');
    const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'sunny' }, { type: 'text', text: 'And there?' }] };
    const next = await client.messages.create({ ...ask, tools: [place], messages: [...messages, { role: 'assistant', content: answer.content }, result] });
    assert(next.usage.output_tokens > 0);
    const plain = await client.messages.create({ ...ask, max_tokens: 1, tools: [place] });
    const counted = await client.messages.countTokens({ model, messages, tools: [place] });
    assert.equal(counted.input_tokens, plain.usage.input_tokens + plain.usage.cache_read_input_tokens);
  },

  async 'tools: read'() {
    assert.match(textOf(await client.messages.create({ ...ask, tools: [tool], tool_choice: { type: 'none' } })), words);
    await bad({ tools: [{ ...tool, input_schema: 7 }] }, /input_schema/, 'tools[0].input_schema');
    await bad({ tools: [tool], tool_choice: { type: 'tool', name: 'clock' } }, /none of 'tools'/, 'tool_choice.name');
    await bad({ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, /web_search_20250305/, 'tools[0].type');
    await bad({ tools: [{ type: 'bash_20250124', name: 'bash' }] }, /bash_20250124/, 'tools[0].type');
  },

  async 'models: list and retrieve'() {
    const page = await client.models.list();
    assert.deepEqual(page.data.map((model) => model.id).sort(), ['demo', 'slow']);
    const all = [];
    for await (const model of client.models.list({ limit: 1 })) all.push(model.id);
    assert.equal(all.length, 2);
    const demo = await client.models.retrieve('demo');
    assert.equal(demo.type, 'model');
    assert.equal(demo.id, 'demo');
    assert(demo.max_input_tokens > 100 && !Number.isNaN(Date.parse(demo.created_at)), inspect(demo));
    assert.equal((await client.models.retrieve('org/slow')).id, 'slow');
    await refused(client.models.retrieve('nope'), Anthropic.NotFoundError, 404, /no model "nope"/);
  },

  async 'the key: as x-api-key, and as a bearer token'() {
    const bearer = clientWith({ apiKey: null, authToken: keys.main });
    assert.match(textOf(await bearer.messages.create(ask)), words);
    assert.equal((await post(ask)).status, 200);
    assert.equal((await post(ask, { 'x-api-key': 'nobody-nobody-nobody-nobody-nobody' })).status, 401);
    assert.equal((await post(ask, { 'anthropic-version': '' })).status, 200);
  },

  async 'refused: a key that is no app\'s'() {
    const error = await refused(clientWith({ apiKey: 'nobody' }).messages.create(ask), Anthropic.AuthenticationError, 401, /key/);
    assert.equal(error.type, 'authentication_error');
    await refused(clientWith({ apiKey: null, authToken: 'nobody' }).messages.create(ask), Anthropic.AuthenticationError, 401, /key/);
  },

  async 'refused: a model that there is not'() {
    const error = await refused(client.messages.create({ ...ask, model: 'nope' }), Anthropic.NotFoundError, 404, /no model "nope"/, 'model');
    assert.equal(error.type, 'not_found_error');
    await refused(client.messages.stream({ ...ask, model: 'nope' }).finalMessage(), Anthropic.NotFoundError, 404, /no model "nope"/);
  },

  async 'refused: values and fields, each by its place'() {
    const { max_tokens: _, ...endless } = ask;
    await refused(client.messages.create(endless), Anthropic.BadRequestError, 400, /'max_tokens' is required/, 'max_tokens');
    await bad({ max_tokens: 0 }, /'max_tokens' is 0/, 'max_tokens');
    await bad({ temperature: 1.5 }, /'temperature' is 1.5/, 'temperature');
    await bad({ temperatur: 1 }, /did you mean "temperature"/, 'temperatur');
    await bad({ stop: ['a'] }, /unknown field "stop"/, 'stop');
    await bad({ messages: [] }, /at least one message/, 'messages');
    await bad({ messages: [{ role: 'bot', content: 'x' }] }, /user, assistant or system/, 'messages[0].role');
    await bad({ messages: [...messages, { role: 'assistant', content: '{' }] }, /begins a turn of its own/, 'messages[1].role');
    await bad({ mcp_servers: [{ type: 'url', url: 'http://a', name: 'a' }] }, /'mcp_servers' is not served/, 'mcp_servers');
    await bad({ container: 'c' }, /'container' is not served/, 'container');
    await bad({ system: [{ type: 'image' }] }, /system\[0\].type/, 'system[0].type');
  },

  async 'refused: images, documents and what servers run'() {
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } };
    const document = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'hi' } };
    const search = { type: 'search_result', source: 'a', title: 'b', content: [] };
    for (const block of [image, document, search]) {
      const error = await bad({ messages: [{ role: 'user', content: [block] }] }, /served/, 'messages[0].content[0].type');
      assert.equal(error.error.error.code, block === search ? 'unsupported_value' : 'unsupported_feature');
    }
  },

  async 'refused: a prompt that is too long, before a stream begins'() {
    const long = { ...ask, messages: [{ role: 'user', content: 'x '.repeat(5000) }] };
    await refused(client.messages.create(long), Anthropic.BadRequestError, 400, /context/);
    await refused(client.messages.create({ ...long, stream: true }), Anthropic.BadRequestError, 400, /context/);
  },

  async 'refused: more at once than the app may have'() {
    const small = clientWith({ apiKey: keys.small });
    const open = [1, 2].map(() => small.messages.create({ model: 'slow', max_tokens: 4000, temperature: 0, messages, stream: true }));
    const streams = await Promise.all(open);
    const error = await refused(small.messages.create(ask), Anthropic.RateLimitError, 429, /./);
    assert.equal(error.type, 'rate_limit_error');
    assert(Number(error.headers.get('retry-after')) >= 1);
    for (const stream of streams) stream.controller.abort();
    await eventually('no request is open', async () => /^flyball_requests_running 0$/m.test(await metrics(url)));
  },

  async 'refused: other methods, and what is not served of the API'() {
    const headers = { 'x-api-key': keys.main, 'anthropic-version': '2023-06-01' };
    const answer = await fetch(`${url}/v1/messages`, { headers });
    assert.equal(answer.status, 405);
    const { error } = await answer.json();
    assert.deepEqual([error.type, error.code], ['invalid_request_error', 'method_not_allowed']);
    assert.equal((await fetch(`${url}/v1/messages/batches`, { headers })).status, 404);
  },
};

const gpu = ['message', 'stream: the events of a text', 'tools: a call that is asked for, streamed, answered, and its prompt counted'];
const own = [
  'message: an alias names the model', 'stream: one that is given up frees the engine', 'an answer that comes to its end',
  'models: list and retrieve', 'refused: a prompt that is too long, before a stream begins', 'refused: more at once than the app may have'];

await run(daemon, tests, { gpu, own });
