// Jan as a client of a remote server, by web-app/src/lib/model-factory.ts (over @ai-sdk/openai-compatible) and
// web-app/src/services/providers/tauri.ts of janhq/jan.
import assert from 'node:assert/strict';
import { chatOf, checkUsage, question, tool } from './wire.mjs';

export default function tests(openai) {
  const key = openai.headers.Authorization.slice('Bearer '.length);
  // Jan sends its own origin to a server at localhost or 127.0.0.1.
  const jan = openai.with({ 'x-api-key': key, Origin: 'tauri://localhost' });
  const messages = [
    { role: 'system', content: 'You are Jan.' },
    { role: 'user', content: question },
  ];
  const assistant = { temperature: 0.7, top_k: 20, top_p: 0.8, repeat_penalty: 1.12 }; // its own assistant's parameters
  const chat = { model: 'demo', messages, stream: true, stream_options: { include_usage: true } };

  return {
    async 'models, with both headers of a key and an origin'() {
      const answer = await jan.served('GET', '/models', undefined, 'application/json', { 'Content-Type': 'application/json' });
      assert((await answer.json()).data.every((model) => typeof model.id === 'string'));
    },
    async 'a wrong key and none are 401, by which it tries its next one'() {
      await openai.with({ Authorization: 'Bearer wrong', 'x-api-key': 'wrong' }).refused('GET', '/models', undefined, 401);
      assert.equal((await fetch(`${openai.base}/models`, { headers: { 'Content-Type': 'application/json' } })).status, 401);
    },
    async "chat with its assistant's parameters"() {
      const answer = chatOf(await openai.events('/chat/completions', { ...chat, ...assistant }));
      checkUsage(answer.usage);
    },
    // `max_output_tokens` of its settings is sent as `max_tokens`.
    async 'chat with every parameter of an assistant'() {
      const answer = chatOf(
        await openai.events('/chat/completions', {
          ...chat,
          ...assistant,
          max_tokens: 24,
          presence_penalty: 0,
          frequency_penalty: 0,
          min_p: 0.05,
        }),
      );
      assert(answer.usage.completion_tokens <= 24, `${answer.usage.completion_tokens}`);
    },
    async 'chat with the tools of an MCP server'() {
      const tools = [{ type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.schema } }];
      chatOf(await openai.events('/chat/completions', { ...chat, max_tokens: 60, tools, tool_choice: 'auto' }));
    },
    async 'a call and its result'() {
      const history = [
        ...messages,
        {
          role: 'assistant',
          content: '',
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: tool.name, arguments: '{"path":"a"}' } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: '[{"type":"text","text":"MLX"}]' },
      ];
      chatOf(await openai.events('/chat/completions', { ...chat, messages: history, max_tokens: 20 }));
    },
    async 'reasoning goes back'() {
      chatOf(
        await openai.events('/chat/completions', {
          ...chat,
          max_tokens: 20,
          messages: [...messages, { role: 'assistant', content: 'Yes.', reasoning_content: 'so' }, messages[1]],
        }),
      );
    },
  };
}
