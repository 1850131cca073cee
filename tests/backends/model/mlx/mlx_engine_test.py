"""MLX directories on the engine that FLYBALL_ENGINE names (opencl, vulkan), whole models of every width: their logits
against a float64 forward pass over what the weights stand for."""

import json
import os
import subprocess
import unittest

import mlx_model
from mlx_test import MODEL, WIDTHS, DirectoryTest, np, relative_error

ENGINE = os.environ["FLYBALL_ENGINE"]


class Engine(DirectoryTest):
    # Beside quantized weights activations stay f32: nothing is rounded but the KV cache, to f16.
    def logits(self, rows, **shape):
        s, values = self.write(**shape)
        tokens = np.random.default_rng(5).integers(0, s.vocab, 40).tolist()
        done = subprocess.run([MODEL, self.path("model"), ENGINE, str(rows)], input=json.dumps([tokens]),
                              capture_output=True, text=True, timeout=1200)
        if done.returncode == 77:
            self.skipTest("no device")
        self.assertEqual(done.returncode, 0, done.stderr)
        got, = json.loads(done.stdout)
        self.assertLess(relative_error(got, mlx_model.forward(s, values, tokens)), 1e-3)

    def width(self, width):
        for bits, group in WIDTHS:
            if bits == width:
                with self.subTest(bits=bits, group=group):
                    self.logits(1, bits=bits, group=group)  # as decode has them: few kernels to compile

    # A method each, so that no test is long: drivers compile each width's kernels.
    def test_2_bits(self):
        self.width(2)

    def test_3_bits(self):
        self.width(3)

    def test_4_bits(self):
        self.width(4)

    def test_6_bits(self):
        self.width(6)

    def test_8_bits(self):
        self.width(8)

    def test_scales_of_every_type(self):
        for dtype in ("F32", "F16", "BF16"):
            with self.subTest(dtype=dtype):
                self.logits(1, bits=4, group=32, dtype=dtype)

    def test_float_weights(self):
        for dtype in ("F32", "F16", "BF16"):
            with self.subTest(dtype=dtype):
                self.logits(1, bits=0, dtype=dtype)

    def test_a_prompt_over_many_files(self):
        self.logits(64, architecture="qwen2", tied=True, bits=4, shards=3,
                    overrides={"model.layers.0.mlp.down_proj": (6, 64), "model.layers.1.self_attn.q_proj": False})

    def test_experts(self):
        self.logits(64, architecture="qwen3_moe", bits=4, experts=4, experts_used=2, expert_ffn=64)


if __name__ == "__main__":
    unittest.main()
