// OpenAI's Responses API by other people's clients: Vercel's AI SDK, whose openai provider speaks it unasked, LangChain and
// LlamaIndex. Exit 77 where a package is not installed.
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { eventually, keys, loaderOf, metrics, model, run, serve, words } from './daemon.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const { load, versions } = loaderOf('ai', '@ai-sdk/openai', '@langchain/core', '@langchain/openai', 'llamaindex', '@llamaindex/openai', 'zod');
const { APICallError, Output, generateObject, generateText, stepCountIs, streamObject, streamText, tool } = load('ai');
const { createOpenAI } = load('@ai-sdk/openai');
const { AIMessage, HumanMessage, SystemMessage, ToolMessage } = load('@langchain/core/messages');
const langchain = load('@langchain/core/tools');
const { ChatOpenAI } = load('@langchain/openai');
const { FunctionTool } = load('llamaindex');
const { openaiResponses } = load('@llamaindex/openai');
const { z } = load('zod');
const daemon = await serve({ models: ['slow', 'reasoner'] });
const { url } = daemon;
console.log(`node ${process.version}, ${versions}, ${url}`);

const prompt = 'Which engine for a Mac?';
const of = createOpenAI({ baseURL: `${url}/v1`, apiKey: keys.main });
const greedy = { model: of(model), prompt, temperature: 0, maxOutputTokens: 24, maxRetries: 0 };
const choice = z.object({ engine: z.enum(['cpu', 'gpu']), cores: z.number().int().min(1).max(64) });
const city = z.object({ city: z.enum(['Oslo', 'Lima']) });
const weather = tool({ description: 'Tells it.', inputSchema: city, execute: async (place) => ({ ...place, sky: 'sunny' }) });
const withTool = { ...greedy, maxOutputTokens: 300, tools: { weather }, toolChoice: 'required' };
const chat = (tokens = 24, more = {}) =>
  new ChatOpenAI({
    model, temperature: 0, maxTokens: tokens, apiKey: keys.main, maxRetries: 0, useResponsesApi: true, configuration: { baseURL: `${url}/v1` }, ...more });
const lcWeather = langchain.tool(async (place) => `${place.city}: sunny`, { name: 'weather', description: 'Tells it.', schema: city });
const llm = (tokens = 24, more = {}) =>
  openaiResponses({ model, maxOutputTokens: tokens, maxRetries: 0, apiKey: keys.main, baseURL: `${url}/v1`,
    additionalChatOptions: { temperature: 0, ...more } });  // its own `temperature` it does not send
const liWeather = FunctionTool.from((place) => `${place.city}: sunny`, {
  name: 'weather', description: 'Tells it.',
  parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Oslo', 'Lima'] } }, required: ['city'], additionalProperties: false } });
const messages = [{ role: 'user', content: prompt }];

async function drained(stream) {
  const parts = [];
  for await (const part of await stream) parts.push(part);
  return parts;
}
const texts = (parts, type, member) => parts.filter((part) => part.type === type).map((part) => part[member]).join('');
const kinds = (parts) => parts.map((part) => part.type).filter((type, i, all) => type !== all[i - 1]);
async function refused(promise, status, message) {
  const error = await promise.then((answer) => assert.fail(`expected ${status}, got ${inspect(answer)}`), (e) => e);
  assert.equal(error.statusCode ?? error.status, status, inspect(error));
  assert.match(error.message, message);
  return error;
}
function checkUsage(usage, tokens) {
  assert(usage.inputTokens > 0, inspect(usage));
  assert.equal(usage.outputTokens, tokens);
  assert.equal(usage.totalTokens, usage.inputTokens + tokens);
}
const idle = () => eventually('no request is open', async () => /^flyball_requests_running 0$/m.test(await metrics(url)));

const tests = {
  async 'ai: responses text'() {
    const answer = await generateText(greedy);
    assert.match(answer.text, words);
    assert.equal(answer.finishReason, 'length');
    assert.match(answer.response.id, /^resp_/);
    assert.equal(answer.response.modelId, model);
    assert.deepEqual(answer.warnings, []);
    checkUsage(answer.usage, 24);
  },

  async 'ai: responses text is that of a chat'() {
    assert.equal((await generateText(greedy)).text, (await generateText({ ...greedy, model: of.chat(model) })).text);
  },

  async 'ai: responses instructions and a system message'() {
    const plain = await generateText(greedy);
    const system = await generateText({ ...greedy, system: 'Answer briefly.' });
    const told = await generateText({ ...greedy, providerOptions: { openai: { instructions: 'Answer briefly.' } } });
    assert(system.usage.inputTokens > plain.usage.inputTokens);
    assert.deepEqual([told.text, told.usage.inputTokens], [system.text, system.usage.inputTokens]);
  },

  async 'ai: responses stream: its parts are the whole answer'() {
    const whole = await generateText(greedy);
    const parts = await drained(streamText(greedy).fullStream);
    assert.deepEqual(kinds(parts), ['start', 'start-step', 'text-start', 'text-delta', 'text-end', 'finish-step', 'finish']);
    assert(parts.filter((part) => part.type === 'text-delta').length > 3);
    assert.equal(texts(parts, 'text-delta', 'text'), whole.text);
    assert.equal(parts.at(-1).finishReason, 'length');
    checkUsage(parts.at(-1).totalUsage, 24);
  },

  async 'ai: responses object, whole and streamed'() {
    const ask = { ...greedy, maxOutputTokens: 300, schema: choice };
    const { object } = await generateObject(ask);
    choice.parse(object);
    const stream = streamObject({ ...ask, onError() {} });
    await drained(stream.partialObjectStream);
    assert.deepEqual(await stream.object, object);
    choice.parse((await generateText({ ...greedy, maxOutputTokens: 300, output: Output.object({ schema: choice }) })).output);
  },

  async 'ai: responses tools: a required call'() {
    const answer = await generateText(withTool);
    assert.equal(answer.finishReason, 'tool-calls', inspect(answer.content));
    const [call] = answer.toolCalls;
    city.parse(call.input);
    assert.deepEqual(answer.toolResults[0].output, { city: call.input.city, sky: 'sunny' });
  },

  async 'ai: responses tools: a named one, and none'() {
    const lamp = tool({ description: 'Sets it.', inputSchema: z.object({ on: z.boolean() }) });
    const named = await generateText({ ...withTool, tools: { weather, lamp }, toolChoice: { type: 'tool', toolName: 'lamp' } });
    assert(named.toolCalls.length > 0 && named.toolCalls.every((call) => call.toolName === 'lamp'), inspect(named.content));
    const none = await generateText({ ...withTool, maxOutputTokens: 24, toolChoice: 'none' });
    assert.deepEqual(none.toolCalls, []);
    assert.match(none.text, words);
  },

  async 'ai: responses tools: streamed, the input comes in pieces'() {
    const parts = await drained(streamText(withTool).fullStream);
    const call = parts.find((part) => part.type === 'tool-call');
    const pieces = parts.filter((part) => part.type === 'tool-input-delta' && part.id === call.toolCallId);
    assert(pieces.length > 1, inspect(kinds(parts)));
    assert.deepEqual(JSON.parse(pieces.map((part) => part.delta).join('')), call.input);
    assert.equal(parts.at(-1).finishReason, 'tool-calls');
  },

  async 'ai: responses tools: a loop goes on with the result'() {
    const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' });
    const answer = await generateText({ ...withTool, toolChoice: undefined, prepareStep, stopWhen: stepCountIs(3) });
    assert.deepEqual(answer.steps.map((step) => step.toolCalls.length > 0), [true, false]);
    assert(answer.text.length > 0);
  },

  // With its default of `store` the client names earlier answers by their ids, and nothing is stored.
  async 'ai: responses a second turn, without store'() {
    const providerOptions = { openai: { store: false } };
    const first = await generateText({ ...greedy, providerOptions });
    const history = [{ role: 'user', content: prompt }, ...first.response.messages, { role: 'user', content: prompt }];
    const second = await generateText({ ...greedy, prompt: undefined, messages: history, providerOptions });
    assert(second.usage.inputTokens > first.usage.inputTokens + 24);
  },

  async 'ai: responses refused: an item by its id'() {
    const first = await generateText(greedy);
    const history = [{ role: 'user', content: prompt }, ...first.response.messages, { role: 'user', content: prompt }];
    const error = await refused(generateText({ ...greedy, prompt: undefined, messages: history }), 400, /item_reference/);
    assert(APICallError.isInstance(error));
  },

  async 'ai: responses log probabilities'() {
    const answer = await generateText({ ...greedy, maxOutputTokens: 5, providerOptions: { openai: { logprobs: 2, store: false } } });
    const [logprobs] = answer.providerMetadata.openai.logprobs;
    assert.equal(logprobs.length, 5);
    assert(logprobs.every((one) => one.logprob <= 0 && one.top_logprobs.length === 2));
  },

  async 'ai: responses options are taken'() {
    const openai = {
      store: false, metadata: { a: 'b' }, parallelToolCalls: false, user: 'u', serviceTier: 'auto', promptCacheKey: 'k', safetyIdentifier: 's',
      truncation: 'disabled',
    };
    assert.match((await generateText({ ...greedy, providerOptions: { openai } })).text, words);
  },

  async 'ai: responses refused: store and earlier answers, by name'() {
    await refused(generateText({ ...greedy, providerOptions: { openai: { store: true } } }), 400, /store/);
    await refused(generateText({ ...greedy, providerOptions: { openai: { previousResponseId: 'resp_1' } } }), 400, /previous_response_id/);
    await refused(generateText({ ...greedy, providerOptions: { openai: { conversation: 'conv_1' } } }), 400, /conversation/);
  },

  async 'ai: responses refused: a model and a key that there are not'() {
    await refused(generateText({ ...greedy, model: of('nope') }), 404, /no model "nope"/);
    await refused(generateText({ ...greedy, model: createOpenAI({ baseURL: `${url}/v1`, apiKey: 'nobody' })(model) }), 401, /key/);
    const parts = await drained(streamText({ ...greedy, model: of('nope'), onError() {} }).fullStream);
    assert.equal(parts.at(-1).error.statusCode, 404);
  },

  // The client reads summaries alone, asks for them of models that it takes to reason, and sends those no temperature.
  async 'ai: responses reasoning, whole and streamed'() {
    const openai = { forceReasoning: true, reasoningSummary: 'auto', store: false };
    const ask = { ...greedy, temperature: undefined, maxOutputTokens: 12, model: of('reasoner'), providerOptions: { openai } };
    const whole = await generateText(ask);
    assert(whole.reasoningText.length > 0, inspect(whole.content));
    assert.equal(whole.usage.outputTokenDetails.reasoningTokens, whole.usage.outputTokens);
    const parts = await drained(streamText(ask).fullStream);
    assert(texts(parts, 'reasoning-delta', 'text').length > 0, inspect(kinds(parts)));
    assert(kinds(parts).includes('reasoning-end'));
  },

  async 'ai: responses abort: a stream that is given up frees the engine'() {
    const halt = new AbortController();
    const stream = streamText({ ...greedy, maxOutputTokens: 8000, model: of('slow'), abortSignal: halt.signal, onError() {} });
    for await (const part of stream.fullStream) if (part.type === 'text-delta') halt.abort();
    await idle();
  },

  async 'langchain: responses invoke'() {
    const answer = await chat().invoke(prompt);
    assert.match(answer.text, words);
    assert.equal(answer.usage_metadata.output_tokens, 24);
    assert.equal(answer.usage_metadata.total_tokens, answer.usage_metadata.input_tokens + 24);
    assert.match(answer.response_metadata.id, /^resp_/);
  },

  async 'langchain: responses stream: the chunks add up'() {
    const chunks = await drained(chat().stream(prompt));
    const all = chunks.reduce((sum, chunk) => sum.concat(chunk));
    assert.equal(all.text, (await chat().invoke(prompt)).text);
    assert(chunks.length > 4);
    assert.equal(all.usage_metadata.output_tokens, 24);
  },

  async 'langchain: responses structured output'() {
    choice.parse(await chat(300).withStructuredOutput(choice).invoke(prompt));
  },

  async 'langchain: responses tools: a named call, whole and streamed'() {
    const bound = chat(300).bindTools([lcWeather], { tool_choice: 'weather' });
    const answer = await bound.invoke(prompt);
    assert.equal(answer.tool_calls[0].name, 'weather', inspect(answer));
    city.parse(answer.tool_calls[0].args);
    const all = (await drained(bound.stream(prompt))).reduce((sum, chunk) => sum.concat(chunk));
    assert.deepEqual(all.tool_calls[0].args, answer.tool_calls[0].args);
  },

  async 'langchain: responses calls and results of earlier turns'() {
    const history = [
      new SystemMessage('Answer briefly.'), new HumanMessage(prompt),
      new AIMessage({ content: '', tool_calls: [{ id: 'call_1', name: 'weather', args: { city: 'Oslo' }, type: 'tool_call' }] }),
      new ToolMessage({ content: 'Oslo: sunny', tool_call_id: 'call_1' })];
    const answer = await chat().bindTools([lcWeather]).invoke(history);
    assert(answer.usage_metadata.input_tokens > (await chat(1).bindTools([lcWeather]).invoke(prompt)).usage_metadata.input_tokens);
  },

  async 'langchain: responses a turn after an answer'() {
    const first = await chat(24, { zdrEnabled: true }).invoke(prompt);
    const second = await chat(24, { zdrEnabled: true }).invoke([new HumanMessage(prompt), first, new HumanMessage(prompt)]);
    assert(second.usage_metadata.input_tokens > first.usage_metadata.input_tokens + 24);
  },

  async 'langchain: responses refused: a model that there is not'() {
    await refused(chat(24, { model: 'nope' }).invoke(prompt), 404, /no model "nope"/);
  },

  async 'llamaindex: responses chat, whole and streamed'() {
    const { message } = await llm().chat({ messages });
    assert.match(message.content, words);
    const chunks = await drained(llm().chat({ messages, stream: true }));
    // The client says the last piece again at each event after it.
    const pieces = chunks.map((chunk) => chunk.delta);
    assert(pieces.length > 4 && pieces.join('').startsWith(message.content), inspect(pieces));
  },

  async 'llamaindex: responses tools: a required call'() {
    const { message } = await llm(300, { tool_choice: 'required' }).chat({ messages, tools: [liWeather] });
    const [call] = message.options.toolCall;
    assert.equal(call.name, 'weather');
    city.parse(typeof call.input === 'string' ? JSON.parse(call.input) : call.input);
  },

  async 'llamaindex: responses calls and results of earlier turns'() {
    const history = [
      { role: 'system', content: 'Answer briefly.' }, ...messages,
      { role: 'assistant', content: '', options: { toolCall: [{ id: 'call_1', name: 'weather', input: { city: 'Oslo' } }] } },
      { role: 'user', content: 'Oslo: sunny', options: { toolResult: { id: 'call_1', result: 'Oslo: sunny', isError: false } } }];
    assert((await llm().chat({ messages: history, tools: [liWeather] })).message.content.length > 0);
  },
};

const own = ['ai: responses reasoning, whole and streamed', 'ai: responses abort: a stream that is given up frees the engine'];
const gpu = ['ai: responses stream: its parts are the whole answer', 'ai: responses tools: a required call', 'langchain: responses invoke'];

await run(daemon, tests, { gpu, own });
