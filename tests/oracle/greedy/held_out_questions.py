#!/usr/bin/env python3
"""The first N distinct questions that the demo model's generator holds out of training, in the order and by the seed of
its model card, as a JSON array: prompts that nobody picked. Those of conversations with tools are left out.
held_out_questions.py N"""
import itertools
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "packaging" / "demo_model"))
sys.dont_write_bytecode = True
import corpus  # noqa: E402

SEED = 7


def questions():
    seen = set()
    for held_out, conversation in corpus.conversations(SEED, sys.maxsize):
        for message in conversation["messages"] if held_out and "tools" not in conversation else []:
            if message["role"] == "user" and message["content"] not in seen:
                seen.add(message["content"])
                yield message["content"]


print(json.dumps(list(itertools.islice(questions(), int(sys.argv[1])))))
