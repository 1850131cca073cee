#!/usr/bin/env python3
"""README's commands, one after the other, as a newcomer with an empty home would type them.

Every ```sh block runs in one shell, in a folder that looks like a built clone; behind them runs the one by which
docs/clients.md has containers ask. Stand-ins: the demo model takes the place of the model in Ollama's store and of the
one that a server of the test's own hands out as the hub, a free port that of 8080 and 127.0.0.2 that of Docker's bridge.
The commands of "Try it" install and build, and have tests of their own.
One test: readme_test.py [-v] ReadmeTest.test_name"""

import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

FLYBALL = os.environ["FLYBALL"]
SOURCE = os.environ["FLYBALL_SOURCE_DIR"]
SERVE = "flyball serve &\n"

MODEL = os.path.join(SOURCE, "packaging", "demo_model", "demo.gguf")
REPOSITORY, FILE = "Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf"


class Hub(http.server.BaseHTTPRequestHandler):
    """The repository that README pulls from."""

    def do_GET(self):
        with open(MODEL, "rb") as f:
            model = f.read()
        path = self.path.split("?")[0]
        if path == "/api/models/%s/tree/main" % REPOSITORY:
            digest = hashlib.sha256(model).hexdigest()
            body = json.dumps([{"type": "file", "path": FILE, "size": len(model),
                                "lfs": {"oid": digest, "size": len(model)}}]).encode()
        elif path == "/%s/resolve/main/%s" % (REPOSITORY, FILE):
            body = model
        else:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def blocks(page="README.md"):
    with open(os.path.join(SOURCE, page)) as f:
        return re.findall(r"(?ms)^```sh\n(.*?)^```", f.read())


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.curl = shutil.which("curl")
        if not self.curl or not shutil.which("bash"):
            self.skipTest("no curl or bash")
        folder = tempfile.TemporaryDirectory(prefix="flyball-readme-")
        self.addCleanup(folder.cleanup)
        self.home = os.path.join(folder.name, "home")
        self.clone = os.path.join(folder.name, "flyball")
        self.port = free_port()
        os.mkdir(self.home)
        os.makedirs(os.path.join(self.clone, "build", "release"))
        os.symlink(FLYBALL, os.path.join(self.clone, "build", "release", "flyball"))
        self.bin = os.path.join(folder.name, "bin")
        os.mkdir(self.bin)
        self.fill_ollamas_store()
        self.hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self.addCleanup(self.hub.server_close)
        threading.Thread(target=self.hub.serve_forever, daemon=True).start()
        self.addCleanup(self.hub.shutdown)

    def fill_ollamas_store(self):
        store = os.path.join(self.home, ".ollama", "models")
        manifests = os.path.join(store, "manifests", "registry.ollama.ai", "library", "qwen3")
        os.makedirs(manifests)
        os.mkdir(os.path.join(store, "blobs"))
        with open(MODEL, "rb") as f:
            model = f.read()
        digest = hashlib.sha256(model).hexdigest()
        with open(os.path.join(store, "blobs", "sha256-" + digest), "wb") as f:
            f.write(model)
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + digest, "size": len(model)}
        with open(os.path.join(manifests, "8b"), "w") as f:
            json.dump({"schemaVersion": 2, "layers": [layer]}, f)

    def stand_in_for_the_network(self):
        """The configuration that README's first commands have made: another port, and the hub of this test."""
        config = os.path.join(self.home, ".config", "flyball")
        with open(os.path.join(config, "config.yaml")) as f:
            text = f.read()
        self.assertIn(":8080", text)
        with open(os.path.join(config, "config.yaml"), "w") as f:
            f.write(self.stand_in(text))
        with open(os.path.join(config, "config.d", "hub.yaml"), "w") as f:
            f.write("schema: flyball.config/v1\nhub: {url: http://127.0.0.1:%d}\n" % self.hub.server_port)

    def stand_in(self, text):
        return text.replace(":8080", ":%d" % self.port).replace("172.17.0.1", "127.0.0.2")

    def script(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, stat.S_IRWXU)

    def environment(self):
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR", "POCL_CACHE_DIR") if name in os.environ}
        return dict(kept, HOME=self.home, PATH=self.bin + ":" + os.environ["PATH"])

    def run_block(self, block):
        """Its output. The first line of the first block puts flyball on the PATH; every shell needs it."""
        path = next(line for line in blocks()[0].splitlines() if line.startswith("export PATH="))
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", path + "\n" + self.stand_in(block)], cwd=self.clone,
                             env=self.environment(), capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, 0, "%s\n%s%s" % (block, ran.stdout, ran.stderr))
        return ran.stdout

    def serve(self):
        daemon = subprocess.Popen([FLYBALL, "serve", "--probe-timeout-ms", "100"], cwd=self.clone, env=self.environment(),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def stop():
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(60)
        self.addCleanup(lambda: daemon.poll() is None and stop())
        end = time.monotonic() + 120
        while time.monotonic() < end and daemon.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return stop
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the daemon did not start: exit code %r" % daemon.poll())

    def request(self, *args):
        ran = subprocess.run([self.curl, "-s", "--max-time", "60", *args], capture_output=True, text=True, timeout=90)
        return json.loads(ran.stdout)

    def test_the_commands_work_from_an_empty_home(self):
        have, pull, apps, running = blocks()
        (container,) = [block for block in blocks("docs/clients.md") if "flyball app new" in block]
        said = self.run_block(have)
        self.assertRegex(said, r"(?m)^  qwen3:8b$")
        self.assertIn("requests that name no model go to qwen3:8b", said)
        self.assertRegex(said, r"flyball serve\n\w.*\n$", "the model answered")
        self.stand_in_for_the_network()
        said = self.run_block(pull)
        self.assertIn("qwen3 on cpu", said)
        self.assertTrue(os.path.exists(os.path.join(self.home, ".local/share/flyball/models", REPOSITORY, FILE)))

        self.assertEqual(apps.count(SERVE), 1)
        self.assertTrue(apps.endswith(SERVE), "the test serves where the block does: at its end")
        keys = re.findall(r"KEY=(\S+)", self.run_block(apps.removesuffix(SERVE)))
        self.assertEqual(len(keys), 2)
        stop = self.serve()
        url = "http://127.0.0.1:%d/v1" % self.port
        for key in keys:
            models = self.request(url + "/models", "-H", "authorization: Bearer " + key)
            self.assertLessEqual({"qwen3"}, {model["id"] for model in models["data"]})

        said = self.run_block(running)
        self.assertIn('"object":"chat.completion"', said)
        self.assertRegex(said, r"(?m)^qwen3 +cpu +ready ")
        self.assertRegex(said, r"(?m)^app +requests ")
        self.assertIn("qwen3 is unloaded from cpu", said)

        (key,) = re.findall(r"KEY=(\S+)", self.run_block(container))
        stop()
        self.assertRegex(self.run_block("flyball usage\n"), r"(?m)^example +1 ")
        self.serve()
        bridge = "http://127.0.0.2:%d/v1" % self.port
        asks = ["-H", "host: host.docker.internal:%d" % self.port, "-H", "authorization: Bearer " + key]
        self.assertIn("qwen3", [model["id"] for model in self.request(bridge + "/models", *asks)["data"]])
        answer = self.request(bridge + "/chat/completions", *asks, "-H", "content-type: application/json", "-d",
                              '{"model": "qwen3", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}')
        self.assertEqual(answer["object"], "chat.completion", answer)

    def test_every_command_of_the_program_that_the_readme_names_exists(self):
        with open(os.path.join(SOURCE, "README.md")) as f:
            named = set(re.findall(r"\bflyball ([a-z][a-z-]*)", f.read()))
        helped = subprocess.run([FLYBALL, "--help"], capture_output=True, text=True, timeout=60).stdout
        known = set(re.findall(r"(?m)^  ([a-z][a-z-]*) +", helped))
        self.assertGreater(len(named), 8)
        self.assertEqual(named - known - {"governor"}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
