#!/usr/bin/env python3
"""A model file that is replaced while it is loaded: under a pin (`sha256`) no other file ever answers."""

import hashlib
import os
import subprocess
import sys
import tempfile
import unittest

from attack import SANITIZED
from daemon import GREEDY, Daemon, flyball

LOADS = 12 if SANITIZED else 60

# Renames either file over the path, again and again, until its standard input ends. A process of its own: renames are
# as fast as they can be.
SWAP = """
import os, select, sys
path, first, second = sys.argv[1:]
count = 0
while not (count % 64 == 0 and select.select([sys.stdin], [], [], 0)[0]):
    os.link((second, first)[count % 2], path + ".next")  # never what lies there: that rename would do nothing
    os.rename(path + ".next", path)
    count += 1
print(count)
"""


class PinTest(unittest.TestCase):
    def test_a_file_that_is_replaced_between_hash_and_map(self):
        with tempfile.TemporaryDirectory(prefix="flyball-model-") as folder:
            files = [os.path.join(folder, name) for name in ("pinned.gguf", "other.gguf")]
            for seed, file in enumerate(files):
                made = flyball("make-model", "--out", file, "--shape", "small,context=256", "--type", "Q8_0",
                               "--seed", str(seed + 1), "--quiet")
                self.assertEqual(made.returncode, 0, made.stderr)
            with open(files[0], "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            body = dict(GREEDY, max_tokens=8)
            texts = []
            with Daemon({"m%d" % n: "path: %s" % file for n, file in enumerate(files)}) as daemon:
                for n in range(2):
                    status, answer = daemon.request("POST", "/v1/completions", dict(body, model="m%d" % n))
                    self.assertEqual(status, 200, answer)
                    texts.append(answer["choices"][0]["text"])
            self.assertNotEqual(*texts)

            path = os.path.join(folder, "served.gguf")
            os.link(files[0], path)
            models = {"pinned-%d" % n: "path: %s\nsha256: %s\ncontext: 256\nmax_sequences: 1\ngroup: one" % (path, digest)
                      for n in range(LOADS)}
            swapper = subprocess.Popen([sys.executable, "-c", SWAP, path, *files], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            answered = refused = 0
            try:
                with Daemon(models) as daemon:
                    for model in models:
                        status, answer = daemon.request("POST", "/v1/completions", dict(body, model=model))
                        if status == 200:
                            answered += 1
                            self.assertEqual(answer["choices"][0]["text"], texts[0],
                                             "another file answered for %s, behind %d right answers and %d refusals" % (
                                                 model, answered - 1, refused))
                        else:
                            self.assertEqual((status, answer["error"]["code"]), (503, "model_invalid"), answer)
                            refused += 1
            finally:
                renames = int(swapper.communicate("", timeout=60)[0])
            print("%d loads beside %d renames: %d answered, %d refused" % (LOADS, renames, answered, refused))
            self.assertGreater(renames, 100 * LOADS)
            self.assertGreater(answered, 0)
            self.assertGreater(refused, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
