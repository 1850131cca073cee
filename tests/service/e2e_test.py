#!/usr/bin/env python3
"""The whole daemon from outside: how it stops, logs, resumes, reloads and serves under systemd.
One test: e2e_test.py [-v] DaemonTest.test_name"""

import ast
import codecs
import http.client
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import GREEDY, SANITIZED, START_LIMIT, Daemon, SmallModelTest, flyball, process_gone, rss_megabytes  # noqa: E402


def requests_seen(daemon):
    """Those answered and those that wait or run."""
    metrics = daemon.request("GET", "/metrics")[1]
    return sum(float(n) for n in re.findall(
        r'^flyball_requests_(?:total\{[^}]*operation="completion"[^}]*\}|waiting|running) (\S+)$', metrics, re.M))


class DaemonTest(SmallModelTest):
    # ---- routing -----------------------------------------------------------------------------------------------

    def test_a_receipt_tells_the_delay_to_an_open_stream(self):
        policy = os.path.join(self.dir.name, "considerate.yaml")
        with open(policy, "w") as out:
            out.write("schema: flyball.policy/v1\ndefault: {because: b, use: cpu, pick: considerate}\n")
        seen = []
        with self.small(more="policy_path: " + policy) as daemon:
            for _ in range(4):
                daemon.stream(dict(GREEDY, model="small", max_tokens=64))

            def explain(n):
                if n == 8:
                    seen.append(daemon.request("POST", "/v1/route/explain", {"model": "small"}))
            # Long enough that it is open when the question comes: a fast machine writes 64 tokens in 16 ms.
            daemon.stream(dict(GREEDY, model="small", max_tokens=1000), explain)
        status, receipt = seen[0]
        self.assertEqual(status, 200, receipt)
        known = {k["name"]: k["value"] for k in receipt["targets"][0]["known"]}
        self.assertGreater(known["expected_delay_to_others"], 0, known)
        self.assertEqual(receipt["picks"][0]["by"], "least_delay")

    # ---- stopping ----------------------------------------------------------------------------------------------

    def test_sigterm_drains_without_a_reset(self):
        body = dict(GREEDY, model="small", max_tokens=15)
        with self.small() as daemon:
            expected = daemon.stream(body)[0]
            results, started = [], threading.Semaphore(0)

            def run():
                released = []

                def on_event(n):
                    if not released:
                        released.append(n)
                        started.release()

                try:
                    results.append(daemon.stream(body, on_event))
                except Exception as error:  # a reset shows here
                    results.append(error)
                    started.release()

            threads = [threading.Thread(target=run) for _ in range(100)]
            for t in threads:
                t.start()
            for _ in range(8):  # the engine runs eight at once; the others wait, and must be answered too
                started.acquire()
            deadline = time.monotonic() + START_LIMIT
            while (seen := requests_seen(daemon)) < 101:
                self.assertLess(time.monotonic(), deadline, "%d of 101 requests came" % seen)
                time.sleep(0.01)
            workers = daemon.workers()
            daemon.signal(signal.SIGTERM)
            for t in threads:
                t.join()
            self.assertEqual(daemon.wait(), 0, "\n".join(daemon.log))
            self.assertEqual([r for r in results if r != (expected, "length", True)], [])
            for pid in workers:
                self.assertTrue(process_gone(pid))

    def test_a_second_signal_stops_at_once(self):
        with self.small() as daemon:
            first = threading.Event()

            def run():
                try:
                    daemon.stream(dict(GREEDY, model="small", max_tokens=900), lambda n: first.set())
                except (OSError, AssertionError, ValueError):
                    pass
                except Exception:  # http.client's own, for a stream that was cut
                    pass

            thread = threading.Thread(target=run)
            thread.start()
            self.assertTrue(first.wait(120))
            daemon.signal(signal.SIGINT)
            daemon.wait_for_log("draining")
            daemon.signal(signal.SIGINT)
            self.assertEqual(daemon.wait(10), 0)
            thread.join()

    def test_without_standard_descriptors_no_socket_takes_their_place(self):
        config = Daemon.config_text

        class Bare(Daemon):
            def config_text(self, more=""):
                return config(self, more).replace("127.0.0.1:8080", "127.0.0.1:0")

        with Bare(command=["/bin/sh", "-c", 'exec "$@" <&- 2>&-', "sh"]) as daemon:
            self.assertEqual(daemon.request("GET", "/healthz")[0], 200)
            for fd in (0, 2):
                self.assertEqual(os.readlink("/proc/%d/fd/%d" % (daemon.process.pid, fd)), "/dev/null")

    def test_a_log_that_cannot_be_written_stops_nothing(self):
        config = Daemon.config_text

        class Full(Daemon):
            def config_text(self, more=""):
                return config(self, more).replace("127.0.0.1:8080", "127.0.0.1:0")

        with Full(command=["/bin/sh", "-c", 'exec "$@" 2>/dev/full', "sh"]) as daemon:
            for _ in range(3):
                status, answer = daemon.request("POST", "/v1/completions", dict(GREEDY, model="demo", max_tokens=2))
                self.assertEqual(status, 200, answer)
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)

    def test_every_request_is_one_line_of_log_without_what_it_said(self):
        with Daemon() as daemon:
            def ask(model, headers):
                connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=180)
                connection.request("POST", "/v1/completions", json.dumps({"model": model, "prompt": "hush-hush", "max_tokens": 1}),
                                   dict({"content-type": "application/json"}, **headers))
                response = connection.getresponse()
                response.read()
                connection.close()
                return response.getheader("x-request-id")

            for model, headers, fields in (
                ("demo", {}, "app=example model=demo backend=cpu operation=completion status=200 code=ok"),
                ("who-knows", {}, "app=example model=none backend=none operation=completion status=404 code=model_not_found"),
                ("demo", {"authorization": "Bearer hush-hush-key"},
                 "app=none model=none backend=none operation=refused status=401 code=invalid_api_key"),
                ("demo", {"host": "evil.example"},
                 "app=none model=none backend=none operation=refused status=403 code=host_not_allowed"),
            ):
                request_id = ask(model, headers)
                daemon.wait_for_log("request_id=%s %s" % (request_id, fields))
                self.assertEqual(sum(request_id in line for line in daemon.log), 1)
            for said in ("hush", "who-knows", "evil"):
                self.assertEqual([line for line in daemon.log if said in line], [])

    def test_sigpipe_and_hangups_change_nothing(self):
        with Daemon() as daemon:
            daemon.signal(signal.SIGPIPE)
            for _ in range(20):
                s = socket.create_connection(("127.0.0.1", daemon.port))
                s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
                s.close()
            self.assertEqual(daemon.request("GET", "/healthz")[0], 200)

    def test_a_beginning_sent_before_is_not_computed_again(self):
        with self.small() as daemon:
            body = dict(GREEDY, model="small", max_tokens=20, prompt="The same beginning. " * 20)
            cold, warm = (daemon.request("POST", "/v1/completions", body)[1] for _ in range(2))
            self.assertEqual(cold["choices"][0]["text"], warm["choices"][0]["text"])
            cached = [a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in (cold, warm)]
            tokens = cold["usage"]["prompt_tokens"]
            self.assertEqual(cached[0], 0)
            self.assertGreater(cached[1], tokens - 17)  # whole blocks of 16, and one token to compute
            deadline = time.monotonic() + 120
            while True:  # the worker tells its sums at each heartbeat
                metrics = daemon.request("GET", "/metrics")[1]
                if 'prefix_cache_hits{backend="cpu",model="small"} %d\n' % cached[1] in metrics:
                    break
                self.assertLess(time.monotonic(), deadline, metrics)
                time.sleep(0.1)
            self.assertIn('prefix_cache_queries{backend="cpu",model="small"} %d\n' % (2 * tokens), metrics)

    def test_legacy_logprobs_say_where_each_token_is_in_the_text(self):
        """The model makes bytes of "a", "é" and "中" in any order: of several, one character or none."""
        def bytes_of(token):
            return ast.literal_eval("b'%s'" % token[6:]) if token.startswith("bytes:") else token.encode()

        def text_of(some):
            return some.decode(errors="replace")

        def told(some):  # max_tokens may cut the last character, which is left out then
            return codecs.getincrementaldecoder("utf-8")("replace").decode(some)

        def check(lists, text):
            made = b"".join(map(bytes_of, lists["tokens"]))
            self.assertEqual(told(made), text)
            at = 0
            for token, logprob, top, offset in zip(
                    *(lists[name] for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"))):
                before = text_of(made[:at])
                within = before + told(made[at:]) != text  # a character that began before
                self.assertEqual(offset, len(before) - within, (made, at))
                self.assertEqual(top[token], logprob)
                self.assertIn(len(top), (3, 4))
                at += len(bytes_of(token))

        # The vocabulary begins with the 256 bytes.
        body = {"model": "small", "prompt": "Once upon a time", "max_tokens": 60, "temperature": 2, "logprobs": 3,
                "logit_bias": {str(byte): 100 for byte in "aé中".encode()}}
        with self.small() as daemon:
            texts = ""
            for seed in range(4):
                answer = daemon.request("POST", "/v1/completions", dict(body, seed=seed))[1]["choices"][0]
                check(answer["logprobs"], answer["text"])
                texts += answer["text"]
                streamed = {name: [] for name in answer["logprobs"]}
                events = daemon.request("POST", "/v1/completions", dict(body, seed=seed, stream=True))[1]
                for event in re.findall("data: ({.*})", events):
                    for name, part in (json.loads(event)["choices"][0]["logprobs"] or {}).items():
                        streamed[name] += part
                self.assertEqual(streamed, answer["logprobs"])
            for character in "aé\N{REPLACEMENT CHARACTER}":
                self.assertIn(character, texts)

    # ---- configuration -----------------------------------------------------------------------------------------

    def test_the_kv_cache_is_kept_as_the_configuration_says(self):
        resident = {}
        for kv_type in ("f16", "q8_0"):
            with Daemon({"demo": "embedded: true\ncontext: 1024\nmax_sequences: 8\nkv_type: %s" % kv_type}) as daemon:
                self.assertEqual(daemon.stream(dict(GREEDY, max_tokens=40))[1], "length")
                metrics = daemon.request("GET", "/metrics")[1]
                resident[kv_type] = float(re.search(r"model_resident_bytes{.*} (\S+)", metrics)[1])
                daemon.wait_for_log("KV as %s" % kv_type)
        # 6 layers of 2 heads of 32 values, twice: 64 bytes each as f16, 34 as q8_0.
        self.assertEqual(resident["f16"] - resident["q8_0"], 8 * 1024 * 6 * 2 * 2 * (64 - 34))

    def test_a_bad_config_is_exit_78_with_its_place(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.yaml")
            with open(path, "w") as out:
                out.write("schema: flyball.config/v1\nlistners:\n  local:\n    tcp: 127.0.0.1:0\n")
            ended = flyball("serve", "--config", path)
            self.assertEqual(ended.returncode, 78)
            self.assertIn("%s:2:1" % path, ended.stderr)
            self.assertIn("listeners", ended.stderr)  # did you mean
            self.assertEqual(flyball("serve", "--config", path + ".absent").returncode, 78)

    def test_sighup_with_a_bad_file_keeps_the_old_configuration(self):
        with Daemon() as daemon:
            good = daemon.config_text()
            daemon.write_config(good.replace("drain_timeout", "drain_timeuot"))
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("reload refused")
            line = next(line for line in daemon.log if "reload refused" in line)
            self.assertIn("config.yaml:", line)
            self.assertIn("drain_timeout", line)
            status, body = daemon.request("POST", "/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1})
            self.assertEqual(status, 200, body)
            worker = daemon.workers()
            daemon.models = {"demo": "embedded: true", "small": "path: %s" % self.model}
            daemon.write_config(daemon.config_text())
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded")
            ids = [m["id"] for m in daemon.request("GET", "/v1/models")[1]["data"]]
            self.assertIn("small", ids)
            self.assertEqual(daemon.workers(), worker)  # an unchanged model stays loaded
            daemon.models = {"small": "path: %s" % self.model}
            daemon.write_config(daemon.config_text())
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded", count=2)
            status, body = daemon.request("POST", "/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1})
            self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))
            self.assertTrue(process_gone(worker[0]))

    def test_the_log_says_what_a_reload_cannot_do(self):
        with Daemon() as daemon:
            self.assertFalse([line for line in daemon.log if "nothing is known" in line])
            broken = os.path.join(daemon.dir.name, "broken.gguf")
            with open(broken, "w") as out:
                out.write("GGUF?")
            daemon.models = {"demo": "embedded: true", "broken": "path: %s" % broken}
            daemon.write_config(daemon.config_text("state_dir: " + os.path.join(daemon.dir.name, "elsewhere")))
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("model broken cannot be served now: %s: the file ends inside the version" % broken)
            self.assertEqual(len([line for line in daemon.log if "until it is restarted" in line]), 1, daemon.log)
            self.assertTrue([line for line in daemon.log if "state_dir changed" in line], daemon.log)
            status, body = daemon.request("POST", "/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1})
            self.assertEqual(status, 200, body)

    # ---- the machine -------------------------------------------------------------------------------------------

    def test_the_idle_daemon_is_small_and_quiet(self):
        with self.small() as daemon:
            daemon.stream(dict(GREEDY, model="small", max_tokens=50))
            time.sleep(1)
            rss = rss_megabytes(daemon.process.pid)
            with open("/proc/%d/maps" % daemon.process.pid) as f:
                maps = f.read()
            ticks = self.cpu_ticks(daemon)
            time.sleep(5)
            used = (self.cpu_ticks(daemon) - ticks) / os.sysconf("SC_CLK_TCK") / 5
            print("idle daemon: RSS %.1f MB, CPU %.2f %%" % (rss, used * 100))
            for driver in ("libvulkan", "libOpenCL", "libLLVM", "small.gguf"):
                self.assertNotIn(driver, maps)
            if not SANITIZED:
                self.assertLess(rss, 30)
                self.assertLess(used, 0.02)

    @staticmethod
    def cpu_ticks(daemon):
        with open("/proc/%d/stat" % daemon.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    # ---- systemd -----------------------------------------------------------------------------------------------

    def test_it_tells_systemd_what_it_does(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "notify")
            server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            server.bind(path)
            server.settimeout(60)

            def until(word):
                seen = []
                while True:
                    seen.append(server.recv(4096).decode())
                    if word in seen[-1].split("\n"):
                        return seen[-1]
                    self.assertLess(len(seen), 1000)

            with Daemon(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"}) as daemon:
                self.assertIn("STATUS=1 models", until("READY=1"))
                began = time.monotonic()
                for _ in range(5):
                    until("WATCHDOG=1")
                self.assertLess(time.monotonic() - began, 60)
                # A daemon that stands still feeds nobody.
                daemon.signal(signal.SIGSTOP)
                time.sleep(0.3)
                server.setblocking(False)
                try:
                    while True:
                        server.recv(4096)
                except BlockingIOError:
                    pass
                time.sleep(0.5)
                with self.assertRaises(BlockingIOError):
                    server.recv(4096)
                server.settimeout(60)
                daemon.signal(signal.SIGCONT)
                until("WATCHDOG=1")
                before = time.clock_gettime(time.CLOCK_MONOTONIC)
                daemon.signal(signal.SIGHUP)
                reloading = until("RELOADING=1")
                stamp = int(next(l for l in reloading.split("\n") if l.startswith("MONOTONIC_USEC=")).split("=")[1])
                self.assertTrue(before - 1e-6 <= stamp / 1e6 <= time.clock_gettime(time.CLOCK_MONOTONIC), (before, stamp))
                until("READY=1")
                daemon.signal(signal.SIGTERM)
                until("STOPPING=1")
                self.assertEqual(daemon.wait(), 0)
            server.close()

    def test_it_serves_on_a_socket_that_systemd_opened(self):
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        config = Daemon.config_text  # the same file with another listener
        starter = ["/bin/sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&%d' % listener.fileno(), "sh"]

        class Activated(Daemon):
            def config_text(self, more=""):
                return config(self, more).replace("tcp: 127.0.0.1:8080", "systemd: true")

        with Activated(command=starter, pass_fds=(listener.fileno(),)) as daemon:
            daemon.port = port
            self.assertEqual(daemon.request("GET", "/healthz")[0], 200)
        listener.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
