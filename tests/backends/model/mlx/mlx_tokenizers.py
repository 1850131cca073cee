"""Tokenizers of synthetic models, as tokenizer.json and tokenizer_config.json have them: one of bytes in Qwen2's manner,
one of pieces in LLaMA's."""

SPACE_MARK = "\u2581"


def byte_alphabet():
    """GPT-2's: a printable character for every byte."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    out, extra = {}, 0
    for byte in range(256):
        if byte in kept:
            out[byte] = chr(byte)
        else:
            out[byte] = chr(256 + extra)
            extra += 1
    return out


QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")
WORDS = ["th", "the", "in", "er", "an", "and", "on", "ti", "re", "at", "en", "ou", "you", "ing"]
CHATML = ("{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + "
          "'<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")


def merges_of(words, space):
    """Left to right merges that make the words, each also with a space before it."""
    merges, seen = [], set()
    for word in words + [space + word for word in words]:
        for end in range(2, len(word) + 1):
            if word[:end] not in seen:
                seen.add(word[:end])
                merges.append((word[:end - 1], word[end - 1]))
    return merges


def byte_tokenizer(merges_as_lists=False):
    """Byte-level BPE with Qwen2's split."""
    alphabet = byte_alphabet()
    vocab = {alphabet[b]: b for b in range(256)}
    merges = merges_of(WORDS, alphabet[32])
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    added = [{"id": len(vocab) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, text in enumerate(specials)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                           "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab,
                  "merges": [list(m) for m in merges] if merges_as_lists else [" ".join(m) for m in merges]}}
    config = {"tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>",
              "add_bos_token": False, "chat_template": CHATML}
    return tokenizer, config, len(vocab) + len(specials)


def piece_tokenizer(scheme=None):
    """LLaMA's: pieces with byte fallback. scheme: of Metaspace, instead of LLaMA's first normalizers."""
    specials = ["<unk>", "<s>", "</s>"]
    vocab = {text: i for i, text in enumerate(specials)}
    for byte in range(256):
        vocab["<0x%02X>" % byte] = len(vocab)
    for c in SPACE_MARK + "abcdefghijklmnopqrstuvwxyz.,!?<>/[]":
        vocab[c] = len(vocab)
    merges = merges_of(WORDS, SPACE_MARK)
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, text in enumerate(specials)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None if scheme else {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": SPACE_MARK},
            {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": scheme, "split": False}
        if scheme else None,
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [], "special_tokens": {}},
        "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": vocab, "merges": [" ".join(m) for m in merges]}}
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": {"content": "<s>"}, "eos_token": "</s>",
              "unk_token": "<unk>",
              "chat_template": [{"name": "default", "template": "{{ bos_token }}{% for m in messages %}"
                                 "[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"}]}
    return tokenizer, config, len(vocab)
