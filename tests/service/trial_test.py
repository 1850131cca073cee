#!/usr/bin/env python3
"""A machine on which nothing was measured yet: the GPU that the policy lists first is tried, and has the requests that
it is faster at.
One test: trial_test.py [-v] TrialTest.test_name"""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import SANITIZED, SmallModelTest, flyball  # noqa: E402

SLOW_PROCESSOR = os.environ.get("FLYBALL_SLOW_PROCESSOR", "")
DELAY_MS = 200  # of each look at the clock: some five in a step
POLICY = """schema: flyball.policy/v1
default: {because: the GPU where it is faster, use: [opencl, cpu], pick: fastest}
"""


class TrialTest(SmallModelTest):
    def setUp(self):
        self.policy = os.path.join(self.dir.name, "policy.yaml")
        with open(self.policy, "w") as out:
            out.write(POLICY)

    def daemon(self, more="calibrate: {ceilings: false}", **kwargs):
        # PoCL's device, which is software: an engine opens one only where it is named.
        lines = ("policy_path: %s\nopencl: {device: pthread}\nvulkan: {device: no-such-device}\n%s" %
                 (self.policy, more))
        return self.small(more=lines, probe_ms=60_000, **kwargs)

    def ask(self, daemon, max_tokens=8):
        """The receipt of a request."""
        body = {"model": "small", "prompt": "Once", "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        status, answer, headers = daemon.request_with_headers("POST", "/v1/completions", body, timeout=600)
        self.assertEqual(status, 200, answer)
        status, receipt = daemon.request("GET", "/v1/route/receipts/" + headers["x-request-id"])
        self.assertEqual(status, 200, receipt)
        target = next((t for t in receipt["targets"] if t["backend"] == "opencl"), {})
        if target.get("verdict") == "unavailable":
            self.skipTest("no OpenCL device here: " + target["reason"])
        return receipt

    @unittest.skipUnless(os.path.exists(SLOW_PROCESSOR), "no library to preload")
    @unittest.skipIf(SANITIZED, "our kernels are instrumented and a driver's are not: their speeds do not compare")
    def test_a_fast_gpu_has_the_third_request_at_the_latest(self):
        env = {"LD_PRELOAD": SLOW_PROCESSOR, "XDG_FLYBALL_TEST_SLOW": str(DELAY_MS)}
        with self.daemon() as daemon:
            self.ask(daemon)  # a driver's kernels are compiled once, for minutes perhaps, and kept
        with self.daemon(env=env) as daemon:
            first, second, third, fourth = [self.ask(daemon) for _ in range(4)]
        self.assertEqual(first["target"]["backend"], "opencl", first["picks"])
        if not first.get("redecisions"):  # a load longer than predicted has it decided again, and kept there
            self.assertEqual(first["picks"][0]["by"], "trial")
            self.assertRegex(first["picks"][0]["text"],
                             r"^opencl: tried, listed before cpu and not yet seen with this model \(cpu: fastest, \d+ "
                             r"ms expected in all \(opencl \d+ ms; ")
        self.assertIn(second["target"]["backend"], ("opencl", "cpu"))
        for later in (third, fourth):
            self.assertEqual(later["target"]["backend"], "opencl", later["picks"])
            self.assertEqual(later["attempts"][-1]["backend"], "opencl", later["attempts"])

    def test_ceilings_are_measured_soon_after_a_start(self):
        with self.daemon() as daemon:
            receipt = self.ask(daemon, max_tokens=1)
            known = {k["name"]: k for t in receipt["targets"] if t["backend"] == "opencl" for k in t["known"]}
            self.assertRegex(known["decode_tps"]["source"], "^predicted: assumed ")
            with open(daemon.config) as config:
                text = config.read()
            daemon.write_config(text.replace("calibrate: {ceilings: false}", "calibrate: {max_load: 1000000}"))
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("measured | ceilings of backend=opencl", timeout=300)
            for _ in range(600):  # the book is made anew on a thread
                receipt = self.ask(daemon, max_tokens=1)
                known = {k["name"]: k for t in receipt["targets"] if t["backend"] == "opencl" for k in t["known"]}
                if known["decode_tps"]["source"].startswith("predicted: roofline "):
                    break
            self.assertRegex(known["decode_tps"]["source"], "^predicted: roofline ")

    def test_check_says_what_is_unmeasured(self):
        with self.daemon(more="calibrate: {idle: 30m, ceilings: false}") as daemon:
            checked = flyball("check", daemon.config)
            self.assertEqual(checked.returncode, 0, checked.stdout)
            self.assertRegex(checked.stdout, r"model small is unmeasured on cpu[a-z, ]*: run `flyball calibrate "
                                             r"small`, or leave the machine idle\n")
            flyball("calibrate", "small", "--config", daemon.config, "--backends", "cpu", "--quick")
            self.assertNotRegex(flyball("check", daemon.config).stdout, r"unmeasured on cpu")
            # Check says nothing if the database is not there or belongs to another user.
            with open(daemon.config) as config:
                text = config.read()
            elsewhere = os.path.join(self.dir.name, "elsewhere.yaml")
            with open(elsewhere, "w") as out:
                out.write(text.replace("/state\n", "/no-state\n"))
            checked = flyball("check", elsewhere)
            self.assertEqual(checked.returncode, 0, checked.stdout)
            self.assertNotIn("unmeasured", checked.stdout)


if __name__ == "__main__":
    unittest.main()
