// Apps of which a few requests stand for all: Claude Code (by its gateway's documentation), opencode (over
// @ai-sdk/openai-compatible), LibreChat and n8n (over LangChain), AnythingLLM (server/utils/AiProviders of
// Mintplex-Labs/anything-llm), Home Assistant (homeassistant/components/ollama of home-assistant/core).
import assert from 'node:assert/strict';
import { answerOf, chatOf, checkUsage, messageOf, question, tool } from './wire.mjs';

export default function tests(openai, ollama, anthropic) {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: question },
  ];
  const tools = [{ type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.schema } }];
  const cached = { cache_control: { type: 'ephemeral' } };
  const code = anthropic.with({
    'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14',
    'anthropic-dangerous-direct-browser-access': 'true',
    'x-app': 'cli',
    'User-Agent': 'claude-cli/2.0.0 (external, cli)',
    'X-Stainless-Lang': 'js',
    Accept: 'application/json',
  });
  const turn = {
    model: 'claude-sonnet-4-5-20250929',
    max_tokens: 60,
    temperature: 1,
    stream: true,
    metadata: { user_id: 'user_0_account__session_1' },
    system: [
      { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.0.0; cch=1a2b3;' },
      { type: 'text', text: 'You are Claude Code.', ...cached },
    ],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: '<system-reminder>Today is Monday.</system-reminder>' },
          { type: 'text', text: question, ...cached },
        ],
      },
    ],
    tools: [
      {
        name: 'Read',
        description: tool.description,
        input_schema: { $schema: 'https://json-schema.org/draft/2020-12/schema', ...tool.schema },
      },
    ],
  };

  return {
    async 'Claude Code: a turn'() {
      const message = messageOf(await code.events('/messages?beta=true', turn));
      assert.equal(message.role, 'assistant');
      assert(message.usage.output_tokens <= 60);
    },
    async 'Claude Code: a turn with thinking, edited context and an effort'() {
      const more = {
        thinking: { type: 'adaptive' },
        context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
        output_config: { effort: 'medium' },
        temperature: undefined,
      };
      messageOf(await code.events('/messages?beta=true', { ...turn, ...more }));
    },
    async 'Claude Code: a title, whole, without tools'() {
      const { content } = await code.post('/messages?beta=true', { ...turn, tools: [], stream: undefined, temperature: 0, max_tokens: 20 });
      assert.equal(content[0].type, 'text');
    },
    async 'Claude Code: the count of a prompt'() {
      const { input_tokens: tokens } = await code.post('/messages/count_tokens?beta=true', {
        model: turn.model,
        messages: turn.messages,
        system: turn.system,
        tools: turn.tools,
      });
      assert(tokens > 20);
    },
    async 'Claude Code: its quota probe asks for one token'() {
      const { usage, stop_reason: reason } = await code.post('/messages?beta=true', {
        model: turn.model,
        max_tokens: 1,
        messages: [{ role: 'user', content: 'quota' }],
        metadata: turn.metadata,
      });
      assert.equal(usage.output_tokens, 1);
      assert.equal(reason, 'max_tokens');
    },
    async 'Claude Code: the key as a bearer, and the server by HEAD'() {
      const bearer = code.with({ 'x-api-key': '', Authorization: `Bearer ${anthropic.headers['x-api-key']}` });
      delete bearer.headers['x-api-key'];
      messageOf(await bearer.events('/messages?beta=true', { ...turn, max_tokens: 5 }));
      assert.equal((await fetch(new URL('/', anthropic.base), { method: 'HEAD' })).status, 200);
      assert.equal((await code.ask('HEAD', '/models')).status, 200);
    },
    async 'opencode: an agent'() {
      const answer = chatOf(
        await openai.events('/chat/completions', {
          model: 'demo',
          max_tokens: 60,
          temperature: 0,
          top_p: 1,
          messages,
          tools,
          tool_choice: 'auto',
          stream: true,
          stream_options: { include_usage: true },
        }),
      );
      checkUsage(answer.usage);
    },
    async "LibreChat: a user's id and the model list"() {
      assert((await openai.get('/models')).data.length > 0);
      chatOf(
        await openai.events('/chat/completions', {
          model: 'demo',
          user: '66f',
          temperature: 1,
          top_p: 1,
          presence_penalty: 0,
          frequency_penalty: 0,
          stop: ['||>'],
          stream: true,
          stream_options: { include_usage: true },
          max_tokens: 30,
          messages,
        }),
      );
    },
    async 'n8n: a credential is tested, and a node asks'() {
      assert.equal((await openai.ask('GET', '/models')).status, 200);
      assert.equal((await ollama.ask('GET', '/api/tags')).status, 200);
      const { choices } = await openai.post('/chat/completions', {
        model: 'demo',
        temperature: 0.7,
        top_p: 1,
        frequency_penalty: 0,
        presence_penalty: 0,
        n: 1,
        stream: false,
        max_completion_tokens: -1,
        messages,
      });
      assert.equal(typeof choices[0].message.content, 'string');
    },
    async 'AnythingLLM: a chat with options in its spelling'() {
      const answer = answerOf(
        await ollama.lines('/api/chat', {
          model: 'demo:latest',
          stream: true,
          messages,
          keep_alive: 300,
          options: { temperature: 0.7, useMLock: true, numCtx: 4096, num_predict: 20 },
        }),
      );
      assert.equal(answer.last.eval_count, 20);
    },
    async 'AnythingLLM: a chat of the generic provider'() {
      const { choices, usage } = await openai.post('/chat/completions', { model: 'demo', messages, temperature: 0.7, max_tokens: 30 });
      assert.equal(typeof choices[0].message.content, 'string');
      checkUsage(usage);
    },
    async 'Home Assistant: models, a chat with tools, and results without names'() {
      assert((await ollama.get('/api/tags')).models.every((model) => typeof model.model === 'string'));
      const history = [
        ...messages,
        { role: 'assistant', content: '', tool_calls: [{ function: { name: tool.name, arguments: { path: 'a' } } }] },
        { role: 'tool', content: '{"data":"MLX","error":null}' },
      ];
      const python = ollama.with({ 'User-Agent': 'ollama-python/0.5.1 (x86_64 linux) Python/3.13', Accept: 'application/json' });
      const answer = answerOf(
        await python.lines('/api/chat', {
          model: 'demo:latest',
          messages: history,
          tools,
          stream: true,
          options: { num_ctx: 8192.0, num_predict: 20 },
          keep_alive: -1,
          think: false,
        }),
      );
      assert(answer.last.eval_count > 0);
    },
    async 'Home Assistant: a task with a structure'() {
      const structure = {
        type: 'object',
        properties: { engine: { type: 'string', enum: ['cpu', 'gpu'] } },
        required: ['engine'],
        additionalProperties: false,
      };
      const answer = answerOf(
        await ollama.lines('/api/chat', {
          model: 'demo:latest',
          messages,
          stream: true,
          options: { num_ctx: 8192 },
          keep_alive: '300s',
          format: structure,
        }),
      );
      assert(['cpu', 'gpu'].includes(JSON.parse(answer.text).engine));
    },
  };
}
