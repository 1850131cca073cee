#!/usr/bin/env python3
"""/tokenize and /detokenize of the whole daemon, with a worker and its model's own tokenizer."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import SmallModelTest  # noqa: E402

TEXTS = ["Once upon a time", " two  blanks ", "line\nline\r\n", "naïve 中文 \U0001f642", '{"a": [1, "<b>"]}', ""]


class TokenizeTest(SmallModelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.small(cls)
        cls.daemon.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__(None, None, None)
        super().tearDownClass()

    def ask(self, path, **body):
        status, answer = self.daemon.request("POST", path, dict(body, model="small"))
        self.assertEqual(status, 200, answer)
        return answer

    def test_texts_come_back(self):
        for text in TEXTS:
            with self.subTest(text=text):
                tokens = self.ask("/tokenize", content=text)["tokens"]
                spelled = self.ask("/detokenize", tokens=tokens)
                self.assertEqual(spelled, {"prompt": text, "content": text})

    def test_a_prompt_has_as_many_tokens_as_its_answer_says(self):
        chat = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": TEXTS[3]}]}
        for path, body in [("/v1/chat/completions", chat), ("/v1/completions", {"prompt": TEXTS[0]})]:
            counted = self.ask("/tokenize", **body)
            self.assertEqual(counted["count"], len(counted["tokens"]))
            usage = self.ask(path, **dict(body, max_tokens=1))["usage"]
            self.assertEqual(counted["count"], usage["prompt_tokens"])
        self.assertGreater(counted["max_model_len"], counted["count"])

    def test_a_prompt_that_is_too_long_is_refused_with_the_least_number(self):
        status, answer = self.daemon.request("POST", "/tokenize", {"model": "small", "prompt": "word " * 100_000})
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
        self.assertRegex(answer["error"]["message"], r"at least \d+ tokens|more than \d+ tokens")

    def test_a_token_beyond_the_vocabulary_is_refused(self):
        status, answer = self.daemon.request("POST", "/detokenize", {"model": "small", "tokens": [10**8]})
        self.assertEqual((status, answer["error"]["param"]), (400, "tokens"))


if __name__ == "__main__":
    unittest.main()
