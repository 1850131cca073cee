#!/usr/bin/env python3
"""The whole daemon from outside, with a profile that has an engine of its own: two processes of one model, what each of
them is started with, and what becomes of one when the other dies.
One test: own_engine_test.py [-v] OwnEngineTest.test_name"""

import hashlib
import http.client
import json
import os
import shutil
import signal
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import GREEDY, SmallModelTest, flyball, process_gone, rss_megabytes  # noqa: E402

POLICY = """schema: flyball.policy/v1
profiles:
  night:
    because: Nobody waits for it.
    place: behind
    engine: own
%s
rules:
  - {id: batch, because: Nobody waits, when: {fact: workload.class, eq: batch}, use: "cpu:night"}
default: {because: People wait, use: cpu}
"""
SHARED = """schema: flyball.policy/v1
default: {because: People wait, use: cpu}
"""
KEY = "fb_sk_night_0123456789abcdef0123456789abcdef"


def nice_of(pid):
    """Of the process's main thread."""
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[16])


def words_of(pid):
    with open("/proc/%d/cmdline" % pid) as f:
        return f.read().split("\0")


class OwnEngineTest(SmallModelTest):
    def policy(self, settings="    threads: 1\n    nice: 10"):
        path = os.path.join(self.dir.name, "policy.yaml")
        with open(path, "w") as out:
            out.write(settings if settings.startswith("schema") else POLICY % settings)
        return path

    def night(self):
        """The manifest of a batch app with a key."""
        return ("schema: flyball.app/v1\napp: nightly\nprivacy: local_only\nworkload: {class: batch}\nkey_sha256: %s\n" %
                hashlib.sha256(KEY.encode()).hexdigest())

    def daemon(self, settings="    threads: 1\n    nice: 10", more="", **kwargs):
        return self.small(more="policy_path: %s\n%s" % (self.policy(settings), more), more_apps=[self.night()], **kwargs)

    def ask(self, daemon, key=None, max_tokens=3):
        """The receipt of a request of the batch app or, without a key, of the one that people wait for."""
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=180)
        headers = {"content-type": "application/json"}
        if key:
            headers["authorization"] = "Bearer " + key
        connection.request("POST", "/v1/completions", json.dumps(dict(GREEDY, model="small", max_tokens=max_tokens)),
                           headers)
        response = connection.getresponse()
        text = response.read().decode()
        self.assertEqual(response.status, 200, text)
        request = response.headers["x-request-id"]
        connection.request("GET", "/v1/route/receipts/" + request, headers=headers)
        receipt = json.loads(connection.getresponse().read().decode())
        connection.close()
        return receipt

    def engines(self, daemon):
        return {e["engine"]: e for e in daemon.request("GET", "/v1/engines")[1]["engines"]}

    def test_each_app_is_answered_by_the_engine_of_its_target(self):
        with self.daemon() as daemon:
            own, shared = self.ask(daemon, KEY), self.ask(daemon)
            self.assertEqual(own["target"]["backend"], "cpu:night")
            self.assertEqual(own["target"]["profile"], "night")
            self.assertEqual(own["attempts"][0]["backend"], "cpu:night")
            self.assertEqual(own["attempts"][0]["settings"], "place behind; engine of its own: 1 thread, nice 10")
            self.assertEqual(own["engines"][0]["backend"], "cpu:night")
            self.assertEqual(shared["target"], {"backend": "cpu", "profile": ""})
            self.assertEqual(shared["engines"][0]["backend"], "cpu")
            engines = self.engines(daemon)
            self.assertEqual(sorted(engines), ["cpu", "cpu:night"])
            first, second = engines["cpu"]["pid"], engines["cpu:night"]["pid"]
            self.assertEqual(sorted(daemon.workers()), sorted([first, second]))
            self.assertEqual(nice_of(second), nice_of(first) + 10)
            self.assertEqual(words_of(second)[words_of(second).index("--threads") + 1], "1")
            self.assertGreater(engines["cpu:night"]["memory_bytes"], 0)
            self.assertNotIn("locked", engines["cpu:night"])
            told = flyball("explain", own["request_id"], "--url", daemon.url, "--key-file", self.key_file()).stdout
            self.assertIn("cpu:night, by rule batch", told)
            self.assertIn("profile  night sets place behind; engine of its own: 1 thread, nice 10", told)
            _, metrics = daemon.request("GET", "/metrics")
            self.assertRegex(metrics, r'backend="cpu:night"')

    def key_file(self):
        path = os.path.join(self.dir.name, "key")
        with open(path, "w") as out:
            out.write(KEY + "\n")
        os.chmod(path, 0o600)
        return path

    def test_the_death_of_one_engine_ends_no_stream_of_the_other(self):
        with self.daemon() as daemon:
            self.ask(daemon, KEY)
            own, killed = self.engines(daemon)["cpu:night"]["pid"], []

            def kill_once(n):
                if n >= 5 and not killed:
                    killed.append(own)
                    os.kill(own, signal.SIGKILL)

            text, reason, done = daemon.stream(dict(GREEDY, model="small", max_tokens=300), kill_once)
            self.assertEqual((killed, reason, done), ([own], "length", True))
            daemon.wait_for_log("backend=cpu:night")
            self.assertTrue(process_gone(own))
            self.assertFalse(any("backend=cpu " in line and "killed" in line for line in daemon.log))
            self.assertEqual(self.ask(daemon, KEY)["attempts"][0]["backend"], "cpu:night")

    def test_a_reload_takes_the_engine_away_and_brings_it_back_with_other_settings(self):
        with self.daemon() as daemon:
            self.ask(daemon, KEY)
            self.ask(daemon)
            first = self.engines(daemon)
            self.policy(SHARED)
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded")
            self.assertEqual(self.ask(daemon, KEY)["target"]["backend"], "cpu")
            self.assertTrue(process_gone(first["cpu:night"]["pid"]))
            self.policy("    nice: 5")
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded", count=2)
            receipt = self.ask(daemon, KEY)
            self.assertEqual(receipt["target"]["backend"], "cpu:night")
            now = self.engines(daemon)
            self.assertEqual(now["cpu"]["pid"], first["cpu"]["pid"])
            self.assertEqual(nice_of(now["cpu:night"]["pid"]), nice_of(now["cpu"]["pid"]) + 5)

    def test_an_engine_is_unloaded_by_its_own_name(self):
        with self.daemon() as daemon:
            self.ask(daemon, KEY)
            self.ask(daemon)
            told = flyball("unload", "small", "--engine", "cpu:night", "--url", daemon.url)
            self.assertEqual((told.stdout, told.stderr), ("small is unloaded from cpu:night\n", ""))
            self.assertEqual(list(self.engines(daemon)), ["cpu"])
            told = flyball("load", "small", "--engine", "cpu:night", "--url", daemon.url)
            self.assertEqual((told.stdout, told.stderr), ("small is loaded on cpu:night\n", ""))
            told = flyball("load", "small", "--engine", "cpu:day", "--url", daemon.url)
            self.assertIn("no engine \"cpu:day\"", told.stderr)
            self.assertIn("cpu:night", flyball("ps", "--url", daemon.url).stdout)

    def test_memory_is_locked_where_the_limit_allows_it(self):
        with self.daemon("    lock_memory: true") as daemon:
            self.ask(daemon, KEY)
            engine = self.engines(daemon)["cpu:night"]
            if not engine["locked"]:
                self.skipTest("the limit of locked memory is too low here: " + str(daemon.log))
            self.assertGreater(rss_megabytes(engine["pid"], "VmLck:") * 2**20, engine["kv_bytes"])
            self.assertFalse([line for line in daemon.log if "not locked" in line])

    @unittest.skipUnless(shutil.which("prlimit") and shutil.which("setpriv"), "needs prlimit and setpriv")
    def test_a_low_limit_of_locked_memory_warns_once_and_the_engine_runs_unlocked(self):
        command = ["prlimit", "--memlock=65536:65536"]
        if os.geteuid() == 0:  # whom no limit binds
            command = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"] + command
        with self.daemon("    lock_memory: true", command=command) as daemon:
            self.assertEqual(self.ask(daemon, KEY)["attempts"][0]["backend"], "cpu:night")
            self.assertIs(self.engines(daemon)["cpu:night"]["locked"], False)
            warnings = [line for line in daemon.log if "not locked" in line]
            self.assertEqual(len(warnings), 1, daemon.log)
            self.assertRegex(warnings[0], r"MiB are to be locked, the limit of locked memory \(RLIMIT_MEMLOCK\) is 64 KiB: "
                                          r"raise LimitMEMLOCK=")

    def test_batch_work_stands_still_while_a_chat_is_answered_and_goes_on_after_it(self):
        batch, chat = dict(GREEDY, model="small", max_tokens=900), dict(GREEDY, model="small", max_tokens=300)
        with self.daemon("    nice: 19\n    yields: true") as daemon:
            undisturbed = daemon.stream(batch, key=KEY)
            self.assertEqual(undisturbed[1:], ("length", True))
            self.ask(daemon)  # the engine of people is loaded
            came, told, seen = threading.Event(), [], {}

            def count(n):
                seen["batch"] = n
                if n == 10:
                    came.set()

            def at(n):
                if n in (100, 280):
                    seen[n] = seen["batch"]

            nightly = threading.Thread(target=lambda: told.append(daemon.stream(batch, count, key=KEY)))
            nightly.start()
            self.assertTrue(came.wait(180))
            self.assertEqual(daemon.stream(chat, at)[1:], ("length", True))
            nightly.join()
            self.assertEqual(told, [undisturbed])
            self.assertLess(seen[280], 900, "the batch work was over before the chat")
            # A step that was under way may end.
            self.assertLessEqual(seen[280] - seen[100], 1)

    def test_check_names_the_engine_and_warns_where_two_do_not_fit(self):
        size = os.path.getsize(self.model)
        for limit, crowded in (("%dB" % (size * 8), False), ("%dB" % (size * 2), True)):
            with self.daemon(more="memory: {limit: %s}" % limit) as daemon:
                told = flyball("check", daemon.config).stdout
            self.assertIn("profile night sets place behind; engine of its own: 1 thread, nice 10\n", told)
            self.assertEqual(": one ends for another" in told, crowded, told)
            if crowded:
                self.assertRegex(told, r'policy\.yaml:3:3: warning: profile "night": model small needs \S+ \S+ on cpu and '
                                       r"\S+ \S+ on cpu:night, \S+ \S+ together, and engines have")

    def crowded(self, policy, limit):
        """The warnings of `flyball check` about engines that do not fit beside each other."""
        path = os.path.join(self.dir.name, "config.yaml")
        with open(path, "w") as out:
            out.write("schema: flyball.config/v1\nlisteners: {local: {tcp: 127.0.0.1:0}}\nmemory: {limit: %dB}\n"
                      "models:\n  small: {path: %s, context: 1024}\n" % (limit, self.model))
            if policy:
                out.write("policy_path: %s\n" % self.policy(policy))
        told = flyball("check", path).stdout
        self.assertIn(" 0 errors", told)
        return [line for line in told.splitlines() if "one ends for another" in line]

    def test_check_counts_all_engines_of_a_model(self):
        three = """schema: flyball.policy/v1
profiles:
  night: {because: b, engine: own, threads: 1}
  day: {because: b, engine: own, threads: 1}
rules:
  - {id: batch, because: b, when: {fact: workload.class, eq: batch}, use: "cpu:night"}
  - {id: agent, because: b, when: {fact: workload.class, eq: agent}, use: "cpu:day"}
default: {because: b, use: %s}
"""
        size = os.path.getsize(self.model)
        room_for_two = next(size * n // 8 for n in range(16, 80)
                            if not self.crowded(POLICY % "    threads: 1", size * n // 8))
        (found,) = self.crowded(three % "cpu", room_for_two)
        self.assertRegex(found, r'profile "night": model small needs \S+ \S+ on cpu, \S+ \S+ on cpu:night and '
                                r"\S+ \S+ on cpu:day, ")
        self.assertEqual(self.crowded(three % "cpu", room_for_two * 2), [])
        self.assertEqual(self.crowded(three % "'cpu:day'", room_for_two), [], "no rule uses the shared engine")

    def test_check_is_silent_about_engines_of_the_shipped_policy(self):
        self.assertEqual(self.crowded("", os.path.getsize(self.model) * 2), [])


if __name__ == "__main__":
    unittest.main()
