#!/usr/bin/env python3
"""Who sees what in /metrics: an app itself, an operator everything, and a wrong key nothing."""

import hashlib
import unittest

from attack import CHAT, LIGHT_CHAT, Client, demo, key_of, manifest

APPS = (manifest("alpha", "tokens_per_day: 1000000"), manifest("beta", "tokens_per_day: 1000000"))


class MetricsTest(unittest.TestCase):
    def used(self, client):
        for app in ("alpha", "beta"):
            self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, app)[0], 200)

    def test_an_app_sees_itself_and_no_other(self):
        with demo(apps=APPS) as daemon, Client(daemon.port) as client:
            self.used(client)
            for app, other in (("alpha", "beta"), ("beta", "alpha")):
                status, _, text = client.ask("GET", "/metrics", app=app)
                self.assertEqual(status, 200, text)
                self.assertIn('app="%s"' % app, text)
                self.assertNotIn(other, text)
                self.assertNotIn('app="example"', text)

    def test_a_wrong_key_sees_nothing_from_this_machine_either(self):
        with demo(apps=APPS) as daemon, Client(daemon.port) as client:
            self.used(client)
            status, _, answer = client.ask("GET", "/metrics", fields="Authorization: Bearer a-key-of-nobody\r\n")
            self.assertEqual((status, answer["error"]["code"] if status != 200 else "ok"), (401, "invalid_api_key"))

    def test_the_operator_sees_every_app_and_a_visitor_none(self):
        digest = hashlib.sha256(key_of("operator").encode()).hexdigest()
        with demo("operator: {key_sha256: %s, loopback: false}\n" % digest, APPS) as daemon, Client(daemon.port) as client:
            self.used(client)
            status, _, text = client.ask("GET", "/metrics", app="operator")
            self.assertEqual(status, 200, text)
            for app in ("alpha", "beta"):
                self.assertIn('app="%s"' % app, text)
            # Without a key this machine is the default app, which sees itself.
            status, _, text = client.ask("GET", "/metrics")
            self.assertEqual(status, 200, text)
            for app in ("alpha", "beta"):
                self.assertNotIn(app, text)
            # The operator's key is no app's.
            self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, "operator")[0], 401)


if __name__ == "__main__":
    unittest.main(verbosity=2)
