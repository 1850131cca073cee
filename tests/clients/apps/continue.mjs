// Continue, by core/llm/llms/{OpenAI,Ollama,Anthropic}.ts, core/llm/openaiTypeConverters.ts,
// core/autocomplete/templating and packages/openai-adapters/src/apis/OpenAI.ts of continuedev/continue.
import assert from 'node:assert/strict';
import { answerOf, chatOf, checkUsage, messageOf, question, tool } from './wire.mjs';

// Its stop strings behind a model of the Qwen family, and those that it adds to every model's.
const stop = [
  '<|endoftext|>',
  '<|fim_prefix|>',
  '<|fim_middle|>',
  '<|fim_suffix|>',
  '<|fim_pad|>',
  '<|repo_name|>',
  '<|file_sep|>',
  '<|im_start|>',
  '<|im_end|>',
  '/src/',
  '#- coding: utf-8',
  '```',
];
const filled = '<|fim_prefix|>def add(a, b):\n    <|fim_suffix|>\n<|fim_middle|>';

export default function tests(openai, ollama, anthropic) {
  const messages = [
    { role: 'system', content: '<important_rules>You are in chat mode.</important_rules>' },
    { role: 'user', content: question },
  ];
  const tools = [{ type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.schema } }];
  const chat = { messages, model: 'demo', max_tokens: 40, stream: true, stream_options: { include_usage: true } };
  const azure = { 'api-key': openai.headers.Authorization.slice('Bearer '.length) };
  // `undefined` members are left out by JSON.stringify, as they are in the app.
  const options = { temperature: 0.01, top_p: undefined, num_predict: 16, stop, num_ctx: 8192, mirostat: undefined };
  const ollamaChat = { model: 'demo', messages, options: { num_ctx: 8192, num_predict: 24 }, keep_alive: 1800, stream: true };
  const call = { id: 'tc_1', type: 'function', function: { name: tool.name, arguments: '{"path":"a"}' } };
  const claude = {
    max_tokens: 40,
    model: 'demo',
    stream: true,
    system: 'Be brief.',
    messages: [{ role: 'user', content: [{ type: 'text', text: question }] }],
  };

  return {
    async 'openai: models'() {
      const { data } = await openai.with(azure).get('/models');
      assert(data.map((model) => model.id).includes('demo'));
    },
    async 'openai: chat'() {
      const answer = chatOf(await openai.with(azure).events('/chat/completions', chat));
      assert.match(answer.content, /MLX/);
      checkUsage(answer.usage);
      assert.deepEqual(answer.chunks.filter((chunk) => chunk.usage).length, 1);
    },
    async 'openai: an agent, its call and a result'() {
      const first = chatOf(
        await openai.events('/chat/completions', {
          ...chat,
          tools,
          tool_choice: { type: 'function', function: { name: tool.name } },
          parallel_tool_calls: false,
          max_tokens: 200,
        }),
      );
      assert.equal(first.calls[0].name, tool.name);
      // An empty answer goes back as a blank.
      const history = [
        ...messages,
        { role: 'assistant', content: ' ', tool_calls: [{ ...call, function: { ...call.function, arguments: '{}' } }] },
        { role: 'tool', content: 'MLX', tool_call_id: 'tc_1' },
      ];
      chatOf(await openai.events('/chat/completions', { ...chat, messages: history, tools, parallel_tool_calls: false }));
    },
    async 'openai: reasoning goes back in each of its spellings'() {
      const said = { role: 'assistant', content: 'Yes.', reasoning: 'so', reasoning_details: [{ signature: 'x' }], reasoning_content: '' };
      chatOf(await openai.events('/chat/completions', { ...chat, messages: [...messages, said, messages[1]] }));
    },
    async 'openai: a prediction for an edit'() {
      chatOf(await openai.events('/chat/completions', { ...chat, prediction: { type: 'content', content: 'def add(a, b)' } }));
    },
    async 'openai: autocomplete by text completions'() {
      const events = await openai.events('/completions', {
        model: 'demo',
        max_tokens: 16,
        temperature: 0.01,
        stream: true,
        stop,
        prompt: filled,
      });
      assert.equal(events.at(-1).data, '[DONE]');
      const parts = events.slice(0, -1).map((event) => JSON.parse(event.data));
      assert(parts.every((part) => typeof part.choices[0].text === 'string'));
    },
    async 'ollama: models'() {
      const { models } = await ollama.get('/api/tags');
      assert(models.some((model) => model.name === 'demo:latest'));
    },
    async 'ollama: show by the old name of the field'() {
      const shown = await ollama.post('/api/show', { name: 'demo' });
      assert.equal(typeof shown.parameters, 'string');
      assert(!shown.template.includes('.Suffix'), 'the model fills in nothing: raw prompts are sent to it');
    },
    async 'ollama: autocomplete by a suffix, where the template has a place for one'() {
      const { template } = await ollama.post('/api/show', { name: 'coder' });
      assert(template.includes('.Suffix'));
      const fill = { model: 'coder', prompt: 'def add(a, b):\n    ', suffix: '\n', raw: undefined };
      const { text } = answerOf(
        await ollama.lines('/api/generate', { ...fill, options, keep_alive: 1800, stream: true }),
        (line) => line.response,
      );
      assert(text.length > 0);
    },
    async 'ollama: chat'() {
      assert.match(answerOf(await ollama.lines('/api/chat', ollamaChat)).text, /MLX/);
    },
    async 'ollama: a call goes back without an id, and its result without a name'() {
      const history = [
        ...messages,
        { role: 'assistant', content: '', tool_calls: [{ function: { name: tool.name, arguments: { path: 'a' } } }] },
        { role: 'tool', content: 'MLX' },
      ];
      answerOf(await ollama.lines('/api/chat', { ...ollamaChat, messages: history, think: false }));
      answerOf(await ollama.lines('/api/chat', { ...ollamaChat, tools, think: true }));
    },
    async 'ollama: autocomplete by a raw prompt'() {
      const { text } = answerOf(
        await ollama.lines('/api/generate', { model: 'demo', prompt: filled, raw: true, options, keep_alive: 1800, stream: true }),
        (line) => line.response,
      );
      assert(!text.includes('```'));
    },
    async 'anthropic: chat with a cached system text and conversation'() {
      const cached = { cache_control: { type: 'ephemeral' } };
      const body = {
        ...claude,
        system: [{ type: 'text', text: 'Be brief.', ...cached }],
        messages: [{ role: 'user', content: [{ type: 'text', text: question, ...cached }] }],
      };
      const message = messageOf(await anthropic.with({ 'anthropic-beta': 'prompt-caching-2024-07-31' }).events('/messages', body));
      assert.match(message.content[0].text, /\S/);  // sampled
      assert(Number.isInteger(message.usage.cache_read_input_tokens) && Number.isInteger(message.usage.cache_creation_input_tokens));
    },
    async 'anthropic: a system text that is empty'() {
      messageOf(await anthropic.events('/messages', { ...claude, system: '', stop_sequences: ['\n\n'] }));
    },
    async 'anthropic: a forced tool, its result, and thinking'() {
      const agent = {
        ...claude,
        max_tokens: 200,
        tools: [{ name: tool.name, description: tool.description, input_schema: tool.schema }],
        tool_choice: { type: 'tool', name: tool.name },
      };
      const used = messageOf(await anthropic.events('/messages', agent)).content.find((block) => block.type === 'tool_use');
      assert.equal(used.name, tool.name);
      const history = [
        ...claude.messages,
        { role: 'assistant', content: [{ type: 'tool_use', id: used.id, name: used.name, input: JSON.parse(used.json) }] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: used.id, content: 'MLX' },
            { type: 'text', text: 'So?' },
          ],
        },
      ];
      messageOf(
        await anthropic.events('/messages', {
          ...agent,
          tool_choice: undefined,
          messages: history,
          max_tokens: 40,
          thinking: { type: 'enabled', budget_tokens: 2048 },
        }),
      );
    },
    async 'anthropic: an error has a type that it knows'() {
      const { type, error } = await anthropic.refused('POST', '/messages', { ...claude, model: 'gone' }, 404);
      assert.equal(type, 'error');
      assert.equal(error.type, 'not_found_error');
    },
  };
}
