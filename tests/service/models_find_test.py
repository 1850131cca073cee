#!/usr/bin/env python3
"""`flyball models find` over stores that the test makes up, sound ones and hostile ones, and the way from a found file
to an answer. One test: models_find_test.py [-v] ModelsFindTest.test_name"""

import hashlib
import http.server
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import FLYBALL, GREEDY, Daemon  # noqa: E402

IMAGE = "application/vnd.ollama.image."


def unknown_gguf(architecture, types):
    """A GGUF file of a family and of tensor types that this build may not know: {type: number of tensors}."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, sum(types.values()), 1)
    out += text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    n = 0
    for kind, count in types.items():
        for _ in range(count):
            out += text("t%d" % n) + struct.pack("<IQQIQ", 2, 256, 2, kind, n * 2048)
            n += 1
    return out + bytes((n + 1) * 2048)


class ModelsFindTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp(prefix="flyball-models-")
        cls.model = os.path.join(cls.made, "small.gguf")
        subprocess.run([FLYBALL, "make-model", "--out", cls.model, "--shape", "small", "--quiet"], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.made)

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="flyball-home-")
        os.chmod(self.home, 0o755)
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)

    def environment(self):
        kept = {k: v for k, v in os.environ.items()
                if k not in ("OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE", "SUDO_USER")
                and not k.startswith("XDG_")}
        return dict(kept, HOME=self.home)

    def run_flyball(self, *args, **kwargs):
        return subprocess.run([FLYBALL, *args], env=self.environment(), capture_output=True, text=True, timeout=300,
                              cwd=self.home, stdin=subprocess.DEVNULL, errors="surrogateescape", **kwargs)

    def find(self, *args, expect=0, **kwargs):
        ended = self.run_flyball("models", "find", "--no-servers", *args, **kwargs)
        self.assertEqual(ended.returncode, expect, ended.stdout + ended.stderr)
        return ended

    def found(self, *args, **kwargs):
        return json.loads(self.find("--json", *args, **kwargs).stdout)

    def write(self, name, data=b""):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def copy(self, name):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(self.model, path)
        return path

    def ollama(self, name, tag, path=None, layers=None):
        """A model of Ollama's store, by default the small one."""
        if layers is None:
            with open(path or self.model, "rb") as f:
                data = f.read()
            digest = hashlib.sha256(data).hexdigest()
            self.write(".ollama/models/blobs/sha256-" + digest, data)
            layers = [{"mediaType": IMAGE + "model", "digest": "sha256:" + digest, "size": len(data)}]
        self.write(".ollama/models/manifests/registry.ollama.ai/library/%s/%s" % (name, tag),
                   json.dumps({"schemaVersion": 2, "layers": layers}).encode())

    def test_models_of_every_store_are_examined(self):
        self.ollama("tiny", "latest")
        self.copy(".lmstudio/models/org/repo/Tiny Model.Q4_0.gguf")
        blob = self.copy(".cache/huggingface/hub/models--org--hub-model/blobs/abc")
        snapshot = os.path.join(self.home, ".cache/huggingface/hub/models--org--hub-model/snapshots/1/hub.gguf")
        os.makedirs(os.path.dirname(snapshot))
        os.symlink("../../blobs/abc", snapshot)
        self.copy("elsewhere/mine.gguf")
        os.symlink(blob, os.path.join(self.home, "elsewhere/also-hub.gguf"))
        found = self.found("--in", os.path.join(self.home, "elsewhere"))
        self.assertEqual(sorted((m["store"], m["id"]) for m in found["models"]),
                         [("folder", "mine"), ("hugging_face", "hub"), ("lm_studio", "Tiny-Model.Q4_0"),
                          ("ollama", "tiny")])
        self.assertEqual(found["obstacles"], [])
        for model in found["models"]:
            self.assertTrue(model["read"], model)
            self.assertEqual((model["family"], model["quantization"]), ("llama", "Q4_0"))
            self.assertEqual(model["tensors"], {"F32": 9, "Q4_0": 30})
            self.assertEqual(model["bytes"], os.path.getsize(self.model))
            (cpu,) = [w for w in model["where"] if w["engine"] == "cpu"]
            self.assertTrue(cpu["fits"])
            self.assertGreater(cpu["decode_tps"], 0)
        (hub,) = [m for m in found["models"] if m["id"] == "hub"]
        self.assertEqual(hub["also"], ["also-hub.gguf"], "one file, however often it is found")
        text = self.find().stdout
        self.assertIn("Ollama, %s/.ollama/models\n  tiny\n" % self.home, text)
        self.assertRegex(text, r"cpu, in this machine's memory: fits, up to \d+ tokens, about \d+ tokens/s")
        self.assertIn("flyball models find --write tiny\n", text)

    def test_files_that_no_engine_reads_have_their_family_and_their_types_all_the_same(self):
        self.write("d/new.gguf", unknown_gguf("llama9", {8: 3, 0: 1}))
        self.write("d/iq.gguf", unknown_gguf("llama", {19: 5, 14: 2, 0: 1, 99: 1}))
        self.write("d/text.gguf", b"not a model")
        self.write("d/empty.gguf")
        self.write("d/mlx/config.json", json.dumps({"model_type": "bert"}).encode())
        self.write("d/mlx/model.safetensors", struct.pack("<Q", 2) + b"{}")
        found = {m["id"]: m for m in self.found("--in", os.path.join(self.home, "d"))["models"]}
        self.assertEqual(sorted(found), ["empty", "iq", "mlx", "new", "text"])
        self.assertFalse(any(m["read"] for m in found.values()))
        self.assertEqual((found["new"]["family"], found["new"]["tensors"]), ("llama9", {"Q8_0": 3, "F32": 1}))
        self.assertIn("llama9", found["new"]["error"]["message"])
        self.assertEqual(found["iq"]["quantization"], "IQ1_S")
        self.assertEqual(found["iq"]["tensors"], {"IQ1_S": 5, "Q6_K": 2, "F32": 1, "unknown": 1})
        self.assertIn("IQ1_S", found["iq"]["error"]["message"])
        self.assertIn("not a GGUF file", found["text"]["error"]["message"])
        self.assertEqual(found["mlx"]["family"], "bert")
        self.find("--write", "iq", "--in", os.path.join(self.home, "d"), expect=65)
        self.assertFalse(os.path.exists(os.path.join(self.home, ".config")))

    def test_a_picked_model_is_served_from_where_it_lies(self):
        self.ollama("tiny", "1b")
        self.copy(".lmstudio/models/org/repo/other.gguf")
        ended = self.find("--write", "tiny:1b")
        config = os.path.join(self.home, ".config/flyball/config.yaml")
        drop_in = os.path.join(self.home, ".config/flyball/config.d/model-tiny-1b.yaml")
        self.assertIn("wrote %s\n" % drop_in, ended.stdout)
        self.assertIn("requests that name no model go to tiny:1b\n", ended.stdout)
        self.assertEqual(self.run_flyball("check", config).returncode, 0)
        self.assertEqual(os.stat(drop_in).st_mode & 0o777, 0o644)
        ended = self.run_flyball("run", "--model", "tiny:1b", "--max-tokens", "4", "Hello")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        # Another pick leaves the first one and its default alone.
        self.assertNotIn("requests that name no model", self.find("--write", "other").stdout)
        self.assertEqual({m["id"] for m in self.found()["models"] if m["configured"]}, {"tiny:1b", "other"})
        self.assertIn("is in the configuration already", self.find("--write", "other", expect=64).stderr)
        with open(drop_in) as f:
            written = f.read()
        with open(os.path.join(os.path.dirname(drop_in), "model-other.yaml")) as f:
            other = f.read()
        with Daemon() as daemon:
            folder = os.path.join(daemon.dir.name, "config.d")
            os.makedirs(folder, exist_ok=True)
            for name, text in (("a", written), ("b", other)):
                with open(os.path.join(folder, name + ".yaml"), "w") as f:
                    f.write(text)
            daemon.signal(signal.SIGHUP)
            self.assertTrue(daemon.wait_for_log("reloaded"))
            for body in ({"model": "other"}, {}):
                status, answer = daemon.request("POST", "/v1/completions", dict(GREEDY, max_tokens=2, **body))[:2]
                self.assertEqual(status, 200, answer)
                self.assertEqual(answer["model"], body.get("model", "tiny:1b"))

    def test_writing_asks_or_takes_names_and_changes_nothing_else(self):
        self.copy("d/a.gguf")
        self.copy("d/b.gguf")
        folder = ["--in", os.path.join(self.home, "d")]
        self.assertIn("--write needs the ids", self.find("--write", *folder, expect=64).stderr)
        self.assertIn("no model was found", self.find("--write", "c", *folder, expect=64).stderr)
        self.find("--all", *folder, expect=64)
        self.assertFalse(os.path.exists(os.path.join(self.home, ".config")))
        # A person who answers "2".
        leader, follower = pty.openpty()
        asked = subprocess.Popen([FLYBALL, "models", "find", "--no-servers", "--write", *folder], stdin=follower,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment())
        os.write(leader, b"2\n")
        out, error = asked.communicate(timeout=300)
        self.assertEqual(asked.returncode, 0, error)
        self.assertIn(b"2) b\n", out)
        self.assertIn(b"Name the models to serve", error)
        self.assertEqual(os.listdir(os.path.join(self.home, ".config/flyball/config.d")), ["model-b.yaml"])
        written = self.found("--write", "--all", *folder)
        self.assertEqual([os.path.basename(f) for f in written["written"]], ["model-a.yaml"])
        self.assertEqual(self.find("--write", "--all", *folder, expect=1).stdout, "")
        self.assertEqual(self.found("--write", "--all", *folder, expect=1)["written"], [])
        self.find("a", *folder, expect=64)
        self.find("--write", "--all", "a", *folder, expect=64)

    def test_numbers_are_those_of_the_list_where_stores_overlap(self):
        self.copy("d/a.gguf")
        with open(self.copy("d/sub/x.gguf"), "ab") as f:
            f.write(b"another")
        leader, follower = pty.openpty()
        asked = subprocess.Popen([FLYBALL, "models", "find", "--no-servers", "--write", "--in", "d/sub", "--in", "d"],
                                 stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.home,
                                 env=self.environment())
        os.write(leader, b"2\n")
        out, error = asked.communicate(timeout=300)
        self.assertEqual(asked.returncode, 0, error)
        number = re.search(rb"2\) (\w+)", out)[1].decode()
        self.assertEqual(out.count(b") "), 2, "each model is listed once")
        self.assertEqual(os.listdir(os.path.join(self.home, ".config/flyball/config.d")), ["model-%s.yaml" % number])

    def test_models_of_the_configuration_that_are_gone_are_said(self):
        path = self.copy("d/a.gguf")
        self.find("--write", "a", "--in", os.path.join(self.home, "d"))
        os.remove(path)
        (gone,) = self.found()["gone"]
        self.assertEqual((gone["id"], gone["path"]), ("a", path))
        self.assertIn("config.d/model-a.yaml:4:3", gone["place"])
        self.assertIn("a.gguf is not there; the entry is at", self.find().stdout)

    def test_all_names_that_ollama_has_for_a_model_are_its_names_here(self):
        self.ollama("tiny", "latest")
        self.ollama("tiny", "1b")
        os.makedirs(os.path.join(self.home, ".ollama/models/manifests/hf.co/me/GGUF"))
        shutil.copy(os.path.join(self.home, ".ollama/models/manifests/registry.ollama.ai/library/tiny/1b"),
                    os.path.join(self.home, ".ollama/models/manifests/hf.co/me/GGUF/Q4_0"))
        (model,) = self.found()["models"]
        self.assertEqual((model["id"], sorted(model["also"])), ("tiny", ["hf.co/me/GGUF:Q4_0", "tiny:1b"]))
        self.find("--write", "tiny:1b")
        for name in ("tiny", "tiny:latest", "tiny:1b", "hf.co/me/GGUF:Q4_0"):
            ended = self.run_flyball("run", "--model", name, "--max-tokens", "1", "Hello")
            self.assertEqual(ended.returncode, 0, name + ended.stderr)

    def test_printed_commands_go_by_the_configuration_that_was_named(self):
        path = self.copy("d/a.gguf")
        self.write("c/config.yaml", b"schema: flyball.config/v1\nlisteners: {l: {tcp: '127.0.0.1:0'}}\n"
                                    b"models: {demo: {embedded: true}}\n")
        ended = self.find("--write", "a", "--in", "d", "--config", "c/config.yaml")
        self.assertIn("flyball run --model '%s'" % path, ended.stdout)
        self.assertIn("flyball serve --config 'c/config.yaml'", ended.stdout)

    def test_a_configuration_that_is_wrong_is_left_as_it_is(self):
        self.copy("d/a.gguf")
        self.write(".config/flyball/config.yaml", b"schema: flyball.config/v1\nmodels: 3\n")
        self.find("--write", "a", "--in", os.path.join(self.home, "d"), expect=78)
        self.assertEqual(os.listdir(os.path.join(self.home, ".config/flyball")), ["config.yaml"])

    def test_hostile_stores_cost_little_and_give_no_orders_to_the_terminal(self):
        self.ollama("good", "1b")
        evil = "\x1b[2J\x1b]0;owned\x07\u009b31m\u202e"
        self.copy(".lmstudio/models/raw\udc9b31m.gguf")
        self.ollama(evil, "1b")
        self.ollama("escape", "1b", layers=[{"mediaType": IMAGE + "model", "digest": "sha256:../../../../etc/passwd",
                                             "size": 1}])
        self.ollama("short", "1b", layers=[{"mediaType": IMAGE + "model", "digest": "sha256:" + "0" * 64, "size": 1}])
        self.write(".ollama/models/manifests/registry.ollama.ai/library/deep/1b", b"[" * 100000)
        self.copy(".lmstudio/models/%s/x.gguf" % evil)
        self.write(".lmstudio/models/\udcff/y.gguf", b"junk")
        os.symlink("..", os.path.join(self.home, ".lmstudio/models/up"))
        os.symlink("self", os.path.join(self.home, ".lmstudio/models/self"))
        os.mkfifo(os.path.join(self.home, ".lmstudio/models/pipe.gguf"))
        os.symlink("/dev/zero", os.path.join(self.home, ".lmstudio/models/endless.gguf"))
        os.symlink("/proc", os.path.join(self.home, ".lmstudio/models/proc"))
        many = os.path.join(self.home, ".lmstudio/models/many")
        os.makedirs(many)
        for i in range(50000):
            os.close(os.open(os.path.join(many, "f%d" % i), os.O_CREAT | os.O_WRONLY))
        ended = self.find()
        for sign in "\x1b\x07\u009b\u202e\udc9b":
            self.assertNotIn(sign, ended.stdout)
        found = self.found()
        kinds = {o["name"]: o["kind"] for o in found["obstacles"]}
        self.assertEqual((kinds["escape:1b"], kinds["short:1b"], kinds["deep:1b"]), ("damaged",) * 3)
        names = {m["id"] for m in found["models"]} | {name for m in found["models"] for name in m["also"]}
        self.assertIn("good:1b", names)
        for model in found["models"]:
            self.assertRegex(model["id"], r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")

    def test_what_a_user_cannot_open_comes_with_the_command_that_mends_it(self):
        if os.geteuid() != 0:
            self.skipTest("SKIPPED: needs root to become another user")
        path = self.copy(".lmstudio/models/org/repo/a b.gguf")
        os.chmod(os.path.join(self.home, ".lmstudio"), 0o700)
        os.chmod(path, 0o600)
        (model,) = self.found("--user", "nobody")["models"]
        self.assertIn("'%s'" % path, model["closed"])
        subprocess.run(["sh", "-c", model["closed"]], check=True)
        with open(path, "rb") as f:
            size = len(f.read())
        # The command has let the user in.
        seen = subprocess.run(["cat", path], user="nobody", group="nogroup", extra_groups=[], capture_output=True,
                              check=True)
        self.assertEqual(len(seen.stdout), size)
        (model,) = self.found("--user", "nobody")["models"]
        self.assertNotIn("closed", model)
        self.assertIn("there is no user", self.find("--user", "no-such-user", expect=64).stderr)

    def test_folders_that_this_user_may_not_read_are_said(self):
        if os.geteuid() != 0:
            self.skipTest("SKIPPED: needs root to become another user")
        self.copy(".lmstudio/models/org/repo/a.gguf")
        os.chmod(os.path.join(self.home, ".lmstudio/models/org"), 0o700)
        program = os.path.join(self.home, "flyball")
        shutil.copy(FLYBALL, program)
        ended = subprocess.run([program, "models", "find", "--no-servers", "--json"], env=self.environment(),
                               capture_output=True, text=True, user="nobody", group="nogroup", extra_groups=[],
                               cwd="/")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        (obstacle,) = json.loads(ended.stdout)["obstacles"]
        self.assertEqual((obstacle["kind"], obstacle["path"]),
                         ("closed", os.path.join(self.home, ".lmstudio/models/org")))
        self.assertEqual(obstacle["remedy"], "sudo '%s' models find --user 'nobody'" % program)

    def test_servers_on_loopback_are_named(self):
        answers = {"/api/version": {"version": "0.12.6"}, "/v1/models": {"data": [{"id": "qwen3:8b"}]}}

        class Server(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps(answers.get(self.path, {})).encode()
                self.send_response(200 if self.path in answers else 404)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        with Daemon() as daemon:
            ended = self.run_flyball("models", "find", "--json", "--port", str(server.server_port), "--port",
                                     str(daemon.port), "--port", "1")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            servers = json.loads(ended.stdout)["servers"]
        self.assertEqual([(s["port"], s["kind"], s["version"], s["models"]) for s in servers],
                         [(server.server_port, "Ollama", "0.12.6", ["qwen3:8b"]),
                          (daemon.port, "Flyball", "", ["demo"])])

    def test_named_folders_have_to_be_there(self):
        self.assertIn("there is no folder", self.find("--in", "absent", expect=74).stderr)


if __name__ == "__main__":
    unittest.main()
