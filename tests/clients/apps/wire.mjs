// Requests as apps send them, written to the wire by fetch alone, and the readers of answers that apps bring with them.
import assert from 'node:assert/strict';
import { inspect } from 'node:util';

export const question = 'Which engine for a Mac?';

// One app's connection: its base URL and the headers that it sends with everything.
export class Wire {
  constructor(base, headers) {
    this.base = base;
    this.headers = headers;
  }
  with(headers) {
    return new Wire(this.base, { ...this.headers, ...headers });
  }
  ask(method, path, body, headers = {}) {
    const sent = { ...this.headers, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers };
    return fetch(this.base + path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body) });
  }
  // The answer of a success, of this type.
  async served(method, path, body, type, headers) {
    const answer = await this.ask(method, path, body, headers);
    if (answer.status !== 200) assert.fail(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    assert(answer.headers.get('content-type').startsWith(type), answer.headers.get('content-type'));
    return answer;
  }
  async get(path) {
    return (await this.served('GET', path, undefined, 'application/json')).json();
  }
  async post(path, body) {
    return (await this.served('POST', path, body, 'application/json')).json();
  }
  async refused(method, path, body, status) {
    const answer = await this.ask(method, path, body);
    assert.equal(answer.status, status);
    return answer.json();
  }
  async events(path, body) {
    return serverSentEvents(await (await this.served('POST', path, body, 'text/event-stream')).text());
  }
  async lines(path, body) {
    const text = await (await this.served('POST', path, body, 'application/x-ndjson')).text();
    assert(text.endsWith('\n'), 'the last line has an end');
    return text
      .slice(0, -1)
      .split('\n')
      .map((line) => JSON.parse(line));
  }
}

// The events of a stream by the strictest reader among the apps: each is an optional `event: NAME`, one `data: TEXT`
// and an empty line. Comments are left out.
export function serverSentEvents(text) {
  assert(text.endsWith('\n\n'), 'the last event has an end');
  return text
    .slice(0, -2)
    .split('\n\n')
    .filter((block) => !block.startsWith(':'))
    .map((block) => {
      const found = /^(?:event: (\w+)\n)?data: (.*)$/.exec(block);
      assert(found, `not an event: ${inspect(block)}`);
      return { name: found[1], data: found[2] };
    });
}

// A streamed chat of OpenAI's API, put together by the indexes of its chunks. Checks what all of its readers rely on.
export function chatOf(events) {
  assert.equal(events.at(-1).data, '[DONE]');
  const chunks = events.slice(0, -1).map(({ name, data }) => {
    assert.equal(name, undefined);
    return JSON.parse(data);
  });
  const chat = { content: '', reasoning: '', calls: [], finish: null, usage: null, chunks };
  for (const chunk of chunks) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    assert.equal(chunk.id, chunks[0].id);
    assert(Number.isInteger(chunk.created) && Array.isArray(chunk.choices));
    if (chunk.usage) chat.usage = chunk.usage;
    const choice = chunk.choices[0];
    if (!choice) continue;
    assert.equal(choice.index, 0);
    chat.content += choice.delta.content ?? '';
    chat.reasoning += choice.delta.reasoning_content ?? '';
    for (const part of choice.delta.tool_calls ?? []) {
      const call = (chat.calls[part.index] ??= { id: part.id, name: part.function.name, arguments: '' });
      assert(call.id && call.name, inspect(part));
      call.arguments += part.function.arguments ?? '';
    }
    chat.finish = choice.finish_reason ?? chat.finish;
  }
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert(['stop', 'length', 'tool_calls'].includes(chat.finish), chat.finish);
  return chat;
}

export function checkUsage(usage) {
  assert(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
}

// A streamed answer of Ollama's API. `text` tells the text of a line.
export function answerOf(lines, text = (line) => line.message.content) {
  for (const line of lines) {
    assert.equal(typeof line.model, 'string');
    assert(!Number.isNaN(Date.parse(line.created_at)), line.created_at);
    assert.equal(typeof text(line), 'string');
  }
  assert(lines.slice(0, -1).every((line) => line.done === false));
  const last = lines.at(-1);
  assert.equal(last.done, true);
  assert(['stop', 'length'].includes(last.done_reason), last.done_reason);
  for (const name of ['total_duration', 'load_duration', 'prompt_eval_count', 'prompt_eval_duration', 'eval_count', 'eval_duration'])
    assert(Number.isInteger(last[name]), name);
  return { text: lines.map(text).join(''), calls: lines.flatMap((line) => line.message?.tool_calls ?? []), last };
}

// A streamed message of Anthropic's API, put together by the indexes of its blocks.
export function messageOf(events) {
  const sent = events.map(({ name, data }) => {
    const event = JSON.parse(data);
    assert.equal(event.type, name);
    return event;
  });
  const [start] = sent;
  assert.equal(start.type, 'message_start');
  const message = { ...start.message, content: [] };
  for (const event of sent.slice(1, -1)) {
    if (event.type === 'content_block_start') {
      assert.equal(event.index, message.content.length);
      message.content.push({ ...event.content_block, json: '' });
    } else if (event.type === 'content_block_delta') {
      const block = message.content[event.index];
      const { delta } = event;
      if (delta.type === 'text_delta') block.text += delta.text;
      else if (delta.type === 'input_json_delta') block.json += delta.partial_json;
      else if (delta.type === 'thinking_delta') block.thinking += delta.thinking;
      else assert.equal(delta.type, 'signature_delta');
    } else if (event.type === 'message_delta') {
      message.stop_reason = event.delta.stop_reason;
      message.usage = { ...message.usage, ...event.usage };
    } else {
      assert.equal(event.type, 'content_block_stop');
    }
  }
  assert.equal(sent.at(-1).type, 'message_stop');
  assert(['end_turn', 'max_tokens', 'tool_use', 'stop_sequence'].includes(message.stop_reason), message.stop_reason);
  assert(message.usage.input_tokens >= 0 && message.usage.output_tokens > 0);
  return message;
}

// A tool as an agent describes it to a model: closed, so that a call of a small model ends.
export const tool = {
  name: 'read_file',
  description: 'Reads a file of the workspace.',
  schema: {
    type: 'object',
    properties: { path: { type: 'string', enum: ['README.md', 'main.c'], description: 'path from the root' } },
    required: ['path'],
    additionalProperties: false,
  },
};
