// Twenty prompts each: for the demo model what its users ask, in its chat markup (it was trained on nothing else);
// for random weights, anything, from one token to several KV blocks and prefill chunks.
const questions = [
  'Which engine for a Mac?', 'Which engine should serve many users on one NVIDIA GPU?',
  'I have a laptop without a GPU. What do I use?', 'What is vLLM good at?', 'When do I choose llama.cpp?',
  'What does TensorRT-LLM need?', 'Which engine for a nightly batch job?', 'What is SGLang for?',
  'How do I serve a model over several nodes?', 'Hello', 'Which engine for an AMD card?', 'What is MLX?',
];
const more = [
  'Who are you?', 'What is prefill?', 'What is the KV cache?', 'Should I use Ollama?', 'I have two RTX 3090 cards. What should I run?',
  'Tell me a story about a fox.', 'Explain continuous batching.', 'Thank you',
];
const chat = (text) => `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
export const domainPrompts = [...questions, ...more].map(chat);

const sentence = 'The governor turns with the load and the engine follows it. ';
export const generalPrompts = [
  'a', ' ', 'Once upon a time in the land', 'def f(x):\n  return x + 1\n', '0123456789', 'ünïcödé and 漢字 🎈',
  'the of and to in is', '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n', 'Zeta', '\n\n\n',
  'SELECT * FROM t;', 'one two three four five six seven', '((((((((((', 'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee',
  sentence, sentence.repeat(2), sentence.repeat(4), sentence.repeat(7), 'x y '.repeat(30), 'Why? '.repeat(60),
];
