#!/usr/bin/env python3
"""README's commands, one after the other, as a newcomer with an empty home would type them.

Every ```sh block runs in one shell, in a folder that looks like a built clone; behind them runs the one by which
docs/clients.md has containers ask. Stand-ins: the model is not fetched but copied from the tree, a free port takes the
place of 8080 and 127.0.0.2 that of Docker's bridge. The commands of "Try it" install and build, and have tests of their
own.
One test: readme_test.py [-v] ReadmeTest.test_name"""

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
import time
import unittest

FLYBALL = os.environ["FLYBALL"]
SOURCE = os.environ["FLYBALL_SOURCE_DIR"]
SERVE = "flyball serve &\n"

# Answers for the one program that would reach the network.
CURL = """#!/bin/sh
case "$*" in
  *huggingface.co*) out=$(printf '%%s\\n' "$@" | sed -n '/^-o$/{n;p;}'); exec cp '%s' "$out" ;;
esac
exec '%s' "$@"
"""


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
        shutil.copytree(os.path.join(SOURCE, "config", "defaults"), os.path.join(self.clone, "config", "defaults"))
        config = os.path.join(self.clone, "config", "defaults", "config.yaml")
        with open(config) as f:
            text = self.stand_in(f.read())
        with open(config, "w") as f:
            f.write(text)
        self.bin = os.path.join(folder.name, "bin")
        os.mkdir(self.bin)
        self.script("curl", CURL % (os.path.join(SOURCE, "packaging", "demo_model", "demo.gguf"), self.curl))

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
        own_model, apps, running = blocks()
        (container,) = [block for block in blocks("docs/clients.md") if "flyball app new" in block]
        self.assertRegex(self.run_block(own_model), r"(?s)fits.*\w")

        self.assertEqual(apps.count(SERVE), 1)
        self.assertTrue(apps.endswith(SERVE), "the test serves where the block does: at its end")
        keys = re.findall(r"KEY=(\S+)", self.run_block(apps.removesuffix(SERVE)))
        self.assertEqual(len(keys), 2)
        stop = self.serve()
        url = "http://127.0.0.1:%d/v1" % self.port
        for key in keys:
            models = self.request(url + "/models", "-H", "authorization: Bearer " + key)
            self.assertIn("qwen3", [model["id"] for model in models["data"]])

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
