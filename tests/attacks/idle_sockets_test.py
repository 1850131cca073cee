#!/usr/bin/env python3
"""Thousands of connections that ask nothing: an app with a key is served on a new connection all the same."""

import time
import unittest

from attack import CONNECTIONS, CONNECTIONS_LIMIT, AttackTest, demo


class IdleSocketsTest(AttackTest):
    def attack(self, mode, sources=1):
        with demo("http: {connections: %d}\n" % CONNECTIONS_LIMIT) as daemon:
            def taken():
                self.taken(daemon)
                if mode == "kept":
                    time.sleep(1.5)  # an app's connection is closed for another one once it was idle for a second

            for report in self.beside(daemon, "idle", fresh=True, under_way=taken, mode=mode, sources=sources,
                                      connections=CONNECTIONS):
                self.assertGreaterEqual(report["made"] + report["refused"], CONNECTIONS - 1, report)
                if mode == "dribble":
                    self.assertGreater(report["dribbled"], CONNECTIONS / 2, report)
                if mode == "kept":
                    self.assertGreater(report["answered"], 0)

    def test_silent_connections_of_one_address(self):
        self.attack("silent")

    def test_silent_connections_of_many_addresses(self):
        self.attack("silent", sources=200)

    def test_connections_that_dribble_a_header(self):
        self.attack("dribble", sources=200)

    def test_connections_kept_alive_by_an_app(self):
        self.attack("kept", sources=200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
