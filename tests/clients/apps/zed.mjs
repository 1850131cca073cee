// Zed, by crates/open_ai, crates/ollama, crates/anthropic and crates/language_models/src/provider of
// zed-industries/zed.
// Its types have a field for everything that it reads: one that is absent or of another type ends the stream.
import assert from 'node:assert/strict';
import { answerOf, chatOf, checkUsage, messageOf, question, tool } from './wire.mjs';

// The stop strings of its edit prediction.
const stop = [
  '<|endoftext|>',
  '<|file_separator|>',
  '<|fim_pad|>',
  '<|fim_prefix|>',
  '<|fim_middle|>',
  '<|fim_suffix|>',
  '<fim_prefix>',
  '<fim_middle>',
  '<fim_suffix>',
  '<PRE>',
  '<SUF>',
  '<MID>',
  '[PREFIX]',
  '[SUFFIX]',
];

export default function tests(openai, ollama, anthropic) {
  const messages = [
    { role: 'system', content: 'You are a coding agent.' },
    { role: 'user', content: question },
  ];
  const tools = [{ type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.schema } }];
  const chat = {
    model: 'demo',
    messages,
    stream: true,
    stream_options: { include_usage: true },
    max_completion_tokens: 40,
    temperature: 1,
  };
  const options = { num_ctx: 4096, num_predict: null, stop: [], temperature: 1, top_p: null };
  const ollamaChat = { model: 'demo:latest', messages, stream: true, keep_alive: -1, options, tools: [], think: null };
  const claude = {
    model: 'demo',
    max_tokens: 60,
    messages: [{ role: 'user', content: [{ type: 'text', text: question, cache_control: { type: 'ephemeral' } }] }],
    system: 'You are a coding agent.',
    stream: true,
  };
  const agent = { tools: [{ name: tool.name, description: tool.description, input_schema: tool.schema }], tool_choice: { type: 'auto' } };
  const beta = anthropic.with({ 'Anthropic-Beta': 'fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14' });

  return {
    async 'openai-compatible: chat, and the fields of each chunk'() {
      const answer = chatOf(await openai.events('/chat/completions', { ...chat, prompt_cache_key: 'thread-1' }));
      checkUsage(answer.usage);
      for (const { choices } of answer.chunks)
        for (const { index, delta, finish_reason: finish } of choices) {
          assert(Number.isInteger(index) && (finish === null || typeof finish === 'string'));
          assert(['undefined', 'string'].includes(typeof (delta.content ?? undefined)));
        }
    },
    async 'openai-compatible: tools, several at once'() {
      const answer = chatOf(
        await openai.events('/chat/completions', {
          ...chat,
          tools,
          tool_choice: 'required',
          parallel_tool_calls: true,
          max_completion_tokens: 300,
        }),
      );
      assert(answer.calls.length >= 1);
      for (const { choices } of answer.chunks) for (const part of choices[0]?.delta.tool_calls ?? []) assert(Number.isInteger(part.index));
    },
    async 'openai-compatible: a turn of calls alone, with content null, and text in parts'() {
      const history = [
        messages[0],
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Read a.' },
            { type: 'text', text: question },
          ],
        },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c', type: 'function', function: { name: tool.name, arguments: '{"path":"a"}' } }],
        },
        { role: 'tool', content: 'MLX', tool_call_id: 'c' },
      ];
      chatOf(await openai.events('/chat/completions', { ...chat, messages: history, tools, parallel_tool_calls: false }));
    },
    async 'openai-compatible: reasoning goes back, and its effort'() {
      const history = [...messages, { role: 'assistant', content: 'Yes.', reasoning_content: 'so' }, messages[1]];
      chatOf(await openai.events('/chat/completions', { ...chat, messages: history, reasoning_effort: 'minimal' }));
    },
    async 'ollama: models by their types'() {
      for (const model of (await ollama.with({ Accept: 'application/json' }).get('/api/tags')).models) {
        for (const name of ['name', 'modified_at', 'digest']) assert.equal(typeof model[name], 'string', name);
        assert(Number.isInteger(model.size) && model.size >= 0);
        for (const name of ['format', 'family', 'parameter_size', 'quantization_level'])
          assert.equal(typeof model.details[name], 'string', name);
        assert(Array.isArray(model.details.families));
      }
    },
    async 'ollama: capabilities and context of each model'() {
      for (const { name } of (await ollama.get('/api/tags')).models) {
        const { capabilities, model_info: info } = await ollama.post('/api/show', { model: name });
        assert(capabilities.includes('tools'));
        assert(Number.isInteger(info[`${info['general.architecture']}.context_length`]));
      }
    },
    async 'ollama: chat with nulls for what is not set'() {
      const answer = answerOf(await ollama.lines('/api/chat', { ...ollamaChat, options: { ...options, num_predict: 24 } }));
      assert.equal(answer.last.message.role, 'assistant');
    },
    async "ollama: an agent's history, and thinking"() {
      const history = [
        ...messages,
        {
          role: 'assistant',
          content: 'I read it.',
          tool_calls: [{ id: 'c', function: { name: tool.name, arguments: { path: 'a' } } }],
          thinking: null,
        },
        { role: 'tool', tool_name: tool.name, content: 'MLX' },
        { role: 'assistant', content: 'So.', tool_calls: [], thinking: 'so' },
        messages[1],
      ];
      const answer = answerOf(
        await ollama.lines('/api/chat', { ...ollamaChat, messages: history, tools, think: true, options: { ...options, num_predict: 24 } }),
      );
      for (const call of answer.calls) assert.equal(typeof call.function.arguments, 'object');
    },
    async 'ollama: edit prediction, whole, with 14 stop strings'() {
      const { response } = await ollama.post('/api/generate', {
        model: 'demo',
        prompt: '<fim_prefix>fn main() {<fim_suffix>}<fim_middle>',
        raw: true,
        stream: false,
        options: { num_predict: 64, temperature: 0.2, stop },
      });
      assert.equal(typeof response, 'string');
    },
    async 'anthropic: chat'() {
      const message = messageOf(await beta.events('/messages', claude));
      for (const name of ['id', 'model']) assert.equal(typeof message[name], 'string');
      assert.match(message.content[0].text, /\w/);
    },
    async 'anthropic: tools and their results'() {
      const first = messageOf(await beta.events('/messages', { ...claude, ...agent, tool_choice: { type: 'any' }, max_tokens: 200 }));
      const used = first.content.find((block) => block.type === 'tool_use');
      assert.equal(first.stop_reason, 'tool_use');
      const history = [
        ...claude.messages,
        { role: 'assistant', content: [{ type: 'tool_use', id: used.id, name: used.name, input: JSON.parse(used.json) }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: used.id, is_error: false, content: 'MLX' }] },
      ];
      messageOf(await beta.events('/messages', { ...claude, ...agent, messages: history, temperature: 1, stop_sequences: ['\n\n\n'] }));
    },
    async 'anthropic: thinking with a budget'() {
      messageOf(await beta.events('/messages', { ...claude, thinking: { type: 'enabled', budget_tokens: 4096 } }));
    },
    async 'anthropic: models, and the count of a prompt'() {
      const { data } = await anthropic.get('/models?limit=1000');
      assert(data.every((model) => model.type === 'model' && typeof model.display_name === 'string'));
      const { input_tokens: tokens } = await anthropic.post('/messages/count_tokens', {
        model: 'demo',
        messages: claude.messages,
        system: claude.system,
        ...agent,
      });
      assert(tokens > 0);
    },
  };
}
