// GGUF files for the oracle: vocabularies copied with another pre-tokenizer named, and small synthetic ones.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

const types = {u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9};
const widths = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8};

const u32 = (value) => { const b = Buffer.alloc(4); b.writeUInt32LE(value); return b; };
const i32 = (value) => { const b = Buffer.alloc(4); b.writeInt32LE(value); return b; };
const f32 = (value) => { const b = Buffer.alloc(4); b.writeFloatLE(value); return b; };
const u64 = (value) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(value)); return b; };
const str = (text) => { const b = Buffer.from(text, 'utf8'); return Buffer.concat([u64(b.length), b]); };

const entry = (key, type, value) => Buffer.concat([str(key), u32(types[type]), value]);
const list = (key, type, values, write) =>
    entry(key, 'array', Buffer.concat([u32(types[type]), u64(values.length), ...values.map(write)]));
const file = (entries) => Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(entries.length), ...entries]);

// The file's metadata entries as [key, bytes]; its tensors are left behind.
function readEntries(bytes) {
  const count = Number(bytes.readBigUInt64LE(16));
  const length = (at) => Number(bytes.readBigUInt64LE(at));
  const entries = [];
  let at = 24;
  for (let i = 0; i < count; ++i) {
    const start = at;
    const key = bytes.toString('utf8', at + 8, at + 8 + length(at));
    at += 8 + length(at);
    const type = bytes.readUInt32LE(at);
    at += 4;
    if (type === types.string) {
      at += 8 + length(at);
    } else if (type === types.array) {
      const element = bytes.readUInt32LE(at);
      let left = length(at + 4);
      at += 12;
      if (element === types.string) while (left-- > 0) at += 8 + length(at);
      else at += left * widths[element];
    } else {
      at += widths[type];
    }
    entries.push([key, bytes.subarray(start, at)]);
  }
  return entries;
}

const preKey = 'tokenizer.ggml.pre';

export const vocabularyOnly = (bytes) => file(readEntries(bytes).map(([, entryBytes]) => entryBytes));
export const withPreTokenizer = (bytes, name) => file([
  ...readEntries(bytes).filter(([key]) => key !== preKey).map(([, entryBytes]) => entryBytes),
  entry(preKey, 'string', str(name))]);

// Which neighbours to join, most frequent first, among equals the first one met: plain BPE training over words given as
// arrays of symbols. Symbols are numbers here, so that a pair of them is one, too.
function learnMerges(words, count, taken) {
  const symbols = [...new Set(words.flat())];
  const numbers = new Map(symbols.map((symbol, number) => [symbol, number]));
  const rows = words.map((word) => word.map((symbol) => numbers.get(symbol)));
  const merges = [];
  const seen = new Set(taken);  // strings that are tokens already
  const kPair = 1 << 20;
  while (merges.length < count) {
    const pairs = new Map();
    for (const row of rows) {
      for (let i = 0; i + 1 < row.length; ++i) {
        const pair = row[i] * kPair + row[i + 1];
        pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
      }
    }
    let best = null, most = 0;
    for (const [pair, frequency] of pairs) {
      if (frequency <= most || seen.has(symbols[Math.floor(pair / kPair)] + symbols[pair % kPair])) continue;
      best = pair;
      most = frequency;
    }
    if (best === null) break;
    const left = Math.floor(best / kPair), right = best % kPair, joined = symbols.length;
    symbols.push(symbols[left] + symbols[right]);
    merges.push(`${symbols[left]} ${symbols[right]}`);
    seen.add(symbols[joined]);
    for (const row of rows) {
      for (let i = 0; i + 1 < row.length; ++i) {
        if (row[i] === left && row[i + 1] === right) row.splice(i, 2, joined);
      }
    }
  }
  return merges;
}

const alphabet = (() => {  // GPT-2's bytes_to_unicode
  const printable = (b) => (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  let next = 0x100;
  return Array.from({length: 256}, (_, b) => String.fromCharCode(printable(b) ? b : next++));
})();

// Merges are learned over whole texts, so they cross every border that a pre-tokenizer might draw: a border drawn
// elsewhere than llama.cpp draws it shows in the tokens.
export function syntheticBpe(texts) {
  const words = texts.map((text) => [...Buffer.from(text, 'utf8')].map((byte) => alphabet[byte]));
  const special = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<think>'];
  const merges = learnMerges(words, 1000, special);
  const tokens = [...alphabet, ...merges.map((merge) => merge.replace(' ', '')), ...special];
  const kind = (token) => token === '<think>' ? 4 : special.includes(token) ? 3 : 1;
  return file([
    entry('general.architecture', 'string', str('llama')),
    entry('tokenizer.ggml.model', 'string', str('gpt2')),
    entry(preKey, 'string', str('gpt-2')),
    list('tokenizer.ggml.tokens', 'string', tokens, str),
    list('tokenizer.ggml.token_type', 'i32', tokens.map(kind), i32),
    list('tokenizer.ggml.merges', 'string', merges, str),
    entry('tokenizer.ggml.bos_token_id', 'u32', u32(tokens.indexOf('<|endoftext|>'))),
    entry('tokenizer.ggml.eos_token_id', 'u32', u32(tokens.indexOf('<|im_end|>'))),
  ]);
}

// The characters and the longer pieces of a SentencePiece vocabulary.
export function learnPieces(texts) {
  const escaped = texts.map((text) => [...` ${text}`.replaceAll(' ', '▁')].filter((c) => c !== '\0'));
  const characters = [...new Set(escaped.flat())].filter((c) => c.codePointAt(0) < 0x3000).slice(0, 300);
  const known = new Set(characters);
  const merges = learnMerges(escaped.map((text) => text.filter((c) => known.has(c) && c !== ' ')), 400, [])
                     .map((merge) => merge.replace(' ', ''));
  return {characters, merges};
}

// Scores tie four at a time, so that the order among equals counts. A family's own: its name, its control tokens and
// the texts that are always tokens.
export function syntheticSpm({characters, merges}, addSpacePrefix, {name = 'spm', control = [], always = []} = {}) {
  const bytes = Array.from({length: 256}, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
  const first = ['<unk>', '<s>', '</s>', ...bytes, '[INST]', '[/INST]', '\n\n\n', ...control, ...always];
  const own = new Set(first);
  const tokens = [...first, ...merges.filter((piece) => !own.has(piece)), ...characters.filter((c) => !own.has(c))];
  const controlEnd = 262 + control.length;
  const kind = (token, id) => id === 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : id < 261 ? 3 : id < 262 ? 4 :
    id < controlEnd ? 3 : id < first.length ? 4 : 1;
  return file([
    entry('general.architecture', 'string', str('llama')),
    entry('general.name', 'string', str(name)),
    entry('tokenizer.ggml.model', 'string', str('llama')),
    list('tokenizer.ggml.tokens', 'string', tokens, str),
    list('tokenizer.ggml.scores', 'f32', tokens.map((_, id) => -Math.floor(id / 4)), f32),
    list('tokenizer.ggml.token_type', 'i32', tokens.map(kind), i32),
    entry('tokenizer.ggml.add_space_prefix', 'bool', Buffer.from([addSpacePrefix ? 1 : 0])),
  ]);
}
