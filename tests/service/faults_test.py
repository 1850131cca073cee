#!/usr/bin/env python3
"""Faults of the machine and of model files, on the whole daemon from outside: rows of the reliability table that no
smaller test can show. One test: faults_test.py [-v] FaultsTest.test_name"""

import glob
import http.client
import mmap
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import GREEDY, SANITIZED, Daemon, SmallModelTest, peak_rss_megabytes, rss_megabytes  # noqa: E402

WALL_CLOCK = os.environ.get("FLYBALL_WALL_CLOCK", "")
CORPUS = os.path.join(os.environ["FLYBALL_SOURCE_DIR"], "tests", "fuzz", "corpus", "gguf")
YEAR = 365 * 24 * 3600
MOST_RSS_MB = 16


class WallClock:
    """A wall clock that a test sets: seconds off the machine's."""

    def __enter__(self):
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(struct.pack("=q", 0))
        self.file.flush()
        self.bytes = mmap.mmap(self.file.fileno(), 8)
        self.env = {"LD_PRELOAD": WALL_CLOCK, "XDG_FLYBALL_TEST_CLOCK": self.file.name}
        return self

    def set(self, seconds):
        self.bytes[:] = struct.pack("=q", seconds)

    def __exit__(self, *_):
        self.bytes.close()
        self.file.close()


class Load:
    """Clients that ask without a pause, each request on a connection of its own: `answered`, and what `failed`."""

    def __init__(self, port, clients, method="POST", path="/v1/completions"):
        self.answered, self.failed, self.method, self.path, self.over = 0, [], method, path, threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(port,)) for _ in range(clients)]

    def ask(self, port):
        body = '{"model": "demo", "prompt": "x", "max_tokens": 1}' if self.method == "POST" else None
        while not self.over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            try:
                connection.request(self.method, self.path, body, {"content-type": "application/json"})
                response = connection.getresponse()
                text = response.read()
                if response.status != 200:
                    self.failed.append((response.status, text))
            except Exception as error:  # refused, reset, cut
                self.failed.append(repr(error))
            connection.close()
            self.answered += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


class FaultsTest(SmallModelTest):
    # ---- the wall clock ----------------------------------------------------------------------------------------

    LIMITS = "http:\n  header_timeout: 5s\n"

    def half_a_request(self, daemon):
        client = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        return client

    @unittest.skipIf(SANITIZED, "a sanitizer's library wants to be loaded first")
    @unittest.skipUnless(os.path.exists(WALL_CLOCK), "no library to preload")
    def test_a_wall_clock_that_jumps_ends_nothing(self):
        with WallClock() as clock, \
                self.small(more=self.LIMITS, env=clock.env) as daemon:
            body = dict(GREEDY, model="small", max_tokens=300)
            whole = daemon.stream(body)
            workers = daemon.workers()

            # While one streams, one is idle between requests and one in the middle of its header: forward as a suspend
            # or a dead battery does it, back as an operator does it.
            for away in (YEAR, -YEAR):
                idle = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
                jumped = []

                def jump(n):
                    if n == 20:
                        jumped.append(self.half_a_request(daemon))
                        clock.set(away)
                    if n == 40:
                        time.sleep(2.5)  # heartbeats and timers come round
                        jumped[0].sendall(b"\r\n")

                self.assertEqual(daemon.stream(body, jump), whole)
                for client in (jumped[0], idle):
                    if client is idle:
                        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertEqual(client.recv(100).split()[1], b"200")
                    client.close()
                # The daemon's own calendar is the one that moved, or nothing was tested.
                answer = daemon.request("POST", "/v1/completions", dict(GREEDY, model="small", max_tokens=1))[1]
                self.assertAlmostEqual(answer["created"], time.time() + away, delta=3600)

            # Timeouts still come in their time, no earlier and no later.
            started = time.monotonic()
            client = self.half_a_request(daemon)
            clock.set(0)
            self.assertEqual(client.recv(100).split()[1], b"408")
            self.assertGreater(time.monotonic() - started, 4.5)
            client.close()
            self.assertEqual(daemon.workers(), workers)
            daemon.wait_for_log("request_timeout")  # it may come after the answer
            log = "\n".join(daemon.log)
            for trouble in ("was stopped", "killed", "disabled", "model_unavailable"):
                self.assertNotIn(trouble, log)
            self.assertEqual(log.count("request_timeout"), 1)

    # ---- reload and restart under load ------------------------------------------------------------------------

    def test_a_thousand_reloads_half_of_them_invalid_fail_no_request(self):
        reloads = 100 if SANITIZED else 1000
        with Daemon() as daemon:
            self.assertEqual(daemon.request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})[0], 200)
            plain = daemon.config_text()
            daemon.models = dict(daemon.models, extra="embedded: true")
            valid = [daemon.config_text(), plain]  # with the model "extra", and without
            invalid = [
                plain + "default_model: demo\n",
                plain.replace("drain_timeout", "drain_timeuot"),
                plain.replace("300s", "soon"),
                plain.replace("default_model: demo", "default_model: domo"),
                plain + "policy: /nowhere/policy.yaml\n",
                plain + "x: " + "[" * 200 + "]" * 200 + "\n",
                plain.replace("tcp: 127.0.0.1:8080", "tcp: 127.0.0.1:8080:1"),
                "",
            ]
            seen = {"configuration reloaded": 0, "reload refused": 0}
            read = 0

            def reload(text, expected):
                nonlocal read
                daemon.write_config(text)
                daemon.signal(signal.SIGHUP)
                end = time.monotonic() + 60
                while True:
                    while read < len(daemon.log):
                        for known in seen:
                            if known in daemon.log[read]:
                                self.assertEqual(known, expected, (text, daemon.log[read]))
                                seen[known] += 1
                                read += 1
                                return
                        read += 1
                    self.assertLess(time.monotonic(), end, text)
                    time.sleep(0.001)

            with Load(daemon.port, 2) as load:
                for i in range(reloads // 2):
                    reload(valid[i % 2], "configuration reloaded")
                    reload(invalid[i % len(invalid)], "reload refused")
                    if i % 25 < 2:
                        ids = [m["id"] for m in daemon.request("GET", "/v1/models")[1]["data"]]
                        self.assertEqual(ids, ["demo", "extra"] if i % 2 == 0 else ["demo"])
            print("%d reloads, half of them refused, beside %d requests" % (reloads, load.answered))
            self.assertEqual(load.failed, [])
            self.assertGreater(load.answered, 10)
            self.assertEqual(list(seen.values()), [reloads // 2, reloads // 2])
            self.assertEqual(len(daemon.workers()), 1)

    def test_restarts_on_systemds_socket_lose_no_connection(self):
        restarts = int(os.environ.get("FLYBALL_RESTARTS", 5 if SANITIZED else 30))
        config = Daemon.config_text

        class Activated(Daemon):
            def config_text(self, more=""):
                return config(self, more).replace("tcp: 127.0.0.1:8080", "systemd: true")

        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        starter = ["/bin/sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&%d' % listener.fileno(), "sh"]
        with Load(listener.getsockname()[1], 2, "GET", "/v1/models") as load:
            for _ in range(restarts):
                before = load.answered
                with Activated(command=starter, pass_fds=(listener.fileno(),)) as daemon:
                    end = time.monotonic() + 60
                    while load.answered < before + 10 and time.monotonic() < end:
                        time.sleep(0.001)
                    daemon.signal(signal.SIGTERM)
                    self.assertEqual(daemon.wait(), 0, daemon.log)
            load.over.set()
            with Activated(command=starter, pass_fds=(listener.fileno(),)):  # for those who still wait
                for thread in load.threads:
                    thread.join()
        print("%d restarts beside %d requests" % (restarts, load.answered))
        listener.close()
        self.assertEqual(load.failed, [])
        self.assertGreaterEqual(load.answered, 10 * restarts)

    # ---- model files -------------------------------------------------------------------------------------------

    def hostile_files(self):
        """Paths of malformed GGUF files: the fuzzers' corpus, a model cut at many places, and large ones."""
        files = sorted(glob.glob(os.path.join(CORPUS, "*")))
        with open(self.model, "rb") as whole:
            model = whole.read()
        made = {"cut-%d" % n: model[:n] for n in (3, 24, 200, 4000, 100_000, len(model) - 1)}
        tiny_keys = b"".join(struct.pack("<Q", len(k)) + k + struct.pack("<I", 0) + b"x"
                             for k in (str(i).encode() for i in range(65536)))
        made["tiny-keys"] = (b"GGUF" + struct.pack("<IQQ", 3, 0, 65536) + tiny_keys).ljust(20_000_000, b"\0")
        array = struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 8, 2_000_000)
        made["empty-strings"] = (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + array).ljust(20_000_000, b"\0")
        for name, content in made.items():
            files.append(os.path.join(self.dir.name, name))
            with open(files[-1], "wb") as out:
                out.write(content)
        files.append(os.path.join(self.dir.name, "sparse"))
        with open(files[-1], "wb") as out:
            out.write(b"GGUF" + struct.pack("<IQQ", 3, 65536, 65536))
            out.truncate(1 << 33)
        return files

    def test_malformed_models_cost_the_daemon_no_memory(self):
        files = self.hostile_files()
        models = {"demo": "embedded: true", **{"bad-%d" % i: "path: %s" % path for i, path in enumerate(files)}}
        ask = {"prompt": "x", "max_tokens": 1}
        with Daemon(models) as daemon:
            status, answer = daemon.request("POST", "/v1/completions", dict(ask, model="demo"))
            self.assertEqual(status, 200, answer)
            with open("/proc/%d/clear_refs" % daemon.process.pid, "w") as clear:
                clear.write("5")  # the peak begins anew
            before = rss_megabytes(daemon.process.pid)
            for i, path in enumerate(files):
                status, answer = daemon.request("POST", "/v1/completions", dict(ask, model="bad-%d" % i))
                self.assertEqual((status, answer["error"]["code"]), (503, "model_invalid"), (path, answer))
            status, answer = daemon.request("POST", "/v1/completions", dict(ask, model="demo"))
            self.assertEqual(status, 200, answer)
            peak = peak_rss_megabytes(daemon.process.pid)
            print("daemon: RSS %.1f MB, at most %.1f MB over %d malformed models" % (before, peak, len(files)))
            self.assertLess(peak, before + MOST_RSS_MB)


if __name__ == "__main__":
    unittest.main()
