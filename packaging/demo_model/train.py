"""Trains the demo model and writes it as GGUF: a LLaMA-architecture network of about 2.7 million parameters.

    python3 corpus.py --seed 7 --out DIR
    python3 train.py --data DIR --out demo.gguf --report report.json

Debian's python3-torch, python3-numpy, python3-jinja2 and libopenblas0-pthread, CPU only; same seed, same thread count,
same machine: same file. MODEL_CARD.md has the commands that made the shipped one.
"""
import argparse
import json
import math
import os
import pathlib
import random
import re
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one summing order, so that a seed gives one file

import jinja2
import torch
import torch.nn as nn
import torch.nn.functional as F

import bpe
import gguf_in
import gguf_out

VOCAB, DIM, LAYERS, HEADS, KV_HEADS, FFN, CONTEXT = 1536, 192, 6, 6, 2, 512, 1024
HEAD = DIM // HEADS
ROPE_BASE, EPS = 10000.0, 1e-5
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{%- if tools %}{{- '<|im_start|>system\\n' }}"
    "{%- if messages and messages[0]['role'] == 'system' %}{{- messages[0]['content'] + '\\n' }}{%- endif %}"
    "{{- 'Tools:\\n' }}{%- for tool in tools %}{{- (tool['function'] | tojson) + '\\n' }}{%- endfor %}"
    "{{- 'Call one by <tool_call>.<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if not (tools and loop.first and message['role'] == 'system') %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' }}{%- if message['content'] %}{{- message['content'] }}{%- endif %}"
    "{%- if message['tool_calls'] %}{%- for call in message['tool_calls'] %}"
    "{%- if message['content'] or not loop.first %}{{- '\\n' }}{%- endif %}"
    "{{- '<tool_call>\\n{\"name\": ' + (call['function']['name'] | tojson) + ', \"arguments\": ' }}"
    "{{- (call['function']['arguments'] | tojson) + '}\\n</tool_call>' }}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")
WEATHER = [{"type": "function", "function": {
    "name": "get_weather", "description": "Get current weather for a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weight


def rope(x, cos, sin):
    """Pairs (2i, 2i+1), as GGUF's llama architecture expects. x: [batch, heads, time, head]."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_norm, self.ffn_norm = Norm(), Norm()
        self.q = nn.Linear(DIM, HEADS * HEAD, bias=False)
        self.k = nn.Linear(DIM, KV_HEADS * HEAD, bias=False)
        self.v = nn.Linear(DIM, KV_HEADS * HEAD, bias=False)
        self.o = nn.Linear(HEADS * HEAD, DIM, bias=False)
        self.gate = nn.Linear(DIM, FFN, bias=False)
        self.up = nn.Linear(DIM, FFN, bias=False)
        self.down = nn.Linear(FFN, DIM, bias=False)

    def forward(self, x, cos, sin, mask):
        b, t, _ = x.shape
        h = self.attn_norm(x)
        q = rope(self.q(h).view(b, t, HEADS, HEAD).transpose(1, 2), cos, sin)
        k = rope(self.k(h).view(b, t, KV_HEADS, HEAD).transpose(1, 2), cos, sin)
        v = self.v(h).view(b, t, KV_HEADS, HEAD).transpose(1, 2)
        k, v = (z.repeat_interleave(HEADS // KV_HEADS, dim=1) for z in (k, v))
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(HEAD) + mask, dim=-1)
        x = x + self.o((p @ v).transpose(1, 2).reshape(b, t, DIM))
        h = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)  # also the output matrix
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 if name == "embed.weight" else 1 / math.sqrt(p.shape[1]))
        for layer in self.layers:
            for p in (layer.o.weight, layer.down.weight):
                p.data /= math.sqrt(2 * LAYERS)
        inverse = ROPE_BASE ** (-torch.arange(0, HEAD, 2).float() / HEAD)
        angle = torch.arange(CONTEXT).float()[:, None] * inverse
        # The first head of the first layer begins as one that reads the token before its own, the first half of an
        # induction head, which copies (Olsson et al. 2022). So short a training does not find it.
        with torch.no_grad():
            self.embed.weight[:, 0] += 0.1
            for i in range(5):
                self.layers[0].q.weight[2 * i, 0] += 1
                self.layers[0].k.weight[2 * i, 0] += inverse[i].cos()
                self.layers[0].k.weight[2 * i + 1, 0] += inverse[i].sin()
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), -1e9).triu(1))

    def forward(self, ids):
        t = ids.shape[1]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos[:t], self.sin[:t], self.mask[:t, :t])
        return F.linear(self.norm(x), self.embed.weight)


def chat_template():
    """Its environment is set up as in Hugging Face's transformers: tojson writes what json.dumps does."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE)


def encode(encoder, special, text):
    """A rendered conversation; the spellings of special tokens are those tokens."""
    ids = []
    for part in re.split("(" + "|".join(map(re.escape, special)) + ")", text):
        ids += [special[part]] if part in special else encoder.encode(part)
    return ids


def weighted(ids, encoder, special):
    """(token, weight of its loss): what the assistant says counts in full, what it reads counts a tenth."""
    opening, says, out = encoder.encode("assistant\n"), False, []
    for at, token in enumerate(ids):
        out.append((token, 1.0 if says else 0.1))
        if token == special["<|im_end|>"]:
            says = False
        elif ids[max(0, at - len(opening)):at + 1] == [special["<|im_start|>"]] + opening:
            says = True
    return out


def read(path, template):
    """The conversations as text."""
    return [template.render(json.loads(line)) for line in open(path)]


@torch.no_grad()
def heldout_loss(model, sequences):
    """Mean negative log-likelihood in nats, over all tokens of the held-out conversations."""
    total, count = 0.0, 0
    for s in sequences:
        ids = torch.tensor([s])
        loss = F.cross_entropy(model(ids[:, :-1])[0], ids[0, 1:], reduction="sum")
        total, count = total + loss.item(), count + len(s) - 1
    return total / count


@torch.no_grad()
def answer(model, encoder, special, template, question, tools=None, limit=80):
    chat = {"messages": [{"role": "user", "content": question}], "tools": tools, "add_generation_prompt": True}
    ids = encode(encoder, special, template.render(chat))
    start = len(ids)
    while len(ids) - start < limit:
        nxt = int(model(torch.tensor([ids]))[0, -1].argmax())
        if nxt in special.values():
            break
        ids.append(nxt)
    return encoder.decode(ids[start:])


def parameters(model):
    """By their names in the file."""
    out = {"token_embd.weight": model.embed.weight, "output_norm.weight": model.norm.weight}
    names = {"attn_norm": "attn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "ffn_norm": "ffn_norm",
             "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    for i, layer in enumerate(model.layers):
        for ours, theirs in names.items():
            out[f"blk.{i}.{theirs}.weight"] = getattr(layer, ours).weight
    return out


def export(model, pieces, merges, path):
    n_special = len(SPECIAL)
    tokens = pieces + SPECIAL
    metadata = {
        "general.architecture": "llama", "general.name": "Flyball demo", "general.file_type": 7,
        "general.quantization_version": 2, "general.license": "Apache-2.0",
        "llama.vocab_size": VOCAB, "llama.context_length": CONTEXT, "llama.embedding_length": DIM,
        "llama.block_count": LAYERS, "llama.feed_forward_length": FFN, "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS, "llama.rope.dimension_count": HEAD, "llama.rope.freq_base": ROPE_BASE,
        "llama.attention.layer_norm_rms_epsilon": EPS,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * len(pieces) + [3] * n_special,
        "tokenizer.ggml.merges": [" ".join(m) for m in merges],
        "tokenizer.ggml.bos_token_id": len(pieces), "tokenizer.ggml.eos_token_id": len(pieces) + 2,
        "tokenizer.ggml.add_bos_token": False, "tokenizer.chat_template": TEMPLATE,
    }
    gguf_out.write(path, metadata, {k: v.detach().numpy() for k, v in parameters(model).items()})


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", type=pathlib.Path, required=True)
    ap.add_argument("--out", type=pathlib.Path, required=True)
    ap.add_argument("--report", type=pathlib.Path, required=True)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--steps", type=int, default=1200)
    ap.add_argument("--rate", type=float, default=2.5e-3, help="the highest learning rate")
    ap.add_argument("--begin", type=pathlib.Path, help="go on from this file's weights, with its tokenizer")
    ap.add_argument("--checkpoint", type=int, default=0, help="also export every N steps")
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    rng = random.Random(args.seed)

    template = chat_template()
    conversations = read(args.data / "train.jsonl", template)
    if args.begin:
        metadata, weights = gguf_in.read(args.begin)
        pieces = metadata["tokenizer.ggml.tokens"][:-len(SPECIAL)]
        merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    else:
        plain = (c.replace("<|im_start|>", "").replace("<|im_end|>", "") for c in conversations)
        pieces, merges = bpe.train(plain, VOCAB - len(SPECIAL))
    encoder = bpe.Encoder(pieces, merges)
    special = {s: len(pieces) + i for i, s in enumerate(SPECIAL)}
    end = special["<|endoftext|>"]
    sequences = [weighted(encode(encoder, special, c) + [end], encoder, special) for c in conversations]
    heldout = [encode(encoder, special, c) + [end] for c in read(args.data / "heldout.jsonl", template)[:400]]
    print(f"{len(pieces)} pieces, {sum(map(len, sequences))} training tokens", flush=True)

    def stream():
        while True:
            rng.shuffle(sequences)
            for s in sequences:
                yield from s
    tokens = stream()

    def by_length():
        while True:
            chosen = sorted(rng.sample(sequences, 12 * 32), key=len)
            groups = [chosen[i:i + 12] for i in range(0, len(chosen), 12)]
            rng.shuffle(groups)
            for group in groups:
                yield from group
    alone = by_length()

    model = Model()
    if args.begin:
        with torch.no_grad():
            for name, p in parameters(model).items():
                p.copy_(torch.from_numpy(weights[name]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.95), weight_decay=0.05)
    began = time.time()
    for step in range(args.steps):
        # The last twentieth sees the whole context, so that every position has been trained.
        length, batch = (512, 4) if step < args.steps * 0.95 else (CONTEXT, 2)
        rate = args.rate * min(1.0, (step + 1) / 60) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / args.steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        if step < args.steps * 0.85:
            rows = [list(next(alone)) for _ in range(12)]
            longest = max(map(len, rows))
            rows = [row + [(end, 0.0)] * (longest - len(row)) for row in rows]
        else:
            rows = [[next(tokens) for _ in range(length + 1)] for _ in range(batch)]
        ids = torch.tensor([[token for token, _ in row] for row in rows])
        weights = torch.tensor([[weight for _, weight in row] for row in rows])[:, 1:]
        losses = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        loss = (losses.view_as(weights) * weights).sum() / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f} {time.time() - began:.0f} s", flush=True)
        if args.checkpoint and step and step % args.checkpoint == 0:
            export(model, pieces, merges, args.out)

    export(model, pieces, merges, args.out)
    asked = ["Which engine for a Mac?", "Which engine should I use on a Mac?", "I have one RTX 4090. What should I run?", "Should I use Ollama?",
             "What is prefill?", "Which engine for a cluster?", "Who are you?", "Tell me a story about a fox."]
    asked_with_tools = ["What is the weather in Paris?", "How is the weather in Springfield?",
                        "What is the weather in Rome and in Oslo?", "Which engine for a Mac?"]
    report = {
        "parameters": sum(p.numel() for p in model.parameters()), "steps": args.steps, "seed": args.seed, "threads": args.threads,
        "final_training_loss": loss.item(), "heldout_loss": heldout_loss(model, heldout), "heldout_conversations": len(heldout),
        "samples": {q: answer(model, encoder, special, template, q) for q in asked},
        "samples_with_tools": {q: answer(model, encoder, special, template, q, WEATHER) for q in asked_with_tools},
    }
    args.report.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
