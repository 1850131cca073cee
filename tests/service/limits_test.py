#!/usr/bin/env python3
"""What an app may use, from outside: 64 streams at once against a real engine use up a day's tokens, and not one more."""

import hashlib
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import FLYBALL, SmallModelTest  # noqa: E402

BUDGET = 12_000
APP = """schema: flyball.app/v1
app: example
privacy: local_only
limits: {in_flight: 200, tokens_per_day: %d}
""" % BUDGET


def stream(port, body, key=None):
    """Status, code or finish reason, and the tokens of its usage; header fields."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = dict(body, model="small", temperature=0, ignore_eos=True, stream=True, stream_options={"include_usage": True})
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = "Bearer " + key
    connection.request("POST", "/v1/completions", json.dumps(body), headers)
    response = connection.getresponse()
    if response.status != 200:
        error = json.loads(response.read())["error"]
        connection.close()
        return response.status, error["code"], 0, response.headers
    reason, tokens = None, 0
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            # A refusal by the engine that took longer than the first heartbeat, with which the head had to go out.
            if event["error"]["code"] != "token_limit_exceeded":
                raise AssertionError(event)
            connection.close()
            return 429, event["error"]["code"], 0, response.headers
        for choice in event["choices"]:
            reason = choice["finish_reason"] or reason
        if event.get("usage"):
            tokens = event["usage"]["total_tokens"]
    connection.close()
    return response.status, reason, tokens, response.headers


class LimitsTest(SmallModelTest):
    def setUp(self):
        self.state = tempfile.TemporaryDirectory(prefix="flyball-state-")

    def tearDown(self):
        self.state.cleanup()

    def limited(self, app):
        return self.small(app=app, more="state_dir: " + self.state.name)

    def usage(self, daemon):
        """What the store has of the app by now."""
        shown = subprocess.run([FLYBALL, "usage", "--config", daemon.config, "--since", "2d", "--json"],
                               capture_output=True, text=True, timeout=300)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        rows = json.loads(shown.stdout)
        return {key: sum(row[key] for row in rows) for key in rows[0] if key not in ("app", "date")} if rows else {}

    def wait_for_usage(self, daemon, key, least):
        end = time.monotonic() + 120
        while (seen := self.usage(daemon)).get(key, 0) < least:
            self.assertLess(time.monotonic(), end, seen)
            time.sleep(0.05)
        return seen

    def test_64_streams_use_a_days_tokens_and_not_one_more(self):
        seed = random.randrange(1 << 30)
        print("seed", seed)
        used, refused, cut, failures = [], [], [], []
        with self.limited(APP) as daemon:
            def run(n):
                draw = random.Random(seed + n)
                try:
                    while True:
                        body = {"prompt": "".join(draw.choice("abcdefgh ") for _ in range(draw.randint(1, 400)))}
                        if draw.random() < 0.8:
                            body["max_tokens"] = draw.randint(1, 60)
                        status, reason, tokens, _ = stream(daemon.port, body)
                        if status != 200:
                            refused.append((status, reason))
                            return
                        used.append(tokens)
                        cut.append(reason)
                except Exception as error:
                    failures.append(error)

            threads = [threading.Thread(target=run, args=(n,)) for n in range(64)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(failures, [])
            self.assertLessEqual(set(refused), {(429, "rate_limited"), (429, "token_limit_exceeded")})
            self.assertLessEqual(sum(used), BUDGET)
            # What is left of it, two tokens at a time.
            while True:
                status, reason, tokens, headers = stream(daemon.port, {"prompt": [5], "max_tokens": 1})
                if status != 200:
                    break
                self.assertEqual(tokens, 2)
                used.append(tokens)
            self.assertIn((status, reason), [(429, "rate_limited"), (429, "token_limit_exceeded")])
            self.assertIn(BUDGET - sum(used), (0, 1))
            self.assertEqual(int(headers["x-ratelimit-remaining-tokens"]), BUDGET - sum(used))
            self.assertEqual(int(headers["x-ratelimit-limit-tokens"]), BUDGET)
            self.assertGreater(int(headers["Retry-After"]), 0)
            self.assertIn("tokens a day", daemon.request("POST", "/v1/completions", {"prompt": [5]})[1]["error"]["message"])

    def test_a_budget_goes_on_after_a_kill(self):
        """Streams that run when the daemon is killed are counted, too: what it loses is what came within its delay."""
        app = APP.replace(str(BUDGET), "1000000")
        body = {"model": "small", "prompt": "Once upon a time", "temperature": 0, "ignore_eos": True, "stream": True,
                "max_tokens": 900}
        with self.limited(app) as daemon:
            # Until usage has tokens of one that still runs: a fast machine may be done before it is read.
            opened, running = [], 0
            while running < 5:
                self.assertLess(len(opened), 200, "every stream is over before its usage is read")
                opened.append(http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=600))
                opened[-1].request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
                response = opened[-1].getresponse()
                for _ in range(40):
                    response.readline()
                before = self.wait_for_usage(daemon, "generated_tokens", 5)
                running = before["generated_tokens"] - body["max_tokens"] * before["requests"]
            self.assertGreater(before["prompt_tokens"], 0)
            daemon.process.kill()
            daemon.process.wait()
            for connection in opened:
                connection.close()
            stored = self.usage(daemon)
            self.assertGreaterEqual(stored["generated_tokens"], before["generated_tokens"])
        used = stored["prompt_tokens"] + stored["generated_tokens"]
        with self.limited(app) as daemon:
            _, answer, headers = daemon.request_with_headers("POST", "/v1/completions", {"prompt": [5], "max_tokens": 1})
            self.assertEqual(answer["usage"]["total_tokens"], 2)
            self.assertEqual(int(headers["x-ratelimit-remaining-tokens"]), 1_000_000 - used - 2)
            now = self.wait_for_usage(daemon, "requests", stored["requests"] + 1)
            self.assertEqual(now["prompt_tokens"] + now["generated_tokens"], used + 2)
            metrics = daemon.request("GET", "/metrics")[1]
            self.assertIn('flyball_app_tokens_today{app="example"} %d' % (used + 2), metrics)
            self.assertIn('flyball_app_tokens_per_day{app="example"} 1e+06', metrics.replace("1000000", "1e+06"))

    def test_two_apps_that_flood_get_their_shares(self):
        """Of a real engine: the gap between their counters stays within the bound at every token, not only at the end."""
        prompt, answer, slots, weight = 40, 24, 8, 0.25
        batch = ("schema: flyball.app/v1\napp: batch\nlimits: {in_flight: 100, weight: 25}\n"
                 "key_sha256: %s\n" % hashlib.sha256(b"batch-key").hexdigest())
        served, failures = {None: 0, "batch-key": 0}, []
        with self.small(more_apps=[batch], more="state_dir: " + self.state.name) as daemon:
            stop = threading.Event()

            def run(key, n):
                draw = random.Random(n)
                try:
                    while not stop.is_set():
                        body = {"prompt": [draw.randint(3, 200) for _ in range(prompt)], "max_tokens": answer}
                        status, reason, tokens, _ = stream(daemon.port, body, key)
                        if (status, reason, tokens) != (200, "length", prompt + answer):
                            raise AssertionError((status, reason, tokens))
                        if not stop.is_set():
                            served[key] += prompt + 2 * answer
                except Exception as error:
                    failures.append(error)
                    stop.set()

            threads = [threading.Thread(target=run, args=(key, 100 * k + n))
                       for k, key in enumerate(served) for n in range(24)]
            for t in threads:
                t.start()
            bound = 2 * max(prompt, slots * 2 * answer) / weight + 4096
            enough = 3 * bound  # so far they would be apart if one had all of it
            end = time.monotonic() + 600
            while served[None] < enough and not stop.is_set():
                self.assertLess(time.monotonic(), end, served)
                time.sleep(0.05)
            stop.set()
            for t in threads:
                t.join()
            self.assertEqual(failures, [])
            gap = float(re.search(r"^flyball_fairness_gap (\S+)$", daemon.request("GET", "/metrics")[1], re.M).group(1))
            print("gap %g of at most %g; served %r" % (gap, bound, served))
            self.assertGreater(gap, 0)
            self.assertLessEqual(gap, bound)
            self.assertLessEqual(abs(served[None] - served["batch-key"] / weight), 2 * bound)

    def test_an_app_that_comes_for_the_first_time_waits_for_no_slot(self):
        """Every sequence of the engine is another app's, and none ends before the newcomer has its answer."""
        newcomer = "schema: flyball.app/v1\napp: newcomer\nkey_sha256: %s\n" % hashlib.sha256(b"newcomer-key").hexdigest()
        with self.small(more_apps=[newcomer]) as daemon:
            begun, ended, connections = threading.Semaphore(0), [], []

            def run(n):
                body = {"model": "small", "prompt": [3 + n] * 8, "max_tokens": 1000, "ignore_eos": True, "stream": True}
                connections[n].request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
                response, seen = connections[n].getresponse(), 0
                try:
                    for line in response:
                        if line.startswith(b"data: "):
                            seen += 1
                            if seen == 1:
                                begun.release()
                            if b"[DONE]" in line:
                                ended.append(n)
                except (OSError, ValueError, AttributeError, http.client.HTTPException):
                    pass  # cut below

            for _ in range(8):
                connections.append(http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=600))
            threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
            for t in threads:
                t.start()
            for _ in threads:
                self.assertTrue(begun.acquire(timeout=300))
            answer = stream(daemon.port, {"prompt": [9] * 16, "max_tokens": 2}, "newcomer-key")
            self.assertEqual((answer[:3], ended), ((200, "length", 18), []))
            for connection in connections:
                connection.sock.shutdown(socket.SHUT_RDWR)
            for t in threads:
                t.join()

    def test_requests_a_minute(self):
        app = APP.replace("tokens_per_day: %d" % BUDGET, "requests_per_minute: 3")
        with self.limited(app) as daemon:
            body = {"prompt": "x", "max_tokens": 1}
            for answered in range(200):  # a slow machine has some back before it has used them all
                status, answer, headers = daemon.request_with_headers("POST", "/v1/completions", body)
                if status != 200:
                    break
                self.assertLessEqual(int(headers["x-ratelimit-remaining-requests"]), 2)
            self.assertGreaterEqual(answered, 3)
            self.assertEqual(status, 429)
            self.assertIn("3 requests a minute", answer["error"]["message"])
            self.assertTrue(1 <= int(headers["Retry-After"]) <= 20, headers["Retry-After"])


if __name__ == "__main__":
    unittest.main()
