"""Synthetic models in MLX's own format: a directory as mlx-lm writes it, at any shape, width and group size, and the
same weights as F32 in a GGUF file. Debian's numpy alone; MLX is not needed.

mlx_model.py DIR [--gguf FILE] [--bits 4 --group 64 --type BF16 --architecture llama --tokenizer bytes ...]

Quantization is MLX's own: scale and bias of a group from its least and greatest values; codes are a little-endian
stream of bits. Written from the descriptions of mlx.core.quantize and of safetensors, not from our C++."""

import argparse
import json
import os
import struct

import numpy as np

from mlx_tokenizers import byte_tokenizer, piece_tokenizer


def to_bf16(x):
    """float32 -> uint16, round to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(h):
    return (h.astype(np.uint32) << 16).view(np.float32)


def store(x, dtype):
    """An array as a file holds it, and the float32 values that it then has."""
    x = np.ascontiguousarray(x, np.float32)
    if dtype == "F32":
        return x, x
    if dtype == "F16":
        half = x.astype(np.float16)
        return half, half.astype(np.float32)
    half = to_bf16(x)
    return half, from_bf16(half)


def pack(codes, bits):
    """[..., n] codes -> [..., n * bits / 32] uint32: code i is bits i*bits.. of a row's little-endian stream."""
    shape = codes.shape[:-1] + (codes.shape[-1] * bits,)
    stream = ((codes[..., None].astype(np.uint32) >> np.arange(bits, dtype=np.uint32)) & 1).reshape(shape)
    words = stream.reshape(stream.shape[:-1] + (-1, 32)).astype(np.uint64) << np.arange(32, dtype=np.uint64)
    return words.sum(axis=-1).astype(np.uint32)


def unpack(words, bits):
    stream = ((words[..., None] >> np.arange(32, dtype=np.uint32)) & 1).reshape(words.shape[:-1] + (-1, bits))
    return (stream.astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(axis=-1).astype(np.uint32)


def dequantize(words, scales, biases, bits, group):
    """float32, rounded once from float64, where the product is exact."""
    codes = unpack(words, bits).astype(np.float64)
    groups = codes.reshape(codes.shape[:-1] + (-1, group))
    value = groups * scales[..., None].astype(np.float64) + biases[..., None].astype(np.float64)
    return value.reshape(codes.shape).astype(np.float32)


def quantize(w, bits, group, dtype):
    """-> {"weight", "scales", "biases"} as a file holds them, and the values they stand for."""
    groups = w.reshape(w.shape[:-1] + (-1, group)).astype(np.float64)
    low, high = groups.min(axis=-1), groups.max(axis=-1)
    scale = np.maximum((high - low) / (2**bits - 1), 1e-7)
    scale = np.where(np.abs(low) > np.abs(high), scale, -scale)  # the farther end gets code 0, exactly
    bias = np.where(scale > 0, low, high)
    stored_scale, scale = store(scale, dtype)
    stored_bias, bias = store(bias, dtype)
    codes = np.clip(np.rint((groups - bias[..., None]) / scale[..., None]), 0, 2**bits - 1)
    words = pack(codes.reshape(w.shape).astype(np.uint32), bits)
    return ({"weight": words, "scales": stored_scale, "biases": stored_bias},
            dequantize(words, scale, bias, bits, group))


class Tensors(dict):
    """name -> (dtype, array)."""

    def write(self, path):
        header, at = {"__metadata__": {"format": "mlx"}}, 0
        for name, (dtype, array) in self.items():
            header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
        text = json.dumps(header).encode()
        text += b" " * (1 - len(text) % 2)  # nothing is promised about alignment: every tensor lies at an odd byte
        with open(path, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for _, array in self.values():
                out.write(np.ascontiguousarray(array).tobytes())


# ---- models ------------------------------------------------------------------------------------------------------
class Shape:
    def __init__(self, **more):
        self.architecture = "llama"  # or qwen2, qwen3, qwen3_moe
        self.dim, self.layers, self.heads, self.kv_heads, self.ffn = 128, 2, 4, 2, 192
        self.head_dim = None  # dim / heads
        self.vocab = 0        # the tokenizer's, padded to 64
        self.context, self.eps, self.base = 256, 1e-6, 10000.0
        self.tied = False
        self.experts, self.experts_used, self.expert_ffn = 0, 0, 0
        self.scaling = None   # config.json's rope_scaling
        self.bits, self.group = 4, 64  # bits 0: not quantized
        self.overrides = {}   # module -> (bits, group), or False: not quantized
        self.dtype = "BF16"   # of scales, biases, norms, and of what is not quantized
        self.shards = 1
        self.tokenizer = "bytes"  # or pieces
        self.seed = 1
        for name, value in more.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        self.head_dim = self.head_dim or self.dim // self.heads


def modules(s):
    """name -> (shape, spread): norms have one dimension."""
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    yield "model.embed_tokens", (s.vocab, s.dim), 1.0
    for i in range(s.layers):
        at = "model.layers.%d." % i
        yield at + "input_layernorm", (s.dim,), 0.1
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            yield at + "self_attn.%s_proj" % name, (rows, s.dim), 1 / np.sqrt(s.dim)
        yield at + "self_attn.o_proj", (s.dim, q), 1 / np.sqrt(q)
        if s.architecture.startswith("qwen3"):
            yield at + "self_attn.q_norm", (s.head_dim,), 0.1
            yield at + "self_attn.k_norm", (s.head_dim,), 0.1
        yield at + "post_attention_layernorm", (s.dim,), 0.1
        if s.experts:
            yield at + "mlp.gate", (s.experts, s.dim), 2 / np.sqrt(s.dim)
            for name in ("gate", "up"):
                yield at + "mlp.switch_mlp.%s_proj" % name, (s.experts, s.expert_ffn, s.dim), 1 / np.sqrt(s.dim)
            yield at + "mlp.switch_mlp.down_proj", (s.experts, s.dim, s.expert_ffn), 1 / np.sqrt(s.expert_ffn)
        else:
            for name in ("gate", "up"):
                yield at + "mlp.%s_proj" % name, (s.ffn, s.dim), 1 / np.sqrt(s.dim)
            yield at + "mlp.down_proj", (s.dim, s.ffn), 1 / np.sqrt(s.ffn)
    yield "model.norm", (s.dim,), 0.1
    if not s.tied:
        yield "lm_head", (s.vocab, s.dim), 1 / np.sqrt(s.dim)


def config_of(s, eos):
    config = {"model_type": s.architecture, "architectures": ["ForCausalLM"], "hidden_act": "silu",
              "hidden_size": s.dim, "intermediate_size": s.ffn, "num_hidden_layers": s.layers,
              "num_attention_heads": s.heads, "num_key_value_heads": s.kv_heads, "head_dim": s.head_dim,
              "max_position_embeddings": s.context, "rms_norm_eps": s.eps, "rope_theta": s.base,
              "rope_scaling": s.scaling, "tie_word_embeddings": s.tied, "vocab_size": s.vocab,
              "eos_token_id": eos, "torch_dtype": "bfloat16"}
    if s.experts:
        config.update({"num_experts": s.experts, "num_experts_per_tok": s.experts_used,
                       "moe_intermediate_size": s.expert_ffn, "norm_topk_prob": True, "decoder_sparse_step": 1,
                       "mlp_only_layers": []})
    if s.bits:
        quantization = {"group_size": s.group, "bits": s.bits}
        for module, other in s.overrides.items():
            quantization[module] = {"bits": other[0], "group_size": other[1]} if other else False
        config["quantization"] = config["quantization_config"] = quantization
    return config


def write(directory, s):
    """Writes the directory; returns what the weights stand for: name -> float32."""
    os.makedirs(directory, exist_ok=True)
    tokenizer, tokenizer_config, tokens = byte_tokenizer() if s.tokenizer == "bytes" else piece_tokenizer()
    s.vocab = s.vocab or (tokens + 63) // 64 * 64
    random = np.random.default_rng(s.seed)
    tensors, values = Tensors(), {}
    for name, shape, spread in modules(s):
        w = random.standard_normal(shape).astype(np.float32) * np.float32(spread)
        how = s.overrides.get(name, (s.bits, s.group) if s.bits else False)
        if len(shape) == 1:
            stored, values[name] = store(1 + w, s.dtype)
            tensors[name + ".weight"] = (s.dtype, stored)
        elif how:
            parts, values[name] = quantize(w, how[0], how[1], s.dtype)
            for part, array in parts.items():
                tensors[name + "." + part] = ("U32" if part == "weight" else s.dtype, array)
        else:
            stored, values[name] = store(w, s.dtype)
            tensors[name + ".weight"] = (s.dtype, stored)
        if s.architecture == "qwen2" and name.endswith(("q_proj", "k_proj", "v_proj")):
            stored, values[name + ".bias"] = store(random.standard_normal(shape[0]) * 0.5, s.dtype)
            tensors[name + ".bias"] = (s.dtype, stored)
    names = list(tensors)
    shards = [Tensors((n, tensors[n]) for n in names[i::s.shards]) for i in range(s.shards)]
    if s.shards == 1:
        shards[0].write(os.path.join(directory, "model.safetensors"))
    else:
        weight_map = {}
        for i, shard in enumerate(shards):
            file = "model-%05d-of-%05d.safetensors" % (i + 1, s.shards)
            shard.write(os.path.join(directory, file))
            weight_map.update((n, file) for n in shard)
        dump(directory, "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})
    eos = next(t["id"] for t in tokenizer["added_tokens"] if t["content"] == tokenizer_config["eos_token"])
    dump(directory, "config.json", config_of(s, eos))
    dump(directory, "tokenizer.json", tokenizer)
    dump(directory, "tokenizer_config.json", tokenizer_config)
    return values


def dump(directory, name, value):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False)


# ---- the forward pass, in float64 --------------------------------------------------------------------------------
def frequencies(s):
    i = np.arange(0, s.head_dim, 2, dtype=np.float64)
    f = s.base ** (-i / s.head_dim)
    if s.scaling and s.scaling["rope_type"] == "linear":
        f = f / s.scaling["factor"]
    if s.scaling and s.scaling["rope_type"] == "llama3":
        c = s.scaling
        length = 2 * np.pi / f
        low = c["original_max_position_embeddings"] / c["low_freq_factor"]
        high = c["original_max_position_embeddings"] / c["high_freq_factor"]
        smooth = ((c["original_max_position_embeddings"] / length - c["low_freq_factor"])
                  / (c["high_freq_factor"] - c["low_freq_factor"]))
        between = (1 - smooth) * f / c["factor"] + smooth * f
        f = np.where(length < high, f, np.where(length > low, f / c["factor"], between))
    return f


def forward(s, values, tokens):
    """Logits of the last token, float64. The rows of q and k pair i with i + head_dim / 2."""
    v = {name: array.astype(np.float64) for name, array in values.items()}

    def norm(x, w):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + s.eps) * w

    def linear(x, name):
        y = x @ v[name].T
        return y + v[name + ".bias"] if name + ".bias" in v else y

    def silu(x):
        return x / (1 + np.exp(-x))

    n = len(tokens)
    angles = np.arange(n)[:, None] * frequencies(s)
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]

    def rope(x):
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    x = v["model.embed_tokens"][tokens]
    for i in range(s.layers):
        at = "model.layers.%d." % i
        h = norm(x, v[at + "input_layernorm"])
        q = linear(h, at + "self_attn.q_proj").reshape(n, s.heads, s.head_dim)
        k = linear(h, at + "self_attn.k_proj").reshape(n, s.kv_heads, s.head_dim)
        u = linear(h, at + "self_attn.v_proj").reshape(n, s.kv_heads, s.head_dim)
        if at + "self_attn.q_norm" in v:
            q, k = norm(q, v[at + "self_attn.q_norm"]), norm(k, v[at + "self_attn.k_norm"])
        q, k = rope(q), rope(k)
        k, u = (np.repeat(t, s.heads // s.kv_heads, axis=1) for t in (k, u))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(s.head_dim)
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", p, u).reshape(n, -1)
        x = x + linear(out, at + "self_attn.o_proj")
        h = norm(x, v[at + "post_attention_layernorm"])
        if s.experts:
            router = linear(h, at + "mlp.gate")
            for t in range(n):
                chosen = np.argsort(-router[t], kind="stable")[:s.experts_used]
                share = np.exp(router[t][chosen] - router[t][chosen].max())
                for e, weight in zip(chosen, share / share.sum()):
                    gate, up, down = (v[at + "mlp.switch_mlp.%s_proj" % m][e] for m in ("gate", "up", "down"))
                    x[t] += weight * (down @ (silu(gate @ h[t]) * (up @ h[t])))
        else:
            x = x + linear(silu(linear(h, at + "mlp.gate_proj")) * linear(h, at + "mlp.up_proj"), at + "mlp.down_proj")
    x = norm(x[-1], v["model.norm"])
    return v["model.embed_tokens" if s.tied else "lm_head"] @ x


# ---- the same model as GGUF --------------------------------------------------------------------------------------
ROLES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
         "mlp.switch_mlp.gate_proj": "ffn_gate_exps", "mlp.switch_mlp.up_proj": "ffn_up_exps",
         "mlp.switch_mlp.down_proj": "ffn_down_exps"}


def gguf_name(name):
    name, what = (name[:-5], "bias") if name.endswith(".bias") else (name, "weight")
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if name in top:
        return top[name] + ".weight"
    _, _, layer, role = name.split(".", 3)
    return "blk.%s.%s.%s" % (layer, ROLES[role], what)


def write_gguf(path, s, values):
    """All F32. GGUF's LLaMA files pair the rows of a head's q and k as neighbours: (i, i + d/2) becomes (2i, 2i + 1)."""
    a = {"qwen3_moe": "qwen3moe"}.get(s.architecture, s.architecture)
    metadata = {"general.architecture": a, a + ".block_count": s.layers, a + ".embedding_length": s.dim,
                a + ".feed_forward_length": s.ffn, a + ".attention.head_count": s.heads,
                a + ".attention.head_count_kv": s.kv_heads, a + ".attention.key_length": s.head_dim,
                a + ".attention.value_length": s.head_dim, a + ".context_length": s.context,
                a + ".attention.layer_norm_rms_epsilon": float(s.eps), a + ".rope.freq_base": float(s.base)}
    if s.experts:
        metadata.update({a + ".expert_count": s.experts, a + ".expert_used_count": s.experts_used,
                         a + ".expert_feed_forward_length": s.expert_ffn})
    tensors = {}
    for name, w in values.items():
        if a == "llama" and name.endswith(("q_proj", "k_proj")):
            heads = w.reshape(-1, 2, s.head_dim // 2, w.shape[-1])
            w = heads.transpose(0, 2, 1, 3).reshape(w.shape)
        tensors[gguf_name(name)] = w
    if s.scaling and s.scaling["rope_type"] == "linear":
        metadata[a + ".rope.scaling.type"] = "linear"
        metadata[a + ".rope.scaling.factor"] = float(s.scaling["factor"])
    elif s.scaling:
        plain = Shape(base=s.base, head_dim=s.head_dim)
        tensors["rope_freqs.weight"] = (frequencies(plain) / frequencies(s)).astype(np.float32)

    def text(t):
        return struct.pack("<Q", len(t.encode())) + t.encode()

    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += text(key)
        if isinstance(value, str):
            head += struct.pack("<I", 8) + text(value)
        else:
            head += struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)
    at = 0
    for name, w in tensors.items():
        head += text(name) + struct.pack("<I%dQ" % w.ndim, w.ndim, *w.shape[::-1]) + struct.pack("<IQ", 0, at)
        at += (w.nbytes + 31) // 32 * 32
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32))
        for w in tensors.values():
            out.write(np.ascontiguousarray(w, np.float32).tobytes() + b"\0" * (-w.nbytes % 32))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory")
    parser.add_argument("--gguf", help="also the same weights, F32, as this file")
    shape = Shape()
    for name, value in vars(shape).items():
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=None)
    parser.add_argument("--tied", action="store_true")
    given = vars(parser.parse_args())
    directory, gguf = given.pop("directory"), given.pop("gguf")
    shape = Shape(**{name: value for name, value in given.items() if value is not None})
    values = write(directory, shape)
    if gguf:
        write_gguf(gguf, shape, values)


if __name__ == "__main__":
    main()
