// Twenty prompts each: for the demo model, in its chat markup, the first questions that its training held out (nobody
// picked them); for random weights, anything, from one token to several KV blocks and prefill chunks.
import {execFileSync} from 'node:child_process';
import {join} from 'node:path';

export function domainPrompts() {
  const script = join(import.meta.dirname, 'held_out_questions.py');
  const questions = JSON.parse(execFileSync('/usr/bin/python3', [script, '20'], {encoding: 'utf8'}));
  return questions.map((text) => `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`);
}

const sentence = 'The governor turns with the load and the engine follows it. ';
export const generalPrompts = [
  'a', ' ', 'Once upon a time in the land', 'def f(x):\n  return x + 1\n', '0123456789', 'ünïcödé and 漢字 🎈',
  'the of and to in is', '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n', 'Zeta', '\n\n\n',
  'SELECT * FROM t;', 'one two three four five six seven', '((((((((((', 'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee',
  sentence, sentence.repeat(2), sentence.repeat(4), sentence.repeat(7), 'x y '.repeat(30), 'Why? '.repeat(60),
];
