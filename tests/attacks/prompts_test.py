#!/usr/bin/env python3
"""Prompts of 4 MB, in several shapes at once, for a model of 1,024 tokens: they are refused, and the light app is served
beside them."""

import unittest

from attack import CHAT, COMPLETIONS, AttackTest, Client, at_least, demo


class PromptsTest(AttackTest):
    def attack(self, path, size):
        with demo() as daemon:
            for report in self.beside(daemon, "prompts", app="attacker", path=path, size=size):
                self.assertGreaterEqual(sum(report["statuses"].values()), at_least(6), report)
                self.assertLessEqual(set(report["statuses"]), {"400", "429", "503"}, report)
                self.assertGreaterEqual(report["megabytes"], at_least(6) * size / 1e6, report)

    def test_completions_far_beyond_the_context(self):
        self.attack(COMPLETIONS, 4_000_000)

    def test_chats_far_beyond_the_context(self):
        self.attack(CHAT, 4_000_000)

    def test_completions_that_might_just_fit(self):
        """No count of bytes shows that these are too long."""
        self.attack(COMPLETIONS, 60_000)

    def test_a_refusal_names_the_context(self):
        with demo() as daemon, Client(daemon.port) as client:
            for path, body in ((COMPLETIONS, {"prompt": "a" * 4_000_000}),
                               (CHAT, {"messages": [{"role": "user", "content": "a" * 4_000_000}]})):
                status, _, answer = client.ask("POST", path, dict(body, max_tokens=1), "attacker")
                self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"), answer)
                self.assertIn("1024", answer["error"]["message"].replace(",", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
