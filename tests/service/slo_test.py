#!/usr/bin/env python3
"""SLOs from outside: request headers, a hard SLO that no engine can hold, and what check and explain say of them.
Predictions are laid over the facts of explanations."""

import http.client
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import Daemon, flyball  # noqa: E402

APP = """schema: flyball.app/v1
app: example
privacy: local_only
slo: {ttft: 600ms, hard: true}
"""
MISSED = {"backend.%s.%s" % (engine, fact): value for engine in ("cpu", "vulkan", "opencl")
          for fact, value in (("meets_slo", False), ("expected_ttft", 840000))}


class SloTest(unittest.TestCase):
    def post(self, daemon, path, body, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=180)
        connection.request("POST", path, json.dumps(body), dict(headers or {}, **{"content-type": "application/json"}))
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def explain(self, daemon, facts, headers=None):
        status, receipt = self.post(daemon, "/v1/route/explain", {"facts": facts}, headers)
        self.assertEqual(status, 200, receipt)
        return receipt

    def test_a_hard_slo_is_explained_and_headers_make_it_stricter(self):
        with Daemon(app=APP) as daemon:
            refused = self.explain(daemon, MISSED)["refused"]
            self.assertEqual(refused["code"], "slo_unattainable")
            self.assertIn("840.0 ms expected to the first token where app.slo.ttft is 600 ms", refused["message"])
            nine_in_ten = self.explain(daemon, dict(MISSED, **{"backend.%s.expected_ttft_p90" % engine: 900000
                                                               for engine in ("cpu", "vulkan", "opencl")}))
            self.assertIn("nine in ten begin within 900.0 ms where app.slo.ttft is 600 ms (half within 840.0 ms)",
                          nine_in_ten["refused"]["message"])
            stricter = self.explain(daemon, MISSED, {"x-slo-ttft-ms": "40"})["refused"]
            self.assertIn("where app.slo.ttft is 40 ms", stricter["message"])
            looser = self.explain(daemon, MISSED, {"x-slo-ttft-ms": "5000"})["refused"]
            self.assertIn("where app.slo.ttft is 600 ms", looser["message"])
            self.assertNotIn("refused", self.explain(daemon, dict(MISSED, **{"backend.cpu.meets_slo": True})))

            for path, body in (("/v1/route/explain", {}), ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
                               ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
                for header in ("x-slo-ttft-ms", "x-slo-tpot-ms"):
                    status, answer = self.post(daemon, path, body, {header: "600001"})
                    self.assertEqual(status, 400)
                    self.assertEqual(answer["error"]["code"], "invalid_value")
                    self.assertEqual(answer["error"]["param"], header)

            facts = os.path.join(daemon.dir.name, "facts.json")
            with open(facts, "w") as out:
                json.dump(MISSED, out)
            told = flyball("explain", "--config", daemon.config, "--facts", facts)
            self.assertEqual(told.returncode, 69, told.stderr)
            self.assertIn("refused at once with slo_unattainable", told.stdout)

    def test_check_finds_a_hard_slo_without_a_figure(self):
        with Daemon() as daemon:
            with open(os.path.join(daemon.dir.name, "apps.d", "hard.yaml"), "w") as out:
                out.write("schema: flyball.app/v1\napp: hard\nunix_uid: 1\nslo: {hard: true}\n")
            checked = flyball("check", "--config", daemon.config)
            self.assertNotEqual(checked.returncode, 0)
            self.assertIn("hard.yaml:4:", checked.stdout + checked.stderr)
            self.assertIn("slo.hard holds no figure", checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
