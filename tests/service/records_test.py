#!/usr/bin/env python3
"""What a daemon recorded, after it is gone: found by its successor and by the tools, and no prompt in it."""

import http.client
import json
import os
import signal
import tempfile
import unittest

from daemon import Daemon, GREEDY, flyball

POLICY = """schema: flyball.policy/v1
default: {because: one engine, use: %s}
"""
BATCH_KEY = "the-key-of-the-batch-app"
BATCH = """schema: flyball.app/v1
app: nightly
key: {env: BATCH_KEY}
privacy: local_only
workload: {class: batch}
"""


class RecordsTest(unittest.TestCase):
    def test_ignored_fields_are_explained_by_a_daemon_and_by_its_store(self):
        app = "schema: flyball.app/v1\napp: example\nunknown_fields: accept\n"
        with tempfile.TemporaryDirectory(prefix="flyball-e2e-") as state:
            with Daemon(more="state_dir: %s" % state, app=app) as daemon:
                body = dict(GREEDY, prompt="Sesame opens", max_tokens=3)
                body.update({"tempreature": 0.5, "\x1b[31mred": 1})
                status, _, headers = daemon.request_with_headers("POST", "/v1/completions", body)
                self.assertEqual(status, 200)
                request = headers["x-request-id"]
                told = flyball("explain", request, "--url", daemon.url)
                self.assertEqual(told.returncode, 0, told.stderr)
                self.assertIn("ignored, as unknown fields: tempreature, ", told.stdout)
                self.assertNotIn("\x1b", told.stdout)
                daemon.signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(), 0)
            recorded = flyball("explain", request, "--store", os.path.join(state, "flyball.db"))
            self.assertEqual(recorded.returncode, 0, recorded.stderr)
            self.assertIn("ignored, as unknown fields: tempreature, ", recorded.stdout)

    def test_a_request_is_explained_after_a_restart(self):
        with tempfile.TemporaryDirectory(prefix="flyball-e2e-") as state:
            more = "state_dir: %s" % state
            with Daemon(more=more) as first:
                status, _, headers = first.request_with_headers(
                    "POST", "/v1/completions", dict(GREEDY, prompt="Sesame opens", max_tokens=3))
                self.assertEqual(status, 200)
                request = headers["x-request-id"]
                before = first.request("GET", "/v1/route/receipts/" + request)[1]
                first.signal(signal.SIGTERM)
                self.assertEqual(first.wait(), 0)
            with Daemon(more=more) as second:
                told = flyball("explain", request, "--url", second.url)
                self.assertEqual(told.returncode, 0, told.stderr)
                self.assertIn("what happened: done", told.stdout)
                after = second.request("GET", "/v1/route/receipts/" + request)[1]
                for receipt in (before, after):  # set when the first byte has left, which is behind the record
                    receipt["timings"].pop("router_us", None)
                self.assertEqual(after, before)
                self.assertEqual(flyball("explain", "req-never", "--url", second.url).returncode, 1)
                store = os.path.join(state, "flyball.db")
                # The daemon goes on meanwhile.
                simulated = flyball("simulate", os.environ["FLYBALL_SOURCE_DIR"] + "/config/defaults/policy.yaml",
                                    "--store", store, "--json")
                self.assertEqual(simulated.returncode, 0, simulated.stderr)
                report = json.loads(simulated.stdout)
                self.assertEqual((report["requests"], report["moved"]), (1, 0))
                graph = flyball("graph", "--since", "1d", "--store", store, "--format", "dot")
                self.assertIn("decided 1", graph.stdout)
                second.signal(signal.SIGTERM)
                self.assertEqual(second.wait(), 0)
            for name in os.listdir(state):
                with open(os.path.join(state, name), "rb") as kept:
                    self.assertNotIn(b"Sesame", kept.read())

    def test_a_simulation_tells_apps_apart_by_their_own_ttft(self):
        with tempfile.TemporaryDirectory(prefix="flyball-e2e-") as state:
            for name, target in (("old", "cpu"), ("new", '"cpu:latency"')):
                with open(os.path.join(state, name + ".yaml"), "w") as out:
                    out.write(POLICY % target)

            def ask(daemon, key, **fields):
                connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=180)
                headers = {"content-type": "application/json"}
                if key:
                    headers["authorization"] = "Bearer " + key
                connection.request("POST", "/v1/completions", json.dumps(dict(GREEDY, max_tokens=2, **fields)), headers)
                response = connection.getresponse()
                response.read()
                connection.close()
                return response.status

            def simulate(*options):
                ran = flyball("simulate", os.path.join(state, "new.yaml"), "--store", os.path.join(state, "flyball.db"),
                              *options)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                return ran.stdout

            def rows(*options):
                return {(move["app"], move["class"]): (move["requests"], move["from"]["ttft_ms"]["requests"],
                                                       move["from"]["ttft_ms"]["of"])
                        for move in json.loads(simulate("--json", *options))["moves"]}

            with Daemon(more="state_dir: %s\npolicy_path: %s" % (state, os.path.join(state, "old.yaml")),
                        more_apps=[BATCH], env={"BATCH_KEY": BATCH_KEY}) as daemon:
                for _ in range(3):
                    self.assertEqual(ask(daemon, BATCH_KEY), 200)
                # The engine refuses a prompt longer than its context: the app has a record, and no TTFT of its own.
                self.assertEqual(ask(daemon, None, prompt=" hello" * 20_000), 400)
                daemon.signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(), 0)
            self.assertEqual(rows(), {("nightly", "batch"): (3, 3, "app"), ("example", "chat"): (1, 3, "all")})
            # An app that --app leaves out counts for the figures over all apps.
            self.assertEqual(rows("--app", "example"), {("example", "chat"): (1, 3, "all")})
            self.assertIn(" ms (of 3, all apps)", simulate("--app", "example"))
            self.assertNotIn("all apps", simulate("--app", "nightly"))

    def test_a_daemon_without_the_same_state_dir_knows_nothing_of_it(self):
        requests = []
        for _ in range(2):
            with Daemon() as daemon:
                for request in requests:
                    self.assertEqual(daemon.request("GET", "/v1/route/receipts/" + request)[0], 404)
                status, _, headers = daemon.request_with_headers("POST", "/v1/completions", dict(GREEDY, max_tokens=1))
                self.assertEqual(status, 200)
                requests.append(headers["x-request-id"])
                self.assertEqual(daemon.request("GET", "/v1/route/receipts/" + requests[-1])[0], 200)
                daemon.signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
