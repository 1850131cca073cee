// Vercel's AI SDK against the daemon, by its providers openai-compatible, openai (chat and completions) and anthropic:
// texts, streams, objects, tools in several steps, and every kind of refusal. Exit 77 where a package is not installed.
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { eventually, keys, loaderOf, metrics, model, run, serve, words } from './daemon.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const { load, versions } = loaderOf('ai', '@ai-sdk/openai-compatible', '@ai-sdk/openai', '@ai-sdk/anthropic', 'zod');
const { APICallError, NoObjectGeneratedError, RetryError } = load('ai');
const { Output, ToolLoopAgent, generateObject, generateText, stepCountIs, streamObject, streamText, tool } = load('ai');
const { createOpenAICompatible } = load('@ai-sdk/openai-compatible');
const { createOpenAI } = load('@ai-sdk/openai');
const { createAnthropic } = load('@ai-sdk/anthropic');
const { z } = load('zod');
const daemon = await serve({ models: ['slow', 'reasoner'] });
const { url } = daemon;
console.log(`node ${process.version}, ${versions}, ${url}`);

const place = (apiKey) => ({ baseURL: `${url}/v1`, apiKey });
const compatible = (apiKey) => createOpenAICompatible({ ...place(apiKey), name: 'flyball', includeUsage: true, supportsStructuredOutputs: true });
const chats = {
  'openai-compatible': compatible,
  openai: (apiKey) => createOpenAI(place(apiKey)).chat,
  anthropic: (apiKey) => createAnthropic(place(apiKey)),
};
const completions = {
  'openai-compatible': compatible(keys.main).completionModel,
  openai: createOpenAI(place(keys.main)).completion,
};

const prompt = 'Which engine for a Mac?';
const greedy = { prompt, temperature: 0, maxOutputTokens: 24, maxRetries: 0 };
const long = { ...greedy, maxOutputTokens: 8000 };
const choice = z.object({ engine: z.enum(['cpu', 'gpu']), cores: z.number().int().min(1).max(64) });
const silent = { onError() {} };  // errors are parts of the stream here
const weather = tool({
  description: 'Tells it.',
  inputSchema: z.object({ city: z.enum(['Oslo', 'Lima']) }),
  execute: async ({ city }) => ({ city, sky: 'sunny' }),
});
const withTool = { ...greedy, maxOutputTokens: 300, tools: { weather }, toolChoice: 'required' };

async function drained(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}
const texts = (parts, type, member) => parts.filter((part) => part.type === type).map((part) => part[member]).join('');
const kinds = (parts) => parts.map((part) => part.type).filter((type, i, all) => type !== all[i - 1]);
async function thrown(promise, type = APICallError) {
  const error = await promise.then((answer) => assert.fail(`expected an error, got ${inspect(answer)}`), (e) => e);
  assert(type.isInstance(error), inspect(error));
  return error;
}
async function refused(promise, status, message) {
  const error = await thrown(promise);
  assert.equal(error.statusCode, status, error.message);
  assert.match(error.message, message);
  assert.match(error.data.error.message, message);
  assert.match(error.responseHeaders['x-request-id'], /^req-/);
  return error;
}
function checkUsage(usage, tokens) {
  assert(usage.inputTokens > 0, inspect(usage));
  assert.equal(usage.outputTokens, tokens);
  assert.equal(usage.totalTokens, usage.inputTokens + tokens);
}
const idle = () => eventually('no request is open', async () => /^flyball_requests_running 0$/m.test(await metrics(url)));

const tests = {};
const own = [];
for (const [provider, make] of Object.entries(chats)) {
  const of = make(keys.main);
  const demo = of(model);
  const add = (name, test) => { tests[`${provider}: ${name}`] = test; };
  // A test that needs the suites' configuration.
  const addOwn = (name, test) => {
    add(name, test);
    own.push(`${provider}: ${name}`);
  };

  add('text', async () => {
    const answer = await generateText({ ...greedy, model: demo });
    assert.match(answer.text, words);
    assert.equal(answer.finishReason, 'length');
    assert.deepEqual([answer.content.length, answer.toolCalls, answer.warnings], [1, [], []]);
    assert.equal(answer.response.modelId, model);
    assert.match(answer.response.id, /^(chatcmpl-|msg_)[0-9a-f]{16}$/);
    assert.match(answer.response.headers['x-flyball-route'], /^backend=/);
    checkUsage(answer.usage, 24);
  });

  addOwn('text: comes to its end', async () => {
    const answer = await generateText({ ...greedy, model: demo, maxOutputTokens: 300 });
    assert.equal(answer.finishReason, 'stop');
    assert(answer.usage.outputTokens < 300);
  });

  add('text: a system prompt is part of it', async () => {
    const plain = await generateText({ ...greedy, model: demo, maxOutputTokens: 1 });
    const told = await generateText({ ...greedy, model: demo, maxOutputTokens: 1, system: 'Answer briefly, and be kind.' });
    assert(told.usage.inputTokens > plain.usage.inputTokens);
  });

  add('text: a history in parts', async () => {
    const messages = [
      { role: 'user', content: [{ type: 'text', text: 'Hello.' }, { type: 'text', text: 'Are you there?' }] },
      { role: 'assistant', content: [{ type: 'text', text: 'Yes.' }] },
      { role: 'user', content: prompt }];
    const answer = await generateText({ ...greedy, prompt: undefined, messages, model: demo });
    assert.match(answer.text, words);
    assert(answer.usage.inputTokens > (await generateText({ ...greedy, model: demo })).usage.inputTokens);
  });

  add('text: sent again costs no new input', async () => {
    const twice = { ...greedy, prompt: 'Which engine for a Mac, and why? '.repeat(8), maxOutputTokens: 1, model: demo };
    const first = await generateText(twice);
    const again = await generateText(twice);
    assert.equal(again.usage.inputTokens, first.usage.inputTokens);
    assert(again.usage.inputTokenDetails.cacheReadTokens > 0, inspect(again.usage));
  });

  add('text: a stop sequence ends it', async () => {
    const whole = (await generateText({ ...greedy, model: demo })).text;
    const stop = whole.split(' ')[2];
    const cut = await generateText({ ...greedy, model: demo, stopSequences: ['never seen', stop] });
    assert.equal(cut.text, whole.slice(0, whole.indexOf(stop)));
    assert.equal(cut.finishReason, 'stop');
  });

  add('stream: its parts are the whole answer', async () => {
    const whole = await generateText({ ...greedy, model: demo });
    const stream = streamText({ ...greedy, model: demo });
    const parts = await drained(stream.fullStream);
    assert.deepEqual(kinds(parts), ['start', 'start-step', 'text-start', 'text-delta', 'text-end', 'finish-step', 'finish']);
    assert(parts.filter((part) => part.type === 'text-delta').length > 3);
    assert.equal(texts(parts, 'text-delta', 'text'), whole.text);
    assert.equal(parts.at(-1).finishReason, 'length');
    checkUsage(parts.at(-1).totalUsage, 24);
    assert.equal(parts.at(-1).totalUsage.inputTokens, whole.usage.inputTokens);
  });

  add('stream: texts, and promises of what it ends with', async () => {
    const stream = streamText({ ...greedy, model: demo, stopSequences: ['never seen'] });
    const text = (await drained(stream.textStream)).join('');
    assert.equal(await stream.text, text);
    assert.match(text, words);
    assert.equal(await stream.finishReason, 'length');
    assert.equal((await stream.response).modelId, model);
    checkUsage(await stream.usage, 24);
  });

  add('object: holds to its schema', async () => {
    const answer = await generateObject({ ...greedy, model: demo, maxOutputTokens: 300, schema: choice });
    choice.parse(answer.object);
    assert.equal(answer.finishReason, 'stop');
    assert.deepEqual(answer.warnings, []);
    assert(answer.usage.outputTokens > 0);
  });

  add('object: streamed, grows to the same', async () => {
    const ask = { ...greedy, model: demo, maxOutputTokens: 300, schema: choice };
    const stream = streamObject({ ...ask, ...silent });
    const partial = await drained(stream.partialObjectStream);
    const object = await stream.object;
    assert.deepEqual(object, (await generateObject(ask)).object);
    assert.deepEqual(partial.at(-1), object);
    const places = partial.map((one) => Object.keys(one).length);
    assert.deepEqual(places, [...places].sort());
  });

  add('object: one of some words', async () => {
    const { object } = await generateObject({ ...greedy, model: demo, maxOutputTokens: 300, output: 'enum', enum: ['MLX', 'CUDA'] });
    assert(['MLX', 'CUDA'].includes(object), object);
  });

  add('object: nested, with a bounded list', async () => {
    const engine = z.enum(['cpu', 'gpu']);
    const nested = z.object({ engines: z.array(z.object({ name: engine, fast: z.boolean() })).min(1).max(2), best: engine });
    nested.parse((await generateObject({ ...greedy, model: demo, maxOutputTokens: 600, schema: nested })).object);
  });

  add('object: one that is cut is an error with its text', async () => {
    const error = await thrown(generateObject({ ...greedy, model: demo, maxOutputTokens: 4, schema: choice }), NoObjectGeneratedError);
    assert.equal(error.finishReason, 'length');
    checkUsage(error.usage, 4);
  });

  add('output of a text: an object', async () => {
    const { output } = await generateText({ ...greedy, model: demo, maxOutputTokens: 300, output: Output.object({ schema: choice }) });
    choice.parse(output);
  });

  add('output of a stream: an object', async () => {
    const stream = streamText({ ...greedy, model: demo, maxOutputTokens: 300, output: Output.object({ schema: choice }) });
    const partial = await drained(stream.partialOutputStream);
    choice.parse(await stream.output);
    assert.deepEqual(partial.at(-1), await stream.output);
  });

  add('tools: a required call is made and carried out', async () => {
    const answer = await generateText({ ...withTool, model: demo });
    assert.equal(answer.finishReason, 'tool-calls', inspect(answer.content));
    const [call] = answer.toolCalls;
    assert.equal(call.toolName, 'weather');
    assert(['Oslo', 'Lima'].includes(call.input.city), inspect(call));
    assert.equal(answer.toolResults[0].toolCallId, call.toolCallId);
    assert.deepEqual(answer.toolResults[0].output, { city: call.input.city, sky: 'sunny' });
  });

  add('tools: a named one is called', async () => {
    const lamp = tool({ description: 'Sets it.', inputSchema: z.object({ on: z.boolean() }) });
    const answer = await generateText({ ...withTool, model: demo, tools: { weather, lamp }, toolChoice: { type: 'tool', toolName: 'lamp' } });
    assert(answer.toolCalls.length > 0 && answer.toolCalls.every((call) => call.toolName === 'lamp'), inspect(answer.content));
    assert.equal(typeof answer.toolCalls[0].input.on, 'boolean');
  });

  add('tools: one without arguments is called', async () => {
    const now = tool({ description: 'Tells the time.', inputSchema: z.object({}), execute: async () => 'noon' });
    const answer = await generateText({ ...withTool, model: demo, tools: { now } });
    assert.deepEqual(answer.toolCalls[0].input, {});
    assert.equal(answer.toolResults[0].output, 'noon');
  });

  add('tools: none are called where the choice is none', async () => {
    const answer = await generateText({ ...withTool, model: demo, maxOutputTokens: 24, toolChoice: 'none' });
    assert.deepEqual(answer.toolCalls, []);
    assert.match(answer.text, words);
  });

  add('tools: a choice that is left to the model', async () => {
    const answer = await generateText({ ...withTool, model: demo, toolChoice: 'auto' });
    assert.equal(answer.finishReason === 'tool-calls', answer.toolCalls.length > 0);
    assert(answer.text.length + answer.toolCalls.length > 0);
    assert.deepEqual(answer.toolCalls.filter((call) => call.dynamic || call.invalid), []);
  });

  add('tools: streamed, the input comes in pieces', async () => {
    const parts = await drained(streamText({ ...withTool, model: demo }).fullStream);
    const call = parts.find((part) => part.type === 'tool-call');
    const pieces = parts.filter((part) => part.type === 'tool-input-delta' && part.id === call.toolCallId);
    assert(pieces.length > 1, inspect(kinds(parts)));
    assert.deepEqual(JSON.parse(pieces.map((part) => part.delta).join('')), call.input);
    const start = parts.find((part) => part.type === 'tool-input-start');
    assert.deepEqual([start.id, start.toolName], [call.toolCallId, 'weather']);
    assert.deepEqual(parts.find((part) => part.type === 'tool-result').output, { city: call.input.city, sky: 'sunny' });
    assert.equal(parts.at(-1).finishReason, 'tool-calls');
  });

  add('tools: a loop goes on with the result', async () => {
    const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' });
    const answer = await generateText({ ...withTool, model: demo, toolChoice: undefined, prepareStep, stopWhen: stepCountIs(3) });
    assert.deepEqual(answer.steps.map((step) => step.toolCalls.length > 0), [true, false]);
    assert.deepEqual(answer.response.messages.map((message) => message.role), ['assistant', 'tool', 'assistant']);
    assert(answer.text.length > 0);
    const plain = await generateText({ ...greedy, maxOutputTokens: 1, model: demo });
    assert(answer.steps[1].usage.inputTokens > plain.usage.inputTokens);  // which names no tools either
    assert.equal(answer.totalUsage.outputTokens, answer.steps[0].usage.outputTokens + answer.steps[1].usage.outputTokens);
  });

  add('tools: an agent streams a loop', async () => {
    const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' });
    const agent = new ToolLoopAgent({
      model: demo, instructions: 'Answer briefly.', tools: { weather }, temperature: 0, maxOutputTokens: 300, maxRetries: 0, prepareStep,
      stopWhen: stepCountIs(2) });
    const stream = await agent.stream({ prompt });
    const parts = await drained(stream.fullStream);
    assert.equal(parts.filter((part) => part.type === 'finish-step').length, 2);
    assert(texts(parts, 'text-delta', 'text').length > 0);
    assert.equal((await stream.steps).length, 2);
  });

  add('tools: a result that is an error goes back', async () => {
    const broken = tool({ ...weather, execute: async () => { throw new Error('no sky today'); } });
    const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' });
    const ask = { ...withTool, tools: { weather: broken }, toolChoice: undefined, prepareStep, stopWhen: stepCountIs(2) };
    const answer = await generateText({ ...ask, model: demo });
    assert.equal(answer.steps.length, 2);
    assert.equal(answer.steps[0].content.at(-1).type, 'tool-error');
  });

  add('refused: a model that there is not', async () => {
    const error = await refused(generateText({ ...greedy, model: of('nope') }), 404, /no model "nope"/);
    assert.equal(error.isRetryable, false);
    assert.match(error.data.error.type, /^(invalid_request_error|not_found_error)$/);
  });

  add('refused: a key that is no app\'s', async () => {
    await refused(generateText({ ...greedy, model: make('nobody')(model) }), 401, /key/);
  });

  add('refused: a value, by its name', async () => {
    await refused(generateText({ ...greedy, temperature: undefined, model: demo, topP: 7 }), 400, /'top_p' is 7/);
  });

  add('refused: before a stream, as a part of it', async () => {
    const parts = await drained(streamText({ ...greedy, ...silent, model: of('nope') }).fullStream);
    assert.deepEqual(parts.map((part) => part.type), ['start', 'error']);
    assert(APICallError.isInstance(parts[1].error));
    assert.equal(parts[1].error.statusCode, 404);
  });

  add('refused: an image', async () => {
    const image = { type: 'image', image: Buffer.from('89504e470d0a1a0a', 'hex'), mediaType: 'image/png' };
    const messages = [{ role: 'user', content: [{ type: 'text', text: prompt }, image] }];
    await refused(generateText({ ...greedy, prompt: undefined, messages, model: demo }), 400, /does not serve images/);
  });

  addOwn('refused: a prompt that is too long', async () => {
    const error = await refused(generateText({ ...greedy, prompt: 'x '.repeat(5000), model: demo }), 400, /context/);
    assert.equal(error.isRetryable, false);
  });

  addOwn('refused: more at once than the app may have, and tried again', async () => {
    const small = make(keys.small);
    const halt = new AbortController();
    const open = [1, 2].map(() => streamText({ ...long, ...silent, model: small('slow'), abortSignal: halt.signal }));
    const readers = open.map((stream) => stream.textStream[Symbol.asyncIterator]());
    await Promise.all(readers.map((reader) => reader.next()));
    const error = await refused(generateText({ ...greedy, model: small(model) }), 429, /./);
    assert.equal(error.isRetryable, true);
    const retried = await thrown(generateText({ ...greedy, maxRetries: 1, model: small(model) }), RetryError);
    assert.equal(retried.errors.length, 2);
    halt.abort();
    await idle();
    assert.match((await generateText({ ...greedy, model: small(model) })).text, words);
  });

  addOwn('abort: of a stream frees the engine', async () => {
    const halt = new AbortController();
    const stream = streamText({ ...long, ...silent, model: of('slow'), abortSignal: halt.signal });
    let last;
    for await (const part of stream.fullStream) {
      if (part.type === 'text-delta') halt.abort();
      last = part.type;
    }
    assert.equal(last, 'abort');
    await idle();
  });

  addOwn('abort: of a whole answer frees the engine', async () => {
    const halt = new AbortController();
    const pending = generateText({ ...long, model: of('slow'), abortSignal: halt.signal });
    const rejected = assert.rejects(pending, { name: 'AbortError' });
    await eventually('it runs', async () => /^flyball_requests_running 1$/m.test(await metrics(url)));
    halt.abort();
    await rejected;
    await idle();
  });

  addOwn('reasoning: an object comes without it', async () => {
    choice.parse((await generateObject({ ...greedy, maxOutputTokens: 1000, model: of('reasoner'), schema: choice })).object);
  });
}

// openai.chat knows no reasoning but its tokens.
for (const provider of ['openai-compatible', 'anthropic']) {
  const reasoner = chats[provider](keys.main)('reasoner');
  own.push(`${provider}: reasoning`, `${provider}: reasoning is streamed, and goes back`);
  tests[`${provider}: reasoning`] = async () => {
    const answer = await generateText({ ...greedy, maxOutputTokens: 12, model: reasoner });
    assert(answer.reasoningText.length > 0);
    assert.equal(answer.text, '');
    const { completion_tokens_details: chat, output_tokens_details: messages } = answer.usage.raw;
    const reasoned = chat?.reasoning_tokens ?? messages.thinking_tokens;
    assert.equal(reasoned, answer.usage.outputTokens);
  };
  tests[`${provider}: reasoning is streamed, and goes back`] = async () => {
    const whole = await generateText({ ...greedy, maxOutputTokens: 12, model: reasoner });
    const stream = streamText({ ...greedy, maxOutputTokens: 12, model: reasoner });
    const parts = await drained(stream.fullStream);
    assert.equal(texts(parts, 'reasoning-delta', 'text'), whole.reasoningText);
    assert.deepEqual(kinds(parts).slice(2, 5), ['reasoning-start', 'reasoning-delta', 'reasoning-end']);
    const { messages } = await stream.response;
    const question = { role: 'user', content: prompt };
    const next = await generateText({ ...greedy, prompt: undefined, maxOutputTokens: 1, model: reasoner, messages: [question, ...messages, question] });
    assert(next.usage.inputTokens > whole.usage.inputTokens);
  };
}

for (const [provider, of] of Object.entries({ 'openai-compatible': compatible(keys.main), openai: createOpenAI(place(keys.main)).chat })) {
  tests[`${provider}: a seed gives the same answer`] = async () => {
    const ask = async (seed) => (await generateText({ ...greedy, temperature: 1.5, seed, model: of(model) })).text;
    assert.equal(await ask(42), await ask(42));
    const others = new Set();
    for (const seed of [1, 2, 3, 4, 5, 6]) others.add(await ask(seed));
    assert(others.size > 1, 'six seeds gave one answer');
  };

  own.push(`${provider}: parallel calls`);
  tests[`${provider}: parallel calls`] = async () => {
    let answer;
    for (let seed = 0; seed < 20 && !(answer?.toolCalls.length > 1); ++seed)
      answer = await generateText({ ...withTool, maxOutputTokens: 1000, temperature: 1, seed, model: of('reasoner') });
    assert(answer.toolCalls.length > 1, 'twenty seeds gave no two calls');
    assert.deepEqual(answer.toolResults.map((result) => result.toolCallId), answer.toolCalls.map((call) => call.toolCallId));
    assert.equal(new Set(answer.toolCalls.map((call) => call.toolCallId)).size, answer.toolCalls.length);
    const messages = [{ role: 'user', content: prompt }, ...answer.response.messages];
    const again = await generateText({ ...withTool, prompt: undefined, maxOutputTokens: 1, toolChoice: 'none', model: of('reasoner'), messages });
    const plain = await generateText({ ...greedy, maxOutputTokens: 1, model: of('reasoner') });
    assert(again.usage.inputTokens > plain.usage.inputTokens);
  };

  // Six seeds: the model decides each time.
  own.push(`${provider}: tools beside a schema: calls, or the object`);
  tests[`${provider}: tools beside a schema: calls, or the object`] = async () => {
    const ask = { ...withTool, toolChoice: 'auto', temperature: 1, model: of(model), output: Output.object({ schema: choice }) };
    let whole = 0;
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      const answer = await generateText({ ...ask, seed });
      if (answer.finishReason === 'length') continue;
      ++whole;
      if (answer.finishReason === 'tool-calls') {
        assert(answer.toolCalls.length > 0);
        assert.equal(answer.text, '');
        for (const call of answer.toolCalls) assert(['Oslo', 'Lima'].includes(call.input.city), inspect(call));
      } else {
        assert.deepEqual(answer.toolCalls, []);
        choice.parse(answer.output);
      }
    }
    assert(whole > 0, 'six seeds gave no whole answer');
    const none = await generateText({ ...ask, toolChoice: 'none' });
    choice.parse(none.output);
  };
}

for (const [provider, of] of Object.entries(completions)) {
  tests[`${provider} completions: text`] = async () => {
    const answer = await generateText({ ...greedy, model: of(model) });
    assert(answer.text.length > 0);
    assert.match(answer.response.id, /^cmpl-/);
    checkUsage(answer.usage, 24);
  };

  tests[`${provider} completions: streamed, the same text`] = async () => {
    const parts = await drained(streamText({ ...greedy, model: of(model) }).fullStream);
    assert.equal(texts(parts, 'text-delta', 'text'), (await generateText({ ...greedy, model: of(model) })).text);
    checkUsage(parts.at(-1).totalUsage, 24);
  };

  tests[`${provider} completions: a stop sequence ends it`] = async () => {
    const whole = (await generateText({ ...greedy, model: of(model) })).text;
    const stop = whole.split(' ')[2];
    const cut = await generateText({ ...greedy, model: of(model), stopSequences: [stop] });
    assert.deepEqual([cut.text, cut.finishReason], [whole.slice(0, whole.indexOf(stop)), 'stop']);
  };

  tests[`${provider} completions: refused: a model that there is not`] = async () => {
    await refused(generateText({ ...greedy, model: of('nope') }), 404, /no model "nope"/);
  };
}

Object.assign(tests, {
  async 'openai-compatible: fields of the daemon\'s own pass through'() {
    const providerOptions = { flyball: { ignore_eos: true } };
    const answer = await generateText({ ...greedy, maxOutputTokens: 60, model: compatible(keys.main)(model), providerOptions });
    checkUsage(answer.usage, 60);
  },

  async 'openai-compatible: effort and user are taken'() {
    const providerOptions = { flyball: { reasoningEffort: 'low', user: 'one' } };
    assert.match((await generateText({ ...greedy, model: compatible(keys.main)(model), providerOptions })).text, words);
  },

  async 'openai-compatible: refused: verbosity, by its name'() {
    const providerOptions = { flyball: { textVerbosity: 'low' } };
    await refused(generateText({ ...greedy, model: compatible(keys.main)(model), providerOptions }), 400, /'verbosity' is not served/);
  },

  async 'openai-compatible: json without a schema'() {
    const off = createOpenAICompatible({ ...place(keys.main), name: 'flyball' });
    const stream = streamText({ ...greedy, ...silent, maxOutputTokens: 60, model: off(model), output: Output.json() });
    assert.match((await drained(stream.textStream)).join(''), /^\s*\{/);
  },

  async 'openai: its options are taken, and log probabilities come'() {
    const openai = {
      logprobs: 3, parallelToolCalls: false, store: false, metadata: { a: 'b' }, prediction: { type: 'content', content: 'MLX' }, serviceTier: 'auto',
      promptCacheKey: 'k', safetyIdentifier: 's', user: 'u', reasoningEffort: 'low', logitBias: { 5: 1 },
    };
    const answer = await generateText({ ...greedy, model: createOpenAI(place(keys.main)).chat(model), providerOptions: { openai } });
    assert.match(answer.text, words);
    const { logprobs } = answer.providerMetadata.openai;
    assert.equal(logprobs.length, 24);
    assert(logprobs.every((one) => one.logprob <= 0 && one.top_logprobs.length === 3));
  },

  async 'anthropic: cache control is taken'() {
    const providerOptions = { anthropic: { cacheControl: { type: 'ephemeral' } } };
    const messages = [
      { role: 'system', content: 'Answer briefly.', providerOptions },
      { role: 'user', content: [{ type: 'text', text: prompt, providerOptions }] }];
    const answer = await generateText({ ...greedy, prompt: undefined, allowSystemInMessages: true, messages, model: createAnthropic(place(keys.main))(model) });
    assert.match(answer.text, words);
    assert.equal(answer.providerMetadata.anthropic.cacheCreationInputTokens, 0);
  },

  async 'anthropic: thinking that is asked for'() {
    const providerOptions = { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } };
    // The client sends no temperature beside thinking, so that a draw may end the reasoning with its first token.
    let reasoning = '';
    for (let i = 0; i < 5 && !reasoning; i++) {
      const answer = await generateText({ ...greedy, temperature: undefined, model: createAnthropic(place(keys.main))('reasoner'), providerOptions });
      reasoning = answer.reasoningText ?? '';
    }
    assert(reasoning.length > 0);
  },

  // This form of the client's says the bounds of numbers in words alone.
  async 'anthropic: an object by output_config'() {
    const providerOptions = { anthropic: { structuredOutputMode: 'outputFormat' } };
    const schema = z.object({ engine: z.enum(['cpu', 'gpu']), fast: z.boolean() });
    const { object } = await generateObject({ ...greedy, maxOutputTokens: 300, schema, model: createAnthropic(place(keys.main))(model), providerOptions });
    schema.parse(object);
  },

  async 'anthropic: an alias names the model'() {
    const answer = await generateText({ prompt, maxRetries: 0, temperature: 0, model: createAnthropic(place(keys.main))('claude-sonnet-4-5-20250929') });
    assert.match(answer.text, words);
    assert.equal(answer.finishReason, 'stop');
  },
});
own.push('anthropic: thinking that is asked for', 'anthropic: an alias names the model');

const gpu = [
  'openai-compatible: text', 'openai-compatible: tools: a required call is made and carried out', 'openai-compatible: reasoning',
  'openai: stream: its parts are the whole answer', 'openai: object: holds to its schema', 'openai completions: text',
  'anthropic: text', 'anthropic: stream: its parts are the whole answer', 'anthropic: tools: streamed, the input comes in pieces',
  'anthropic: object: streamed, grows to the same', 'anthropic: text: a stop sequence ends it', 'openai: tools: a loop goes on with the result',
  'anthropic: tools: a required call is made and carried out'];

await run(daemon, tests, { gpu, own });
