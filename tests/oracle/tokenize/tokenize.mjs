// Compares our tokenization with llama.cpp's (npm's node-llama-cpp) on the same vocabulary files and strings:
// node tokenize.mjs <flyball_tokenize>. Exit 77 where the package is absent. Equal means every id of every string,
// special tokens parsed and not, and the same end-of-generation set.
// FLYBALL_VOCAB_DIR: real vocabularies (default ../shared/data/vocab beside the tree); without them the synthetic
// ones and the demo model are compared. Bytes that are no UTF-8 cannot be passed to node-llama-cpp: unit tests have
// them (tests/backends/text).
import {spawnSync} from 'node:child_process';
import {existsSync, mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {startLlama} from '../llama.mjs';
import {makeStrings, random} from './strings.mjs';
import {learnPieces, syntheticBpe, syntheticSpm, vocabularyOnly, withPreTokenizer} from './vocab_files.mjs';

const seed = Number(process.env.FLYBALL_SEED ?? 20240229);
const stringsPerKind = Number(process.env.FLYBALL_STRINGS ?? 2100);
const helper = process.argv[2];
const build = process.env.FLYBALL_BINARY_DIR ?? '.';
const source = process.env.FLYBALL_SOURCE_DIR ?? fileURLToPath(new URL('../../..', import.meta.url));
const vocabularies = process.env.FLYBALL_VOCAB_DIR ?? join(source, '../shared/data/vocab');

const llama = await startLlama();

const work = join(build, 'oracle_tokenize');
mkdirSync(work, {recursive: true});
const kinds = [];  // {name, path}
const addKind = (name, bytes) => {
  const path = join(work, `${name}.gguf`);
  writeFileSync(path, bytes);
  kinds.push({name, path});
};

// Every name of every pattern set at least once; the seven the daemon promises also over real vocabularies.
const preTokenizers = ['llama-bpe', 'smaug-bpe', 'qwen2', 'qwen35', 'gpt-2', 'smollm', 'tekken', 'gpt-4o', 'seed-coder',
  'bailingmoe', 'default', 'falcon', 'deepseek-llm', 'deepseek-coder', 'deepseek-v3'];
const training = makeStrings(seed + 1, 700, []).filter((text) => text.length < 300);
const synthetic = syntheticBpe(training);
for (const name of preTokenizers) addKind(`synthetic-${name}`, withPreTokenizer(synthetic, name));
const pieces = learnPieces(training);
addKind('synthetic-spm', syntheticSpm(pieces, true));
addKind('synthetic-spm-no-prefix', syntheticSpm(pieces, false));
addKind('synthetic-gemma', syntheticSpm(pieces, false, {name: 'gemma', control: ['<start_of_turn>', '<end_of_turn>'],
  always: ['\n', '\n\n', '\t', '\t\t', '▁▁', '▁▁▁', '▁▁▁▁', '<table>', '<unused0>']}));
addKind('synthetic-phi3', syntheticSpm(pieces, true, {name: 'Phi-3 mini', control: ['<|endoftext|>', '<|system|>',
  '<|user|>', '<|assistant|>', '<|end|>']}));
const demo = join(source, 'packaging/demo_model/demo.gguf');
if (existsSync(demo)) addKind('demo', vocabularyOnly(readFileSync(demo)));
const real = {
  'gpt-2': ['gpt-2', 'smollm', 'default', 'falcon'],
  'llama-bpe': ['llama-bpe', 'smaug-bpe', 'tekken', 'gpt-4o'],
  'qwen2': ['qwen2', 'qwen35', 'deepseek-llm', 'deepseek-coder', 'deepseek-v3', 'seed-coder', 'bailingmoe'],
  'llama-spm': [null],
};
for (const [vocabulary, names] of Object.entries(real)) {
  const path = join(vocabularies, `ggml-vocab-${vocabulary}.gguf`);
  if (!existsSync(path)) {
    console.log(`not compared: ${path} is absent`);
    continue;
  }
  const bytes = readFileSync(path);
  for (const name of names) {
    addKind(name === null ? vocabulary : `${vocabulary}-as-${name}`, name === null ? bytes : withPreTokenizer(bytes, name));
  }
}

function runHelper(args, input) {
  const result = spawnSync(helper, args, {input, maxBuffer: 1 << 30, encoding: 'utf8'});
  if (result.status !== 0) throw new Error(`${helper} ${args.join(' ')}: ${result.stderr}`);
  return JSON.parse(result.stdout);
}

let differing = 0;
for (const [index, {name, path}] of kinds.entries()) {
  const described = runHelper([path, '--describe'], '');
  const r = random(seed + index);
  const specials = Array.from({length: 250}, () => r.pick(described.specials)).filter((text) => text !== undefined);
  const strings = makeStrings(seed + 100 + index, stringsPerKind, [...new Set(specials)]);
  const input = JSON.stringify(strings.map((text) => Buffer.from(text, 'utf8').toString('base64')));
  const model = await llama.loadModel({modelPath: path, vocabOnly: true, ignoreMemorySafetyChecks: true});
  let bad = 0, tokens = 0;
  for (const parseSpecial of [true, false]) {
    const ours = runHelper(parseSpecial ? [path, '--parse-special'] : [path], input);
    strings.forEach((text, i) => {
      const theirs = [...model.tokenize(text, parseSpecial)];
      tokens += theirs.length;
      if (theirs.length === ours[i].length && theirs.every((token, k) => token === ours[i][k])) return;
      if (++bad <= 5) {
        console.log(`${name} string ${i} parse_special ${parseSpecial}: ${JSON.stringify(text)}\n  llama.cpp ${theirs}\n  flyball   ${ours[i]}`);
      }
    });
  }
  const ends = [];
  for (let token = 0; token < described.vocab_size; ++token) if (model.isEogToken(token)) ends.push(token);
  if (JSON.stringify(ends) !== JSON.stringify(described.end_of_generation)) {
    ++bad;
    console.log(`${name}: tokens that end a generation: llama.cpp ${ends}, flyball ${described.end_of_generation}`);
  }
  await model.dispose();
  console.log(`${name}: ${strings.length} strings, ${tokens} tokens, ${bad} differ`);
  differing += bad;
}
await llama.dispose();
console.log(`${kinds.length} kinds, seed ${seed}: ${differing === 0 ? 'all equal' : `${differing} differ`}`);
process.exit(differing === 0 ? 0 : 1);
