#!/usr/bin/env python3
"""Sessions that return after an engine's or the daemon's end: what they said before is not computed again, and the
answer is the same. One test: spill_test.py [-v] SpillTest.test_name"""

import glob
import os
import random
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import APP, GREEDY, Daemon, SmallModelTest, kill_workers  # noqa: E402

PROMPT = " ".join("word%d" % (n * 7919 % 1000) for n in range(150))  # several hundred tokens


class Other(Daemon):
    """A daemon with a state directory and an app of its own, and the same KV directory."""

    def __init__(self, model, kv):
        super().__init__({"small": "path: %s\ncontext: 1024" % model}, app=APP.replace("app: example", "app: other"),
                         kv_spill="{directory: %s, max_bytes: 256MiB}" % kv)

    def config_text(self, more=""):
        return super().config_text(more).replace("default_app: example", "default_app: other")


class SpillTest(SmallModelTest):
    def setUp(self):
        self.cache = tempfile.TemporaryDirectory(prefix="flyball-spill-")
        self.kv = os.path.join(self.cache.name, "kv")

    def tearDown(self):
        self.cache.cleanup()

    def daemon(self, max_bytes="256MiB", **kwargs):
        return self.small(kv_spill="{directory: %s, max_bytes: %s}" % (self.kv, max_bytes), **kwargs)

    def ask(self, daemon, prompt=PROMPT, tokens=40):
        status, body = daemon.request("POST", "/v1/completions", dict(GREEDY, model="small", prompt=prompt,
                                                                      max_tokens=tokens))
        self.assertEqual(status, 200, body)
        usage = body["usage"]
        return body["choices"][0]["text"], usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]

    def metric(self, daemon, name):
        status, text = daemon.request("GET", "/metrics")
        self.assertEqual(status, 200)
        for line in text.splitlines():
            if line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
        return None

    def wait_spilled(self, daemon):
        """Until the engine, idle, has written all it has."""
        end, last = time.monotonic() + 120, 0
        while time.monotonic() < end:
            now = self.metric(daemon, "flyball_engine_kv_spilled_bytes") or 0
            if now > 0 and now == last:
                return now
            last = now
            time.sleep(2.5)  # longer than heartbeats: each tells the daemon
        raise AssertionError("nothing was spilled:\n" + "\n".join(daemon.log))

    def test_a_session_returns_after_a_restart_of_the_daemon(self):
        with self.daemon() as daemon:
            text, cached, prompt_tokens = self.ask(daemon)
            self.assertEqual(cached, 0)
            self.assertGreater(prompt_tokens, 256)
            daemon.signal(15)  # drained: what is kept goes to the disk
            self.assertEqual(daemon.wait(), 0)
        self.assertEqual(os.stat(self.kv).st_mode & 0o777, 0o700)
        for segment in glob.glob(self.kv + "/*.kv"):
            self.assertEqual(os.stat(segment).st_mode & 0o777, 0o600)
        with self.daemon() as daemon:
            again, cached, _ = self.ask(daemon)
            self.assertEqual(again, text)
            self.assertEqual(cached, (prompt_tokens - 1) // 16 * 16)
            end = time.monotonic() + 60
            while time.monotonic() < end and self.metric(daemon, "flyball_engine_kv_restored_tokens") != cached:
                time.sleep(0.1)
            self.assertEqual(self.metric(daemon, "flyball_engine_kv_restored_tokens"), cached)
            self.assertEqual(self.metric(daemon, "flyball_engine_kv_spill"), 1)

    def test_a_session_returns_after_the_death_of_its_idle_engine(self):
        with self.daemon() as daemon:
            text, _, prompt_tokens = self.ask(daemon)
            self.wait_spilled(daemon)
            kill_workers(daemon)
            daemon.wait_for_log("killed by signal 9")
            again, cached, _ = self.ask(daemon)
            self.assertEqual((again, cached), (text, (prompt_tokens - 1) // 16 * 16))

    def test_kill_9_in_the_middle_of_a_spill_never_restores_what_is_wrong(self):
        rng = random.Random(11)
        prompts = ["%d %s" % (n, PROMPT) for n in range(6)]
        with self.small() as daemon:  # that keeps nothing
            expected = [self.ask(daemon, p)[0] for p in prompts]
        for death in range(2):  # the third one within ten minutes disables the engine
            with self.daemon() as daemon:
                for prompt, text in zip(prompts, expected):
                    self.assertEqual(self.ask(daemon, prompt)[0], text)
                end = time.monotonic() + 60
                while not glob.glob(self.kv + "/*.kv") and time.monotonic() < end:
                    time.sleep(0.001)
                time.sleep(rng.random() * 0.02)
                kill_workers(daemon)
                daemon.wait_for_log("killed by signal 9")
                for prompt, text in zip(prompts, expected):
                    self.assertEqual(self.ask(daemon, prompt)[0], text, "death %d" % death)
            for segment in glob.glob(self.kv + "/*.kv"):  # a torn end, whatever the kernel has kept
                size = os.path.getsize(segment)
                os.truncate(segment, rng.randrange(size // 2, size))

    def test_a_directory_that_cannot_be_used_costs_nothing_else(self):
        with open(self.kv, "w"):
            pass
        with self.daemon() as daemon:
            text, _, _ = self.ask(daemon)
            daemon.wait_for_log("KV is not spilled to disk")
            self.assertEqual(self.ask(daemon)[0], text)
            self.assertEqual(self.metric(daemon, "flyball_engine_kv_spill"), 0)

    def test_a_full_disk_turns_spilling_off_and_serving_goes_on(self):
        # No file may grow beyond a few blocks: what a full disk does to a writer.
        command = ["/bin/sh", "-c", 'trap "" XFSZ; ulimit -f 256; exec "$@" --port 0', "sh"]
        with self.daemon(command=command) as daemon:
            text, _, _ = self.ask(daemon)
            daemon.wait_for_log("KV is not spilled to disk from here on", timeout=120)
            self.assertEqual(self.ask(daemon)[0], text)
            self.assertEqual(sum("KV is not spilled" in line for line in daemon.log), 1)

    def test_switched_off_by_a_reload_nothing_more_is_written(self):
        with self.daemon() as daemon:
            self.ask(daemon)
            self.wait_spilled(daemon)
            before = daemon.workers()
            daemon.kv_spill = "{directory: %s, max_bytes: 0B}" % self.kv
            daemon.write_config(daemon.config_text())
            daemon.signal(1)
            daemon.wait_for_log("configuration reloaded")
            self.ask(daemon, prompt="another " + PROMPT)
            self.assertFalse(set(before) & set(daemon.workers()), "the engine that spills goes on")
            there = {path: os.stat(path).st_size for path in glob.glob(self.kv + "/*.kv")}
            self.assertTrue(there)
            daemon.signal(15)
            self.assertEqual(daemon.wait(), 0)
            self.assertEqual({path: os.stat(path).st_size for path in glob.glob(self.kv + "/*.kv")}, there)

    def test_daemons_that_share_the_directory_keep_each_others_kv(self):
        segments = lambda: set(glob.glob(self.kv + "/*.kv"))
        with self.daemon() as first:
            self.ask(first)
            self.wait_spilled(first)
            of_first = segments()
            self.assertTrue(of_first)
            with Other(self.model, self.kv) as second:
                second.wait_for_log("keeping the KV of former apps: another daemon uses " + self.kv)
                self.assertEqual(segments() & of_first, of_first)
                first.signal(15)
                self.assertEqual(first.wait(), 0)
                second.signal(1)
                second.wait_for_log("removed the KV of former apps from the disk")
                self.assertFalse(segments() & of_first, "the second daemon is alone, and does not know the first one's apps")

    def test_another_app_finds_nothing(self):
        keys = os.path.join(self.cache.name, "key")
        with self.daemon() as daemon:
            text, _, _ = self.ask(daemon)
            daemon.signal(15)
            daemon.wait()
        of_example = glob.glob(self.kv + "/*.kv")
        self.assertTrue(of_example)
        with self.daemon() as daemon:
            apps = os.path.join(daemon.dir.name, "apps.d")
            shutil.move(os.path.join(apps, "example.yaml"), keys)
            with open(keys) as f, open(os.path.join(apps, "other.yaml"), "w") as out:
                out.write(f.read().replace("app: example", "app: other"))
            daemon.write_config(daemon.config_text().replace("default_app: example", "default_app: other"))
            daemon.signal(1)
            daemon.wait_for_log("configuration reloaded")
            daemon.wait_for_log("removed the KV of former apps from the disk")
            self.assertFalse(set(of_example) & set(glob.glob(self.kv + "/*.kv")), "the app is gone, its KV stays")
            again, cached, _ = self.ask(daemon)
            self.assertEqual((again, cached), (text, 0))


if __name__ == "__main__":
    unittest.main()
