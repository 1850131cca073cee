#!/usr/bin/env python3
"""Bodies of many keys: eight connections send 90,000 keys of 3 to 4 MB each, or two hundred send 16 KiB each, and the
light app is served beside them."""

import unittest

from attack import CHAT, FLOOR, EXPLAIN, AttackTest, at_least, demo


SMALL_KEYS = 430


class BodiesTest(AttackTest):
    def attack(self, app, path=CHAT, chunked=False, status=None):
        with demo() as daemon:
            for report in self.beside(daemon, "bodies", app=app, path=path, chunked=chunked):
                self.assertTrue(3 <= report["body_megabytes"] <= 4.2, report)
                # A refusal may come before the body: what counts is that bodies kept coming, and were answered.
                self.assertGreaterEqual(sum(report["statuses"].values()), at_least(8), report)
                self.assertGreater(report["megabytes"], 8 * 0.5, report)
                if status is not None:
                    self.assertIn(status, report["statuses"], report)

    def test_bodies_of_an_app_that_has_no_requests_left(self):
        self.attack("limited", status="429")

    def test_bodies_to_explain_of_an_app_that_has_no_requests_left(self):
        self.attack("limited", EXPLAIN, status="429")

    def test_chunked_bodies_of_an_app_that_has_no_requests_left(self):
        self.attack("limited", chunked=True, status="429")

    def test_bodies_of_an_app_without_limits(self):
        self.attack("attacker", status="200")

    def test_bodies_to_explain_of_an_app_without_limits(self):
        self.attack("attacker", EXPLAIN, status="200")

    def small(self, app, status):
        """Bodies that are parsed on the loop: just under 16 KiB."""
        with demo() as daemon:
            # A refused body ends its connection: refused clients stand in line with those that the attackers open anew.
            for report in self.beside(daemon, "flood", app=app, path=CHAT, keys=SMALL_KEYS, connections=200, refusal=FLOOR):
                self.assertTrue(15_000 < report["request_bytes"] < 16_384 + 200, report)
                self.assertGreaterEqual(report["made"], 200, report)
                self.assertGreaterEqual(sum(report["statuses"].values()), at_least(1000), report)
                self.assertIn(status, report["statuses"], report)

    def test_small_bodies_of_an_app_that_has_no_requests_left(self):
        self.small("limited", "429")

    def test_small_bodies_of_an_app_without_limits(self):
        self.small("attacker", "200")


if __name__ == "__main__":
    unittest.main(verbosity=2)
