// LangChain's chat models of OpenAI, Anthropic and Ollama against the daemon: answers, streams, structured output, tools,
// events, aborts, and every kind of refusal. Exit 77 where a package is not installed.
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { eventually, keys, loaderOf, metrics, model, run, serve, words } from './daemon.mjs';

const { load, versions } = loaderOf('@langchain/core', '@langchain/openai', '@langchain/anthropic', '@langchain/ollama', 'zod');
const { ContextOverflowError } = load('@langchain/core/errors');
const { AIMessage, HumanMessage, SystemMessage, ToolMessage } = load('@langchain/core/messages');
const { StringOutputParser } = load('@langchain/core/output_parsers');
const { ChatPromptTemplate } = load('@langchain/core/prompts');
const { tool } = load('@langchain/core/tools');
const { ChatOpenAI, OpenAI, OpenAIEmbeddings } = load('@langchain/openai');
const { ChatAnthropic } = load('@langchain/anthropic');
const { ChatOllama, Ollama, OllamaEmbeddings } = load('@langchain/ollama');
const { z } = load('zod');
const daemon = await serve({ models: ['slow', 'reasoner'] });
const { url } = daemon;
console.log(`node ${process.version}, ${versions}, ${url}`);

// Makes a chat model: its name, the most tokens of an answer, the app's key, and further options of its class.
const openai = (name, tokens, apiKey, more) =>
  new ChatOpenAI({ model: name, temperature: 0, maxTokens: tokens, apiKey, maxRetries: 0, configuration: { baseURL: `${url}/v1` }, ...more });
const anthropic = (name, tokens, apiKey, more) =>
  new ChatAnthropic({ model: name, temperature: 0, maxTokens: tokens, apiKey, maxRetries: 0, anthropicApiUrl: url, ...more });
const ollama = (name, tokens, apiKey, more) =>
  new ChatOllama({ model: name, temperature: 0, numPredict: tokens, maxRetries: 0, baseUrl: url, headers: { Authorization: `Bearer ${apiKey}` }, ...more });
const makers = { openai, anthropic, ollama };

const prompt = 'Which engine for a Mac?';
const choice = z.object({ engine: z.enum(['cpu', 'gpu']), cores: z.number().int().min(1).max(64) });
const weather = tool(async ({ city }) => `${city}: sunny`, { name: 'weather', description: 'Tells it.', schema: z.object({ city: z.enum(['Oslo', 'Lima']) }) });

async function drained(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}
const sum = (chunks) => chunks.reduce((all, chunk) => all.concat(chunk));
// "length", "stop", "tool_calls": each API's word for why an answer ended.
const reasons = { length: ['length', 'max_tokens'], stop: ['stop', 'end_turn', 'stop_sequence'], calls: ['tool_calls', 'tool_use'] };
function checkReason(message, kind) {
  const { finish_reason, stop_reason, done_reason } = { ...message.additional_kwargs, ...message.response_metadata };
  assert(reasons[kind].includes(finish_reason ?? stop_reason ?? done_reason), inspect(message.response_metadata));
}
function checkUsage(usage, tokens) {
  assert(usage.input_tokens > 0, inspect(usage));
  assert.equal(usage.output_tokens, tokens);
  assert.equal(usage.total_tokens, usage.input_tokens + tokens);
}
async function refused(promise, status, message) {
  const error = await promise.then((answer) => assert.fail(`expected ${status}, got ${inspect(answer)}`), (e) => e);
  assert.equal(error.status ?? error.status_code, status, inspect(error));
  assert.match(error.message, message);
  return error;
}
const open = async (n) => new RegExp(`^flyball_requests_running ${n}$`, 'm').test(await metrics(url));
const idle = () => eventually('no request is open', () => open(0));

const tests = {};
const own = [];
for (const [name, of] of Object.entries(makers)) {
  const make = (tokens = 24, more = {}) => of(model, tokens, keys.main, more);
  const reasoner = (tokens, more = {}) => of('reasoner', tokens, keys.main, more);
  const add = (what, test) => { tests[`${name}: ${what}`] = test; };
  // A test that needs the suites' configuration.
  const addOwn = (what, test) => {
    add(what, test);
    own.push(`${name}: ${what}`);
  };

  add('invoke', async () => {
    const answer = await make().invoke(prompt);
    assert(AIMessage.isInstance(answer));
    assert.match(answer.content, words);
    assert.equal(answer.text, answer.content);
    assert.deepEqual(answer.tool_calls ?? [], []);
    checkReason(answer, 'length');
    checkUsage(answer.usage_metadata, 24);
  });

  addOwn('invoke: comes to its end', async () => {
    const answer = await make(300).invoke(prompt);
    checkReason(answer, 'stop');
    assert(answer.usage_metadata.output_tokens < 300);
  });

  add('invoke: a system message and a history', async () => {
    const one = await make(1).invoke(prompt);
    const history = [new SystemMessage('Answer briefly.'), new HumanMessage('Hello.'), new AIMessage('Yes?'), new HumanMessage(prompt)];
    const answer = await make().invoke(history);
    assert.match(answer.content, words);
    assert(answer.usage_metadata.input_tokens > one.usage_metadata.input_tokens);
  });

  add('invoke: a message in parts', async () => {
    const parts = new HumanMessage({ content: [{ type: 'text', text: prompt }] });
    assert.equal((await make().invoke([parts])).content, (await make().invoke(prompt)).content);
  });

  add('invoke: a stop string ends it', async () => {
    const whole = (await make().invoke(prompt)).content;
    const stop = whole.split(' ')[2];
    const cut = await make().invoke(prompt, { stop: ['never seen', stop] });
    assert.equal(cut.content, whole.slice(0, whole.indexOf(stop)));
    checkReason(cut, 'stop');
  });

  add('stream: the chunks add up to the whole answer', async () => {
    const whole = await make().invoke(prompt);
    const chunks = await drained(make().stream(prompt));
    assert(chunks.length > 4);
    const all = sum(chunks);
    assert.equal(all.content, whole.content);
    checkReason(all, 'length');
    checkUsage(all.usage_metadata, 24);
    assert.equal(all.usage_metadata.input_tokens, whole.usage_metadata.input_tokens);
  });

  add('batch: answers in the order of the questions', async () => {
    const questions = [prompt, 'Hello.', prompt];
    const answers = await make().batch(questions, { maxConcurrency: 2 });
    assert.deepEqual(answers.map((answer) => answer.content), [answers[0].content, (await make().invoke('Hello.')).content, answers[0].content]);
    assert.match(answers[0].content, words);
  });

  add('a chain: prompt, model and parser, whole and streamed', async () => {
    const template = ChatPromptTemplate.fromMessages([['system', 'Answer {how}.'], ['human', '{question}']]);
    const chain = template.pipe(make()).pipe(new StringOutputParser());
    const input = { how: 'briefly', question: prompt };
    const text = await chain.invoke(input);
    assert.match(text, words);
    assert.equal((await drained(chain.stream(input))).join(''), text);
  });

  add('events: of a stream', async () => {
    const events = await drained(make().streamEvents(prompt, { version: 'v2' }));
    assert.equal(events[0].event, 'on_chat_model_start');
    assert.equal(events.at(-1).event, 'on_chat_model_end');
    const pieces = events.filter((event) => event.event === 'on_chat_model_stream');
    assert(pieces.length > 4);
    assert.equal(pieces.map((event) => event.data.chunk.text).join(''), events.at(-1).data.output.content);
  });

  add('callbacks: tokens as they come, and the usage at the end', async () => {
    const tokens = [];
    let end;
    const callbacks = [{ handleLLMNewToken: (token) => { tokens.push(token); }, handleLLMEnd: (output) => { end = output; } }];
    const chunks = await drained(make().stream(prompt, { callbacks }));
    assert.equal(tokens.join(''), sum(chunks).content);
    checkUsage(end.generations[0][0].message.usage_metadata, 24);
  });

  add('structured output: the schema is held to', async () => {
    choice.parse(await make(300).withStructuredOutput(choice).invoke(prompt));
  });

  add('structured output: with the message that it came in', async () => {
    const { raw, parsed } = await make(300).withStructuredOutput(choice, { includeRaw: true }).invoke(prompt);
    assert(AIMessage.isInstance(raw));
    choice.parse(parsed);
  });

  // Anthropic's class says enumerations and bounds in words alone.
  add('structured output: by a JSON schema', async () => {
    const schema = name === 'anthropic' ? z.object({ fast: z.boolean(), small: z.boolean() }) : choice;
    schema.parse(await make(300).withStructuredOutput(schema, { method: 'jsonSchema' }).invoke(prompt));
  });

  add('structured output: a plain JSON schema, in a chain', async () => {
    const schema = { title: 'Fast', type: 'object', properties: { fast: { type: 'boolean' } }, required: ['fast'], additionalProperties: false };
    const chain = ChatPromptTemplate.fromTemplate('{question}').pipe(make(300).withStructuredOutput(schema));
    assert.equal(typeof (await chain.invoke({ question: prompt })).fast, 'boolean');
  });

  add('tools: that are bound are told', async () => {
    const plain = await make(1).invoke(prompt);
    const told = await make(1).bindTools([weather]).invoke(prompt);
    assert(told.usage_metadata.input_tokens > plain.usage_metadata.input_tokens);
  });

  add('tools: calls and results of earlier turns', async () => {
    const call = (id, city) => ({ id, name: 'weather', args: { city }, type: 'tool_call' });
    const history = [
      new HumanMessage(prompt),
      new AIMessage({ content: '', tool_calls: [call('call_1', 'Oslo'), call('call_2', 'Lima')] }),
      new ToolMessage({ content: 'Oslo: sunny', tool_call_id: 'call_1', name: 'weather' }),
      new ToolMessage({ content: 'Lima: rain', tool_call_id: 'call_2', name: 'weather' })];
    const bound = make(24).bindTools([weather]);
    const answer = await bound.invoke(history);
    const told = await bound.invoke(prompt);
    assert(answer.usage_metadata.input_tokens > told.usage_metadata.input_tokens);
    assert(answer.usage_metadata.output_tokens > 0);
  });

  add('refused: a model that there is not', async () => {
    const error = await refused(of('nope', 24, keys.main).invoke(prompt), 404, /no model \\?"nope\\?"/);
    if (name !== 'ollama') assert.equal(error.lc_error_code, 'MODEL_NOT_FOUND');
  });

  add('refused: a key that is no app\'s', async () => {
    await refused(of(model, 24, 'nobody').invoke(prompt), 401, /key/);
  });

  add('refused: a value, by its name', async () => {
    await refused(make(24, { temperature: undefined, topP: 7 }).invoke(prompt), 400, /top_p' is 7/);
  });

  add('refused: before a stream begins', async () => {
    await refused(drained(of('nope', 24, keys.main).stream(prompt)), 404, /no model \\?"nope\\?"/);
  });

  add('refused: an image', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } };
    const message = new HumanMessage({ content: [{ type: 'text', text: prompt }, image] });
    await refused(make().invoke([message]), 400, /does not serve images/);
  });

  addOwn('refused: a prompt that is too long', async () => {
    const error = await make().invoke('x '.repeat(5000)).catch((e) => e);
    if (name !== 'ollama') assert(ContextOverflowError.isInstance(error), inspect(error));
    await refused(Promise.reject(error.cause ?? error), 400, /context/);
  });

  addOwn('refused: more at once than the app may have', async () => {
    const halt = new AbortController();
    const streams = await Promise.all([1, 2].map(() => openai('slow', 7000, keys.small).stream(prompt, { signal: halt.signal })));
    const readers = streams.map((stream) => stream[Symbol.asyncIterator]());
    await Promise.all(readers.map((reader) => reader.next()));
    await refused(of(model, 24, keys.small).invoke(prompt), 429, /./);
    halt.abort();
    await Promise.allSettled(readers.map((reader) => reader.next()));
    await idle();
    assert.match((await of(model, 24, keys.small).invoke(prompt)).content, words);
  });

  // Ollama's class reads no further, but leaves the connection open.
  if (name !== 'ollama')
    addOwn('abort: of a stream frees the engine', async () => {
      const halt = new AbortController();
      await assert.rejects(async () => {
        for await (const chunk of await of('slow', 7000, keys.main).stream(prompt, { signal: halt.signal })) if (chunk.content) halt.abort();
      }, /abort/i);
      await idle();
    });

  addOwn('abort: of a whole answer frees the engine', async () => {
    const halt = new AbortController();
    const pending = of('slow', 7000, keys.main).invoke(prompt, { signal: halt.signal });
    // Ollama's class answers with the beginning that it has.
    const cut = (answer) => assert.equal(answer.response_metadata.done_reason, undefined);
    const ended = name === 'ollama' ? pending.then(cut) : assert.rejects(pending, /abort/i);
    await eventually('it runs', () => open(1));
    halt.abort();
    await ended;
    await idle();
  });

  const reasoning = (message) => message.additional_kwargs.reasoning_content ?? message.content.map((block) => block.thinking ?? '').join('');
  addOwn('reasoning: whole and streamed', async () => {
    const whole = await reasoner(12).invoke(prompt);
    assert(reasoning(whole).length > 0, inspect(whole));
    assert.equal(whole.text, '');
    assert.equal(reasoning(sum(await drained(reasoner(12).stream(prompt)))), reasoning(whole));
  });

  addOwn('reasoning: goes back', async () => {
    const whole = await reasoner(12).invoke(prompt);
    const next = await reasoner(1).invoke([new HumanMessage(prompt), whole, new HumanMessage(prompt)]);
    assert(next.usage_metadata.input_tokens > whole.usage_metadata.input_tokens);
  });
}

// Ollama's API has no choice of tools.
for (const [name, of] of Object.entries({ openai, anthropic })) {
  const make = (tokens = 300, more = {}) => of(model, tokens, keys.main, more);
  tests[`${name}: tools: a required call`] = async () => {
    const answer = await make().bindTools([weather], { tool_choice: 'any' }).invoke(prompt);
    checkReason(answer, 'calls');
    const [call] = answer.tool_calls;
    assert.equal(call.name, 'weather');
    assert(['Oslo', 'Lima'].includes(call.args.city), inspect(call));
    assert.deepEqual(answer.invalid_tool_calls ?? [], []);
    const result = await weather.invoke(call);
    assert.deepEqual([result.content, result.tool_call_id], [`${call.args.city}: sunny`, call.id]);
  };

  tests[`${name}: tools: a named one is called`] = async () => {
    const lamp = tool(async () => 'done', { name: 'lamp', description: 'Sets it.', schema: z.object({ on: z.boolean() }) });
    const answer = await make().bindTools([weather, lamp], { tool_choice: 'lamp' }).invoke(prompt);
    assert(answer.tool_calls.length > 0 && answer.tool_calls.every((call) => call.name === 'lamp'), inspect(answer.tool_calls));
    assert.equal(typeof answer.tool_calls[0].args.on, 'boolean');
  };

  tests[`${name}: tools: none are called where the choice is none`] = async () => {
    const answer = await make(24).bindTools([weather], { tool_choice: 'none' }).invoke(prompt);
    assert.deepEqual(answer.tool_calls, []);
    assert.match(answer.text, words);
  };

  tests[`${name}: tools: a streamed call adds up`] = async () => {
    const chunks = await drained(make().bindTools([weather], { tool_choice: 'any' }).stream(prompt));
    assert(chunks.filter((chunk) => chunk.tool_call_chunks?.length > 0).length > 2);
    const all = sum(chunks);
    checkReason(all, 'calls');
    assert(['Oslo', 'Lima'].includes(all.tool_calls[0].args.city), inspect(all.tool_calls));
    assert.match(all.tool_calls[0].id, /^[\w-]+$/);
  };

  tests[`${name}: tools: a loop goes on with the result`] = async () => {
    const call = await make().bindTools([weather], { tool_choice: 'any' }).invoke(prompt);
    const history = [new HumanMessage(prompt), call];
    for (const one of call.tool_calls) history.push(await weather.invoke(one));
    const answer = await make().bindTools([weather], { tool_choice: 'none' }).invoke(history);
    assert(answer.text.length > 0);
    assert(answer.usage_metadata.input_tokens > (await make(1).invoke(prompt)).usage_metadata.input_tokens);
  };

  tests[`${name}: structured output: by a call`] = async () => {
    choice.parse(await make().withStructuredOutput(choice, { method: 'functionCalling', name: 'choice' }).invoke(prompt));
  };
}

const text = (more = {}) =>
  new OpenAI({ model, temperature: 0, maxTokens: 12, apiKey: keys.main, maxRetries: 0, configuration: { baseURL: `${url}/v1` }, ...more });
const generate = (more = {}) =>
  new Ollama({ model, temperature: 0, numPredict: 24, maxRetries: 0, baseUrl: url, headers: { Authorization: `Bearer ${keys.main}` }, ...more });
Object.assign(tests, {
  async 'openai: n answers to one question'() {
    const output = await openai(model, 24, keys.main, { n: 3, temperature: 1.5 }).generate([[new HumanMessage(prompt)]]);
    assert.equal(output.generations[0].length, 3);
    assert(output.llmOutput.tokenUsage.completionTokens <= 72 && output.llmOutput.tokenUsage.completionTokens > 3);
    assert(output.generations[0].every((one) => one.text.length > 0));
  },

  async 'openai: a seed gives the same answer'() {
    const ask = async (seed) => (await openai(model, 24, keys.main, { temperature: 1.5, modelKwargs: { seed } }).invoke(prompt)).content;
    assert.equal(await ask(42), await ask(42));
    const others = new Set();
    for (const seed of [1, 2, 3, 4, 5, 6]) others.add(await ask(seed));
    assert(others.size > 1, 'six seeds gave one answer');
  },

  // Anthropic's parser reads each chunk alone, and no chunk is an object.
  async 'openai: structured output: a stream grows to it'() {
    for (const method of ['jsonSchema', 'functionCalling']) {
      const objects = await drained(openai(model, 300, keys.main).withStructuredOutput(choice, { method }).stream(prompt));
      choice.parse(objects.at(-1));
    }
  },

  async 'openai: log probabilities'() {
    const { response_metadata } = await openai(model, 5, keys.main, { logprobs: true, topLogprobs: 2 }).invoke(prompt);
    assert.equal(response_metadata.logprobs.content.length, 5);
    assert(response_metadata.logprobs.content.every((one) => one.logprob <= 0 && one.top_logprobs.length === 2));
  },

  async 'openai: penalties, effort and a user are taken'() {
    const more = { frequencyPenalty: 0.1, presencePenalty: 0.1, user: 'one', topP: 0.9, modelKwargs: { reasoning_effort: 'low', metadata: { a: 'b' } } };
    assert.match((await openai(model, 24, keys.main, more).invoke(prompt)).content, words);
  },

  async 'openai: a stream without usage'() {
    const all = sum(await drained(openai(model, 24, keys.main, { streamUsage: false }).stream(prompt)));
    assert.equal(all.usage_metadata, undefined);
    assert.match(all.content, words);
  },

  async 'openai: a strict tool'() {
    const bound = openai(model, 300, keys.main).bindTools([weather], { tool_choice: 'any', strict: true, parallel_tool_calls: false });
    const { tool_calls } = await bound.invoke(prompt);
    assert.equal(tool_calls.length, 1);
    assert(['Oslo', 'Lima'].includes(tool_calls[0].args.city));
  },

  async 'openai: parallel calls'() {
    let answer;
    for (let seed = 0; seed < 20 && !(answer?.tool_calls.length > 1); ++seed)
      answer = await openai('reasoner', 1000, keys.main, { temperature: 1, modelKwargs: { seed } }).bindTools([weather], { tool_choice: 'any' }).invoke(prompt);
    assert(answer.tool_calls.length > 1, 'twenty seeds gave no two calls');
    assert.equal(new Set(answer.tool_calls.map((call) => call.id)).size, answer.tool_calls.length);
  },

  async 'openai: refused: embeddings'() {
    const embeddings = new OpenAIEmbeddings({ model, apiKey: keys.main, maxRetries: 0, configuration: { baseURL: `${url}/v1` } });
    await refused(embeddings.embedQuery('a'), 400, /does not serve embeddings/);
  },

  async 'openai completions: text, streamed the same'() {
    const whole = await text().invoke('Once upon a time');
    assert(whole.length > 0);
    assert.equal((await drained(text().stream('Once upon a time'))).join(''), whole);
  },

  async 'openai completions: several prompts in one request'() {
    const output = await text({ batchSize: 2 }).generate(['Once upon a time', 'The sun']);
    assert.deepEqual(output.generations.map((answers) => answers.length), [1, 1]);
    assert.equal(output.generations[0][0].text, await text().invoke('Once upon a time'));
    assert.equal(output.generations[1][0].text, await text().invoke('The sun'));
    assert(output.llmOutput.tokenUsage.completionTokens > 12);
  },

  async 'openai completions: a stop string ends it'() {
    const whole = await text().invoke('Once upon a time');
    const stop = whole.trim().split(' ')[2];
    assert.equal(await text().invoke('Once upon a time', { stop: [stop] }), whole.slice(0, whole.indexOf(stop)));
  },

  async 'anthropic: thinking that is asked for'() {
    const more = { temperature: undefined, thinking: { type: 'enabled', budget_tokens: 1024 } };
    const answer = await anthropic('reasoner', 2000, keys.main, more).invoke(prompt);
    assert.equal(answer.content[0].type, 'thinking');
    assert(answer.content[0].thinking.length > 0);
  },

  async 'anthropic: an alias names the model'() {
    const answer = await anthropic('claude-sonnet-4-5-20250929', 24, keys.main).invoke(prompt);
    assert.match(answer.content, words);
  },

  async 'anthropic: cache control is taken'() {
    const cached = (content) => [{ type: 'text', text: content, cache_control: { type: 'ephemeral' } }];
    const history = [new SystemMessage({ content: cached('Answer briefly.') }), new HumanMessage({ content: cached(prompt) })];
    const answer = await anthropic(model, 24, keys.main).invoke(history);
    assert.match(answer.content, words);
    assert.equal(answer.usage_metadata.input_token_details.cache_creation, 0);
  },

  async 'ollama: format as a schema, and as json'() {
    const format = { type: 'object', properties: { engine: { enum: ['cpu', 'gpu'] } }, required: ['engine'], additionalProperties: false };
    assert(['cpu', 'gpu'].includes(JSON.parse((await ollama(model, 300, keys.main, { format }).invoke(prompt)).content).engine));
    assert.match((await ollama(model, 40, keys.main, { format: 'json' }).invoke(prompt)).content, /^\s*\{/);
  },

  async 'ollama: think is taken'() {
    for (const think of [true, false]) assert.match((await ollama(model, 24, keys.main, { think }).invoke(prompt)).content, words);
  },

  async 'ollama: options, and the times of an answer'() {
    const more = { temperature: 1, seed: 7, topK: 40, topP: 0.9, repeatPenalty: 1.1, numCtx: 512, keepAlive: '5m' };
    const once = await ollama(model, 12, keys.main, more).invoke(prompt);
    const again = await ollama(model, 12, keys.main, more).invoke(prompt);
    assert.equal(again.content, once.content);
    for (const time of ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration'])
      assert(Number.isInteger(once.response_metadata[time]), time);
    assert.equal(once.response_metadata.eval_count, 12);
  },

  async 'ollama: refused: an option, by its name'() {
    await refused(ollama(model, 24, keys.main, { mirostat: 2 }).invoke(prompt), 400, /'options.mirostat' is not served/);
  },

  async 'ollama: refused: embeddings'() {
    const embeddings = new OllamaEmbeddings({ model, baseUrl: url, maxRetries: 0, headers: { Authorization: `Bearer ${keys.main}` } });
    await refused(embeddings.embedQuery('a'), 400, /embeddings/);
  },

  async 'ollama generate: text, streamed the same'() {
    const whole = await generate().invoke(prompt);
    assert.match(whole, words);
    assert.equal((await drained(generate().stream(prompt))).join(''), whole);
  },
});
own.push('openai: parallel calls', 'anthropic: thinking that is asked for', 'anthropic: an alias names the model');

const gpu = [
  'openai: invoke', 'openai: tools: a required call', 'openai: structured output: the schema is held to', 'openai completions: text, streamed the same',
  'anthropic: stream: the chunks add up to the whole answer', 'anthropic: tools: a loop goes on with the result', 'anthropic: invoke: a stop string ends it',
  'ollama: stream: the chunks add up to the whole answer', 'ollama: structured output: the schema is held to', 'ollama: reasoning: whole and streamed',
  'anthropic: invoke'];

await run(daemon, tests, { gpu, own });
