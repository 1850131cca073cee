// Open WebUI, by its backend: routers/openai.py, routers/ollama.py, routers/tasks.py and utils/payload.py of
// open-webui/open-webui.
import assert from 'node:assert/strict';
import { answerOf, chatOf, checkUsage, question, tool } from './wire.mjs';

export default function tests(openai, ollama) {
  const user = {
    'X-OpenWebUI-User-Name': 'Jo%20Doe',
    'X-OpenWebUI-User-Id': '7',
    'X-OpenWebUI-User-Email': 'jo@example.com',
    'X-OpenWebUI-User-Role': 'user',
    'X-OpenWebUI-Chat-Id': 'c1',
  };
  const messages = [
    { role: 'system', content: 'Answer briefly.' },
    { role: 'user', content: question },
  ];
  const chat = { stream: true, model: 'demo', messages, stream_options: { include_usage: true } };
  const tools = [{ type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.schema } }];
  const task = (content) => ({ model: 'demo', messages: [{ role: 'user', content }], stream: false });
  const ollamaChat = { model: 'demo:latest', messages, stream: true };

  return {
    async 'models: listed by id'() {
      const { data } = await openai.get('/models');
      assert(data.every((model) => typeof model.id === 'string' && model.name !== null));
      assert(data.some((model) => model.id === 'demo'));
    },
    async 'models: verified with a content type and the user of the session'() {
      const answer = await openai
        .with(user)
        .served('GET', '/models', undefined, 'application/json', { 'Content-Type': 'application/json' });
      assert.equal((await answer.json()).object, 'list');
    },
    async 'models: a wrong key is told by a status and an error'() {
      const { error } = await openai.with({ Authorization: 'Bearer wrong' }).refused('GET', '/models', undefined, 401);
      assert.equal(typeof error.message, 'string');
    },
    async 'chat: streamed with usage'() {
      const answer = chatOf(await openai.with(user).events('/chat/completions', chat));
      assert.match(answer.content, /MLX/);
      checkUsage(answer.usage);
    },
    async 'chat: the parameters of a model'() {
      const params = {
        temperature: 0.2,
        top_p: 0.9,
        max_tokens: 12,
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        seed: 3,
        stop: ['\n\n'],
        logit_bias: { 5: -1 },
        reasoning_effort: 'low',
        top_k: 20,
        min_p: 0.05,
        repeat_penalty: 1.1,
      };
      const answer = chatOf(await openai.events('/chat/completions', { ...chat, ...params }));
      assert(answer.usage.completion_tokens <= 12);
    },
    async 'chat: a response format of JSON'() {
      const answer = chatOf(
        await openai.events('/chat/completions', {
          ...chat,
          max_tokens: 64,
          response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { enum: ['yes', 'no'] } } },
        }),
      );
      assert(['"yes"', '"no"'].includes(answer.content), answer.content);
    },
    async 'chat: content in parts'() {
      const parts = [{ role: 'user', content: [{ type: 'text', text: question }] }];
      assert.match(chatOf(await openai.events('/chat/completions', { ...chat, messages: parts })).content, /\w/);
    },
    async 'chat: native tools, and their results'() {
      const first = chatOf(await openai.events('/chat/completions', { ...chat, tools, tool_choice: 'required', max_tokens: 200 }));
      assert.equal(first.finish, 'tool_calls');
      const [call] = first.calls;
      JSON.parse(call.arguments);
      const history = [
        ...messages,
        {
          role: 'assistant',
          content: '',
          tool_calls: [{ index: 0, id: call.id, function: { name: call.name, arguments: call.arguments }, type: 'function' }],
        },
        { role: 'tool', tool_call_id: call.id, content: 'MLX' },
      ];
      const second = chatOf(await openai.events('/chat/completions', { ...chat, messages: history, tools, max_tokens: 40 }));
      assert(second.usage.prompt_tokens > first.usage.prompt_tokens);
    },
    async 'chat: refused with an object that has the error'() {
      const { error } = await openai.refused('POST', '/chat/completions', { ...chat, model: 'gone' }, 404);
      assert.match(error.message, /gone/);
    },
    async 'tasks: a title'() {
      const { choices, usage } = await openai.post('/chat/completions', {
        ...task('### Task:\nGenerate a concise, 3-5 word title.\nJSON format: { "title": "..." }'),
        max_completion_tokens: 40,
      });
      assert.equal(typeof choices[0].message.content, 'string');
      assert.equal(choices[0].message.role, 'assistant');
      checkUsage(usage);
    },
    async 'tasks: tags'() {
      const { choices } = await openai.post(
        '/chat/completions',
        task('### Task:\nGenerate 1-3 broad tags. JSON format: { "tags": ["tag1"] }'),
      );
      assert.equal(typeof choices[0].message.content, 'string');
    },
    async 'tasks: follow-up questions'() {
      const { choices } = await openai.post('/chat/completions', task('### Task:\nSuggest 3-5 follow-up questions as {"follow_ups": []}'));
      assert.equal(typeof choices[0].message.content, 'string');
    },
    async 'Ollama: the connection is verified by the version'() {
      assert.match((await ollama.get('/api/version')).version, /^\d+\.\d+\.\d+$/);
    },
    async 'Ollama: models, and which are loaded'() {
      const { models } = await ollama.get('/api/tags');
      for (const model of models) {
        assert.equal(typeof model.model, 'string');
        assert.equal(typeof model.name, 'string');
      }
      for (const model of (await ollama.get('/api/ps')).models)
        if ('expires_at' in model) assert(!Number.isNaN(Date.parse(model.expires_at)));
    },
    async 'Ollama: chat with options and keep_alive'() {
      const options = {
        temperature: 0,
        num_ctx: 4096,
        num_batch: 512,
        num_keep: 24,
        num_predict: 16,
        top_k: 40,
        min_p: 0.05,
        repeat_last_n: 64,
        mirostat: 0,
        mirostat_eta: 0.1,
        mirostat_tau: 5,
        num_gpu: 99,
        num_thread: 4,
        use_mmap: true,
        use_mlock: false,
        stop: ['\n\n'],
      };
      const answer = answerOf(await ollama.with(user).lines('/api/chat', { ...ollamaChat, options, keep_alive: '5m' }));
      assert.equal(answer.last.eval_count, 16);
    },
    async 'Ollama: chat as a schema, with thinking off'() {
      const answer = answerOf(await ollama.lines('/api/chat', { ...ollamaChat, format: { enum: ['yes', 'no'] }, think: false }));
      assert(['"yes"', '"no"'].includes(answer.text), answer.text);
    },
    async 'Ollama: a result of a tool'() {
      const history = [
        ...messages,
        { role: 'assistant', content: '', tool_calls: [{ type: 'function', function: { name: tool.name, arguments: { path: 'a' } } }] },
        { role: 'tool', content: 'MLX', tool_call_id: 'call_1' },
      ];
      answerOf(await ollama.lines('/api/chat', { ...ollamaChat, messages: history, tools, options: { num_predict: 16 } }));
    },
    async 'Ollama: a title, whole'() {
      const { message, done } = await ollama.post('/api/chat', { ...task('Generate a title.'), options: { num_predict: 20 } });
      assert.equal(done, true);
      assert.equal(typeof message.content, 'string');
    },
    async 'Ollama: a refusal is a text'() {
      const { error } = await ollama.refused('POST', '/api/chat', { ...ollamaChat, model: 'gone:latest' }, 404);
      assert.match(error, /gone/);
    },
    async 'Ollama: a model is not ended by an empty prompt, and it is said why'() {
      const { error } = await ollama.refused('POST', '/api/generate', { model: 'demo:latest', prompt: '', keep_alive: 0 }, 400);
      assert.match(error, /only the operator may unload it/);
    },
    async 'Ollama: embeddings are refused by name'() {
      assert.match(
        (await ollama.refused('POST', '/api/embed', { model: 'demo:latest', input: ['a'], truncate: true }, 400)).error,
        /embeddings/,
      );
    },
  };
}
