// LlamaIndex.TS with its OpenAI model against the daemon: chats, completions, streams, tools, agents, and every kind of
// refusal. Exit 77 where a package is not installed.
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { keys, loaderOf, model, run, serve, words } from './daemon.mjs';

const { load, versions } = loaderOf('llamaindex', '@llamaindex/openai', '@llamaindex/core');
const { FunctionTool, SimpleChatEngine, TextNode, callTool, getResponseSynthesizer } = load('llamaindex');
const { OpenAI, OpenAIAgent, OpenAIEmbedding } = load('@llamaindex/openai');
const daemon = await serve({ models: ['reasoner'] });
const { url } = daemon;
console.log(`node ${process.version}, ${versions}, ${url}`);

const make = (tokens = 24, more = {}) => new OpenAI({ model, temperature: 0, maxTokens: tokens, maxRetries: 0, apiKey: keys.main, baseURL: `${url}/v1`, ...more });
const prompt = 'Which engine for a Mac?';
const messages = [{ role: 'user', content: prompt }];
const required = { additionalChatOptions: { tool_choice: 'required', parallel_tool_calls: false } };
const schema = { type: 'object', properties: { city: { type: 'string', enum: ['Oslo', 'Lima'] } }, required: ['city'], additionalProperties: false };
const weather = FunctionTool.from(({ city }) => `${city}: sunny`, { name: 'weather', description: 'Tells it.', parameters: schema });

async function drained(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}
async function refused(promise, status, code, message) {
  const error = await promise.then((answer) => assert.fail(`expected ${status}, got ${inspect(answer)}`), (e) => e);
  assert.deepEqual([error.status, error.code], [status, code], inspect(error));
  assert.match(error.message, message);
  return error;
}
const cities = (call) => {
  const input = typeof call.input === 'string' ? JSON.parse(call.input) : call.input;
  assert(['Oslo', 'Lima'].includes(input.city), inspect(call));
  return input.city;
};

const tests = {
  async 'chat'() {
    const answer = await make().chat({ messages });
    assert.equal(answer.message.role, 'assistant');
    assert.match(answer.message.content, words);
    assert.equal(answer.raw.choices[0].finish_reason, 'length');
    assert.equal(answer.raw.usage.completion_tokens, 24);
  },

  async 'chat: streamed, the same text'() {
    const chunks = await drained(make().chat({ messages, stream: true }));
    assert(chunks.length > 4);
    assert.equal(chunks.map((chunk) => chunk.delta).join(''), (await make().chat({ messages })).message.content);
  },

  async 'chat: a system message and a history'() {
    const history = [{ role: 'system', content: 'Answer briefly.' }, { role: 'user', content: 'Hello.' }, { role: 'assistant', content: 'Yes?' }, ...messages];
    const answer = await make().chat({ messages: history });
    assert.match(answer.message.content, words);
    assert(answer.raw.usage.prompt_tokens > (await make().chat({ messages })).raw.usage.prompt_tokens);
  },

  async 'chat: content in parts'() {
    const parts = [{ role: 'user', content: [{ type: 'text', text: prompt }] }];
    assert.equal((await make().chat({ messages: parts })).message.content, (await make().chat({ messages })).message.content);
  },

  async 'chat: a stop string and a seed'() {
    const whole = (await make().chat({ messages })).message.content;
    const stop = whole.split(' ')[2];
    const cut = await make(24, { additionalChatOptions: { stop: [stop], seed: 7 } }).chat({ messages });
    assert.equal(cut.message.content, whole.slice(0, whole.indexOf(stop)));
    assert.equal(cut.raw.choices[0].finish_reason, 'stop');
  },

  async 'complete: whole and streamed'() {
    const { text } = await make().complete({ prompt });
    assert.match(text, words);
    assert.equal((await drained(make().complete({ prompt, stream: true }))).map((chunk) => chunk.text).join(''), text);
  },

  async 'response format: the schema is held to'() {
    const responseFormat = { type: 'json_schema', json_schema: { name: 'place', strict: true, schema } };
    const answer = await make(300).chat({ messages, responseFormat });
    assert(['Oslo', 'Lima'].includes(JSON.parse(answer.message.content).city));
  },

  async 'tools: a required call'() {
    const { message, raw } = await make(300, required).chat({ messages, tools: [weather] });
    assert.equal(raw.choices[0].finish_reason, 'tool_calls');
    const [call] = message.options.toolCall;
    assert.equal(call.name, 'weather');
    assert.match(call.id, /^[\w-]+$/);
    cities(call);
  },

  async 'tools: a streamed call adds up'() {
    const chunks = await drained(make(300, required).chat({ messages, tools: [weather], stream: true }));
    const { message } = await make(300, required).chat({ messages, tools: [weather] });
    assert.equal(cities(chunks.at(-1).options.toolCall[0]), cities(message.options.toolCall[0]));
  },

  async 'tools: the result goes back'() {
    const { message } = await make(300, required).chat({ messages, tools: [weather] });
    const [call] = message.options.toolCall;
    const { output, isError } = await callTool(weather, call, { log() {} });
    assert.deepEqual([output, isError], [`${cities(call)}: sunny`, false]);
    const result = { role: 'user', content: output, options: { toolResult: { id: call.id, result: output, isError } } };
    const answer = await make(24).chat({ messages: [...messages, message, result], tools: [weather] });
    const told = await make(1).chat({ messages, tools: [weather] });
    assert(answer.raw.usage.prompt_tokens > told.raw.usage.prompt_tokens);
  },

  async 'tools: exec carries the call out'() {
    const { newMessages, toolCalls } = await make(300, required).exec({ messages, tools: [weather] });
    assert.equal(toolCalls.length, 1);
    assert.deepEqual(newMessages.map((message) => message.role), ['assistant', 'user']);
    assert.equal(newMessages[1].options.toolResult.result, `${cities(toolCalls[0])}: sunny`);
  },

  async 'tools: exec streams the call'() {
    const { stream, toolCalls, newMessages } = await make(300, required).exec({ messages, tools: [weather], stream: true });
    await drained(stream);
    assert.equal(toolCalls.length, 1);
    assert.equal(newMessages().at(-1).options.toolResult.result, `${cities(toolCalls[0])}: sunny`);
  },

  async 'engine: a chat remembers its turns'() {
    const engine = new SimpleChatEngine({ llm: make() });
    assert.match((await engine.chat({ message: prompt })).message.content, words);
    const next = await engine.chat({ message: 'And then?' });
    assert(next.raw.usage.prompt_tokens > 2 * (await make(1).chat({ messages })).raw.usage.prompt_tokens);
  },

  async 'engine: streamed'() {
    const stream = await new SimpleChatEngine({ llm: make() }).chat({ message: prompt, stream: true });
    assert.match((await drained(stream)).map((chunk) => chunk.delta).join(''), words);
  },

  async 'engine: an agent answers'() {
    const agent = new OpenAIAgent({ llm: make(40), tools: [weather], systemPrompt: 'Answer briefly.' });
    assert((await agent.chat({ message: prompt })).message.content.length > 0);
  },

  async 'synthesizer: an answer from nodes'() {
    const nodes = [{ node: new TextNode({ text: 'Flyball serves models on Linux.' }), score: 1 }];
    const answer = await getResponseSynthesizer('compact', { llm: make() }).synthesize({ query: prompt, nodes });
    assert(answer.message.content.length > 0);
    assert.equal(answer.sourceNodes.length, 1);
  },

  async 'reasoning is no text'() {
    const { message, raw } = await make(12, { model: 'reasoner' }).chat({ messages });
    assert.equal(message.content, '');
    assert.equal(raw.usage.completion_tokens_details.reasoning_tokens, 12);
  },

  async 'refused: a model that there is not'() {
    await refused(make(24, { model: 'nope' }).chat({ messages }), 404, 'model_not_found', /no model "nope"/);
    await refused(drained(make(24, { model: 'nope' }).chat({ messages, stream: true })), 404, 'model_not_found', /no model "nope"/);
  },

  async 'refused: a key that is no app\'s'() {
    await refused(make(24, { apiKey: 'nobody' }).chat({ messages }), 401, 'invalid_api_key', /key/);
  },

  async 'refused: a value, by its name'() {
    const error = await refused(make(24, { topP: 7 }).chat({ messages }), 400, 'invalid_value', /'top_p' is 7/);
    assert.equal(error.param, 'top_p');
  },

  async 'refused: a prompt that is too long'() {
    await refused(make().chat({ messages: [{ role: 'user', content: 'x '.repeat(5000) }] }), 400, 'context_length_exceeded', /context/);
  },

  async 'refused: embeddings'() {
    const embedding = new OpenAIEmbedding({ model, apiKey: keys.main, baseURL: `${url}/v1`, maxRetries: 0 });
    await refused(embedding.getTextEmbedding('a'), 400, 'unsupported_feature', /does not serve embeddings/);
  },
};

const own = ['reasoning is no text', 'refused: a prompt that is too long'];
const gpu = ['chat: streamed, the same text', 'tools: exec carries the call out'];

await run(daemon, tests, { gpu, own });
