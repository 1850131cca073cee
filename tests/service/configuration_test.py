#!/usr/bin/env python3
"""What an operator writes, or puts beside it, takes effect or is named: paths, files' names, listeners, and model files
that are replaced. One test: configuration_test.py [-v] ConfigurationTest.test_name"""

import hashlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import FLYBALL, GREEDY, Daemon, SmallModelTest, flyball, kill_workers  # noqa: E402

PROMPT = " ".join("word%d" % (n * 7919 % 1000) for n in range(150))  # several hundred tokens: they are spilled
OTHER_APP = "schema: flyball.app/v1\napp: other\nkey_sha256: %s\n" % hashlib.sha256(b"other-key-012345").hexdigest()


class Folder:
    """A configuration that no daemon runs, for `flyball check` and starts that are refused."""

    def __init__(self, more=""):
        self.dir = tempfile.TemporaryDirectory(prefix="flyball-config-")
        self.home = self.path("home")
        os.makedirs(self.path("apps.d"))
        os.mkdir(self.home)
        self.write("apps.d/example.yaml", "schema: flyball.app/v1\napp: example\n")
        self.write("config.yaml", "schema: flyball.config/v1\nlisteners:\n  local: {tcp: \"127.0.0.1:0\"}\n"
                   "loopback_without_key: true\ndefault_app: example\nmodels:\n  demo: {embedded: true}\n" + more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.dir.cleanup()

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as out:
            out.write(text)

    def run(self, *args):
        return flyball(*args, env=dict(os.environ, HOME=self.home))

    def check(self):
        return self.run("check", self.path("config.yaml"))


class ConfigurationTest(unittest.TestCase):
    def test_a_leading_tilde_is_the_home_directory(self):
        home = tempfile.mkdtemp(prefix="flyball-home-")
        try:
            with Daemon(more="state_dir: ~/state\ncache_dir: ~/deep/cache", env={"HOME": home}) as daemon:
                status, _ = daemon.request("POST", "/v1/completions", dict(GREEDY, max_tokens=1))
                self.assertEqual(status, 200)
                self.assertIn("state", os.listdir(home))
                self.assertEqual([n for n in os.listdir(daemon.dir.name) if n.startswith("~")], [])
        finally:
            shutil.rmtree(home)

    def test_variables_and_other_homes_are_refused_by_check_and_at_the_start(self):
        for value in ("$HOME/state", "${HOME}/state", "~root/state"):
            with Folder("state_dir: %s\n" % value) as folder:
                for ran in (folder.check(), folder.run("serve", "--config", folder.path("config.yaml"))):
                    self.assertEqual(ran.returncode, 78, ran.stdout + ran.stderr)
                    said = ran.stdout + ran.stderr
                    self.assertIn("config.yaml:8:12", said)
                    self.assertIn('state_dir: expected a path', said)
                    self.assertIn('got "%s"' % value, said)
                    self.assertIn("./~name", said)
                self.assertEqual(sorted(os.listdir(folder.dir.name)), ["apps.d", "config.yaml", "home"])

    def test_yml_files_are_read_and_strays_are_named(self):
        with Folder() as folder:
            folder.write("apps.d/other.yml", OTHER_APP)
            folder.write("config.d/10-models.YML", "schema: flyball.config/v1\nmodels:\n  second: {embedded: true}\n")
            strays = ["apps.d/other.yaml.bak", "apps.d/team/a.yaml", "config.d/20.json", "config.yml"]
            for stray in strays + ["apps.d/README.md", "apps.d/.other.yaml.swp"]:
                folder.write(stray, "x")
            checked = folder.check()
            self.assertEqual(checked.returncode, 0, checked.stdout)
            named = [line for line in checked.stdout.splitlines() if "warning: not read" in line]
            self.assertEqual(len(named), len(strays), checked.stdout)
            for stray in ("apps.d/other.yaml.bak", "apps.d/team", "config.d/20.json", "config.yml"):
                self.assertTrue(any(line.startswith(folder.path(stray) + ": ") for line in named), stray)
            process = subprocess.Popen([FLYBALL, "serve", "--config", folder.path("config.yaml"), "--print-url",
                                        "--probe-timeout-ms", "100"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True, env=dict(os.environ, HOME=folder.home))
            try:
                port = int(process.stdout.readline().strip().rsplit(":", 1)[1])
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", "/v1/models", headers={"Authorization": "Bearer other-key-012345"})
                response = connection.getresponse()
                text = response.read().decode()
                connection.close()
                self.assertEqual(response.status, 200, text)
                self.assertIn('"second"', text)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()

    def test_check_names_what_has_no_effect(self):
        with Folder() as folder:
            folder.write("apps.d/lost.yaml", "schema: flyball.app/v1\napp: lost\n")
            self.assertIn('no request can act as "lost"', folder.check().stdout)
            os.remove(folder.path("apps.d/lost.yaml"))
            self.assertIn("0 errors, 0 warnings", folder.check().stdout)
            with open(folder.path("config.yaml")) as config:
                text = config.read()
            folder.write("config.yaml", text.replace("loopback_without_key: true\n", ""))
            self.assertIn("default_app: it means nothing without `loopback_without_key: true`", folder.check().stdout)
            os.remove(folder.path("apps.d/example.yaml"))
            folder.write("config.yaml", text.replace("loopback_without_key: true\ndefault_app: example\n", ""))
            self.assertIn("no manifest: every request is refused", folder.check().stdout)

    @unittest.skipUnless(socket.has_dualstack_ipv6(), "no IPv6 here")
    def test_all_addresses_of_both_families_are_two_listeners(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for order in (["0.0.0.0", "[::]"], ["[::]", "0.0.0.0"]):
            with Folder() as folder:
                with open(folder.path("config.yaml")) as config:
                    text = config.read()
                listeners = "".join('  l%d: {tcp: "%s:%d"}\n' % (n, a, port) for n, a in enumerate(order))
                folder.write("config.yaml", text.replace('  local: {tcp: "127.0.0.1:0"}\n', listeners))
                self.assertEqual(folder.check().returncode, 0, folder.check().stdout)
                process = subprocess.Popen([FLYBALL, "serve", "--config", folder.path("config.yaml"), "--print-url",
                                            "--probe-timeout-ms", "100"], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True, env=dict(os.environ, HOME=folder.home))
                try:
                    self.assertNotEqual(process.stdout.readline(), "", process.poll())
                    process.stdout.readline()
                    for host in ("127.0.0.1", "::1"):
                        connection = http.client.HTTPConnection(host, port, timeout=60)
                        connection.request("GET", "/healthz")
                        self.assertEqual(connection.getresponse().status, 200)
                        connection.close()
                finally:
                    process.kill()
                    process.communicate()


class ModelFileTest(SmallModelTest):
    """A model's file is replaced under a daemon that has loaded it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for n in (2, 3):
            made = flyball("make-model", "--out", cls.other(n), "--shape", "small,context=2048", "--type", "Q8_0",
                           "--seed", str(n), "--quiet")
            assert made.returncode == 0, made.stderr

    @classmethod
    def other(cls, seed):
        return os.path.join(cls.dir.name, "seed%d.gguf" % seed)

    def setUp(self):
        self.own = tempfile.TemporaryDirectory(prefix="flyball-replaced-")
        self.file = os.path.join(self.own.name, "m.gguf")
        self.kv = os.path.join(self.own.name, "kv")
        shutil.copy(self.model, self.file)

    def tearDown(self):
        self.own.cleanup()

    def daemon(self, more="", kv_spill="{max_bytes: 0B}"):
        return Daemon({"m": "path: %s\ncontext: 1024%s" % (self.file, more)}, kv_spill=kv_spill)

    def replace(self, seed):
        beside = self.file + ".next"
        shutil.copy(self.other(seed), beside)
        os.rename(beside, self.file)

    def ask(self, daemon, prompt=PROMPT):
        status, body = daemon.request("POST", "/v1/completions", dict(GREEDY, model="m", prompt=prompt, max_tokens=24))
        self.assertEqual(status, 200, body)
        return body["choices"][0]["text"], body["usage"]["prompt_tokens_details"]["cached_tokens"]

    def expected(self, file):
        with Daemon({"m": "path: %s\ncontext: 1024" % file}) as daemon:
            return self.ask(daemon)[0]

    def digest(self, daemon):
        status, body = daemon.request("GET", "/v1/models/m")
        self.assertEqual(status, 200)
        return body.get("digest")

    def digest_on_disk(self, daemon):
        out = flyball("check", daemon.config).stdout
        return re.search(r": model m has the digest ([0-9a-f]{12})$", out, re.M).group(1)

    def test_a_reload_serves_the_new_file_and_says_so(self):
        old, new = self.expected(self.model), self.expected(self.other(2))
        self.assertNotEqual(old, new)
        with self.daemon(kv_spill="{directory: %s, max_bytes: 256MiB}" % self.kv) as daemon:
            self.assertIsNone(self.digest(daemon))
            self.assertEqual(self.ask(daemon)[0], old)
            first = self.digest(daemon)
            self.assertEqual(first[:12], self.digest_on_disk(daemon))
            daemon.wait_for_log("digest=" + first[:12])
            self.replace(2)
            self.assertNotEqual(self.digest_on_disk(daemon), first[:12])
            daemon.signal(1)
            daemon.wait_for_log("configuration reloaded")
            daemon.wait_for_log("model file replaced, the engine ends when its answers have ended or after drain_timeout: "
                                + self.file)
            # The new weights get neither the KV nor the predictions of the old ones.
            self.assertEqual(self.ask(daemon), (new, 0))
            second = self.digest(daemon)
            self.assertNotEqual(second, first)
            self.assertEqual(second[:12], self.digest_on_disk(daemon))
            daemon.wait_for_log("digest=" + second[:12])
            status, engines = daemon.request("GET", "/v1/engines")
            self.assertEqual([e["digest"] for e in engines["engines"]], [second])
            pid, = daemon.workers()
            daemon.signal(1)  # nothing has changed
            daemon.wait_for_log("configuration reloaded", count=2)
            self.assertEqual(self.ask(daemon)[0], new)
            os.utime(self.file, (1, 1))
            self.assertEqual(self.digest_on_disk(daemon), second[:12], "it is the same model")
            self.assertEqual(daemon.workers(), [pid])

    def test_kv_of_the_old_weights_is_never_restored_for_the_new_ones(self):
        new = self.expected(self.other(2))
        stat = os.stat(self.file)
        spill = "{directory: %s, max_bytes: 256MiB}" % self.kv
        with self.daemon(kv_spill=spill) as daemon:
            self.ask(daemon)
            daemon.signal(15)
            self.assertEqual(daemon.wait(), 0)
        self.assertNotEqual(os.listdir(self.kv), [])
        self.replace(2)
        os.utime(self.file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as `cp -p` and archives leave it
        self.assertEqual(os.stat(self.file).st_size, stat.st_size)
        with self.daemon(kv_spill=spill) as daemon:
            self.assertEqual(self.ask(daemon), (new, 0))

    def test_streams_end_on_the_file_that_they_began_with(self):
        body = dict(GREEDY, model="m", prompt="Once", max_tokens=600)
        with Daemon({"m": "path: %s\ncontext: 1024" % self.model}) as daemon:
            expected, _, _ = daemon.stream(body)
        with self.daemon() as daemon:
            def on_event(n):
                if n == 5:
                    self.replace(2)
                    daemon.signal(1)
            text, reason, done = daemon.stream(body, on_event)
            self.assertEqual((text, reason, done), (expected, "length", True))
            self.assertIn("configuration reloaded", "\n".join(daemon.log))

    def test_a_stream_whose_engine_dies_never_goes_on_with_other_weights(self):
        with self.daemon() as daemon:
            def on_event(n):
                if n == 5:
                    self.replace(2)
                    kill_workers(daemon)
            with self.assertRaises(AssertionError) as ended:
                daemon.stream(dict(GREEDY, model="m", prompt="Once", max_tokens=900), on_event)
            self.assertIn("worker_died", str(ended.exception))

    def test_a_file_that_cannot_be_read_and_one_with_a_pin_leave_the_engine(self):
        with open(self.model, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        with self.daemon("\nsha256: " + digest) as daemon:
            text, _ = self.ask(daemon)
            pid, = daemon.workers()
            self.replace(2)
            daemon.signal(1)
            daemon.wait_for_log("the engine goes on with the bytes that sha256 names")
            self.assertEqual(self.ask(daemon)[0], text)
            self.assertEqual(daemon.workers(), [pid])
        with self.daemon() as daemon:
            text, _ = self.ask(daemon)
            beside = self.file + ".next"
            with open(beside, "wb") as out:
                out.write(b"GGUF")
            os.rename(beside, self.file)
            daemon.signal(1)
            daemon.wait_for_log("cannot be served now")
            self.assertEqual(self.ask(daemon)[0], text)

    def test_a_file_written_over_in_place_costs_one_engine(self):
        third = self.expected(self.other(3))
        with self.daemon() as daemon:
            self.ask(daemon)
            with open(self.other(3), "rb") as file:
                data = file.read()
            with open(self.file, "r+b") as file:
                file.truncate(0)
                daemon.request("POST", "/v1/completions", dict(GREEDY, model="m", max_tokens=8))
                file.write(data)
            daemon.signal(1)
            daemon.wait_for_log("configuration reloaded")
            end = time.monotonic() + 60
            while time.monotonic() < end:
                status, body = daemon.request("POST", "/v1/completions",
                                              dict(GREEDY, model="m", prompt=PROMPT, max_tokens=24))
                if status == 200 and body["choices"][0]["text"] == third:
                    break
                time.sleep(0.2)
            self.assertEqual((status, body["choices"][0]["text"] if status == 200 else body), (200, third))
            self.assertIsNone(daemon.process.poll())


if __name__ == "__main__":
    unittest.main()
