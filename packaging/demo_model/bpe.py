"""Byte-level BPE (Sennrich et al. 2016, GPT-2's byte alphabet) small enough to read: train, encode, decode."""
import collections
import re

# GPT-2's pre-tokenizer, restricted to ASCII text, which is all the corpus holds.
WORD = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def byte_alphabet():
    """GPT-2's printable stand-in for each byte, as GGUF vocabularies spell them."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for b in range(256):
        if b in keep:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


def train(texts, size):
    """Merges, most frequent pair first (ties: the smaller pair), until `size` pieces exist."""
    alphabet = byte_alphabet()
    words = collections.Counter()
    for text in texts:
        words.update(WORD.findall(text))
    split = {w: tuple(alphabet[b] for b in w.encode()) for w in words}
    pieces = [alphabet[b] for b in range(256)]
    merges = []
    while len(pieces) < size:
        pairs = collections.Counter()
        for w, n in words.items():
            s = split[w]
            for pair in zip(s, s[1:]):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        pieces.append(best[0] + best[1])
        for w, s in split.items():
            if best[0] in s:
                split[w] = merge(s, best)
    return pieces, merges


def merge(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return tuple(out)


class Encoder:
    def __init__(self, pieces, merges):
        self.ids = {p: i for i, p in enumerate(pieces)}
        self.ranks = {m: i for i, m in enumerate(merges)}
        self.alphabet = byte_alphabet()
        self.bytes = {c: b for b, c in self.alphabet.items()}
        self.pieces = pieces
        self.cache = {}

    def word(self, w):
        if w not in self.cache:
            s = tuple(self.alphabet[b] for b in w.encode())
            while len(s) > 1:
                rank, pair = min((self.ranks.get(p, 1 << 30), p) for p in zip(s, s[1:]))
                if rank == 1 << 30:
                    break
                s = merge(s, pair)
            self.cache[w] = [self.ids[x] for x in s]
        return self.cache[w]

    def encode(self, text):
        return [i for w in WORD.findall(text) for i in self.word(w)]

    def decode(self, ids):
        return bytes(self.bytes[c] for i in ids for c in self.pieces[i]).decode(errors="replace")
