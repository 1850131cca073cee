#!/usr/bin/env python3
"""How a daemon starts: the signals that come meanwhile, the state database it finds, and what /readyz says then.
One test: start_test.py [-v] StartTest.test_name"""

import glob
import os
import signal
import sqlite3
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import APP, Daemon, flyball, kill_workers  # noqa: E402

# Becomes the daemon, whose child sends it signals as soon as it holds SIGHUP back: from the first thing it does until it
# serves.
SENDER = """
import os, sys
numbers, command = [int(n) for n in sys.argv[1].split(",")], sys.argv[2:]
parent = os.getpid()
if os.fork() == 0:
    os.close(1)
    os.close(2)
    while True:
        with open("/proc/%d/status" % parent) as status:
            fields = dict(line.split(":", 1) for line in status)
        if int(fields["SigBlk"], 16) & 1 and int(fields["SigCgt"], 16) >> 14 & 1:
            break
    for number in numbers:
        os.kill(parent, number)
    os._exit(0)
os.execv(command[0], command)
"""


class Signalled(Daemon):
    def __init__(self, *numbers, **kwargs):
        super().__init__(command=[sys.executable, "-c", SENDER, ",".join(str(int(n)) for n in numbers)], **kwargs)

    def config_text(self, more=""):
        return super().config_text(more).replace("127.0.0.1:8080", "127.0.0.1:0")


BUDGET = APP + "  tokens_per_day: 100000\n"
OTHER = """schema: flyball.app/v1
app: other
key_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""
ASK = {"prompt": "x", "max_tokens": 3, "ignore_eos": True}


class StartTest(unittest.TestCase):
    # ---- signals ---------------------------------------------------------------------------------------------------

    def test_hangups_during_the_start_are_one_reload(self):
        with Signalled(signal.SIGHUP, signal.SIGHUP, signal.SIGHUP) as daemon:
            daemon.wait_for_log("configuration reloaded")
            self.assertEqual(daemon.request("GET", "/healthz")[0], 200)
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded", count=2)
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)
            self.assertEqual(sum("configuration reloaded" in line for line in daemon.log), 2, daemon.log)

    def test_a_stop_during_the_start_is_an_ordinary_end(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon = Signalled(number)
            try:
                self.assertEqual(daemon.wait(), 0, daemon.log)
            finally:
                daemon.__exit__(None)

    # ---- the state database ----------------------------------------------------------------------------------------

    def setUp(self):
        self.state = tempfile.TemporaryDirectory(prefix="flyball-state-")
        self.database = os.path.join(self.state.name, "new", "flyball.db")

    def tearDown(self):
        self.state.cleanup()

    def daemon(self, app=BUDGET):
        return Daemon(more="state_dir: " + os.path.dirname(self.database), app=app)

    def tokens_today(self, daemon):
        text = daemon.request("GET", "/metrics")[1]
        return next(float(line.split()[1]) for line in text.splitlines()
                    if line.startswith('flyball_app_tokens_today{app="example"}'))

    def use_some(self):
        with self.daemon() as daemon:
            for _ in range(3):
                self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)
            used = self.tokens_today(daemon)
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)
        self.assertGreater(used, 9)
        return used

    def damage(self, table):
        """The first page of the table, or the file's header."""
        page = 0
        if table:
            with sqlite3.connect(self.database) as database:
                page = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0] - 1
        with open(self.database, "r+b") as file:
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)

    def expect_refused_budget(self, daemon, why="cannot be read; a restart of the daemon tries again"):
        status, answer, headers = daemon.request_with_headers("POST", "/v1/completions", ASK)
        self.assertEqual((status, answer["error"]["code"]), (429, "rate_limited"), answer)
        self.assertIn("cannot read how much of its 100000 tokens a day", answer["error"]["message"])
        self.assertGreater(int(headers["Retry-After"]), 0)
        daemon.wait_for_log("the app's use of its tokens_per_day %s | app=example" % why)

    def test_the_state_directory_is_the_users_alone(self):
        before = os.umask(0o022)
        try:
            with self.daemon() as daemon:
                mode = stat.S_IMODE(os.stat(os.path.dirname(self.database)).st_mode)
                self.assertEqual(mode, 0o700)
                self.assertFalse(any("open to other users" in line for line in daemon.log), daemon.log)
            os.chmod(os.path.dirname(self.database), 0o755)
            with self.daemon() as daemon:
                daemon.wait_for_log("the state directory is open to other users (mode 755): chmod 700 ")
        finally:
            os.umask(before)

    def test_budgets_go_on_where_another_table_is_damaged(self):
        used = self.use_some()
        self.damage("decision_frames")
        with self.daemon() as daemon:
            daemon.wait_for_log("the state database was damaged, it is kept as ")
            daemon.wait_for_log("salvaged 1 days of apps from the damaged state database; today of 0 apps")
            self.assertEqual(self.tokens_today(daemon), used)
            self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)
        self.assertEqual(len(glob.glob(self.database + ".damaged-*Z")), 1)

    def test_an_app_with_a_budget_waits_where_its_use_is_lost(self):
        self.use_some()
        self.damage("usage")
        lost = "is lost with a damaged state database"
        with self.daemon() as daemon:
            self.expect_refused_budget(daemon, lost)
            daemon.process.kill()
        with self.daemon() as daemon:  # a crash and a restart give no new budget
            self.expect_refused_budget(daemon, lost)
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)
        self.damage("decisions")
        with self.daemon() as daemon:  # nor does more damage
            self.expect_refused_budget(daemon, lost)
        with self.daemon(app=APP) as daemon:  # the operator takes the budget away
            self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)
        # Two of one second are ...Z and ...Z-2.
        files = [name for name in glob.glob(self.database + ".damaged-*") if not name.endswith(("-wal", "-shm"))]
        self.assertEqual(len(files), 2)

    def test_a_database_that_cannot_be_read_for_a_while_is_left_alone(self):
        used = self.use_some()
        with sqlite3.connect(self.database, isolation_level=None) as lock:
            lock.execute("PRAGMA locking_mode = EXCLUSIVE")
            lock.execute("BEGIN EXCLUSIVE")
            lock.execute("INSERT INTO about VALUES ('held', '1')")
            with self.daemon() as daemon:
                daemon.wait_for_log("the state database is not used, nothing survives a restart")
                self.expect_refused_budget(daemon)
            lock.execute("ROLLBACK")
        lock.close()
        with self.daemon() as daemon:
            self.assertEqual(self.tokens_today(daemon), used)
        self.assertEqual(glob.glob(self.database + ".damaged*"), [])

    def test_a_state_directory_that_cannot_be_looked_at_may_hold_a_past(self):
        directory = os.path.dirname(self.database)
        os.symlink(directory, directory)  # a loop
        with self.daemon() as daemon:
            daemon.wait_for_log("the state directory cannot be made, nothing survives a restart")
            self.expect_refused_budget(daemon)
        os.unlink(directory)
        os.symlink(os.path.join(self.state.name, "unmounted"), directory)
        with self.daemon() as daemon:
            self.expect_refused_budget(daemon)

    def test_a_state_directory_that_cannot_be_made_holds_no_past(self):
        open(os.path.dirname(self.database), "w").close()
        self.database = os.path.join(os.path.dirname(self.database), "below", "flyball.db")
        with self.daemon() as daemon:
            daemon.wait_for_log("the state directory cannot be made, nothing survives a restart")
            self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)

    def test_a_second_daemon_does_not_start_on_the_same_state_directory(self):
        with self.daemon() as first:
            second = self.daemon()
            try:
                self.assertEqual(second.wait(), 74)
            finally:
                second.__exit__(None)
            said = "\n".join(second.log)
            self.assertIn("Another daemon (process %d) uses this state directory" % first.process.pid, said)
            self.assertIn(os.path.dirname(self.database), said)
            self.assertEqual(first.request("POST", "/v1/completions", ASK)[0], 200)

    def test_the_lock_of_a_daemon_that_was_killed_stops_nobody(self):
        with self.daemon() as first:
            first.process.kill()
            first.wait()
        with self.daemon() as second:
            self.assertEqual(second.request("GET", "/healthz")[0], 200)

    # ---- what children get -----------------------------------------------------------------------------------------

    def test_children_see_no_key_and_gain_no_privileges(self):
        canary = {"CANARY_API_KEY": "canary-secret-1", "NVIDIA_API_KEY": "canary-secret-2",
                  "POCL_CANARY": "reaches-children"}
        key = "schema: flyball.app/v1\napp: keyed\nkey: {env: CANARY_API_KEY}\n"
        with Daemon(env=canary, more_apps=[key]) as daemon:
            self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)
            with open("/proc/%d/environ" % daemon.process.pid) as file:
                self.assertIn("canary-secret-1", file.read(), "the daemon itself has the key")
            for pid in daemon.workers():
                with open("/proc/%d/environ" % pid) as file:
                    environment = file.read()
                self.assertNotIn("canary-secret", environment)
                self.assertIn("POCL_CANARY=reaches-children", environment)
                self.assertIn("PATH=", environment)
            for pid in [daemon.process.pid] + daemon.workers():
                with open("/proc/%d/status" % pid) as file:
                    self.assertIn("NoNewPrivs:\t1\n", file.read())
            self.assertTrue(daemon.workers())

    # ---- readiness -------------------------------------------------------------------------------------------------

    def readiness(self, daemon):
        return daemon.request("GET", "/readyz")[:2]

    def test_a_daemon_whose_only_engine_is_disabled_is_not_ready(self):
        with Daemon(more="worker: {disable_after: 1, disable_window: 3s}\n") as daemon:
            status, said = self.readiness(daemon)
            self.assertEqual((status, said["status"], said["models"]["demo"]["state"]), (200, "ready", "unloaded"))
            self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)
            self.assertEqual(self.readiness(daemon)[1]["models"]["demo"], {"state": "ready", "engines": {"cpu": {"state": "ready"}}})
            kill_workers(daemon)
            daemon.wait_for_log("engine disabled")
            status, said = self.readiness(daemon)
            self.assertEqual((status, said["status"]), (503, "failed"))
            engine = said["models"]["demo"]["engines"]["cpu"]
            self.assertEqual(engine["state"], "disabled")
            self.assertTrue(0 < engine["for_ms"] <= 3000, engine)
            self.assertIn("died 1 times", engine["error"])

    def test_a_preloaded_model_that_is_broken_has_failed(self):
        broken = os.path.join(self.state.name, "broken.gguf")
        with open(broken, "w") as out:
            out.write("no model")
        with Daemon({"demo": "embedded: true", "broken": "path: %s\npreload: true" % broken}) as daemon:
            daemon.wait_for_log("model=broken")
            daemon.wait_for_log("code=")
            status, said = self.readiness(daemon)
            self.assertEqual((status, said["status"]), (503, "failed"), said)
            self.assertEqual(said["models"]["broken"]["engines"]["cpu"]["state"], "invalid", said)
            self.assertTrue(said["models"]["broken"]["engines"]["cpu"]["error"], said)
            status, answer = daemon.request("POST", "/v1/completions", dict(ASK, model="broken"))
            self.assertEqual((status, answer["error"]["code"]), (503, "model_invalid"))
            self.assertIn("broken", answer["error"]["message"])

    def test_a_model_whose_file_is_missing_is_named_and_the_others_are_served(self):
        absent = os.path.join(self.state.name, "hf.co", "absent.gguf")
        with Daemon({"demo": "embedded: true", "absent": "path: %s" % absent}) as daemon:
            daemon.wait_for_log("model absent cannot be served now: %s: cannot read the model file: No such file or "
                                "directory; Flyball fetches no models: download the file" % absent)
            self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)
            status, said = self.readiness(daemon)
            self.assertEqual((status, said["status"]), (200, "ready"), said)
            self.assertEqual(said["models"]["absent"]["state"], "unloaded", said)
            self.assertIn(absent + ": cannot read the model file: No such file", said["models"]["absent"]["error"])
            listed = {model["id"]: model for model in daemon.request("GET", "/v1/models")[1]["data"]}
            self.assertNotIn("unavailable", listed["demo"])
            why = "the model's file is absent, or the daemon may not read it"
            self.assertEqual(listed["absent"]["unavailable"], why, "a path is the operator's to know")
            self.assertEqual(daemon.request("GET", "/v1/models/absent")[1]["unavailable"], why)
            os.mkdir(os.path.dirname(absent))
            made = flyball("make-model", "--out", absent, "--shape", "tiny", "--type", "Q8_0", "--quiet")
            self.assertEqual(made.returncode, 0, made.stderr)
            status, answer = daemon.request("POST", "/v1/completions", dict(ASK, model="absent"))
            self.assertEqual(status, 200, answer)
            self.assertNotIn("unavailable", daemon.request("GET", "/v1/models/absent")[1])

    def test_a_policy_beside_the_configuration_that_is_not_used_is_named(self):
        with Daemon() as daemon:
            with open(os.path.join(daemon.dir.name, "policy.yaml"), "w") as out:
                out.write("not even a policy")
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("policy.yaml is not used: <shipped policy.yaml> holds. To use it, add")
            self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)


if __name__ == "__main__":
    unittest.main()
