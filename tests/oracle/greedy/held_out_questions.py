#!/usr/bin/env python3
"""The first N distinct questions that the demo model's generator holds out of training, in the order and by the seed of
its model card's first run, as a JSON array: prompts that nobody picked. Conversations with tools and those that repeat
words are left out.
held_out_questions.py N"""
import itertools
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "packaging" / "demo_model"))
sys.dont_write_bytecode = True
import corpus  # noqa: E402
import tool_corpus  # noqa: E402

SEED = 7
REPEATS = tuple(asked.format("") for asked in tool_corpus.REPEAT)


def questions():
    seen = set()
    for held_out, conversation in corpus.conversations(SEED, sys.maxsize):
        if not held_out or "tools" in conversation:
            continue
        for message in conversation["messages"]:
            question = message["content"]
            if message["role"] != "user" or question in seen or question.startswith(REPEATS):
                continue
            seen.add(question)
            yield question


print(json.dumps(list(itertools.islice(questions(), int(sys.argv[1])))))
