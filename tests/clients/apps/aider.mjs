// aider, by aider/models.py of Aider-AI/aider; its requests are written by LiteLLM: litellm/llms/ollama/chat,
// litellm/llms/ollama/completion and litellm/llms/ollama/common_utils.py of BerriAI/litellm.
import assert from 'node:assert/strict';
import { answerOf, chatOf, question } from './wire.mjs';

export default function tests(openai, ollama, anthropic) {
  const messages = [
    { role: 'system', content: 'Act as an expert software developer.' },
    { role: 'user', content: question },
    { role: 'assistant', content: 'Ok.' },
    { role: 'user', content: question },
  ];
  const python = openai.with({
    'User-Agent': 'OpenAI/Python 2.24.0',
    'X-Stainless-Lang': 'python',
    'X-Stainless-Async': 'false',
    'X-Stainless-Read-Timeout': '600',
    Accept: 'application/json',
  });
  const chat = { model: 'demo', messages, temperature: 0 };
  // LiteLLM's options hold what it was given, and nothing by null.
  const options = { temperature: 0, num_ctx: 8448 };
  const edit = {
    name: 'write_file',
    description: 'Writes a file.',
    parameters: { type: 'object', required: ['explanation'], properties: { explanation: { type: 'string' } } },
  };

  return {
    async 'openai/: streamed'() {
      const answer = chatOf(await python.events('/chat/completions', { ...chat, stream: true }));
      assert.match(answer.content, /\w/);
      assert(
        answer.chunks.every((chunk) => chunk.choices.length === 1),
        'no usage was asked for',
      );
    },
    async 'openai/: a commit message, whole'() {
      const { choices, usage, id, created } = await python.post('/chat/completions', chat);
      assert.equal(typeof choices[0].message.content, 'string');
      assert(usage.total_tokens > 0 && id && created);
    },
    async 'openai/: --reasoning-effort is in the body'() {
      chatOf(await python.events('/chat/completions', { ...chat, stream: true, reasoning_effort: 'high', max_tokens: 30 }));
    },
    async 'openai/: a function is forced'() {
      const { choices } = await python.post('/chat/completions', {
        ...chat,
        stream: false,
        max_tokens: 200,
        tools: [{ type: 'function', function: edit }],
        tool_choice: { type: 'function', function: { name: edit.name } },
      });
      const [call] = choices[0].message.tool_calls;
      assert.equal(call.function.name, edit.name);
      JSON.parse(call.function.arguments);
    },
    async 'openai/: --cache-prompts marks parts'() {
      const marked = [
        { role: 'system', content: [{ type: 'text', text: messages[0].content, cache_control: { type: 'ephemeral' } }] },
        messages[1],
      ];
      chatOf(await python.events('/chat/completions', { ...chat, messages: marked, stream: true, max_tokens: 20 }));
    },
    async 'openai/: an unknown model is a 404 with a message'() {
      assert.match((await python.refused('POST', '/chat/completions', { ...chat, model: 'gone' }, 404)).error.message, /gone/);
    },
    async 'ollama_chat/: streamed'() {
      const answer = answerOf(await ollama.lines('/api/chat', { model: 'demo', messages, options, stream: true }));
      assert(answer.text.length > 0);
    },
    async 'ollama_chat/: whole, thinking'() {
      const answer = await ollama.post('/api/chat', {
        model: 'demo',
        messages,
        options: { ...options, num_predict: 20 },
        stream: false,
        think: true,
      });
      assert(answer.prompt_eval_count > 0 && answer.eval_count > 0);
      assert.equal(typeof answer.message.content, 'string');
    },
    async 'ollama/: one prompt, streamed'() {
      const prompt = `### System:\n${messages[0].content}\n\n### User:\n${question}\n\n`;
      const answer = answerOf(
        await ollama.lines('/api/generate', { model: 'demo', prompt, options, stream: true, images: [] }),
        (line) => line.response,
      );
      assert(answer.last.prompt_eval_count > 0);
    },
    async 'ollama/: a schema, whole'() {
      const { response } = await ollama.post('/api/generate', { model: 'demo', prompt: question, options, stream: false, format: 'json' });
      assert.equal(typeof response, 'string');
    },
    async 'ollama/: the context of a model, and that it takes tools'() {
      const { model_info: info, template } = await ollama.post('/api/show', { name: 'demo' });
      assert(template.toLowerCase().includes('tools'), template);
      assert(Object.entries(info).some(([name, value]) => name.includes('context_length') && value > 100));
    },
    async 'anthropic/: whole, with cached text and a budget of thinking'() {
      const cached = { cache_control: { type: 'ephemeral' } };
      const message = await anthropic.post('/messages', {
        model: 'demo',
        max_tokens: 40,
        temperature: 0,
        system: [{ type: 'text', text: messages[0].content, ...cached }],
        messages: [{ role: 'user', content: [{ type: 'text', text: question, ...cached }] }],
        thinking: { type: 'enabled', budget_tokens: 1024 },
        metadata: { user_id: 'aider' },
      });
      assert(message.content.some((block) => block.type === 'text'));
      assert(message.usage.input_tokens + message.usage.cache_read_input_tokens > 0);
    },
  };
}
