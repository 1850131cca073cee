#!/usr/bin/env python3
"""Two models of which the limit holds one, under load from both sides. One test: memory_test.py [-v]
MemoryTest.test_name"""

import os
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import GREEDY, Daemon, flyball  # noqa: E402

MODELS = ("one", "two")
TOKENS = 60


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="flyball-memory-")
        for name in MODELS:
            made = flyball("make-model", "--out", os.path.join(cls.dir.name, name + ".gguf"), "--shape",
                           "dim=256,layers=6,heads=4,kv_heads=2,ffn=768,vocab=2048,context=512", "--type", "Q8_0",
                           "--seed", str(1 + MODELS.index(name)), "--quiet")
            assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def daemon(self, memory):
        entries = {name: "path: %s\ncontext: 512\nmax_sequences: 4\nthreads: 1"
                         % os.path.join(self.dir.name, name + ".gguf") for name in MODELS}
        return Daemon(entries, more="memory: {reserve: 0B, %s}" % memory)

    def metrics(self, daemon):
        status, text = daemon.request("GET", "/metrics")
        self.assertEqual(status, 200)
        found = {}
        for line in text.splitlines():
            if line.startswith(("flyball_memory_", "flyball_model_account_bytes")):
                name, value = line.rsplit(" ", 1)
                found[name] = float(value)
        return found

    def bytes_of(self, daemon, name):
        status, body = daemon.request("POST", "/v1/completions", dict(GREEDY, model=name, max_tokens=1))
        self.assertEqual(status, 200, body)
        return self.metrics(daemon)['flyball_memory_accounted_bytes{pool="machine"}']

    def test_two_models_of_which_one_fits_alternate_under_load(self):
        with self.daemon("limit: 1GiB") as daemon:
            one = self.bytes_of(daemon, "one")
            both = self.bytes_of(daemon, "two")
            self.assertAlmostEqual(both, 2 * one, delta=0.05 * one)
            seen = self.metrics(daemon)
            accounts = [seen['flyball_model_account_bytes{backend="cpu",model="%s"}' % name] for name in MODELS]
            self.assertEqual(sum(accounts), both)
            self.assertGreater(min(accounts), 0)
            expected = {name: daemon.stream(dict(GREEDY, model=name, max_tokens=TOKENS)) for name in MODELS}
        limit = int(both / 2 * 1.02)  # both are twice what there is
        with self.daemon("limit: %dB, turn: 300ms" % limit) as daemon:
            stop, trouble, answers = threading.Event(), [], {name: 0 for name in MODELS}
            peak = [0.0]

            def client(name):
                while not stop.is_set():
                    try:
                        answer = daemon.stream(dict(GREEDY, model=name, max_tokens=TOKENS), timeout=300)
                        if answer != expected[name]:
                            trouble.append("%s: %r" % (name, answer))
                        answers[name] += 1
                    except Exception as error:  # told to the test, which stops everything
                        trouble.append("%s: %r" % (name, error))
                    if trouble:
                        stop.set()

            clients = [threading.Thread(target=client, args=(name,)) for name in MODELS for _ in range(3)]
            for thread in clients:
                thread.start()
            end = time.monotonic() + 240
            while time.monotonic() < end and not stop.is_set():
                seen = self.metrics(daemon)
                peak[0] = max(peak[0], seen['flyball_memory_accounted_bytes{pool="machine"}'])
                if seen['flyball_memory_events{event="load"}'] >= 6 and min(answers.values()) >= 4:
                    break
                time.sleep(0.1)
            stop.set()
            for thread in clients:
                thread.join(300)
                self.assertFalse(thread.is_alive(), "a client hangs")
            self.assertEqual(trouble, [])
            seen = self.metrics(daemon)
            self.assertGreaterEqual(seen['flyball_memory_events{event="load"}'], 6, (seen, answers))
            self.assertGreaterEqual(min(answers.values()), 4, answers)
            self.assertLessEqual(peak[0], limit)
            self.assertEqual(seen['flyball_memory_events{event="refusal"}'], 0)
            print("\n%d answers, %d loads, %d evictions, at most %d of %d bytes accounted"
                  % (sum(answers.values()), seen['flyball_memory_events{event="load"}'], seen['flyball_memory_events{event="eviction"}'],
                     peak[0], limit))

    def test_what_can_never_fit_is_told_at_once_with_its_bytes(self):
        with self.daemon("limit: 1MiB") as daemon:
            status, body = daemon.request("POST", "/v1/completions", dict(GREEDY, model="one", max_tokens=1))
            self.assertEqual(status, 503, body)
            self.assertEqual(body["error"]["code"], "insufficient_memory")
            self.assertRegex(body["error"]["message"], r"needs [\d.]+ MiB of this machine's memory; 1 MiB are available to engines")

    def test_an_idle_engine_ends_and_comes_back(self):
        with self.daemon("idle_unload: 500ms") as daemon:
            self.bytes_of(daemon, "one")
            end = time.monotonic() + 60
            while daemon.workers() and time.monotonic() < end:
                time.sleep(0.1)
            self.assertEqual(daemon.workers(), [])
            self.assertEqual(self.metrics(daemon)['flyball_memory_accounted_bytes{pool="machine"}'], 0)
            self.assertGreater(self.bytes_of(daemon, "one"), 0)


if __name__ == "__main__":
    unittest.main()
