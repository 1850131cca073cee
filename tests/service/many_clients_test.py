#!/usr/bin/env python3
"""Habits of clients that harm other local engines: options that reload a model, lists that keep one warm, bursts over
models that do not fit together, large sets of tools, a system prompt that changes in its first line. One test:
many_clients_test.py [-v] ManyClientsTest.test_name"""

import hashlib
import http.client
import itertools
import json
import os
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import GREEDY, Daemon, flyball  # noqa: E402

KEY = "editor-key-0123456789"
EDITOR = "schema: flyball.app/v1\napp: editor\nkey_sha256: %s\n" % hashlib.sha256(KEY.encode()).hexdigest()
# Writes the tools' names alone, so that a prompt of hundreds of tools stays short.
TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>
{% endfor %}{% for t in tools or [] %}{{ t.function.name }} {% endfor %}<|im_start|>assistant
{# <tool_call> #}"""
BURST = "ABAC" * 6


def metric(daemon, name):
    text = daemon.request("GET", "/metrics")[1]
    values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)]
    assert values, "/metrics has no %s:\n%s" % (name, text)
    return sum(values)


def loads(daemon):
    return metric(daemon, 'flyball_memory_events{event="load"}')


def ask(daemon, method, path, body=None, headers=None):
    """Status and JSON of a request with these header fields."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=180)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           dict({"content-type": "application/json"} if body is not None else {}, **(headers or {})))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


class ManyClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="flyball-clients-")
        template = os.path.join(cls.dir.name, "chat.jinja")
        with open(template, "w") as out:
            out.write(TEMPLATE)
        shapes = {name: "dim=256,layers=6,heads=4,kv_heads=2,ffn=768,vocab=2048,context=512" for name in "ABC"}
        shapes["agent"] = "tiny,context=8192"
        for seed, (name, shape) in enumerate(shapes.items()):
            made = flyball("make-model", "--out", os.path.join(cls.dir.name, name + ".gguf"), "--shape", shape,
                           "--type", "Q8_0", "--seed", str(1 + seed), "--quiet", "--chat-template", template)
            assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def daemon(self, names, context=512, **kwargs):
        return Daemon({name: "path: %s\ncontext: %d\nmax_sequences: 4\nthreads: 1"
                       % (os.path.join(self.dir.name, name + ".gguf"), context) for name in names}, **kwargs)

    def test_apps_with_different_options_share_one_engine(self):
        key = {"authorization": "Bearer " + KEY}
        message = [{"role": "user", "content": "Hello"}]
        with self.daemon("A", more_apps=[EDITOR]) as daemon:
            workers = set()
            for options in ({"num_ctx": 256}, {"num_ctx": 131072}, {"num_ctx": 512, "num_batch": 16, "num_keep": 4},
                            {"num_gpu": 0, "num_thread": 7, "use_mmap": False}, {}):
                for keep_alive in (0, "1h", -1):
                    status, answer = ask(daemon, "POST", "/api/chat", {
                        "model": "A", "messages": message, "stream": False, "keep_alive": keep_alive,
                        "options": dict(options, num_predict=2)})
                    self.assertEqual(status, 200, answer)
                    status, answer = ask(daemon, "POST", "/v1/chat/completions", {
                        "model": "A", "messages": message, "max_tokens": 2, "keep_alive": keep_alive}, key)
                    self.assertEqual(status, 200, answer)
                    status, answer = ask(daemon, "POST", "/v1/messages", {
                        "model": "A", "messages": message, "max_tokens": 2}, {"x-api-key": KEY})
                    self.assertEqual(status, 200, answer)
                    workers.update(daemon.workers())
            self.assertEqual(len(workers), 1)
            self.assertEqual(loads(daemon), 1)
            self.assertEqual(metric(daemon, 'flyball_memory_events{event="unload"}'), 0)

    def test_lists_that_are_polled_keep_nothing_warm_and_load_nothing(self):
        def poll():
            anthropic = {"anthropic-version": "2023-06-01"}
            for path, headers in (("/v1/models", {}), ("/v1/models/A", {}), ("/v1/models", anthropic),
                                  ("/api/tags", {}), ("/api/ps", {}), ("/api/version", {})):
                status, answer = ask(daemon, "GET", path, headers=headers)
                self.assertEqual(status, 200, answer)
            status, answer = ask(daemon, "POST", "/api/show", {"model": "A"})
            self.assertEqual(status, 200, answer)

        with self.daemon("A", more="memory: {idle_unload: 500ms}") as daemon:
            status, answer = daemon.request("POST", "/v1/completions", dict(GREEDY, max_tokens=1))
            self.assertEqual(status, 200, answer)
            end = time.monotonic() + 60
            while ask(daemon, "GET", "/api/ps")[1] != {"models": []} and time.monotonic() < end:
                poll()
            self.assertEqual(ask(daemon, "GET", "/api/ps")[1], {"models": []}, "the engine outlived 60 s of lists")
            for _ in range(50):
                poll()
            self.assertEqual(daemon.workers(), [])
            self.assertEqual(loads(daemon), 1)

    def test_a_burst_over_models_that_do_not_fit_together_is_collected_by_model(self):
        with self.daemon("ABC") as daemon:
            daemon.request("POST", "/v1/completions", dict(GREEDY, model="A", max_tokens=1))
            one = metric(daemon, 'flyball_memory_accounted_bytes{pool="machine"}')
        self.assertGreater(one, 0)
        # With a turn of minutes, an engine ends when no request waits for it. So each model is loaded once for the
        # clients that wait, and at most once more for clients that the machine has started too late for that.
        self.assertLessEqual(self.loads_of_burst(one, ", turn: 5m"), 2 * 3)
        # The default turn of 5 s may end on a slow machine before the model's requests do, and each load still
        # serves several. A daemon that goes by the order of arrival loads once for each request.
        self.assertLess(self.loads_of_burst(one, ""), len(BURST) // 2)

    def loads_of_burst(self, one, turn):
        with self.daemon("ABC", more="memory: {reserve: 0B, limit: %dB%s}" % (int(1.5 * one), turn)) as daemon:
            answers = []

            def client(model):
                body = dict(GREEDY, model=model, max_tokens=8)
                answers.append(daemon.request("POST", "/v1/completions", body, timeout=300))

            clients = [threading.Thread(target=client, args=(model,)) for model in BURST]
            for thread in clients:
                thread.start()
            for thread in clients:
                thread.join()
            self.assertEqual([status for status, _ in answers], [200] * len(BURST), answers)
            count = loads(daemon)
            print("\n%d requests over three models, of which one fits%s: %d loads" % (len(BURST), turn, count))
            self.assertGreaterEqual(count, 3)
            return count

    def test_hundreds_of_tools_are_constrained_where_a_call_is_required(self):
        def tool(name, properties, **more):
            return {"type": "function", "function": {
                "name": name, "description": "Does what %s does. " % name * 5,
                "parameters": dict({"type": "object", "properties": properties}, **more)}}

        def chat(**body):
            return daemon.request("POST", "/v1/chat/completions", dict(
                {"messages": [{"role": "user", "content": "Do it."}], "parallel_tool_calls": False}, **body))

        text = {"text": {"type": "string", "maxLength": 65536}}
        # The even half is open: `properties: {}` allows any members. The odd half names its members.
        half_open = [tool("tool_%d" % n, text, additionalProperties=False) if n % 2 else tool("tool_%d" % n, {})
                     for n in range(400)]
        closed = [tool("tool_%d" % n, text if n % 2 else {}, additionalProperties=False) for n in range(400)]
        with self.daemon(["agent"], context=8192) as daemon:
            for tools, wanted in itertools.product((half_open, closed), (None, "tool_398", "tool_399")):
                self.assertGreater(len(json.dumps(tools)), 90_000)
                names = {wanted} if wanted else {t["function"]["name"] for t in tools}
                choice = {"type": "function", "function": {"name": wanted}} if wanted else "required"
                for seed in range(3):
                    status, answer = chat(tools=tools, tool_choice=choice, seed=seed, max_tokens=200)
                    self.assertEqual(status, 200, answer)
                    choice_of_answer = answer["choices"][0]
                    calls = choice_of_answer["message"].get("tool_calls") or []
                    self.assertEqual(len(calls), 1, answer)
                    self.assertIn(calls[0]["function"]["name"], names)
                    self.assertFalse(choice_of_answer["message"]["content"], answer)
                    if choice_of_answer["finish_reason"] == "length":
                        continue
                    self.assertEqual(choice_of_answer["finish_reason"], "tool_calls", answer)
                    arguments = json.loads(calls[0]["function"]["arguments"])
                    self.assertIsInstance(arguments, dict)
                    if tools is closed or int(calls[0]["function"]["name"].rsplit("_", 1)[1]) % 2:
                        self.assertLessEqual(set(arguments), {"text"})
            # One that no grammar can hold is refused, and nothing is answered in its place.
            outside = tool("outside", {"place": {"$ref": "https://example.com/place.json"}})
            status, answer = chat(tools=tools + [outside], tool_choice="required", max_tokens=20)
            self.assertEqual(status, 400, answer)
            self.assertEqual(answer["error"]["code"], "unsupported_feature", answer)
            self.assertEqual(answer["error"]["param"], "tools[400].function.parameters", answer)
            self.assertIn("/properties/place/$ref", answer["error"]["message"])

    def test_a_first_system_line_that_changes_leaves_the_prefix_cache_alone(self):
        words = " ".join("Rule %d: answer briefly." % n for n in range(60))
        with self.daemon(["agent"], context=8192) as daemon:
            def turn(n, messages):
                line = "x-anthropic-billing-header: cc_version=2.1.100.7b%d; cc_entrypoint=cli; cch=eb6c%d;" % (n, n)
                status, answer = ask(daemon, "POST", "/v1/messages", {
                    "model": "agent", "max_tokens": 4, "temperature": 0, "messages": messages, "system": [
                        {"type": "text", "text": line},
                        {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}]},
                    {"anthropic-version": "2023-06-01"})
                self.assertEqual(status, 200, answer)
                return answer

            messages = [{"role": "user", "content": "Hello"}]
            first = turn(1, messages)
            self.assertEqual(first["usage"]["cache_read_input_tokens"], 0)
            messages += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Go on."}]
            second = turn(2, messages)
            # All of the first prompt but what its last block of KV shares with the question.
            self.assertGreater(second["usage"]["cache_read_input_tokens"], first["usage"]["input_tokens"] // 2, second)


if __name__ == "__main__":
    unittest.main()
