#!/usr/bin/env python3
"""The whole daemon from outside: engines that die and models that cannot be loaded, and what clients see of it.
One test: engine_death_test.py [-v] EngineDeathTest.test_name"""

import os
import re
import shutil
import sys
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import GREEDY, Daemon, SmallModelTest, flyball, kill_workers, process_gone  # noqa: E402


class EngineDeathTest(SmallModelTest):
    def test_a_stream_survives_the_death_of_its_worker_byte_for_byte(self):
        body = dict(GREEDY, model="small", max_tokens=900)  # much is left to say when we get to kill
        with self.small() as daemon:
            whole, reason, done = daemon.stream(body)
            self.assertTrue(done)
            self.assertEqual(reason, "length")
        for at in (1, 40, 200):
            killed = []

            def kill_once(n):
                if n >= at and not killed:
                    killed.extend(daemon.workers())
                    kill_workers(daemon)

            # A daemon of its own for each: the third death within ten minutes disables the engine.
            with self.small() as daemon:
                text, reason, done = daemon.stream(body, kill_once)
                self.assertEqual(len(killed), 1)
                daemon.wait_for_log("killed by signal 9")
                self.assertEqual((text, reason, done), (whole, "length", True), "killed at event %d" % at)
                daemon.wait_for_log("status=200")
                line = next(line for line in daemon.log if "status=200" in line)
                request = re.search(r"request_id=(\S+)", line).group(1)
                told = flyball("explain", request, "--url", daemon.url).stdout
                self.assertRegex(told, r"cpu: worker_died\n  cpu: done, continued behind token [1-9]")
                self.assertIn("900 tokens answered", told)

    def test_concurrent_streams_survive_together(self):
        body = dict(GREEDY, model="small", max_tokens=150)
        with self.small() as daemon:
            prompts = ["Once upon a time", "The quick brown fox", "One two three four"]
            expected = [daemon.stream(dict(body, prompt=p))[0] for p in prompts]
            got = [None] * len(prompts)
            started = threading.Barrier(len(prompts) + 1)

            def run(i):
                first = []

                def on_event(n):
                    if n == 5 and not first:
                        first.append(n)
                        started.wait(60)

                got[i] = daemon.stream(dict(body, prompt=prompts[i]), on_event)

            threads = [threading.Thread(target=run, args=(i,)) for i in range(len(prompts))]
            for t in threads:
                t.start()
            started.wait(60)
            kill_workers(daemon)
            for t in threads:
                t.join()
            self.assertEqual([g[0] for g in got], expected)
            self.assertTrue(all(g[2] for g in got))

    def test_a_dead_daemon_leaves_no_worker(self):
        with self.small() as daemon:
            daemon.stream(dict(GREEDY, model="small", max_tokens=2))
            workers = daemon.workers()
            self.assertEqual(len(workers), 1)
            daemon.process.kill()
            daemon.wait()
            self.assertTrue(process_gone(workers[0]))

    def test_three_deaths_disable_the_engine_and_clients_read_why(self):
        with self.small() as daemon:
            body = dict(GREEDY, model="small", max_tokens=2)
            for death in range(1, 4):
                status, answer = daemon.request("POST", "/v1/completions", body)
                self.assertEqual(status, 200, answer)
                kill_workers(daemon)
                daemon.wait_for_log("killed by signal 9", count=death)
            for _ in range(2):
                status, answer = daemon.request("POST", "/v1/completions", body)
                self.assertEqual((status, answer["error"]["code"]), (503, "model_unavailable"), answer)
                self.assertIn("killed by signal 9", answer["error"]["message"])

    def test_what_no_retry_will_mend_does_not_invite_one(self):
        gone = os.path.join(self.dir.name, "gone.gguf")
        models = {"demo": "embedded: true", "gone": "path: %s" % gone, "short": "path: %s\ncontext: 4096" % self.model}
        with Daemon(models) as daemon:
            for model, message in (("gone", "No such file"), ("short", "context of 4096")):
                status, body, headers = daemon.request_with_headers(
                    "POST", "/v1/completions", {"model": model, "prompt": "x", "max_tokens": 1})
                self.assertEqual((status, body["error"]["code"]), (503, "model_invalid"), body)
                self.assertIn(message, body["error"]["message"])
                self.assertEqual((headers["x-should-retry"], headers["Retry-After"]), ("false", None))
            # A file that comes is found without a reload.
            shutil.copy(self.model, gone)
            end = time.monotonic() + 30
            while status != 200 and time.monotonic() < end:
                time.sleep(0.1)
                status, body = daemon.request("POST", "/v1/completions", {"model": "gone", "prompt": "x", "max_tokens": 1})
            self.assertEqual(status, 200, body)
            os.unlink(gone)

    def test_the_memory_for_a_mixtures_experts_is_the_operators_choice(self):
        mixture = os.path.join(self.dir.name, "mixture.gguf")
        shape = "tiny,experts=4,experts_used=2,expert_ffn=256"
        self.assertEqual(flyball("make-model", "--out", mixture, "--shape", shape, "--quiet").returncode, 0)
        models = {"roomy": "path: %s\nexpert_bytes: 64MiB" % mixture, "narrow": "path: %s\nexpert_bytes: 4KiB" % mixture}
        with Daemon(models) as daemon:
            body = dict(GREEDY, max_tokens=2)
            status, answer = daemon.request("POST", "/v1/completions", dict(body, model="roomy"))
            self.assertEqual(status, 200, answer)
            status, answer = daemon.request("POST", "/v1/completions", dict(body, model="narrow"))
            self.assertEqual((status, answer["error"]["code"]), (503, "insufficient_memory"), answer)
            self.assertIn("experts", answer["error"]["message"])

    def test_a_malformed_model_is_503_and_not_retried(self):
        bad = os.path.join(self.dir.name, "bad.gguf")
        with open(self.model, "rb") as whole, open(bad, "wb") as out:
            out.write(whole.read(4000))
        with Daemon({"demo": "embedded: true", "bad": "path: %s" % bad}) as daemon:
            for _ in range(3):
                status, body = daemon.request("POST", "/v1/completions", {"model": "bad", "prompt": "x", "max_tokens": 1})
                self.assertEqual(status, 503)
                self.assertEqual(body["error"]["code"], "model_invalid")
            daemon.wait_for_log("code=model_invalid", count=3)  # they may come after the answers
            self.assertEqual(sum("engine starting" in line and "model=bad" in line for line in daemon.log), 1)
            line = next(line for line in daemon.log if "code=model_invalid" in line)
            self.assertRegex(line, r"tokenizer\.ggml\.tokens.*\(byte \d+\)")  # the field and where it is
            status, body = daemon.request("POST", "/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1})
            self.assertEqual(status, 200, body)
            # A repaired file is noticed without a restart.
            with open(self.model, "rb") as whole, open(bad, "wb") as out:
                out.write(whole.read())
            status, body = daemon.request("POST", "/v1/completions", {"model": "bad", "prompt": "x", "max_tokens": 1})
            self.assertEqual(status, 200, body)

    def test_a_model_file_cut_while_it_is_mapped_costs_its_worker_alone(self):
        cut = os.path.join(self.dir.name, "cut.gguf")
        body = dict(GREEDY, model="cut", max_tokens=4)
        # What is left, nothing or a malformed file, is what its next load says.
        for left in (0, 4000):
            shutil.copy(self.model, cut)
            # A sanitizer would turn the signal that is asked for into a report and an exit status.
            as_it_comes = {name: "handle_sigbus=0" for name in ("TSAN_OPTIONS", "ASAN_OPTIONS")}
            with mock.patch.dict(os.environ, as_it_comes), \
                    Daemon({"demo": "embedded: true", "cut": "path: %s" % cut}) as daemon:
                status, answer = daemon.request("POST", "/v1/completions", body)
                self.assertEqual(status, 200, answer)
                other = daemon.request("POST", "/v1/completions", dict(body, model="demo"))[1]["choices"][0]["text"]
                os.truncate(cut, left)
                status, answer = daemon.request("POST", "/v1/completions", body)
                self.assertEqual((status, answer["error"]["code"]), (503, "model_invalid"), answer)
                daemon.wait_for_log("model cut on cpu was killed by signal 7")
                status, answer = daemon.request("POST", "/v1/completions", dict(body, model="demo"))
                self.assertEqual((status, answer["choices"][0]["text"]), (200, other))
                self.assertEqual(sum("killed by signal" in line for line in daemon.log), 1)  # the other one's lives


if __name__ == "__main__":
    unittest.main(verbosity=2)
