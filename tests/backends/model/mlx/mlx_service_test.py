"""An MLX directory behind the daemon: a chat over HTTP and its route."""

import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["FLYBALL_SOURCE_DIR"], "tests", "service"))

try:
    import numpy  # noqa: F401
except ImportError:
    print("SKIPPED: no python3-numpy")
    sys.exit(77)

import mlx_model
from daemon import Daemon, flyball

ASK = {"messages": [{"role": "user", "content": "the thing you and"}], "temperature": 0, "max_tokens": 12}


class Service(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="flyball-mlx-")
        cls.model = os.path.join(cls.dir, "model")
        mlx_model.write(cls.model, mlx_model.Shape(shards=2))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def test_chat(self):
        with Daemon({"small": "path: %s" % self.model}) as daemon:
            answers = [daemon.request("POST", "/v1/chat/completions", dict(ASK, model="small")) for _ in range(2)]
        for status, body in answers:
            self.assertEqual(status, 200, body)
            self.assertGreater(body["usage"]["prompt_tokens"], 4)  # the template's, too
            self.assertEqual(body["usage"]["completion_tokens"], 12)
        self.assertEqual(answers[0][1]["choices"], answers[1][1]["choices"])

    def test_a_repaired_directory_is_noticed(self):
        model = os.path.join(self.dir, "repaired")
        mlx_model.write(model, mlx_model.Shape(layers=1))
        config = os.path.join(model, "config.json")
        with open(config) as f:
            text = f.read()
        with open(config, "r+") as f:  # of the same length, in the same file
            f.write(text.replace('"hidden_act": "silu"', '"hidden_act": "gelu"'))
        with Daemon({"small": "path: %s" % model}) as daemon:
            status, body = daemon.request("POST", "/v1/chat/completions", dict(ASK, model="small"))
            self.assertEqual((status, body["error"]["code"]), (503, "model_unsupported"))
            with open(config, "r+") as f:
                f.write(text)
            status, body = daemon.request("POST", "/v1/chat/completions", dict(ASK, model="small"))
            self.assertEqual(status, 200, body)

    def test_run(self):
        done = flyball("run", "--model", self.model, "--temperature", "0", "--max-tokens", "4", "the thing")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_directory_that_is_no_model_is_refused_by_name(self):
        empty = os.path.join(self.dir, "empty")
        os.makedirs(empty, exist_ok=True)
        done = flyball("inspect", empty)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("config.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
