// Varied strings from a seed: scripts of the world, emoji, combining marks, code, white space, digits, special
// tokens, long words, control characters. Lone surrogates reach both sides as U+FFFD: node encodes them so.

export function random(seed) {
  let state = seed >>> 0;  // mulberry32
  const next = () => {
    state = (state + 0x6D2B79F5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  return {below, pick: (list) => list[below(list.length)], chance: (p) => next() < p};
}

const scripts = [
  [0x41, 0x5A], [0x61, 0x7A], [0xC0, 0x24F], [0x250, 0x2AF], [0x370, 0x3FF], [0x400, 0x52F], [0x531, 0x587],
  [0x5D0, 0x5EA], [0x620, 0x64A], [0x710, 0x74F], [0x780, 0x7B1], [0x7C0, 0x7EA], [0x904, 0x939], [0x985, 0x9B9],
  [0xA05, 0xA39], [0xA85, 0xAB9], [0xB05, 0xB39], [0xB85, 0xBB9], [0xC05, 0xC39], [0xC85, 0xCB9], [0xD05, 0xD39],
  [0xD85, 0xDC6], [0xE01, 0xE3A], [0xE81, 0xEB9], [0xF40, 0xF6C], [0x1000, 0x102A], [0x10A0, 0x10FF],
  [0x1200, 0x135A], [0x13A0, 0x13FD], [0x1401, 0x166C], [0x16A0, 0x16EA], [0x1780, 0x17B3], [0x1820, 0x1878],
  [0x1C90, 0x1CBF], [0x1D00, 0x1DBF], [0x1E00, 0x1EFF], [0x1F00, 0x1FFF], [0x2C00, 0x2DFF], [0x3041, 0x309F],
  [0x30A0, 0x30FF], [0x3105, 0x318E], [0x3400, 0x4DBF], [0x4E00, 0x9FFF], [0xA000, 0xA48C], [0xA640, 0xA7CA],
  [0xAB70, 0xABBF], [0xAC00, 0xD7A3], [0xF900, 0xFAFF], [0xFB00, 0xFB17], [0xFE70, 0xFEFC], [0xFF00, 0xFFEF],
  [0x10380, 0x1039D], [0x10400, 0x1049D], [0x104B0, 0x104FB], [0x10C80, 0x10CF2], [0x118A0, 0x118DF],
  [0x12000, 0x12399], [0x13000, 0x1342E], [0x1D400, 0x1D7FF], [0x1E900, 0x1E943], [0x20000, 0x2A6DF],
];
const marks = [[0x300, 0x36F], [0x483, 0x489], [0x591, 0x5C7], [0x64B, 0x65F], [0x93A, 0x94D], [0xE31, 0xE3A],
  [0x1AB0, 0x1ACE], [0x20D0, 0x20F0], [0xFE00, 0xFE0F], [0xFE20, 0xFE2F]];
const digits = [[0x30, 0x39], [0x660, 0x669], [0x6F0, 0x6F9], [0x966, 0x96F], [0xE50, 0xE59], [0xFF10, 0xFF19],
  [0xB2, 0xB3], [0xBC, 0xBE], [0x2070, 0x2079], [0x2160, 0x2188], [0x2460, 0x249B], [0x3021, 0x3029],
  [0x1D7CE, 0x1D7FF], [0x1F100, 0x1F10C]];
const spaces = [' ', ' ', ' ', '\n', '\n', '\t', '\r', '\r\n', '\v', '\f', '\u0085', '\u00A0', '\u1680', '\u180E',
  '\u2000', '\u2009', '\u200B', '\u2028', '\u2029', '\u202F', '\u205F', '\u3000', '\uFEFF', '\x1C', '\x1F'];
const emoji = ['😀', '🦙', '👨‍👩‍👧‍👦', '👩🏽‍🚀', '🏳️‍🌈', '🏴󠁧󠁢󠁳󠁣󠁴󠁿', '🇩🇪', '🇯🇵', '1️⃣', '#️⃣', '❤️', '❤️‍🔥', '✊🏿', '🤷🏻‍♀️', '☺', '🫠',
  '🛜', '🪿', '🩷', '⚕️'];
const suffixes = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'m", "'ll", "'LL", "'lL", "'d", "'D", "'x",
  '’s', "'ſ", "''", "'"];
const words = ['the', 'Hello', 'world', 'engine', 'WiFi', 'iPhone', 'HTTPServer', 'naïve', 'Straße', 'façade', 'Ünïcödé',
  'don', 'it', 'you', 'I', 'we', 'camelCase', 'UPPER', 'lower', 'ΑΒΓ', 'αβγ', 'Москва', 'ДОМ', 'مرحبا', 'שלום', 'नमस्ते',
  '日本語', 'テスト', 'ひらがな', '中文', '한국어', 'ไทย', 'Việt', 'Ⅳ', 'ǅ', 'ʰ', 'ª'];
const code = ['for (int i = 0; i < n; ++i) {', '}', 'return x;', 'if (a != b) ', 'def f(self, *args, **kwargs):', '#include <vector>',
  '// comment', '/* block */', '"quoted \\"text\\""', '<div class="a">', '</div>', 'SELECT * FROM t WHERE id = 10;', '=>', '->', '::', '&&',
  '||', '<<=', '...', '$HOME', '#!/bin/sh', '\\n', '`code`', '{"key": [1, 2.5e-3, null]}', 'a[i][j]', 'x**2', '@decorator', '~/.config',
  'https://example.org/a?b=c&d=%20#e', 'user@example.org', '0xDEADBEEF', '1_000_000', '3.14159', '1,234,567.89', '2024-02-29T12:34:56Z',
  '\t\treturn;', '    indented', '+1-800-555-0199', '50%', '€100', '£5', '¥', '^_^', '¯\\_(ツ)_/¯'];
const punctuation = [...'!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~¡§«»¿×÷–—‘’“”…‰′€₿™←→∀∑√∞≈≠■●☃♥✓〈〉《》「」。、，！？：；～￥'];

const range = (r, [low, high]) => String.fromCodePoint(low + r.below(high - low + 1));
const repeat = (r, least, most, make) => Array.from({length: least + r.below(most - least + 1)}, make).join('');
const anyCodePoint = (r) => {
  const limit = r.pick([0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x33000, 0x110000]);
  const value = r.below(limit);
  return value >= 0xD800 && value < 0xE000 ? '\uFFFD' : String.fromCodePoint(value);
};

export function makeStrings(seed, count, specials) {
  const r = random(seed);
  const word = () => {
    const script = r.pick(scripts);
    return repeat(r, 1, 8, () => range(r, script));
  };
  const marked = () => repeat(r, 1, 4, () => range(r, r.pick(scripts)) + repeat(r, 0, 3, () => range(r, r.pick(marks))));
  const number = () => r.chance(0.6) ? repeat(r, 1, 12, () => String(r.below(10))) : repeat(r, 1, 5, () => range(r, r.pick(digits)));
  const blank = () => r.chance(0.5) ? r.pick([' ', '\n', '\t', '\r\n', '\u3000']).repeat(1 + r.below(40))
                                    : repeat(r, 1, 6, () => r.pick(spaces));
  const special = () => specials.length === 0 ? '<|im_start|>' : r.chance(0.8) ? r.pick(specials)
                        : r.pick(specials).slice(0, 1 + r.below(8));
  const long = () => {
    const letter = r.chance(0.5) ? range(r, r.pick(scripts)) : '';
    const script = r.pick(scripts);
    const body = repeat(r, 100, 700, () => letter || range(r, script));
    return r.chance(0.3) ? body + r.pick([' ', '\n', "'s", '1']) + body : body;
  };
  const control = () => repeat(r, 1, 4, () => String.fromCodePoint(r.pick([0, 0, 1, 7, 8, 0x1B, 0x7F, 0x80, 0x9F, 0xAD, 0x200D, 0xFFFD, 0xFFFE, 0x10FFFF, 0xE000])));
  const parts = [
    () => r.pick(words), () => r.pick(words), word, word, marked, number, blank, blank, () => ' ', () => ' ',
    () => r.pick(emoji), () => r.pick(suffixes), () => r.pick(code), () => repeat(r, 1, 5, () => r.pick(punctuation)),
    special, control, () => repeat(r, 1, 5, () => anyCodePoint(r)), () => r.pick(['\uD83D', '\uDC00', '\uDBFF\uD800']),
  ];
  const strings = ['', ' ', '  ', '\n', '\0', 'a', ' a', 'a ', "'", "I'm", 'a\u0301', '\u0301', '\uFEFFa', '\r\n\r\n', ' \n ', '\u3000。',
    ...emoji, ...suffixes, ...code, ...specials.slice(0, 200), ...specials.slice(0, 50).map((s) => ` ${s} x`)];
  while (strings.length < count) {
    const kind = r.below(100);
    if (kind < 2) {
      strings.push(long());
    } else if (kind < 12) {  // words as people write them
      strings.push(repeat(r, 2, 20, () => r.pick(words) + (r.chance(0.1) ? r.pick(suffixes) : '') + r.pick([' ', ' ', ' ', ', ', '. ', '\n', '  '])));
    } else if (kind < 20) {
      strings.push(repeat(r, 2, 8, () => r.pick(code) + r.pick([' ', '\n', '', '\r\n', '\n    '])));
    } else if (kind < 26) {
      strings.push(repeat(r, 1, 20, () => anyCodePoint(r)));
    } else {
      strings.push(repeat(r, 1, 10, () => r.pick(parts)()));
    }
  }
  return strings;
}
