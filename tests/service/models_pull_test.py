#!/usr/bin/env python3
"""`flyball models pull` against a hub of the test's own, which breaks off and lies.
One test: models_pull_test.py [-v] ModelsPullTest.test_name"""

import contextlib
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import FLYBALL, Daemon, flyball  # noqa: E402
from hub import REPO, TOKEN, Hub, HubTest, sha256, split_gguf  # noqa: E402

KILLS = 200


class ModelsPullTest(HubTest):
    # ---- the ordinary way --------------------------------------------------------------------------------------------

    def test_a_model_is_pulled_listed_verified_and_removed(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.hub.add(REPO, "tiny-Q3_K_M.gguf", b"another quantization")
        self.hub.add(REPO, "mmproj-tiny-Q8_0.gguf", b"a projector")
        self.hub.add(REPO, "README.md", b"# read me", lfs=False)
        old_mask = os.umask(0o077)
        try:
            said = self.pull(REPO)
        finally:
            os.umask(old_mask)
        file = self.path("tiny-Q8_0.gguf")
        self.assert_holds(file, self.model)
        self.assertIn("the model is called tiny-Q8_0", said)
        self.assertEqual(self.named_files(), [file])
        self.assertEqual(os.stat(file).st_mode & 0o777, 0o644, "a service of another user reads it")
        self.assertEqual(os.stat(os.path.dirname(file)).st_mode & 0o777, 0o755)
        subprocess.run(["sha256sum", "-c", "--quiet", "tiny-Q8_0.gguf.sha256"], cwd=os.path.dirname(file), check=True)
        entry = os.path.join(self.dir, "config.d", "model-tiny-Q8_0.yaml")
        self.assertTrue(os.path.exists(entry))

        rows = {row["id"]: row for row in json.loads(self.run_models("list", "--json"))["models"]}
        self.assertEqual(rows["demo"]["origin"], "built in")
        self.assertEqual(rows["tiny-Q8_0"], {"id": "tiny-Q8_0", "file": file, "bytes": len(self.model),
                                             "origin": "pulled", "state": "ok", "references": 1})
        before = len(self.hub.log)
        self.assertIn("The configuration has it already", self.pull(REPO))
        self.assertEqual([path.split("?")[0] for path, _ in self.hub.log[before:]], ["/api/models/%s/tree/main" % REPO])

        self.assertEqual(self.run_models("verify"), file + ": ok\n")
        with open(file, "r+b") as out:
            out.seek(1000)
            out.write(b"\xff\x00")
        self.assertIn("differs", self.run_models("verify", "tiny-Q8_0", expect=1))
        self.assertIn("removed  " + file, self.run_models("rm", "tiny-Q8_0"))
        self.assertEqual(self.all_files(), [])
        self.assertFalse(os.path.exists(entry))
        self.assertEqual([row["id"] for row in json.loads(self.run_models("list", "--json"))["models"]], ["demo"])

    def test_a_quantization_is_chosen_by_name_and_an_unknown_one_lists_those_there_are(self):
        for quant in ("Q4_K_M", "Q8_0", "Q2_K"):
            self.hub.add(REPO, "tiny-%s.gguf" % quant, self.model)
        said = self.pull(REPO + ":Q5_K_M", "--no-config", expect=64)
        self.assertIn("Q4_K_M (", said)
        self.assertIn("Q8_0 (", said)
        self.assertIn("reads no quantization", self.pull(REPO, "--quant", "q2_k", expect=64))
        self.pull(REPO, "--quant", "q8_0", "--no-config")
        self.pull("hf.co/" + REPO, "--no-config")
        self.pull("https://huggingface.co/%s/blob/main/tiny-Q2_K.gguf" % REPO, "--no-config")
        self.assertEqual(self.named_files(), [self.path("tiny-%s.gguf" % q) for q in ("Q2_K", "Q4_K_M", "Q8_0")])

    def test_shards_come_together_and_the_listing_has_several_pages(self):
        shards = split_gguf(self.model, 3)
        for n, data in enumerate(shards, 1):
            self.hub.add(REPO, "tiny-Q8_0-%05d-of-00003.gguf" % n, data)
        entries = self.hub.listed[REPO]
        path = "/api/models/%s/tree/main" % REPO

        def page(request):
            n = int(request.path.split("cursor=")[1]) if "cursor=" in request.path else 0
            link = '<%s%s?recursive=true&cursor=%d>; rel="next"' % (self.hub.url, path, n + 1)
            fields = {"Link": link} if n < 2 else {}
            self.hub.send(request, 200, json.dumps([entries[n]]).encode(), **fields)
        self.hub.hooks[path] = page
        result = json.loads(self.pull(REPO, "--json", "--quiet"))
        self.assertEqual([f["sha256"] for f in result["files"]], [sha256(data) for data in shards])
        self.assertEqual(result["model"], "tiny-Q8_0")
        for n, data in enumerate(shards, 1):
            self.assert_holds(self.path("tiny-Q8_0-%05d-of-00003.gguf" % n), data)
        self.run_models("rm", "tiny-Q8_0")
        self.assertEqual(self.all_files(), [])

    def test_a_directory_of_mlx_gets_its_name_when_all_of_it_is_there(self):
        repo = "org/tiny-mlx"
        files = {"config.json": b'{"model_type": "no such"}', "tokenizer.json": b"{}",
                 "model.safetensors": os.urandom(100000)}
        for name, data in files.items():
            self.hub.add(repo, name, data, lfs=name.endswith("safetensors"))
        self.hub.add(repo, "README.md", b"# read me", lfs=False)
        seen = []

        def look(request):
            seen.append(os.path.exists(os.path.join(self.models, repo)))
            self.hub.send_file(request, files["model.safetensors"])
        self.hub.hooks["/%s/resolve/main/model.safetensors" % repo] = look
        self.assertIn("does not run it", self.pull(repo, expect=1))
        self.assertEqual(seen, [False])
        self.assertEqual(sorted(os.path.basename(p) for p in self.named_files()), sorted(files))
        for name, data in files.items():
            self.assert_holds(self.path(name, repo), data)
        self.hub.files["/%s/resolve/main/config.json" % repo] = b'{"model_type": "other!!"}'
        shutil.rmtree(os.path.join(self.models, repo))
        self.assertIn("git digest", self.pull(repo, expect=69))
        self.assertEqual(self.named_files(), [])

    def test_an_empty_folder_is_no_other_version(self):
        repo = "org/tiny-mlx"
        for name in ("config.json", "model.safetensors"):
            self.hub.add(repo, name, b"{}" if name == "config.json" else self.model)
        os.makedirs(os.path.join(self.models, repo))
        self.pull(repo, expect=1)
        self.assertEqual(len(self.named_files()), 2)
        self.assertEqual([path for path in self.all_files() if ".part" in path], [])
        self.run_models("rm", os.path.join(self.models, repo))
        self.assertEqual(self.all_files(), [])
        self.hub.hooks["/%s/resolve/main/config.json" % repo] = lambda request: self.hub.send(request, 404, b"")
        self.pull(repo, expect=64)
        self.assertEqual(self.all_files(), [])
        self.assertFalse(os.path.exists(os.path.join(self.models, repo + ".part")))

    def test_a_revision_with_slashes_is_one_part_of_an_address(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.hub.hooks["/api/models/%s/tree/refs%%2Fpr%%2F1" % REPO] = lambda request: self.hub.send(
            request, 200, json.dumps(self.hub.listed[REPO]).encode())
        self.hub.hooks["/%s/resolve/refs%%2Fpr%%2F1/tiny-Q8_0.gguf" % REPO] = lambda request: self.hub.send_file(
            request, self.model)
        self.pull("https://huggingface.co/%s/blob/refs%%2Fpr%%2F1/tiny-Q8_0.gguf" % REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    def leave_leftovers(self, file):
        for end in (".part", ".part.json", ".sha256.new", ".part.json.new", ".source.json.new"):
            open(file + end, "w").close()
        os.mkdir(file + ".check.part")
        os.symlink(file, os.path.join(file + ".check.part", "m.gguf"))

    def test_leftovers_of_a_killed_pull_go(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        file = self.path("tiny-Q8_0.gguf")
        os.makedirs(os.path.dirname(file))
        self.leave_leftovers(file)
        self.pull(REPO, "--no-config")
        self.assertEqual(self.all_files(), [file, file + ".sha256"])
        self.leave_leftovers(file)
        self.pull(REPO, "--no-config")
        self.assertEqual(self.all_files(), [file, file + ".sha256"])
        self.leave_leftovers(file)
        self.run_models("rm", file + ".part")
        self.run_models("rm", file)
        self.assertEqual(self.all_files(), [])
        self.assertEqual(os.listdir(self.models), [])
        self.hub.hooks["/%s/resolve/main/tiny-Q8_0.gguf" % REPO] = lambda request: self.hub.send(request, 404, b"")
        self.pull(REPO, expect=64)
        self.assertEqual(self.all_files(), [])

    # ---- poor connections --------------------------------------------------------------------------------------------

    def test_a_server_that_breaks_off_is_asked_for_the_rest(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        chance = random.Random(7)
        self.hub.hooks[path] = lambda request: self.hub.send_file(request, self.model,
                                                                  cut=chance.randrange(1, len(self.model) // 3))
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)
        asked = [headers.get("Range") for at, headers in self.hub.log if at == path]
        self.assertGreater(len(asked), 2)
        self.assertIsNone(asked[0])
        starts = [int(one[len("bytes="):-1]) for one in asked[1:]]
        self.assertEqual(starts, sorted(set(starts)), "each request begins behind the one before")

    def test_a_server_that_never_sends_a_byte_more_is_given_up_and_gone_on_with_later(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        half = len(self.model) // 2

        def stop_at_half(request):
            first = int(request.headers.get("Range", "bytes=0-")[len("bytes="):-1])
            self.hub.send_file(request, self.model, cut=max(0, half - first))
        self.hub.hooks[path] = stop_at_half
        self.assertIn("goes on from byte %d" % half, self.pull(REPO, "--retries", "2", expect=69))
        self.assertEqual(self.named_files(), [])
        part = json.loads(self.run_models("list", "--json"))["models"][-1]
        self.assertEqual((part["file"], part["bytes"]), (self.path("tiny-Q8_0.gguf.part"), half))
        del self.hub.hooks[path]
        before = len(self.hub.log)
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)
        self.assertEqual(self.hub.log[before + 1][1]["Range"], "bytes=%d-" % half)

    def test_a_silent_server_is_left_and_asked_again(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        silent, asked = threading.Event(), []
        self.addCleanup(silent.set)

        def fall_silent(request):
            asked.append(request.headers.get("Range"))
            if len(asked) > 1:
                return self.hub.send_file(request, self.model)
            request.send_response(200)
            request.send_header("Content-Length", str(len(self.model)))
            request.end_headers()
            request.wfile.write(self.model[:1000])
            request.wfile.flush()
            silent.wait()
        self.hub.hooks[path] = fall_silent
        self.assertIn("sent nothing for 1s", self.pull(REPO, "--timeout", "1"))
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)
        self.assertEqual(asked[1], "bytes=1000-")

    def test_every_address_of_a_host_is_tried(self):
        """Where localhost is ::1 first, nobody listens there."""
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.write_config(hub=type("ByName", (), {"url": "http://localhost:%d" % self.hub.port}))
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    def test_a_busy_server_is_asked_again(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        answers = [503, 429]
        self.hub.hooks[path] = lambda request: (self.hub.send(request, answers.pop(0), b"busy") if answers else
                                                self.hub.send_file(request, self.model))
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    def test_a_busy_hub_is_asked_for_its_listing_again_when_it_says(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path, answers = "/api/models/%s/tree/main" % REPO, [503, 429]

        def busy(request):
            if answers:
                return self.hub.send(request, answers.pop(), b"busy", Retry_After="1")
            del self.hub.hooks[path]
            self.hub.answer(request)
        self.hub.hooks[path] = busy
        self.assertEqual(self.pull(REPO).count("trying again in 1s"), 2)
        self.hub.hooks[path] = lambda request: self.hub.send(request, 500, b"")
        asked = len(self.hub.log)
        self.pull(REPO, "--retries", "2", expect=69)
        self.assertEqual(len(self.hub.log), asked + 2)

    def test_bytes_that_only_trickle_are_no_progress(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        self.hub.hooks[path] = lambda request: self.hub.send_file(request, self.model, cut=1000)
        self.assertIn("goes on from byte 3000", self.pull(REPO, "--retries", "3", expect=69))
        self.assertEqual(len(self.hub.log), 4)

    def test_a_header_that_only_trickles_is_left(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        done = threading.Event()
        self.addCleanup(done.set)

        def trickle(request):
            request.send_response(200)
            request.flush_headers()
            while not done.wait(0.2):
                request.wfile.write(b"X-More: yes\r\n")
        self.hub.hooks["/%s/resolve/main/tiny-Q8_0.gguf" % REPO] = trickle
        self.assertIn("sent no header within 1s", self.pull(REPO, "--retries", "1", "--timeout", "1", expect=69))

    def test_answers_before_the_answer_are_skipped(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)

        def early(request):
            for line in (b"103 Early Hints\r\nLink: </style.css>", b"100 Continue"):
                request.wfile.write(b"HTTP/1.1 " + line + b"\r\n\r\n")
            self.hub.send_file(request, self.model)
        self.hub.hooks["/%s/resolve/main/tiny-Q8_0.gguf" % REPO] = early
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    # ---- servers that do as they like --------------------------------------------------------------------------------

    def break_off_then(self, then):
        """The first answer for the model ends in its middle, the others are `then`'s."""
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        first = [True]

        def answer(request):
            if first.pop() if first else False:
                return self.hub.send_file(request, self.model, cut=len(self.model) // 2)
            then(request)
        self.hub.hooks["/%s/resolve/main/tiny-Q8_0.gguf" % REPO] = answer

    def test_a_server_without_ranges_begins_anew(self):
        self.break_off_then(lambda request: self.hub.send_file(request, self.model, ranges=False))
        self.assertIn("begins anew", self.pull(REPO))
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    def test_a_wrong_range_is_never_appended(self):
        self.break_off_then(lambda request: self.hub.send_file(request, self.model, shift=1))
        self.assertIn("other bytes than those from", self.pull(REPO))
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    def test_a_range_that_the_server_has_not_begins_anew(self):
        self.break_off_then(lambda request: self.hub.send(request, 416, b"") if "Range" in request.headers
                            else self.hub.send_file(request, self.model))
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    def test_sizes_that_differ_from_the_listing_are_refused(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model, size=len(self.model) - 7)
        self.assertIn("expected %d" % (len(self.model) - 7), self.pull(REPO, expect=69))
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO

        def without_length(request):
            request.send_response(200)
            request.end_headers()
            request.wfile.write(self.model)
        self.hub.hooks[path] = without_length
        self.assertIn("sends more than", self.pull(REPO, expect=69))
        self.assertEqual(self.named_files(), [])

    def test_a_wrong_digest_is_named_and_its_bytes_are_removed(self):
        wrong = bytes([self.model[0] ^ 1]) + self.model[1:]
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.hub.files["/%s/resolve/main/tiny-Q8_0.gguf" % REPO] = wrong
        said = self.pull(REPO, expect=69)
        self.assertIn(sha256(self.model), said)
        self.assertIn(sha256(wrong), said)
        self.assertEqual(self.all_files(), [])
        self.hub.files["/%s/resolve/main/tiny-Q8_0.gguf" % REPO] = self.model
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    def test_a_new_version_replaces_a_part_of_the_old_one(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model[:-1] + b"!")
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        self.hub.hooks[path] = lambda request: self.hub.send_file(request, self.model[:-1] + b"!",
                                                                  cut=0 if "Range" in request.headers else 5000)
        self.pull(REPO, "--retries", "1", expect=69)
        del self.hub.hooks[path]
        self.hub.listed[REPO].clear()
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    def test_a_new_version_of_shards_replaces_the_old_one(self):
        for version in (self.model, self.model.replace(b"general.name", b"general.nome")):
            self.hub.listed.clear()
            shards = split_gguf(version, 3)
            for n, data in enumerate(shards, 1):
                self.hub.add(REPO, "tiny-Q8_0-%05d-of-00003.gguf" % n, data)
            self.pull(REPO)
            for n, data in enumerate(shards, 1):
                self.assert_holds(self.path("tiny-Q8_0-%05d-of-00003.gguf" % n), data)

    def test_a_hostile_listing_writes_nothing(self):
        for path in ("../../escape.gguf", "/etc/escape.gguf", "a/../../b.gguf", "a\0b.gguf", "a\nb.gguf", "a//b.gguf"):
            self.hub.listed[REPO] = [{"type": "file", "path": path, "size": 1, "lfs": {"oid": "0" * 64, "size": 1}}]
            self.assertIn("which is refused", self.pull(REPO, expect=69))
        self.hub.hooks["/api/models/%s/tree/main" % REPO] = lambda request: self.hub.send(request, 200, b"[" * 100000)
        self.assertIn("listing cannot be read", self.pull(REPO, expect=69))
        self.assertEqual(self.all_files(), [])

    def test_a_model_larger_than_the_disk_is_refused_before_its_first_byte(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model, size=1 << 48)
        self.assertIn("256 TiB are missing", self.pull(REPO, expect=74))
        self.assertEqual([path.split("?")[0] for path, _ in self.hub.log], ["/api/models/%s/tree/main" % REPO])

    def test_refusals_say_what_helps(self):
        path = "/api/models/%s/tree/main" % REPO
        self.assertIn("no such repository", self.pull(REPO, expect=64))
        for status in (401, 403):
            self.hub.hooks[path] = lambda request: self.hub.send(request, status, b"")
            self.assertIn("hub.token", self.pull(REPO, expect=69))
        self.assertIn("expected ORG/REPO", self.pull("tiny", expect=65))
        self.write_config(hub=type("Nobody", (), {"url": "http://127.0.0.1:1"}))
        self.assertIn("no connection to http://127.0.0.1:1", self.pull(REPO, expect=69))

    # ---- addresses ---------------------------------------------------------------------------------------------------

    def test_a_file_of_unknown_digest_has_to_be_a_model(self):
        url = self.hub.url + "/files/m.gguf"
        self.hub.files["/files/m.gguf"] = b"<html>sign in first</html>"
        self.pull(url, expect=65)
        self.assertEqual(self.all_files(), [])
        # Known bytes get their name, whatever they are; no configuration names what does not run.
        digest = sha256(self.hub.files["/files/m.gguf"])
        self.assertIn("does not run it", self.pull(url, "--sha256", digest.upper(), expect=1))
        self.assertEqual(len(self.named_files()), 1)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "config.d")))
        self.run_models("rm", self.named_files()[0])
        self.assertEqual(self.all_files(), [])
        self.hub.files["/files/m.gguf"] = self.model
        self.assertIn(digest, self.pull(url, "--sha256", digest, expect=69))
        self.assertIn(sha256(self.model), self.pull(url + "?download=true"))
        self.assert_holds(self.url_path("m.gguf"), self.model)

    def test_addresses_of_two_folders_are_two_files(self):
        other = self.model.replace(b"general.name", b"general.nome")
        for path, data in (("/a/m.gguf", self.model), ("/b/c/m.gguf", other), ("/%2e%2e%2f/m.gguf", other),
                           ("/" + "d/" * 20 + "m.gguf", self.model)):
            self.hub.files[path] = data
            self.pull(self.hub.url + path, "--no-config")
        self.assert_holds(self.url_path("m.gguf", "a"), self.model)
        self.assert_holds(self.url_path("m.gguf", "b/c"), other)
        self.assertEqual(len(self.named_files()), 4)
        rows = json.loads(self.run_models("list", "--json"))["models"]
        self.assertEqual(len([row for row in rows if row["file"]]), 4)

    def test_a_file_of_an_address_is_compared_with_the_servers(self):
        other = self.model.replace(b"general.name", b"general.nome")
        url, path = self.hub.url + "/files/m.gguf", self.url_path("m.gguf")
        self.hub.files["/files/m.gguf"] = self.model
        self.pull(url, "--no-config")
        self.assertIn("the server has this version", self.pull(url, "--no-config"))
        self.assertEqual(self.hub.log[-1][1]["Range"], "bytes=0-0")
        self.hub.files["/files/m.gguf"] = other
        self.assertIn("fetched", self.pull(url, "--no-config"))
        self.assert_holds(path, other)
        self.hub.hooks["/files/m.gguf"] = lambda request: self.hub.send(request, 200, other)  # no ETag
        self.assertIn("its bytes were not compared", self.pull(url, "--no-config"))
        self.hub.hooks["/files/m.gguf"] = lambda request: self.hub.send(request, 200, other + b"more")
        self.assertIn("fetched", self.pull(url, "--no-config"))
        self.hub.hooks["/files/m.gguf"] = lambda request: self.hub.send(request, 500, b"")
        self.assertIn("not compared with the server's file", self.pull(url, "--no-config"))
        self.assert_holds(path, other + b"more")

    def test_a_model_of_an_unknown_family_is_fetched_and_left_out_of_the_configuration(self):
        self.hub.files["/files/m.gguf"] = self.model.replace(b"llama", b"lemma")
        self.assertNotEqual(self.hub.files["/files/m.gguf"], self.model)
        self.assertIn("lemma", self.pull(self.hub.url + "/files/m.gguf", expect=1))
        self.assert_holds(self.url_path("m.gguf"), self.hub.files["/files/m.gguf"])
        self.assertFalse(os.path.exists(os.path.join(self.dir, "config.d")))

    def test_bytes_that_the_configuration_pins_are_not_replaced(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        self.pull(REPO, "--no-config")
        file = self.path("tiny-Q8_0.gguf")
        pinned = "models:\n  pinned:\n    path: %s\n    sha256: %s\n"
        self.write_config(more=pinned % (file, sha256(self.model).upper()))
        self.pull(REPO)
        other, asked = self.model.replace(b"general.name", b"general.nome"), len(self.hub.log)
        self.hub.listed.clear()
        self.hub.add(REPO, "tiny-Q8_0.gguf", other)
        self.assertIn("config.yaml:12:", self.pull(REPO, expect=78))
        self.assertEqual(len(self.hub.log), asked + 1, "the listing alone")
        self.assert_holds(file, self.model)
        # A file of unknown bytes has to have the pinned digest.
        path = self.url_path("m.gguf")
        self.hub.files["/files/m.gguf"] = other
        self.write_config(more=pinned % (path, sha256(self.model)))
        self.assertIn(sha256(self.model), self.pull(self.hub.url + "/files/m.gguf", expect=69))
        self.hub.files["/files/m.gguf"] = self.model
        self.pull(self.hub.url + "/files/m.gguf")
        self.assert_holds(path, self.model)

    def test_shards_of_a_pinned_model_are_not_replaced_and_verified_together(self):
        shards = self.serve_shards()
        self.pull(REPO, "--no-config")
        first = self.path("tiny-Q8_0-00001-of-00003.gguf")
        self.write_config(more="models:\n  pinned:\n    path: %s\n    sha256: %s\n" % (first, sha256(b"".join(shards))))
        said = self.run_models("verify")
        self.assertEqual((said.count(": ok"), said.count("\n")), (4, 4))
        self.assertIn("and its other shards: ok", said)
        self.change_last_shard(shards)
        self.assertIn("config.yaml:12:", self.pull(REPO, expect=78))
        with open(self.path("tiny-Q8_0-00003-of-00003.gguf"), "ab") as out:
            out.write(b"x")
        said = self.run_models("verify", "pinned", expect=1)
        self.assertEqual((said.count(": ok"), said.count("differs")), (2, 2))
        self.assertIn("flyball models rm pinned", said)

    def serve_shards(self):
        shards = split_gguf(self.model, 3)
        for n, data in enumerate(shards, 1):
            self.hub.add(REPO, "tiny-Q8_0-%05d-of-00003.gguf" % n, data)
        return shards

    def change_last_shard(self, shards):
        shards[2] = shards[2][:-1] + b"\x01"
        self.hub.listed[REPO].pop()
        self.hub.add(REPO, "tiny-Q8_0-00003-of-00003.gguf", shards[2])

    def test_the_first_shard_is_never_beside_shards_of_another_version(self):
        shards = self.serve_shards()
        self.pull(REPO, "--no-config")
        self.change_last_shard(shards)
        # The last shard gets its name, and the process cannot go on: its digest's name is taken.
        obstacle = self.path("tiny-Q8_0-00003-of-00003.gguf.sha256")
        os.remove(obstacle)
        os.mkdir(obstacle)
        open(os.path.join(obstacle, "x"), "w").close()
        self.pull(REPO, "--no-config", expect=74)
        first = self.path("tiny-Q8_0-00001-of-00003.gguf")
        self.assertFalse(os.path.exists(first))
        shutil.rmtree(obstacle)
        asked = len(self.hub.log)
        self.pull(REPO, "--no-config")
        self.assertEqual(len(self.hub.log), asked + 1, "all bytes are here")
        for n, data in enumerate(shards, 1):
            self.assert_holds(self.path("tiny-Q8_0-%05d-of-00003.gguf" % n), data)
        self.assertEqual([path for path in self.all_files() if ".part" in path], [])

    def test_a_part_without_a_version_is_never_gone_on_with(self):
        asked = []

        def answer(request):
            asked.append(request.headers.get("Range"))
            cut = len(self.model) // 2 if len(asked) == 1 else None
            request.send_response(200)
            request.send_header("Content-Length", str(len(self.model)))
            request.end_headers()
            request.wfile.write(self.model[:cut])
        self.hub.hooks["/files/m.gguf"] = answer
        self.pull(self.hub.url + "/files/m.gguf")
        self.assertEqual(asked, [None, None])
        self.assert_holds(self.url_path("m.gguf"), self.model)

    def test_a_range_of_no_version_is_never_appended(self):
        def without_etag(request):
            first = int(request.headers.get("Range", "bytes=0-")[len("bytes="):-1])
            request.send_response(206 if first else 200)
            request.send_header("Content-Length", str(len(self.model) - first))
            if first:
                request.send_header("Content-Range", "bytes %d-%d/%d" % (first, len(self.model) - 1, len(self.model)))
            request.end_headers()
            request.wfile.write(self.model[first:])
        self.change_midway(without_etag)

    def test_an_id_is_looked_at_before_the_first_byte(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        for name in ("a b", "demo"):
            self.pull(REPO, "--id", name, expect=64)
        self.assertEqual({path.split("?")[0] for path, _ in self.hub.log}, {"/api/models/%s/tree/main" % REPO})
        self.pull(REPO, "--id", "one")
        self.assertIn("it is called one, and --id does not change that", self.pull(REPO, "--id", "two"))

    def test_without_a_configuration_one_is_made(self):
        if os.path.exists("/etc/flyball/config.yaml"):
            self.skipTest("this machine has a configuration in /etc/flyball")
        self.hub.files["/files/m.gguf"] = self.model
        home = os.path.join(self.dir, "home")
        environment = dict(self.environment, HOME=home)
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            environment.pop(name, None)
        ended = flyball("models", "pull", self.hub.url + "/files/m.gguf", env=environment)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        file = os.path.join(home, ".local/share/flyball/models/127.0.0.1_%d/files/m.gguf" % self.hub.port)
        self.assert_holds(file, self.model)
        self.assertIn("answers requests that name no model", ended.stdout)
        self.assertTrue(os.path.exists(os.path.join(home, ".config/flyball/config.yaml")))
        made = os.path.join(home, ".config/flyball/config.yaml")
        self.assertEqual(flyball("check", made, env=environment).returncode, 0)
        self.assertEqual(flyball("models", "rm", "m", env=environment).returncode, 0)
        self.assertFalse(os.path.exists(file))

    def test_an_address_of_one_shard_brings_all_of_them(self):
        shards = split_gguf(self.model, 3)
        for n, data in enumerate(shards, 1):
            self.hub.files["/files/m-%05d-of-00003.gguf" % n] = data
        self.pull(self.hub.url + "/files/m-00002-of-00003.gguf")
        for n, data in enumerate(shards, 1):
            self.assert_holds(self.url_path("m-%05d-of-00003.gguf" % n), data)

    def change_midway(self, second):
        """A file of unknown digest that becomes another one after the first answer, which broke off."""
        other = self.model.replace(b"general.name", b"general.nome")  # as long as the new one
        asked = []

        def answer(request):
            asked.append(request.headers.get("If-Range"))
            if len(asked) == 1:
                return self.hub.send_file(request, other, cut=len(other) // 2)
            second(request)
        self.hub.hooks["/files/m.gguf"] = answer
        self.pull(self.hub.url + "/files/m.gguf")
        self.assertEqual(asked[1], '"%s"' % sha256(other)[:16])
        self.assert_holds(self.url_path("m.gguf"), self.model)

    def test_a_file_that_changes_midway_begins_anew(self):
        self.change_midway(lambda request: self.hub.send_file(request, self.model))

    def test_a_range_of_a_changed_file_is_never_appended(self):
        def ignore_if_range(request):
            del request.headers["If-Range"]
            self.hub.send_file(request, self.model)
        self.change_midway(ignore_if_range)

    # ---- redirects and tokens ----------------------------------------------------------------------------------------

    def redirect(self, hub, path, to):
        hub.hooks[path] = lambda request: hub.send(request, 302, b"", Location=to)

    def test_a_token_reaches_the_hub_alone(self):
        other = Hub()
        self.addCleanup(other.close)
        self.write_config(token=True)
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        self.redirect(self.hub, path, other.url + "/signed?key=secret")
        self.redirect(other, "/signed", self.hub.url + "/back")
        self.hub.files["/back"] = self.model
        self.pull(REPO)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)
        by_path = {at.split("?")[0]: headers.get("Authorization") for at, headers in self.hub.log}
        self.assertEqual(by_path, {"/api/models/%s/tree/main" % REPO: "Bearer " + TOKEN, path: "Bearer " + TOKEN,
                                   "/back": None})
        self.assertEqual([headers.get("Authorization") for _, headers in other.log], [None])
        other.files["/m.gguf"] = self.model
        self.pull(other.url + "/m.gguf", "--no-config")
        self.assertIsNone(other.log[-1][1].get("Authorization"))

    def test_the_hub_alone_lists_files(self):
        other = Hub()
        self.addCleanup(other.close)
        for hub in (self.hub, other):
            hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/api/models/%s/tree/main" % REPO
        self.redirect(self.hub, path, other.url + path)
        self.assertIn("hub.url", self.pull(REPO, expect=69))
        more = '<%s%s>; rel="next"' % (other.url, path)
        self.hub.hooks[path] = lambda request: self.hub.send(request, 200, b"[]", Link=more)
        self.assertIn("goes on at " + other.url, self.pull(REPO, expect=69))
        self.assertEqual(len(other.log), 1)
        self.redirect(self.hub, path, self.hub.url + "/api/models/renamed/tree/main")
        self.hub.hooks["/api/models/renamed/tree/main"] = lambda request: self.hub.send(
            request, 200, json.dumps(self.hub.listed[REPO]).encode())
        self.pull(REPO)

    def test_a_token_does_not_travel_without_encryption(self):
        self.write_config(hub=type("Far", (), {"url": "http://hub.invalid"}), token=True)
        self.assertIn("config.yaml:8:", self.pull(REPO, expect=78))
        self.write_config(hub=type("Far", (), {"url": "http://hub.invalid"}))
        self.assertIn("no address", self.pull(REPO, expect=69))

    def test_redirects_are_bounded(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        self.redirect(self.hub, path, path)
        self.assertIn("redirects more than 10 times", self.pull(REPO, expect=69))
        self.assertEqual(len(self.hub.log), 12, "the listing and eleven requests")
        for to in ("file:///etc/passwd", "http://user:word@127.0.0.1/x", "", "http://[::1/x"):
            self.redirect(self.hub, path, to)
            self.assertIn("redirects", self.pull(REPO, expect=69))
        self.redirect(self.hub, path, "../main/other")
        self.hub.files["/%s/resolve/main/other" % REPO] = self.model
        self.pull(REPO)

    def test_tls_trusts_the_systems_authorities_and_the_hosts_own_name(self):
        if not shutil.which("openssl"):
            self.skipTest("there is no openssl command")
        here = self.dir

        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=here, check=True, capture_output=True)
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj",
                "/CN=test", "-days", "2")

        def certified(name, alternative):
            openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", name + ".key", "-out", name + ".csr",
                    "-subj", "/CN=x")
            with open(os.path.join(here, name + ".ext"), "w") as out:
                out.write("subjectAltName=" + alternative + "\n")
            openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                    "-days", "2", "-extfile", name + ".ext", "-out", name + ".pem")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.path.join(here, name + ".pem"), os.path.join(here, name + ".key"))
            hub = Hub(context)
            self.addCleanup(hub.close)
            hub.add(REPO, "tiny-Q8_0.gguf", self.model)
            self.write_config(hub=hub)
            return hub
        trusted = {"SSL_CERT_FILE": os.path.join(here, "ca.pem")}
        certified("other", "DNS:elsewhere.example")
        self.assertIn("is not one for \"127.0.0.1\"", self.pull(REPO, expect=69, **trusted))
        named = certified("named", "DNS:localhost")
        self.write_config(hub=type("Named", (), {"url": "https://localhost:%d" % named.port}))
        self.pull(REPO, "--no-config", **trusted)
        shutil.rmtree(self.models)
        hub = certified("own", "IP:127.0.0.1")
        self.assertIn("certificate", self.pull(REPO, expect=69))
        self.assertEqual(hub.log, [], "nothing is asked before the server is known")
        path = "/%s/resolve/main/tiny-Q8_0.gguf" % REPO
        self.redirect(hub, path, self.hub.url + "/plain")
        self.hub.files["/plain"] = self.model
        self.assertIn("not encrypted", self.pull(REPO, expect=69, **trusted))
        self.assertEqual(self.hub.log, [])
        chance = random.Random(3)
        hub.hooks[path] = lambda request: hub.send_file(request, self.model,
                                                        cut=chance.randrange(1, len(self.model) // 2))
        self.pull(REPO, **trusted)
        self.assert_holds(self.path("tiny-Q8_0.gguf"), self.model)

    # ---- the folder --------------------------------------------------------------------------------------------------

    def test_a_part_of_a_new_version_outlives_a_server_that_is_away(self):
        url, path = self.hub.url + "/files/m.gguf", self.url_path("m.gguf")
        self.hub.files["/files/m.gguf"] = self.model
        self.pull(url, "--no-config")
        for name in (path + ".part", path + ".part.json"):
            with open(name, "w") as out:
                out.write("{}")
        self.hub.hooks["/files/m.gguf"] = lambda request: self.hub.send(request, 500, b"")
        self.pull(url, "--no-config", expect=69)
        self.assertTrue(os.path.exists(path + ".part"))
        self.assert_holds(path, self.model)

    def test_an_address_with_another_query_replaces_nothing_unasked(self):
        other = self.model.replace(b"general.name", b"general.nome")
        url, path = self.hub.url + "/files/m.gguf", self.url_path("m.gguf")
        self.hub.hooks["/files/m.gguf"] = lambda request: self.hub.send(
            request, 200, self.model if request.path.endswith("v=1") else other)
        self.pull(url + "?v=1")
        self.assertIn("another query", self.pull(url + "?v=2", expect=64))
        self.assert_holds(path, self.model)
        self.pull(url + "?v=1")
        self.pull(url + "?v=2", "--sha256", sha256(other))
        self.assert_holds(path, other)

    def test_a_name_of_ollamas_is_answered_with_the_way_there(self):
        self.assertIn("ollama pull it, and then flyball models find", self.pull("qwen3:8b", expect=65))

    def test_a_running_daemon_has_the_model_after_a_reload(self):
        self.hub.add(REPO, "tiny-Q8_0.gguf", self.model)
        with Daemon(more="models_dir: models\nhub: {url: '%s'}" % self.hub.url) as daemon:
            environment = dict(os.environ, XDG_STATE_HOME=self.dir)
            ended = flyball("models", "pull", REPO, "--reload", "--config", daemon.config, env=environment)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            while "tiny-Q8_0" not in str(daemon.request("GET", "/v1/models")):
                time.sleep(0.02)

            def reload_of_pull():
                said = flyball("models", "pull", REPO, "--json", "--quiet", "--config", daemon.config, env=environment)
                return json.loads(said.stdout)["reload"]
            self.assertEqual(reload_of_pull(), "")
            self.hub.listed.clear()
            self.hub.add(REPO, "tiny-Q8_0.gguf", self.model + b"more")
            self.assertIn("kill -HUP", reload_of_pull(), "the daemon has another file of the same name")
            removed = flyball("models", "rm", "tiny-Q8_0", "--config", daemon.config, env=environment)
            self.assertIn("kill -HUP", removed.stdout)

    # ---- killed at any moment ----------------------------------------------------------------------------------------

    def check_names(self, shards):
        """Everything under a final name is whole and right, and the first shard is there only beside all others."""
        names = ["tiny-Q8_0-%05d-of-00003.gguf" % n for n in (1, 2, 3)]
        there = set()
        for path in self.named_files():
            if path.endswith(".new"):
                continue
            with open(path, "rb") as f:
                self.assertEqual(sha256(f.read()), sha256(shards[names.index(os.path.basename(path))]), path)
            there.add(os.path.basename(path))
        if names[0] in there:
            self.assertEqual(there, set(names))
        for path in self.all_files():
            if path.endswith(".sha256"):
                with open(path) as f:
                    self.assertEqual(f.read().split()[0], sha256(shards[names.index(os.path.basename(path)[:-7])]))

    def test_a_pull_that_is_killed_at_any_moment_ends_with_the_right_bytes(self):
        shards = split_gguf(self.model, 3)
        chance = random.Random(20261129)
        # A killed process, and the byte of a shard at which it is killed; None: at a random moment.
        victim, deadly = [None], [None]
        for n, data in enumerate(shards, 1):
            name = "tiny-Q8_0-%05d-of-00003.gguf" % n
            self.hub.add(REPO, name, data)

            def serve(request, n=n, data=data):
                def before_piece(at):
                    if deadly[0] and deadly[0][0] == n and at >= deadly[0][1]:
                        victim[0].kill()
                    time.sleep(0.0005)
                self.hub.send_file(request, data, before_piece=before_piece)
            self.hub.hooks["/%s/resolve/main/%s" % (REPO, name)] = serve
        kills = whole = 0
        started = time.monotonic()
        usual = 0.2
        while kills < KILLS:
            deadly[0] = (chance.randrange(1, 4), chance.randrange(len(shards[0]))) if chance.random() < 0.5 else None
            by_time = deadly[0] is None
            begun = time.monotonic()
            victim[0] = subprocess.Popen([FLYBALL, "models", "pull", REPO, "--quiet", "--no-config", "--config",
                                          self.config], env=self.environment)
            with contextlib.suppress(subprocess.TimeoutExpired):
                victim[0].wait(timeout=chance.random() * usual if by_time else None)
            victim[0].kill()
            if victim[0].wait() == -signal.SIGKILL:
                kills += 1
            else:
                self.assertEqual(victim[0].returncode, 0)
                usual = max(0.05, min(2.0, 1.2 * (time.monotonic() - begun)))
            self.check_names(shards)
            if victim[0].returncode == 0:
                whole += 1
                self.assertEqual(len(self.named_files()), 3)
                self.assertFalse([path for path in self.all_files() if ".part" in path])
                shutil.rmtree(self.models)
        deadly[0] = None
        self.pull(REPO, "--no-config")
        for n, data in enumerate(shards, 1):
            self.assert_holds(self.path("tiny-Q8_0-%05d-of-00003.gguf" % n), data)
        print("%d kills, %d whole pulls between them, %.1f s" % (kills, whole, time.monotonic() - started),
              file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
