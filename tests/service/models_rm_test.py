#!/usr/bin/env python3
"""`flyball models rm`, `list` and `verify`: what goes, and what stays.
One test: models_rm_test.py [-v] ModelsRmTest.test_name"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import FLYBALL, flyball  # noqa: E402
from hub import REPO, HubTest, sha256  # noqa: E402


class ModelsRmTest(HubTest):
    def test_nothing_is_removed_that_something_else_uses_or_a_person_wrote(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.pull(REPO)
        file = self.path("tiny-Q8_0.gguf")
        outside = os.path.join(self.dir, "outside.gguf")
        shutil.copy(file, outside)
        self.write_config(more="models:\n  demo:\n    embedded: true\n  twin:\n    path: %s\n  out:\n    path: %s\n"
                               "default_model: demo\n" % (file, outside))
        rows = {row["id"]: row for row in json.loads(self.run_models("list", "--json"))["models"]}
        self.assertEqual((rows["twin"]["references"], rows["tiny-Q8_0"]["references"]), (2, 2))
        self.assertEqual(rows["out"]["origin"], "used in place")
        self.assertIn("config.yaml:", self.run_models("rm", "twin", expect=78))
        self.assertIn("uses", self.run_models("rm", file, expect=78))
        self.assertIn("The model's file stays: the model twin uses it", self.run_models("rm", "tiny-Q8_0"))
        self.assert_holds(file, self.model)
        self.assertIn("no such file in", self.run_models("rm", outside, expect=64))
        os.symlink(self.dir, os.path.join(self.models, "way-out"))
        self.run_models("rm", os.path.join(self.models, "way-out", "outside.gguf"), expect=64)
        self.run_models("rm", os.path.join(self.models, "..", "outside.gguf"), expect=64)
        self.assertTrue(os.path.exists(outside))
        self.write_config()
        self.assertIn("not used", self.run_models("list"))
        self.run_models("rm", file)
        self.assertEqual(self.all_files(), [])

    def test_entries_that_a_person_wrote_or_extended_stay(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.pull(REPO)
        file, entry = self.path("tiny-Q8_0.gguf"), os.path.join(self.dir, "config.d", "model-tiny-Q8_0.yaml")
        with open(entry) as text:
            ours = text.read()
        mine = ours.replace("# Written by", "# Not written by")
        more = ours.replace("models:\n", "models:\n  other: {path: /none}\n")
        for text in (mine, more, ours + "max_queue: 7\n"):
            with open(entry, "w") as out:
                out.write(text)
            place = "model-tiny-Q8_0.yaml:%d:" % (5 if text == more else 4)
            self.assertIn(place, self.run_models("rm", "tiny-Q8_0", expect=78))
            self.assertTrue(os.path.exists(entry))
            self.assert_holds(file, self.model)
        with open(entry, "w") as out:
            out.write(ours.replace("    path:", "    context: 512\n    path:"))
        self.run_models("rm", "tiny-Q8_0")
        self.assertEqual(self.all_files(), [])

    def test_a_file_is_not_removed_with_a_wish_to_keep_it(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.pull(REPO, "--no-config")
        file = self.path("tiny-Q8_0.gguf")
        self.assertIn("--keep-file", self.run_models("rm", file, "--keep-file", expect=64))
        self.assert_holds(file, self.model)
        self.pull(REPO)
        self.run_models("rm", "tiny-Q8_0", "--keep-file")
        self.assert_holds(file, self.model)

    def test_a_directory_with_files_of_others_stays_whole(self):
        repo = "org/tiny-mlx"
        for name in ("config.json", "model.safetensors"):
            self.hub.add(repo, name, b'{"model_type": "none"}' if name == "config.json" else b"12345678")
        self.pull(repo, "--no-config", expect=1)
        folder = os.path.join(self.models, repo)
        for name in ("NOTES.md", ".cache"):
            other = os.path.join(folder, name)
            open(other, "w").close() if name.endswith(".md") else os.mkdir(other)
            there = sorted(os.listdir(folder))
            self.assertIn(other + " was not fetched", self.run_models("rm", folder, expect=64))
            self.assertEqual(sorted(os.listdir(folder)), there)
            os.remove(other) if name.endswith(".md") else os.rmdir(other)
        self.run_models("rm", folder)
        self.assertFalse(os.path.exists(folder))

    def test_a_digest_of_a_file_that_nobody_fetched_has_no_remedy_of_ours(self):
        file = os.path.join(self.dir, "mine.gguf")
        with open(file, "wb") as out:
            out.write(self.model)
        self.write_config(more="models:\n  mine:\n    path: %s\n    sha256: %s\n" % (file, "0" * 64))
        said = self.run_models("verify", expect=1)
        self.assertIn("the file or that digest is wrong", said)
        self.assertNotIn("models rm", said)

    def test_folders_that_no_pull_gathers_stay(self):
        folder = self.path("mine.part")
        os.makedirs(folder)
        for name in ("notes.txt", "m.gguf"):
            shutil.copy(os.path.join(self.shared.name, "made.gguf"), os.path.join(folder, name))
        self.assertIn("neither a model", self.run_models("rm", folder, expect=64))
        self.write_config(more="models:\n  mine:\n    path: %s\n" % os.path.join(folder, "m.gguf"))
        self.run_models("rm", os.path.join(folder, "m.gguf"), expect=78)
        self.assertEqual(len(os.listdir(folder)), 2)
        self.pull("org/mine.part", expect=65)

    def test_links_in_the_folder_and_their_targets_stay(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.pull(REPO, "--no-config")
        file, link = self.path("tiny-Q8_0.gguf"), os.path.join(self.models, "link.gguf")
        os.symlink(file, link)
        self.assertIn("symbolic link", self.run_models("rm", link, expect=64))
        self.pull(REPO)
        entry = os.path.join(self.dir, "config.d", "model-tiny-Q8_0.yaml")
        with open(entry) as text:
            ours = text.read()
        with open(entry, "w") as out:
            out.write(ours.replace(file, link))
        self.assertIn("symbolic link", self.run_models("rm", "tiny-Q8_0"))
        self.assertTrue(os.path.islink(link))
        self.assert_holds(file, self.model)

    def test_an_entry_that_the_configuration_needs_stays(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.pull(REPO)
        os.mkdir(os.path.join(self.dir, "apps.d"))
        with open(os.path.join(self.dir, "apps.d", "example.yaml"), "w") as out:
            out.write("schema: flyball.app/v1\napp: example\nprivacy: local_only\nmodels: [tiny-Q8_0]\n")
        self.assertIn("tiny-Q8_0", self.run_models("rm", "tiny-Q8_0", expect=78))
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "config.d", "model-tiny-Q8_0.yaml")))

    def test_a_part_has_one_writer_and_is_removed_by_its_name(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        go_on, begun = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def wait(at):
            if at > len(self.model) // 2:
                begun.set()
                go_on.wait()
        self.hub.hooks[path] = lambda request: self.hub.send_file(request, self.model, before_piece=wait)
        # A shell's "&" has its programs ignore Ctrl-C.
        first = subprocess.Popen([FLYBALL, "models", "pull", REPO, "--quiet", "--config", self.config],
                                 env=self.environment,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        begun.wait()
        self.assertIn("another process", self.pull(REPO, expect=74))
        part = self.path("tiny-Q8_0.gguf.part")
        self.assertIn("another process", self.run_models("rm", part, expect=74))
        first.send_signal(signal.SIGINT)
        first.wait()
        self.run_models("rm", part)
        self.assertEqual(self.all_files(), [])


if __name__ == "__main__":
    unittest.main()
