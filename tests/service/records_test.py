#!/usr/bin/env python3
"""What a daemon recorded, after it is gone: found by its successor and by the tools, and no prompt in it."""

import json
import os
import signal
import tempfile
import unittest

from daemon import Daemon, GREEDY, flyball


class RecordsTest(unittest.TestCase):
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
