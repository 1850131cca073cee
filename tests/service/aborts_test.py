#!/usr/bin/env python3
"""Clients that leave in each phase of a request, many in a row: afterwards the engine is idle, nothing is held for
them, and the next answer is the same as before. FLYBALL_ABORTS: how many leave in each phase (40). The app's limits
are tight: one place that is not given back, or the bodies of twelve requests, refuses a request at the end of the
phase. One test: aborts_test.py [-v] AbortsTest.test_name"""

import json
import os
import socket
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import Daemon, flyball  # noqa: E402

ABORTS = int(os.environ.get("FLYBALL_ABORTS", "40"))
TOGETHER = 10  # requests that wait at once
# One place more than a phase takes. The bodies of as many requests fit held_bytes, and one more does not.
APP = """schema: flyball.app/v1
app: example
limits: {in_flight: %d, held_bytes: 1MiB}
""" % (TOGETHER + 1)
PAD = "x" * 92_000  # of a body: a field without an effect
CONTEXT = 16384
TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>
{% endfor %}{{ tools | tojson if tools }}<|im_start|>assistant
{# <tool_call> #}"""
REFERENCE = {"prompt": "Once upon a time", "temperature": 0, "ignore_eos": True, "max_tokens": 16}
LONG_TEXT = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^[a-z]{9000}$"}},
             "required": ["text"], "additionalProperties": False}
CHAT = {"messages": [{"role": "user", "content": "Do it."}], "stream": True, "max_tokens": 2000}
MASKED = dict(CHAT, response_format={"type": "json_schema", "json_schema": {"name": "text", "schema": LONG_TEXT}})
CALL = dict(CHAT, tool_choice="required", tools=[{"type": "function", "function": {
    "name": "write", "description": "Writes.", "parameters": LONG_TEXT}}])


class AbortsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="flyball-aborts-")
        cls.model = os.path.join(cls.dir.name, "small.gguf")
        template = os.path.join(cls.dir.name, "chat.jinja")
        with open(template, "w") as out:
            out.write(TEMPLATE)
        made = flyball("make-model", "--out", cls.model, "--shape", "small,context=%d" % CONTEXT, "--type", "Q8_0",
                       "--quiet", "--chat-template", template)
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def setUp(self):
        self.daemon = self.enterContext(Daemon(
            {"small": "path: %s\ncontext: %d\nmax_sequences: 2" % (self.model, CONTEXT)}, app=APP,
            more="worker: {heartbeat: 50ms}"))
        self.expected = self.reference()

    def reference(self):
        status, answer = self.daemon.request("POST", "/v1/completions", REFERENCE)
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["text"]

    def send(self, path, body):
        """An open socket on which the request has been sent."""
        text = json.dumps(dict(body, user=PAD)).encode()
        client = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=180)
        head = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        client.sendall((head % (path, len(text))).encode() + text)
        return client

    def read_until(self, client, mark):
        seen = b""
        while mark not in seen:
            piece = client.recv(65536)
            self.assertTrue(piece, seen[-2000:])
            seen += piece
            self.assertTrue(seen.startswith(b"HTTP/1.1 200 ") or len(seen) < 13, seen[:2000])
        return seen

    def metrics(self):
        found = {}
        for line in self.daemon.request("GET", "/metrics")[1].splitlines():
            if line.startswith(("flyball_requests_", "flyball_engine_", 'flyball_memory_events{event="load"}')):
                name, value = line.rsplit(" ", 1)
                name = name.split("{")[0]
                found[name] = found.get(name, 0) + float(value)
        return found

    def wait_until(self, condition, what):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            seen = self.metrics()
            if condition(seen):
                return
            time.sleep(0.005)
        self.fail("not %s: %r" % (what, seen))

    def wait_for(self, **values):
        wanted = {"flyball_" + name: value for name, value in values.items()}
        self.wait_until(lambda seen: all(seen.get(name) == value for name, value in wanted.items()), wanted)

    def wait_for_requests(self, count):
        """Until so many are let in and not over."""
        self.wait_until(lambda seen: seen["flyball_requests_running"] + seen["flyball_requests_waiting"] == count,
                        "%d requests" % count)

    def wait_for_idle(self):
        self.wait_for(requests_running=0, requests_waiting=0, engine_requests_running=0, engine_requests_waiting=0,
                      engine_kv_blocks_used=0)

    def tokens(self):
        """Completion tokens that the engine says it has generated."""
        return self.metrics()["flyball_engine_completion_tokens"]

    def expect_few_tokens(self, before, whole):
        """Answers that were not cancelled would have had `whole` tokens each."""
        self.wait_for_idle()
        grown = self.tokens() - before
        print("\n%s: %d of %d tokens" % (self.id(), grown, ABORTS * whole))
        self.assertLess(grown, ABORTS * whole / 4)

    def expect_idle(self):
        self.wait_for_idle()
        self.assertEqual(self.reference(), self.expected)
        # Every place and every byte is there again: as many as the app may have at once are let in together.
        clients = [self.send("/v1/completions", REFERENCE) for _ in range(TOGETHER + 1)]
        for client in clients:
            self.read_until(client, b"\r\n\r\n{")
            client.close()

    def prompt(self, n, tokens):
        """No two of them begin alike, so that none finds KV of another's."""
        return [300 + n % 700, 300 + n // 700] + [400 + i % 500 for i in range(tokens - 2)]

    def test_queued(self):
        for n in range(0, ABORTS, TOGETHER - 2):
            busy = [self.send("/v1/completions", dict(REFERENCE, max_tokens=CONTEXT - 100)) for _ in range(2)]
            self.wait_for(requests_running=2)
            clients = [self.send("/v1/completions", dict(REFERENCE, stream=i % 2 == 0)) for i in range(TOGETHER - 2)]
            self.wait_for_requests(TOGETHER)
            for client in clients:
                client.close()
            self.wait_for_requests(len(busy))
            for client in busy:
                client.close()
            self.wait_for(requests_running=0, requests_waiting=0)
        self.expect_idle()

    def test_loading(self):
        endless = dict(REFERENCE, max_tokens=CONTEXT - 100)
        left = 0
        for _ in range(0, ABORTS, TOGETHER):
            status, answer = self.daemon.request("POST", "/v1/engines/unload", {"model": "small"})
            self.assertEqual(status, 200, answer)
            before = self.metrics()["flyball_memory_events"]
            clients = [self.send("/v1/completions", dict(endless, stream=i % 2 == 0)) for i in range(TOGETHER)]
            self.wait_for_requests(TOGETHER)
            states = [e["state"] for e in self.daemon.request("GET", "/v1/engines")[1]["engines"]]
            loaded = self.metrics()["flyball_memory_events"] - before
            # A fast machine may end the load before all clients are there: then they leave just behind it.
            self.assertTrue(states == ["loading"] or loaded == 1, (states, loaded))
            left += states == ["loading"]
            for client in clients:
                client.close()
            self.wait_for(requests_running=0, requests_waiting=0)
        print("\n%s: %d times during a load" % (self.id(), left))
        self.expect_idle()

    def test_prefill(self):
        whole = 300
        before = self.tokens()
        for n in range(ABORTS):
            client = self.send("/v1/completions", {"prompt": self.prompt(n, CONTEXT - whole - 10), "max_tokens": whole,
                                                   "ignore_eos": True, "stream": n % 2 == 0})
            self.wait_for(engine_requests_running=1)
            client.close()
            self.wait_for(requests_running=0, requests_waiting=0, engine_requests_running=0)
        self.expect_few_tokens(before, whole)
        self.expect_idle()

    def leave_at(self, body, mark):
        status, answer = self.daemon.request("POST", "/v1/chat/completions", dict(body, stream=False, seed=0))
        self.assertEqual(status, 200, answer)
        whole = answer["usage"]["completion_tokens"]
        self.assertGreater(whole, 400, "an answer that may end before its client has left")
        self.wait_until(lambda seen: seen["flyball_engine_completion_tokens"] >= whole, "told by the engine")
        before = self.tokens()
        for n in range(ABORTS):
            client = self.send("/v1/chat/completions", dict(body, seed=n))
            self.read_until(client, mark)
            client.close()
        self.expect_few_tokens(before, whole)
        self.expect_idle()

    def test_masked_decode(self):
        self.leave_at(MASKED, b'"content":"{')

    def test_within_a_tool_call(self):
        self.leave_at(CALL, b'"arguments":"{')


if __name__ == "__main__":
    unittest.main()
