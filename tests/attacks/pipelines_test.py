#!/usr/bin/env python3
"""Small requests without a pause: strangers that never read their answers on all the connections they get, and a hundred
connections that do. The light app is served beside them, and answers that nobody reads take little memory."""

import statistics
import unittest

from attack import (CHAT, CONNECTIONS, CONNECTIONS_LIMIT, FLOOR, HEALTH, LIGHT_CHAT, METRICS, MODELS, SANITIZED, AttackTest,
                    Client, at_least, demo, rss_megabytes)

GROWTH_MB = 64
WRITE = 16_384
UNKNOWN = "nobody"  # no manifest has its key


class PipelinesTest(AttackTest):
    def unread(self, path, reads, app=None):
        with demo("http: {connections: %d}\n" % CONNECTIONS_LIMIT) as daemon:
            with Client(daemon.port) as client:
                for _ in range(50):
                    self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, "light")[0], 200)
            pid = daemon.process.pid
            before = rss_megabytes(pid)
            with open("/proc/%d/clear_refs" % pid, "w") as clear:
                clear.write("5")  # the peak begins anew
            # New connections, of refused clients too, stand in line with those that the attackers open anew.
            reports = self.beside(daemon, "flood", fresh=True, under_way=lambda: self.taken(daemon), refusal=FLOOR,
                                  line=CONNECTIONS_LIMIT, path=path, reads=reads, app=app, connections=CONNECTIONS, sources=2)
            peak = rss_megabytes(pid, "VmHWM:")
            print("  RSS %.1f MB before, at most %.1f MB" % (before, peak))
            for report in reports:
                self.assertGreaterEqual(report["made"] + report["refused"], CONNECTIONS - 1, report)
            # Of a round in the mean: on a busy machine one of them may end before each connection has sent much.
            mean = statistics.mean(1e6 * report["megabytes"] for report in reports)
            self.assertGreater(mean, CONNECTIONS / 2 * WRITE, reports)
            if not SANITIZED:  # whose allocators keep what was freed
                self.assertLessEqual(peak, before + GROWTH_MB)

    def test_strangers_that_read_no_answer(self):
        self.unread(HEALTH, "nothing")

    def test_strangers_that_read_no_refusal(self):
        self.unread(MODELS, "nothing", UNKNOWN)

    def test_strangers_that_read_a_byte_a_second(self):
        self.unread(HEALTH, "a byte")

    def read(self, path, app=None, status="200", least=5000):
        with demo() as daemon:
            for report in self.beside(daemon, "flood", path=path, app=app):
                self.assertGreaterEqual(report["made"], 100, report)
                self.assertGreaterEqual(report["statuses"].get(status, 0), at_least(least), report)

    def test_strangers_that_ask_for_health(self):
        self.read(HEALTH)

    def test_strangers_that_are_refused(self):
        self.read(MODELS, UNKNOWN, "401")

    def test_an_app_that_asks_for_models(self):
        self.read(MODELS, "attacker")

    def test_an_app_that_asks_for_metrics(self):
        self.read(METRICS, "attacker", least=500)


if __name__ == "__main__":
    unittest.main(verbosity=2)
