#!/usr/bin/env python3
"""The operator at a running daemon, by commands alone: ps, load, unload, app new.
One test: operator_test.py [-v] OperatorTest.test_name"""

import hashlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import FLYBALL, GREEDY, Daemon, flyball, process_gone  # noqa: E402

KEY = "key-of-the-operator"
# Without the word about loopback the operator would need no key on this machine.
OPERATOR = "operator: {key_sha256: %s, loopback: false}" % hashlib.sha256(KEY.encode()).hexdigest()


class OperatorTest(unittest.TestCase):
    def command(self, daemon, *args, expect=0):
        ended = flyball(*args, "--url", daemon.url)
        self.assertEqual(ended.returncode, expect, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def engines(self, daemon):
        return json.loads(self.command(daemon, "ps", "--json"))["engines"]

    def test_a_model_is_loaded_shown_and_unloaded(self):
        with Daemon() as daemon:
            self.assertIn("No engine is loaded.", self.command(daemon, "ps"))
            self.assertEqual(self.command(daemon, "load", "demo"), "demo is loaded on cpu\n")
            (engine,) = self.engines(daemon)
            self.assertEqual((engine["model"], engine["engine"], engine["state"]), ("demo", "cpu", "ready"))
            self.assertEqual([engine["pid"]], daemon.workers())
            self.assertGreater(engine["memory_bytes"], 1 << 20)
            table = self.command(daemon, "ps")
            self.assertRegex(table, r"(?m)^demo +cpu +ready +%d " % engine["pid"])
            self.assertIn("memory of this machine: engines hold ", table)
            self.assertEqual(json.loads(self.command(daemon, "unload", "demo", "--json")),
                             {"model": "demo", "unloaded": ["cpu"]})
            self.assertTrue(process_gone(engine["pid"], 0.01), "its memory is free when the command returns")
            self.assertEqual(self.command(daemon, "unload", "demo"), "demo was not loaded\n")
            self.assertEqual(daemon.request("POST", "/v1/completions", dict(GREEDY, max_tokens=1))[0], 200)
            self.assertEqual(len(daemon.workers()), 1)
            self.assertTrue(daemon.wait_for_log("engine ends: the operator unloads it"))

    def test_an_engine_at_work_ends_behind_its_answers(self):
        with Daemon() as daemon:
            unloaded = []
            unload = threading.Thread(target=lambda: unloaded.append(self.command(daemon, "unload", "demo")))

            def unload_at_first(n):
                """The engine stands still until the daemon has begun to unload it."""
                if n > 1:
                    return
                (worker,) = daemon.workers()
                os.kill(worker, signal.SIGSTOP)
                unload.start()
                while self.engines(daemon)[0]["state"] != "ending":
                    time.sleep(0.01)
                os.kill(worker, signal.SIGCONT)
            answer = daemon.stream(dict(GREEDY, max_tokens=600), on_event=unload_at_first)
            self.assertEqual(answer[1:], ("length", True))
            unload.join()
            self.assertEqual(unloaded, ["demo is unloaded from cpu\n"])
            self.assertEqual(daemon.workers(), [])
            self.assertTrue(daemon.wait_for_log("engine ends after its answers: the operator unloads it"))

    def test_a_drain_answers_the_call_that_waits(self):
        with Daemon() as daemon:
            refused = []
            unload = threading.Thread(target=lambda: refused.append(self.command(daemon, "unload", "demo", expect=69)))

            def drain_at_first(n):
                if n > 1:
                    return
                (worker,) = daemon.workers()
                os.kill(worker, signal.SIGSTOP)
                unload.start()
                while self.engines(daemon)[0]["state"] != "ending":
                    time.sleep(0.01)
                daemon.signal(signal.SIGTERM)
                unload.join()
                os.kill(worker, signal.SIGCONT)
            self.assertEqual(daemon.stream(dict(GREEDY, max_tokens=600), on_event=drain_at_first)[1:], ("length", True))
            self.assertIn("answered 503: The daemon is shutting down.", refused[0])
            self.assertEqual(daemon.wait(), 0)

    def test_another_program_is_told_and_cannot_write_to_the_terminal(self):
        class Other(http.server.BaseHTTPRequestHandler):
            answer = b""

            def do_GET(self):
                if self.command == "POST":
                    self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-length", str(len(Other.answer)))
                self.end_headers()
                self.wfile.write(Other.answer)
            do_POST = do_GET

            def log_message(self, *_):
                pass
        with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            self.addCleanup(other.shutdown)
            url = "http://127.0.0.1:%d" % other.server_address[1]
            for answer in (b"{}", b"[]", b'{"engines": {}, "unloaded": "abc"}', b"7"):
                Other.answer = answer
                for args in (["ps"], ["load", "m"], ["unload", "m"]):
                    ended = flyball(*args, "--url", url)
                    self.assertEqual(ended.returncode, 69, (answer, args, ended.stdout))
                    self.assertIn("it is no Flyball daemon", ended.stderr)
            Other.answer = json.dumps({"engines": [{"model": "a\x1b[2Jb\u009bc\nd", "engine": 7, "pid": -1,
                                                    "kv_used_ratio": 1e17, "idle_ms": "x"}, 3], "pools": {"x": []}}).encode()
            ended = flyball("ps", "--url", url)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertIn("a?[2Jb?c?d", ended.stdout)
            self.assertNotIn("\x1b", ended.stdout)

    def test_the_daemon_obeys_the_operator_alone(self):
        with Daemon(more=OPERATOR) as daemon, tempfile.NamedTemporaryFile("w") as key_file:
            key_file.write(KEY + "\n")
            key_file.flush()
            self.assertEqual(daemon.request("POST", "/v1/completions", dict(GREEDY, max_tokens=1))[0], 200)
            for args in (["ps"], ["load", "demo"], ["unload", "demo"]):
                refusal = self.command(daemon, *args, expect=1)
                self.assertIn("answered 401: This path is the operator's", refusal)
                self.assertIn("--key-file FILE sends the operator's key.", refusal)
            self.assertEqual(len(daemon.workers()), 1)
            self.assertEqual(self.command(daemon, "unload", "demo", "--key-file", key_file.name),
                             "demo is unloaded from cpu\n")

    def test_mistakes_name_what_there_is(self):
        with Daemon() as daemon:
            self.assertIn('There is no model "dmeo"; did you mean "demo"?',
                          self.command(daemon, "load", "dmeo", expect=1))
            self.assertIn('This machine has no engine "cup"; did you mean "cpu"?',
                          self.command(daemon, "unload", "demo", "--engine", "cup", expect=1))
        for args in (["ps"], ["load", "demo"], ["unload", "demo"]):
            ended = flyball(*args, "--url", daemon.url)
            self.assertEqual(ended.returncode, 69)
            self.assertIn("start it with `flyball serve`", ended.stderr)

    def test_a_preloaded_model_may_be_unloaded_and_the_daemon_stays_ready(self):
        with Daemon({"demo": "embedded: true\npreload: true"}) as daemon:
            daemon.wait_for_log("engine ready")
            self.command(daemon, "unload", "demo")
            self.assertEqual(daemon.request("GET", "/readyz")[0], 200)
            self.assertEqual(daemon.workers(), [])


class AppNewTest(unittest.TestCase):
    """A folder with the shipped configuration, at a free port."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="flyball-app-new-")
        self.addCleanup(self.dir.cleanup)
        self.config = os.path.join(self.dir.name, "config.yaml")
        self.write_config("tcp: 127.0.0.1:8080")
        os.mkdir(os.path.join(self.dir.name, "apps.d"))

    def write_config(self, listener, more="loopback_without_key: true\ndefault_app: first"):
        with open(self.config, "w") as out:
            out.write("schema: flyball.config/v1\nlisteners: {local: {%s}}\nmodels: {demo: {embedded: true}}\n"
                      "kv_spill: {max_bytes: 0B}\nstate_dir: state\n%s\n" % (listener, more))

    def new(self, *args, expect=0):
        ended = flyball("app", "new", *args, "--config", self.config)
        self.assertEqual(ended.returncode, expect, ended.stdout + ended.stderr)
        return ended.stdout if expect == 0 else ended.stderr

    def manifest(self, name):
        with open(os.path.join(self.dir.name, "apps.d", name)) as f:
            return f.read()

    def test_the_printed_request_is_answered_as_the_app(self):
        self.new("first")
        # Any free port: the daemon picks it, and the configuration names it from then on.
        serve = subprocess.Popen([FLYBALL, "serve", "--config", self.config, "--print-url", "--port", "0",
                                  "--probe-timeout-ms", "100"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = serve.stdout.readline().strip()
            self.write_config("tcp: " + url.removeprefix("http://"))
            printed = self.new("nightly", "--class", "batch")
            self.assertIn("kill -HUP %d" % serve.pid, printed)
            (key,) = re.findall(r"KEY=(\S+)", printed)
            self.assertEqual(printed.count(key), 1)
            self.assertIn("key_sha256: %s\n" % hashlib.sha256(key.encode()).hexdigest(), self.manifest("nightly.yaml"))
            self.assertNotIn(key, self.manifest("nightly.yaml"))
            commands = [line[2:] for line in printed.splitlines() if line.startswith("  ")]
            answer = None
            for _ in range(100):  # a reload takes a moment
                ran = subprocess.run(["sh", "-ec", "\n".join(commands)], capture_output=True, text=True, timeout=60)
                answer = json.loads(ran.stdout)
                if "error" not in answer:
                    break
            self.assertEqual(answer["object"], "chat.completion", answer)
            metrics = subprocess.run(["curl", "-s", url + "/metrics"], capture_output=True, text=True).stdout
            (counted,) = re.findall(r'(?m)^flyball_requests_total\{app="nightly".*status="200".* (\d+)$', metrics)
            self.assertEqual(int(counted), 1)
        finally:
            serve.send_signal(signal.SIGTERM)
            serve.wait(60)
            serve.stdout.close()

    def test_the_manifest_says_what_was_asked_for(self):
        made = json.loads(self.new("first", "--class", "rag", "--model", "demo", "--json"))
        self.assertEqual(made["manifest"], os.path.join(self.dir.name, "apps.d", "first.yaml"))
        self.assertEqual(hashlib.sha256(made["key"].encode()).hexdigest(), made["key_sha256"])
        self.assertEqual((made["model"], made["url"]), ("demo", "http://127.0.0.1:8080"))
        self.assertIn("\n  class: rag\n", self.manifest("first.yaml"))
        self.assertIn("\nmodels: [demo]\n", self.manifest("first.yaml"))
        checked = flyball("check", self.config)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        other = json.loads(self.new("team/first", "--json"))
        self.assertNotEqual(other["key"], made["key"])
        self.assertTrue(other["manifest"].endswith("apps.d/team-first.yaml"))
        # Commented-out lines are a manifest too.
        plain = re.sub(r"(?m)^( *)# (?=(prompt_tokens|output_tokens|concurrency|slo|limits): ?\S)", r"\1",
                       self.manifest("first.yaml"))
        with open(other["manifest"], "w") as out:
            out.write(plain.replace("app: first", "app: other").replace(made["key_sha256"], other["key_sha256"]))
        checked = flyball("check", self.config)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        explained = flyball("explain", "--app", "other", "--config", self.config, "--json")
        facts = {fact["name"]: fact for fact in json.loads(explained.stdout)["facts"]}
        self.assertEqual(facts["workload.concurrency"]["value"], 2)

    def test_nothing_that_is_there_is_changed(self):
        self.new("first")
        before = self.manifest("first.yaml")
        self.assertIn('the app "first" is there already, in ', self.new("first", expect=64))
        with open(os.path.join(self.dir.name, "apps.d", "second.yaml"), "w") as out:
            out.write("schema: flyball.app/v1\napp: another\n")
        self.assertIn("second.yaml exists", self.new("second", expect=74))
        self.assertEqual(self.manifest("first.yaml"), before)
        self.assertEqual(self.manifest("second.yaml"), "schema: flyball.app/v1\napp: another\n")

    def test_mistakes_leave_no_file(self):
        for args, code, says in ((["a b"], 64, "an id (letters"),
                                 (["x\nprivacy: any"], 64, "an id (letters"),
                                 (["../up"], 64, "an id (letters"),
                                 (["first", "--class", "chats"], 64, 'did you mean "chat"?'),
                                 (["first", "--model", "dem"], 64, 'did you mean "demo"?'),
                                 (["other"], 78, "default_app")):
            self.assertIn(says, self.new(*args, expect=code))
        self.assertEqual(os.listdir(os.path.join(self.dir.name, "apps.d")), [])
        with open("/dev/full", "w") as no_room:
            full = subprocess.run([FLYBALL, "app", "new", "first", "--config", self.config], stdout=no_room,
                                  stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(full.returncode, 74)
        self.assertEqual(os.listdir(os.path.join(self.dir.name, "apps.d")), [], "nobody has the key")

    def test_the_printed_commands_survive_any_path_and_any_id(self):
        for folder in ("a blank and a 'quote'", "no utf-8 \udce9"):
            home = os.path.join(self.dir.name, folder)
            os.mkdir(home)
            self.config = os.path.join(home, "config.yaml")
            self.write_config("unix: \"%s\"" % os.path.join(self.dir.name, "it's.sock"), more="loopback_without_key: false")
            for name in ("null", "con:", "y") if "quote" in folder else ():
                printed = self.new(name)
                words = subprocess.run(["sh", "-c", "flyball() { printf '%s\\n' \"$@\"; }; curl() { flyball \"$@\"; }\n" +
                                        "\n".join(line for line in printed.splitlines() if line.startswith("  "))],
                                       capture_output=True, text=True, errors="surrogateescape", timeout=60).stdout
                self.assertIn("\n%s\n" % self.config, words)
                self.assertIn("\n%s\nhttp://localhost/v1/chat/completions\n" % os.path.join(self.dir.name, "it's.sock"), words)
            self.assertEqual(len(json.loads(self.new("other", "--json"))["key"]), len("fb-") + 64)
            self.assertEqual(flyball("check", self.config, errors="replace").returncode, 0)

    def test_without_a_configuration_it_says_how_to_begin(self):
        ended = flyball("app", "new", "first", env=dict(os.environ, HOME=self.dir.name, XDG_CONFIG_HOME=self.dir.name))
        self.assertEqual(ended.returncode, 74)
        self.assertIn("copy the folder config/defaults to ~/.config/flyball", ended.stderr)

    def test_a_case_may_be_an_apps(self):
        self.new("first", "--class", "batch")
        first = ["--app", "first", "--config", self.config]
        by_app = json.loads(flyball("advise", *first, "one RTX 4090", "--json").stdout)
        by_word = json.loads(flyball("advise", "--config", self.config, "one RTX 4090, batch", "--json").stdout)
        self.assertEqual(by_app["rule"], by_word["rule"])
        self.assertNotEqual(by_app["rule"], json.loads(
            flyball("advise", "--config", self.config, "one RTX 4090, chat", "--json").stdout)["rule"])
        # Facts that are given count for those derived from them, too.
        facts = ["--fact", "hardware.memory.total=16000000000", "--fact", "model.bytes=9000000000000"]
        huge = json.loads(flyball("advise", *first, "laptop", *facts, "--json").stdout)
        self.assertEqual(huge["rule"], "no_gpu_memory_too_small_batch")
        here = json.loads(flyball("explain", *first, "--json").stdout)
        self.assertIn("by rule %s\n" % here["rule"]["id"], flyball("why-not", "vllm", *first).stdout)
        for command in (["advise"], ["why-not", "vulkan"]):
            wrong = flyball(*command, "--app", "frist", "--config", self.config)
            self.assertEqual(wrong.returncode, 65)
            self.assertIn('no manifest declares the app "frist"; did you mean "first"?', wrong.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
