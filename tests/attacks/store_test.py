#!/usr/bin/env python3
"""The store through read errors and damage: nothing that can still be read is lost, and a day's budget goes on."""

import contextlib
import glob
import os
import signal
import sqlite3
import tempfile
import time
import unittest

from attack import COMPLETIONS, SANITIZED, AttackTest, Client, demo, manifest

FAILING_READS = os.environ.get("FLYBALL_FAILING_READS", "")
BUDGET = 100_000
APPS = (manifest("saver", "tokens_per_day: %d" % BUDGET), manifest("free"))


class StoreTest(AttackTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="flyball-state-")
        self.state = self.folder.name
        self.file = os.path.join(self.state, "flyball.db")

    def tearDown(self):
        self.folder.cleanup()

    def serve(self, **kwargs):
        return demo("state_dir: %s\n" % self.state, APPS, **kwargs)

    def use(self, daemon, requests=1, app="saver"):
        """What is left of the day's budget behind so many requests of 50 tokens."""
        with Client(daemon.port) as client:
            for _ in range(requests):
                status, fields, answer = client.ask("POST", COMPLETIONS, {
                    "prompt": [5] * 10, "max_tokens": 40, "ignore_eos": True}, app)
                self.assertEqual(status, 200, answer)
            return int(fields.get("x-ratelimit-remaining-tokens", 0))

    def stop(self, daemon):
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 0, daemon.log)

    def fill(self, requests=30):
        """A store in which a day's tokens were used. What is left of them."""
        with self.serve() as daemon:
            left = self.use(daemon, requests)
            self.stop(daemon)
        return left

    def kept(self, what):
        """The files of the folder that hold these bytes."""
        found = []
        for path in glob.glob(os.path.join(self.state, "*")):
            with open(path, "rb") as f:
                if what in f.read():
                    found.append(os.path.basename(path))
        return found

    def damaged(self):
        return sorted(name for name in os.listdir(self.state) if "damaged" in name)

    def page_of(self, table):
        """Where the first page of a table is in the file, and its size."""
        with contextlib.closing(sqlite3.connect(self.file)) as db:
            size = db.execute("PRAGMA page_size").fetchone()[0]
            root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        return (root - 1) * size, size

    def overwrite(self, at, content):
        with open(self.file, "r+b") as f:
            f.seek(at)
            f.write(content)

    @unittest.skipIf(SANITIZED, "a sanitizer's library wants to be loaded first")
    @unittest.skipUnless(os.path.exists(FAILING_READS), "no library to preload")
    def test_a_read_error_at_start_keeps_the_database(self):
        left = self.fill()
        with open(self.file, "rb") as f:
            size = len(f.read())
        told = os.path.join(self.state, "reads-failed")
        for first in range(0, 10):
            for count in (1, 3):
                env = {"LD_PRELOAD": FAILING_READS, "FLYBALL_TEST_READS": "%d %d" % (first, count),
                       "FLYBALL_TEST_READS_FAILED": told}
                with self.serve(env=env) as daemon:
                    self.stop(daemon)
                self.assertEqual(self.damaged(), [], "%d reads failed from read %d on:\n%s" % (
                    count, first, "\n".join(daemon.log)))
                self.assertGreaterEqual(os.path.getsize(self.file), size)
        self.assertGreaterEqual(os.path.getsize(told), 10, "hardly a read failed")
        with self.serve() as daemon:
            self.assertEqual(self.use(daemon), left - 50)
            self.stop(daemon)

    @unittest.skipIf(SANITIZED, "a sanitizer's library wants to be loaded first")
    @unittest.skipUnless(os.path.exists(FAILING_READS), "no library to preload")
    def test_a_disk_that_fails_for_good_refuses_budgets_alone(self):
        left = self.fill()
        size = os.path.getsize(self.file)
        told = os.path.join(self.state, "reads-failed")
        for first in (0, 3):
            env = {"LD_PRELOAD": FAILING_READS, "FLYBALL_TEST_READS": "%d 1000000000" % first,
                   "FLYBALL_TEST_READS_FAILED": told}
            with self.serve(env=env) as daemon:
                with Client(daemon.port) as client:
                    ask = {"prompt": [5], "max_tokens": 1}
                    status, fields, answer = client.ask("POST", COMPLETIONS, ask, "saver")
                    self.assertEqual((status, answer["error"]["code"]), (429, "rate_limited"), daemon.log)
                    self.assertGreater(int(fields["retry-after"]), 0)
                self.use(daemon, app="free")
                self.stop(daemon)
            self.assertEqual(self.damaged(), [], daemon.log)
            self.assertGreaterEqual(os.path.getsize(self.file), size)
        with self.serve() as daemon:
            self.assertEqual(self.use(daemon), left - 50)
            self.stop(daemon)

    def test_every_damaged_database_is_kept(self):
        incidents = [b"the %s incident " % which for which in (b"first", b"second", b"third")]
        for incident in incidents:
            with self.serve() as daemon:
                self.use(daemon, app="free")
                self.stop(daemon)
            self.overwrite(0, incident * 100)
        with self.serve() as daemon:
            self.use(daemon, app="free")
            self.stop(daemon)
        for incident in incidents:
            found = self.kept(incident)
            self.assertEqual(len(found), 1, (incident, sorted(os.listdir(self.state))))
            self.assertNotEqual(found, ["flyball.db"])

    def test_the_write_ahead_log_of_a_damaged_database_is_kept(self):
        self.fill(1)
        at, size = self.page_of("measured")  # nothing is written to it below
        with self.serve() as daemon:
            log, end = self.file + "-wal", time.monotonic() + 60
            while not os.path.exists(log) or os.path.getsize(log) < 20_000:
                self.use(daemon)
                self.assertLess(time.monotonic(), end, "nothing was written")
            daemon.process.kill()
            daemon.process.wait()
        with open(log, "rb") as f:
            written = f.read()
        self.overwrite(at, b"\xff" * size)
        with self.serve() as daemon:
            self.assertTrue(self.damaged(), daemon.log)  # or nothing was damaged
            self.stop(daemon)
        self.assertEqual(len(self.kept(written)), 1, sorted(os.listdir(self.state)))

    def test_a_budget_goes_on_behind_a_damaged_table_of_records(self):
        left = self.fill()
        self.assertLess(left, BUDGET - 1000)
        at, size = self.page_of("decisions")
        self.overwrite(at, b"\xff" * size)
        with self.serve() as daemon:
            self.assertTrue(self.damaged(), daemon.log)  # or nothing was damaged
            self.assertEqual(self.use(daemon), left - 50)
            self.stop(daemon)
        with self.serve() as daemon:
            self.assertEqual(self.use(daemon), left - 100)
            self.stop(daemon)


if __name__ == "__main__":
    unittest.main(verbosity=2)
