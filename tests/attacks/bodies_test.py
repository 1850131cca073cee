#!/usr/bin/env python3
"""Large bodies: eight connections send 3 to 4 MB of 90,000 keys each, and the light app is served beside them."""

import unittest

from attack import CHAT, EXPLAIN, AttackTest, demo


class BodiesTest(AttackTest):
    def attack(self, app, path=CHAT, chunked=False, status=None):
        with demo() as daemon:
            for report in self.beside(daemon, "bodies", app=app, path=path, chunked=chunked):
                self.assertTrue(3 <= report["body_megabytes"] <= 4.2, report)
                # A refusal may come before the body: what counts is that bodies kept coming, and were answered.
                self.assertGreaterEqual(sum(report["statuses"].values()), 8, report)
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
