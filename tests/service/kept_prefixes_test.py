#!/usr/bin/env python3
"""Prefixes that a manifest keeps, from outside: computed at the load, used by requests, changed by a reload, counted by
`flyball check`. One test: kept_prefixes_test.py [-v] KeptPrefixesTest.test_name"""

import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import APP, Daemon, SmallModelTest, flyball  # noqa: E402

RULES = " ".join("rule%d" % (n * 7919 % 1000) for n in range(60))  # some hundred tokens
OTHER = " ".join("other%d" % (n * 104729 % 1000) for n in range(60))
KEEP = "keep:\n  rules: {file: rules.txt}\n"


class KeptPrefixesTest(SmallModelTest):
    def daemon(self, app=APP + KEEP, text=RULES, preload="preload: true", **kwargs):
        """With rules.txt beside the manifest."""
        test = self

        class WithRules(Daemon):
            def write_config(self, config):
                super().write_config(config)
                os.makedirs(os.path.join(self.dir.name, "rules"), exist_ok=True)
                test.rules = os.path.join(self.dir.name, "rules", "rules.txt")
                if not os.path.exists(test.rules):
                    test.write_rules(text)

        app = app.replace("rules.txt", "../rules/rules.txt")
        return WithRules({"small": "path: %s\ncontext: 1024\n%s" % (self.model, preload)}, app=app, **kwargs)

    def write_rules(self, text):
        with open(self.rules, "w") as out:
            out.write(text)

    def prefix(self, daemon):
        status, body = daemon.request("GET", "/v1/prefixes")
        self.assertEqual(status, 200, body)
        self.assertEqual(len(body["prefixes"]), 1, body)
        return body["prefixes"][0]

    def wait_for_state(self, daemon, state, tokens=1):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            found = self.prefix(daemon)
            if found["state"] == state and found["tokens_in_memory"] >= tokens:
                return found
            time.sleep(0.05)
        raise AssertionError("%s, and it was to be %s:\n%s" % (found, state, "\n".join(daemon.log)))

    def chat(self, daemon, system):
        """The prompt's tokens, those of them that were there, and the receipt."""
        body = {"model": "small", "max_tokens": 2, "temperature": 0, "messages": [
            {"role": "system", "content": system}, {"role": "user", "content": "What now?"}]}
        status, answer, headers = daemon.request_with_headers("POST", "/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        usage = answer["usage"]
        status, receipt = daemon.request("GET", "/v1/route/receipts/" + headers["x-request-id"])
        self.assertEqual(status, 200, receipt)
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], receipt

    def test_the_first_request_finds_a_prefix_that_was_computed_at_the_load(self):
        with self.daemon() as daemon:
            tokens = self.wait_for_state(daemon, "kept")["tokens"]
            self.assertGreater(tokens, 50)
            prompt, cached, receipt = self.chat(daemon, RULES)
            self.assertGreaterEqual(cached, tokens)
            self.assertLess(cached, prompt)
            self.assertEqual(receipt["kept_prefix"], {"name": "rules", "tokens": tokens})
            [kept] = receipt["kept_prefixes"]
            self.assertEqual((kept["name"], kept["engine"], kept["state"], kept["tokens"]),
                             ("rules", "cpu", "kept", tokens))
            self.assertEqual(self.chat(daemon, OTHER)[2].get("kept_prefix"), None)
            shown = flyball("explain", receipt["request_id"], "--url", daemon.url)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("the prompt began with rules: %d of its tokens came from there" % tokens, shown.stdout)
            listed = flyball("ps", "--url", daemon.url)
            self.assertIn("rules", listed.stdout)

    def test_a_prefix_for_the_first_use_waits_for_it_and_loads_nothing(self):
        app = APP + KEEP.replace("}", ", compute: first_use}")
        with self.daemon(app=app, preload="") as daemon:
            self.assertEqual(self.prefix(daemon)["state"], "not_loaded")
            self.assertEqual(self.chat(daemon, OTHER)[1], 0)
            tokens = self.wait_for_state(daemon, "kept")["tokens"]
            self.assertGreaterEqual(self.chat(daemon, RULES)[1], tokens)

    def test_a_reload_computes_a_changed_text_and_drops_a_removed_one(self):
        with self.daemon() as daemon:
            self.wait_for_state(daemon, "kept")
            self.write_rules(OTHER)
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("prefix kept", count=2)
            self.wait_for_state(daemon, "kept")
            receipt = self.chat(daemon, OTHER)[2]
            self.assertEqual(receipt["kept_prefix"]["name"], "rules")
            with open(os.path.join(daemon.dir.name, "apps.d", "example.yaml"), "w") as out:
                out.write(APP)
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded", count=2)
            self.assertEqual(daemon.request("GET", "/v1/prefixes")[1], {"prefixes": []})
            self.assertNotIn("kept_prefixes", self.chat(daemon, OTHER)[2])

    def test_a_prefix_beyond_the_apps_tokens_is_refused_by_check_and_not_kept(self):
        app = APP.replace("in_flight: 200", "in_flight: 200\n  kv_tokens: 40") + KEEP
        with self.daemon(app=app) as daemon:
            failed = self.wait_for_state(daemon, "failed", tokens=0)
            self.assertIn("40", failed["reason"])
            daemon.wait_for_log("prefix not kept")
            checked = flyball("check", daemon.config)
            self.assertEqual(checked.returncode, 78, checked.stdout)
            self.assertRegex(checked.stdout, r"example\.yaml:8:3: error: .*limits\.kv_tokens is 40")

    def test_check_counts_a_prefix_that_leaves_no_context(self):
        with self.daemon(text=" ".join([RULES] * 30), preload="") as daemon:
            checked = flyball("check", daemon.config)
            self.assertEqual(checked.returncode, 78, checked.stdout)
            self.assertRegex(checked.stdout, r"example\.yaml:7:3: error: .*a context of 1024")

    def test_check_warns_of_prefixes_that_an_engine_has_no_room_for_and_of_short_ones(self):
        app = APP + KEEP + "  text: {file: rules.txt, role: prompt}\n"
        with self.daemon(app=app, preload="max_sequences: 1") as daemon:
            checked = flyball("check", daemon.config)
            self.assertEqual(checked.returncode, 0, checked.stdout)
            self.assertRegex(checked.stdout, r"example\.yaml:7:3: warning: keep: all prefixes of the model \"small\" "
                             r"have \d+ tokens, and an engine gives them half of its KV, at most 512 tokens")
            self.write_rules("x")
            checked = flyball("check", daemon.config)
            self.assertEqual(checked.returncode, 0, checked.stdout)
            self.assertRegex(checked.stdout, r"keep\.text has \d+ tokens .* too short to be kept")

    def test_check_warns_of_more_prefixes_than_an_engine_keeps(self):
        with self.daemon(preload="") as daemon:
            for n in range(16):  # and the example app's
                keep = "".join("  p%d: {text: \"%s %s\"}\n" % (i, " ".join("word%d" % (i * w) for w in range(20)), n)
                               for i in range(16))
                with open(os.path.join(daemon.dir.name, "apps.d", "more%d.yaml" % n), "w") as out:
                    out.write("schema: flyball.app/v1\napp: more%d\nkey_sha256: %064x\nkeep:\n%s" % (n, n, keep))
            checked = flyball("check", daemon.config)
            self.assertEqual(checked.returncode, 0, checked.stdout)
            self.assertRegex(checked.stdout, r"the manifests have 257 prefixes of the model \"small\", and an engine "
                             r"keeps at most 256")

    def test_a_daemon_drains_although_a_prefix_is_computed(self):
        with self.daemon() as daemon:
            daemon.wait_for_log("engine ready")
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
