"""MLX directories read by our code, against numpy: dequantized weights bit for bit, logits of the whole model against a
float64 forward pass and against the same weights as F32 GGUF, tokens against merges done by hand, the plan of inspect."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: no python3-numpy")
    sys.exit(77)

import mlx_model
import mlx_tokenizers

MODEL, FLYBALL = os.environ["FLYBALL_MODEL"], os.environ["FLYBALL"]
WIDTHS = [(bits, group) for bits in (2, 3, 4, 6, 8) for group in (32, 64)]


def run(*args, stdin=None):
    done = subprocess.run(args, input=json.dumps(stdin) if stdin is not None else None, capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        raise AssertionError("%s: %s" % (" ".join(args), done.stderr))
    return done.stdout


def relative_error(got, expected):
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


class DirectoryTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="flyball-mlx-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, **shape):
        s = mlx_model.Shape(**shape)
        return s, mlx_model.write(self.path("model"), s)


class Models(DirectoryTest):
    def weights(self, values):
        out = self.path("weights")
        os.mkdir(out)
        run(MODEL, self.path("model"), "weights", out)
        self.assertEqual(sorted(os.listdir(out)), sorted(mlx_model.gguf_name(n) for n in values))
        for name, expected in values.items():
            with open(os.path.join(out, mlx_model.gguf_name(name)), "rb") as f:
                self.assertEqual(f.read(), expected.astype(np.float32).tobytes(), name)
        shutil.rmtree(out)

    def test_dequantizes_every_width_bit_for_bit(self):
        for bits, group in WIDTHS:
            for dtype in ("F16", "BF16", "F32"):
                with self.subTest(bits=bits, group=group, dtype=dtype):
                    _, values = self.write(bits=bits, group=group, dtype=dtype, layers=1)
                    self.weights(values)

    def test_packing_is_the_published_one(self):
        # By hand, from mlx's kernels: three bytes of 3-bit codes 0..7, and of 6-bit codes 1, 2, 3, 63.
        three = mlx_model.pack(np.array([[0, 1, 2, 3, 4, 5, 6, 7] * 4]), 3).tobytes()
        self.assertEqual(list(three[:3]), [0b10001000, 0b11000110, 0b11111010])
        six = mlx_model.pack(np.array([[1, 2, 3, 63] * 4]), 6).tobytes()
        self.assertEqual(list(six[:3]), [0b10000001, 0b00110000, 0b11111100])

    # Beside quantized weights the engine rounds activations to int8, as for GGUF's quantized types; beside float
    # ones nothing is rounded but the KV cache, to f16.
    def logits(self, bound, **shape):
        s, values = self.write(**shape)
        tokens = np.random.default_rng(5).integers(0, s.vocab, 40).tolist()
        expected = mlx_model.forward(s, values, tokens)
        mlx_model.write_gguf(self.path("model.gguf"), s, values)
        ours, = json.loads(run(MODEL, self.path("model"), "logits", stdin=[tokens]))
        twin, = json.loads(run(MODEL, self.path("model.gguf"), "logits", stdin=[tokens]))
        self.assertTrue(ours)
        for isa in ours:
            self.assertLess(relative_error(twin[isa], expected), 1e-3, isa)
            self.assertLess(relative_error(ours[isa], expected), bound, isa)
            self.assertLess(relative_error(ours[isa], twin[isa]), bound, isa)

    def test_logits_of_every_width(self):
        for bits, group in WIDTHS:
            with self.subTest(bits=bits, group=group):
                self.logits(2e-2, bits=bits, group=group)

    def test_logits_of_float_weights(self):
        for dtype in ("F32", "F16", "BF16"):
            with self.subTest(dtype=dtype):
                self.logits(1e-3, bits=0, dtype=dtype)

    def test_logits_of_every_family(self):
        families = [
            {"architecture": "qwen2", "tied": True},
            {"architecture": "qwen3", "head_dim": 64},
            {"architecture": "qwen3_moe", "experts": 4, "experts_used": 2, "expert_ffn": 64},
            {"architecture": "llama", "kv_heads": 4, "base": 5e5, "bits": 0,
             "scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64}},
            {"architecture": "llama", "bits": 0, "scaling": {"rope_type": "linear", "factor": 4.0}},
        ]
        for shape in families:
            with self.subTest(**shape):
                self.logits(1e-3 if shape.get("bits") == 0 else 2e-2, **shape)

    def test_modules_may_be_quantized_otherwise_and_lie_in_many_files(self):
        s, values = self.write(shards=3, bits=4, overrides={
            "lm_head": (8, 32), "model.layers.0.mlp.down_proj": (6, 64), "model.layers.1.self_attn.q_proj": False})
        self.weights(values)
        shown = json.loads(run(FLYBALL, "inspect", self.path("model"), "--json"))
        self.assertEqual(set(shown["bytes_by_type"]), {"F32", "BF16", "AFFINE4_G64", "AFFINE6_G64", "AFFINE8_G32"})

    def test_inspect_plans_as_for_gguf(self):
        s, values = self.write(bits=0, dtype="F32")
        mlx_model.write_gguf(self.path("model.gguf"), s, values)
        shown = [json.loads(run(FLYBALL, "inspect", self.path(name), "--json", "--context", "128"))
                 for name in ("model", "model.gguf")]
        for field in ("memory", "shape", "rope", "architecture", "parameters", "vocab_size", "context_length",
                      "bytes_by_type", "tensors"):
            self.assertEqual(shown[0][field], shown[1][field], field)
        self.assertEqual([s["format"] for s in shown], ["MLX", "GGUF v3"])
        self.assertIn("MLX", run(FLYBALL, "inspect", self.path("model")))


def merge(symbols, ranks):
    """Hugging Face's BPE: the pair of the lowest rank first, the leftmost of equal ones."""
    symbols = list(symbols)
    while True:
        pairs = [(ranks[p], i) for i, p in enumerate(zip(symbols, symbols[1:])) if p in ranks]
        if not pairs:
            return symbols
        _, i = min(pairs)
        symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]


class Tokenizers(DirectoryTest):
    TEXTS = ["", "the thing", " you and the other  one", "then, in another tion.", "the\nend", "日本 the", "Then</s>the",
             "  the", " the</s> you", "the</s>  and", mlx_tokenizers.SPACE_MARK + "you"]

    def expect_pieces(self, scheme):
        s = mlx_model.Shape(tokenizer="pieces", layers=1)
        mlx_model.write(self.path("model"), s)
        tokenizer, config, _ = mlx_tokenizers.piece_tokenizer(scheme)
        mlx_model.dump(self.path("model"), "tokenizer.json", tokenizer)
        vocab = tokenizer["model"]["vocab"]
        ranks = {tuple(m.split(" ")): r for r, m in reversed(list(enumerate(tokenizer["model"]["merges"])))}
        mark = mlx_tokenizers.SPACE_MARK
        got = json.loads(run(MODEL, self.path("model"), "encode", stdin=self.TEXTS))
        for text, answer in zip(self.TEXTS, got):
            expected = [vocab["<s>"]]
            for i, part in enumerate(text.split("</s>")):
                if i > 0:
                    expected.append(vocab["</s>"])
                part = part.replace(" ", mark)
                # tokenizers: normalizers/prepend.rs prepends to any text, pre_tokenizers/metaspace.rs only where
                # there is no mark yet.
                prepends = scheme is None or not part.startswith(mark) and (
                    scheme == "always" or (scheme == "first" and i == 0))
                for piece in merge((mark if part and prepends else "") + part, ranks):
                    expected += [vocab[piece]] if piece in vocab else [vocab["<0x%02X>" % b] for b in piece.encode()]
            self.assertEqual(answer["tokens"], expected, text)

    def test_pieces_with_byte_fallback(self):
        for scheme in (None, "first", "always", "never"):
            with self.subTest(scheme=scheme):
                self.expect_pieces(scheme)

    def test_byte_level(self):
        s = mlx_model.Shape(layers=1)
        mlx_model.write(self.path("model"), s)
        alphabet = mlx_tokenizers.byte_alphabet()
        texts = ["the thing", "you<|im_end|>\nand", "日本 12"]
        words = [["the", " thing"], ["you", None, "\n", "and"], ["日本", " ", "1", "2"]]
        for lists in (False, True):  # merges as "a b", and as ["a", "b"]
            tokenizer, _, _ = mlx_tokenizers.byte_tokenizer(lists)
            mlx_model.dump(self.path("model"), "tokenizer.json", tokenizer)
            merges = [tuple(m if lists else m.split(" ")) for m in tokenizer["model"]["merges"]]
            ranks = {m: r for r, m in reversed(list(enumerate(merges)))}
            vocab = dict(tokenizer["model"]["vocab"], **{t["content"]: t["id"] for t in tokenizer["added_tokens"]})
            got = json.loads(run(MODEL, self.path("model"), "encode", stdin=texts))
            for text, split, answer in zip(texts, words, got):
                expected = []
                for word in split:
                    spelled = [alphabet[b] for b in word.encode()] if word else ["<|im_end|>"]
                    expected += [vocab[p] for p in merge(spelled, ranks)]
                self.assertEqual(answer, {"tokens": expected, "text": text})


if __name__ == "__main__":
    unittest.main()
