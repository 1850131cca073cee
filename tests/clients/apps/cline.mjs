// Cline, by sdk/packages/llms/src/providers/vendors of cline/cline (over Vercel's providers and ollama-ai-provider-v2)
// and apps/vscode/src/core/controller/models; and Roo Code, its fork, by src/api/providers/{openai,native-ollama}.ts
// and fetchers/ollama.ts of RooCodeInc/Roo-Code.
import assert from 'node:assert/strict';
import { answerOf, chatOf, checkUsage, messageOf, question, tool } from './wire.mjs';

export default function tests(openai, ollama, anthropic) {
  const system = { role: 'system', content: 'You are Cline, a skilled software engineer.' };
  const messages = [system, { role: 'user', content: question }];
  const tools = [{ type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.schema } }];
  const strict = [
    { type: 'function', function: { name: tool.name, description: tool.description, strict: true, parameters: tool.schema } },
  ];
  const chat = { model: 'demo', max_tokens: 60, messages, stream: true, stream_options: { include_usage: true } };
  const cached = { cache_control: { type: 'ephemeral' } };
  const ollamaChat = { model: 'demo', messages, options: { num_ctx: 32768 }, stream: true };

  return {
    async 'openai-compatible: an agent'() {
      const answer = chatOf(await openai.events('/chat/completions', { ...chat, tools, tool_choice: 'auto' }));
      checkUsage(answer.usage);
      assert(Number.isInteger(answer.usage.prompt_tokens_details.cached_tokens));
    },
    async 'openai-compatible: a call and its result'() {
      const history = [
        ...messages,
        {
          role: 'assistant',
          content: 'I read it.',
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: tool.name, arguments: '{"path":"a"}' } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'MLX' },
      ];
      chatOf(await openai.events('/chat/completions', { ...chat, messages: history, tools, tool_choice: 'auto' }));
    },
    async "openai-compatible: a model of OpenAI's names has another limit"() {
      chatOf(
        await openai.events('/chat/completions', { ...chat, max_tokens: undefined, max_completion_tokens: 20, reasoning_effort: 'high' }),
      );
    },
    async "openai-compatible: a user's turn in parts"() {
      const parts = [
        system,
        {
          role: 'user',
          content: [
            { type: 'text', text: '<task>' },
            { type: 'text', text: question },
          ],
        },
      ];
      chatOf(await openai.events('/chat/completions', { ...chat, messages: parts, temperature: 0 }));
    },
    async 'ollama: models'() {
      assert.deepEqual([...new Set((await ollama.get('/api/tags')).models.map((model) => model.name))].sort(), [
        'coder:latest',
        'demo:latest',
        'slow:latest',
      ]);
    },
    // ollama-ai-provider-v2 writes these beside `options`, and calls with ids.
    async 'ollama: an agent, settings in the body'() {
      const body = {
        ...ollamaChat,
        temperature: 0,
        top_p: 0.9,
        max_output_tokens: 24,
        tools,
        tool_choice: 'auto',
        options: { num_ctx: 32768 },
      };
      const answer = answerOf(await ollama.lines('/api/chat', body));
      assert(answer.last.eval_count <= 24, `${answer.last.eval_count}`);
      assert(answer.calls.every((call) => typeof call.function.name === 'string' && typeof call.function.arguments === 'object'));
    },
    async 'ollama: a call and its result'() {
      const history = [
        ...messages,
        {
          role: 'assistant',
          content: '',
          thinking: 'so',
          tool_calls: [{ id: 'a', type: 'function', function: { name: tool.name, arguments: { path: 'a' } } }],
        },
        { role: 'tool', tool_call_id: 'a', tool_name: tool.name, content: 'MLX' },
      ];
      answerOf(
        await ollama.lines('/api/chat', {
          ...ollamaChat,
          messages: history,
          tools,
          think: true,
          options: { num_ctx: 32768, num_predict: 20 },
        }),
      );
    },
    async 'ollama: no `done_reason` but those it maps'() {
      const { last } = answerOf(await ollama.lines('/api/chat', { ...ollamaChat, options: { num_predict: 4 } }));
      assert.equal(last.done_reason, 'length');
    },
    async 'anthropic: cached blocks and tools'() {
      const body = {
        model: 'demo',
        max_tokens: 60,
        system: [{ type: 'text', text: system.content, ...cached }],
        messages: [{ role: 'user', content: [{ type: 'text', text: question, ...cached }] }],
        tools: [{ name: tool.name, description: tool.description, input_schema: tool.schema, ...cached }],
        tool_choice: { type: 'auto' },
        stream: true,
      };
      const message = messageOf(await anthropic.events('/messages', body));
      assert.equal(message.role, 'assistant');
    },
    async 'anthropic: a call and an error as its result'() {
      const history = [
        { role: 'user', content: [{ type: 'text', text: question }] },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'I read it.' },
            { type: 'tool_use', id: 'toolu_1', name: tool.name, input: { path: 'a' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'no such file' }], is_error: true, ...cached },
          ],
        },
      ];
      messageOf(
        await anthropic.events('/messages', {
          model: 'demo',
          max_tokens: 40,
          messages: history,
          tools: [{ name: tool.name, description: tool.description, input_schema: tool.schema }],
          tool_choice: { type: 'auto' },
          stream: true,
          temperature: 0,
        }),
      );
    },
    async 'Roo: strict tools, in the order of its fields'() {
      const answer = chatOf(
        await openai
          .with({ 'HTTP-Referer': 'https://github.com/RooVetGit/Roo-Cline', 'X-Title': 'Roo Code', 'User-Agent': 'RooCode/3' })
          .events('/chat/completions', {
            model: 'demo',
            temperature: 0,
            messages,
            stream: true,
            stream_options: { include_usage: true },
            tools: strict,
            tool_choice: 'required',
            parallel_tool_calls: false,
            max_completion_tokens: 200,
          }),
      );
      assert.equal(answer.calls.length, 1);
      assert.deepEqual(Object.keys(JSON.parse(answer.calls[0].arguments)), ['path']);
    },
    async 'Roo: R1 format has no system message'() {
      chatOf(
        await openai.events('/chat/completions', {
          model: 'demo',
          temperature: 0.6,
          messages: [{ role: 'user', content: `${system.content}\n${question}` }],
          stream: true,
          stream_options: { include_usage: true },
        }),
      );
    },
    async "Roo: an o-series model gets a developer's message"() {
      chatOf(
        await openai.events('/chat/completions', {
          model: 'demo',
          messages: [{ role: 'developer', content: `Formatting re-enabled\n${system.content}` }, messages[1]],
          stream: true,
          stream_options: { include_usage: true },
          reasoning_effort: 'medium',
          max_completion_tokens: 20,
        }),
      );
    },
    async "Roo: cached parts in OpenAI's messages"() {
      const parts = [
        { role: 'system', content: [{ type: 'text', text: system.content, ...cached }] },
        { role: 'user', content: [{ type: 'text', text: question, ...cached }] },
      ];
      chatOf(await openai.events('/chat/completions', { ...chat, messages: parts }));
    },
    async 'Roo: models of Ollama, each of them shown'() {
      for (const { model, details } of (await ollama.get('/api/tags')).models) {
        assert.equal(typeof details.parameter_size, 'string');
        const shown = await ollama.post('/api/show', { model });
        assert(shown.capabilities.includes('tools'));
        const key = Object.keys(shown.model_info).find((name) => name.includes('context_length'));
        assert.equal(typeof shown.model_info[key], 'number');
      }
    },
  };
}
