#!/usr/bin/env python3
"""The whole daemon from outside: what survives a killed worker, how it stops, reloads, refuses and reports.
One test: e2e_test.py [-v] DaemonTest.test_name"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import FLYBALL, Daemon, flyball, kill_workers, process_gone, rss_megabytes  # noqa: E402

SANITIZED = os.environ.get("FLYBALL_SANITIZED", "") not in ("", "OFF")
GREEDY = {"prompt": "Once upon a time", "temperature": 0, "ignore_eos": True}


class DaemonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="flyball-model-")
        cls.model = os.path.join(cls.dir.name, "small.gguf")
        made = flyball("make-model", "--out", cls.model, "--shape", "small,context=2048", "--type", "Q8_0", "--quiet")
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def small(self, **kwargs):
        return Daemon({"small": "path: %s\ncontext: 1024" % self.model}, **kwargs)

    # ---- a worker dies -----------------------------------------------------------------------------------------

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

    # ---- stopping ----------------------------------------------------------------------------------------------

    def test_sigterm_drains_without_a_reset(self):
        body = dict(GREEDY, model="small", max_tokens=100)
        with self.small() as daemon:
            expected = daemon.stream(body)[0]
            results, started = [], threading.Semaphore(0)

            def run():
                released = []

                def on_event(n):
                    if not released:
                        released.append(n)
                        started.release()

                try:
                    results.append(daemon.stream(body, on_event))
                except Exception as error:  # a reset shows here
                    results.append(error)
                    started.release()

            threads = [threading.Thread(target=run) for _ in range(20)]
            for t in threads:
                t.start()
            for _ in range(8):  # the engine runs eight at once; the others wait, and must be answered too
                started.acquire()
            workers = daemon.workers()
            daemon.signal(signal.SIGTERM)
            for t in threads:
                t.join()
            self.assertEqual(daemon.wait(), 0, "\n".join(daemon.log))
            self.assertEqual([r for r in results if r != (expected, "length", True)], [])
            for pid in workers:
                self.assertTrue(process_gone(pid))

    def test_a_second_signal_stops_at_once(self):
        with self.small() as daemon:
            first = threading.Event()

            def run():
                try:
                    daemon.stream(dict(GREEDY, model="small", max_tokens=900), lambda n: first.set())
                except (OSError, AssertionError, ValueError):
                    pass
                except Exception:  # http.client's own, for a stream that was cut
                    pass

            thread = threading.Thread(target=run)
            thread.start()
            self.assertTrue(first.wait(120))
            daemon.signal(signal.SIGINT)
            daemon.wait_for_log("draining")
            daemon.signal(signal.SIGINT)
            self.assertEqual(daemon.wait(10), 0)
            thread.join()

    def test_without_standard_descriptors_no_socket_takes_their_place(self):
        config = Daemon.config_text

        class Bare(Daemon):
            def config_text(self, more=""):
                return config(self, more).replace("127.0.0.1:8080", "127.0.0.1:0")

        with Bare(command=["/bin/sh", "-c", 'exec "$@" <&- 2>&-', "sh"]) as daemon:
            self.assertEqual(daemon.request("GET", "/healthz")[0], 200)
            for fd in (0, 2):
                self.assertEqual(os.readlink("/proc/%d/fd/%d" % (daemon.process.pid, fd)), "/dev/null")

    def test_a_log_that_cannot_be_written_stops_nothing(self):
        config = Daemon.config_text

        class Full(Daemon):
            def config_text(self, more=""):
                return config(self, more).replace("127.0.0.1:8080", "127.0.0.1:0")

        with Full(command=["/bin/sh", "-c", 'exec "$@" 2>/dev/full', "sh"]) as daemon:
            for _ in range(3):
                status, answer = daemon.request("POST", "/v1/completions", dict(GREEDY, model="demo", max_tokens=2))
                self.assertEqual(status, 200, answer)
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)

    def test_every_request_is_one_line_of_log_without_what_it_said(self):
        with Daemon() as daemon:
            def ask(model, headers):
                connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=180)
                connection.request("POST", "/v1/completions", json.dumps({"model": model, "prompt": "hush-hush", "max_tokens": 1}),
                                   dict({"content-type": "application/json"}, **headers))
                response = connection.getresponse()
                response.read()
                connection.close()
                return response.getheader("x-request-id")

            for model, headers, fields in (
                ("demo", {}, "app=example model=demo backend=cpu operation=completion status=200 code=ok"),
                ("who-knows", {}, "app=example model=none backend=none operation=completion status=404 code=model_not_found"),
                ("demo", {"authorization": "Bearer hush-hush-key"},
                 "app=none model=none backend=none operation=refused status=401 code=invalid_api_key"),
                ("demo", {"host": "evil.example"},
                 "app=none model=none backend=none operation=refused status=403 code=host_not_allowed"),
            ):
                request_id = ask(model, headers)
                daemon.wait_for_log("request_id=%s %s" % (request_id, fields))
                self.assertEqual(sum(request_id in line for line in daemon.log), 1)
            for said in ("hush", "who-knows", "evil"):
                self.assertEqual([line for line in daemon.log if said in line], [])

    def test_sigpipe_and_hangups_change_nothing(self):
        with Daemon() as daemon:
            daemon.signal(signal.SIGPIPE)
            for _ in range(20):
                s = socket.create_connection(("127.0.0.1", daemon.port))
                s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
                s.close()
            self.assertEqual(daemon.request("GET", "/healthz")[0], 200)

    def test_a_beginning_sent_before_is_not_computed_again(self):
        with self.small() as daemon:
            body = dict(GREEDY, model="small", max_tokens=20, prompt="The same beginning. " * 20)
            cold, warm = (daemon.request("POST", "/v1/completions", body)[1] for _ in range(2))
            self.assertEqual(cold["choices"][0]["text"], warm["choices"][0]["text"])
            cached = [a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in (cold, warm)]
            tokens = cold["usage"]["prompt_tokens"]
            self.assertEqual(cached[0], 0)
            self.assertGreater(cached[1], tokens - 17)  # whole blocks of 16, and one token to compute
            deadline = time.monotonic() + 20
            while True:  # the worker tells its sums at each heartbeat
                metrics = daemon.request("GET", "/metrics")[1]
                if 'prefix_cache_hits{backend="cpu",model="small"} %d\n' % cached[1] in metrics:
                    break
                self.assertLess(time.monotonic(), deadline, metrics)
                time.sleep(0.1)
            self.assertIn('prefix_cache_queries{backend="cpu",model="small"} %d\n' % (2 * tokens), metrics)

    # ---- configuration -----------------------------------------------------------------------------------------

    def test_the_kv_cache_is_kept_as_the_configuration_says(self):
        resident = {}
        for kv_type in ("f16", "q8_0"):
            with Daemon({"demo": "embedded: true\ncontext: 1024\nmax_sequences: 8\nkv_type: %s" % kv_type}) as daemon:
                self.assertEqual(daemon.stream(dict(GREEDY, max_tokens=40))[1], "length")
                metrics = daemon.request("GET", "/metrics")[1]
                resident[kv_type] = float(re.search(r"model_resident_bytes{.*} (\S+)", metrics)[1])
                self.assertTrue(any("KV as %s" % kv_type in line for line in daemon.log), daemon.log)
        # 6 layers of 2 heads of 32 values, twice: 64 bytes each as f16, 34 as q8_0.
        self.assertEqual(resident["f16"] - resident["q8_0"], 8 * 1024 * 6 * 2 * 2 * (64 - 34))

    def test_a_bad_config_is_exit_78_with_its_place(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.yaml")
            with open(path, "w") as out:
                out.write("schema: flyball.config/v1\nlistners:\n  local:\n    tcp: 127.0.0.1:0\n")
            ended = flyball("serve", "--config", path)
            self.assertEqual(ended.returncode, 78)
            self.assertIn("%s:2:1" % path, ended.stderr)
            self.assertIn("listeners", ended.stderr)  # did you mean
            self.assertEqual(flyball("serve", "--config", path + ".absent").returncode, 78)

    def test_sighup_with_a_bad_file_keeps_the_old_configuration(self):
        with Daemon() as daemon:
            good = daemon.config_text()
            daemon.write_config(good.replace("drain_timeout", "drain_timeuot"))
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("reload refused")
            line = next(line for line in daemon.log if "reload refused" in line)
            self.assertIn("config.yaml:", line)
            self.assertIn("drain_timeout", line)
            status, body = daemon.request("POST", "/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1})
            self.assertEqual(status, 200, body)
            worker = daemon.workers()
            daemon.models = {"demo": "embedded: true", "small": "path: %s" % self.model}
            daemon.write_config(daemon.config_text())
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded")
            ids = [m["id"] for m in daemon.request("GET", "/v1/models")[1]["data"]]
            self.assertIn("small", ids)
            self.assertEqual(daemon.workers(), worker)  # an unchanged model stays loaded
            daemon.models = {"small": "path: %s" % self.model}
            daemon.write_config(daemon.config_text())
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_log("configuration reloaded", count=2)
            status, body = daemon.request("POST", "/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1})
            self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))
            self.assertTrue(process_gone(worker[0]))

    # ---- the machine -------------------------------------------------------------------------------------------

    def test_the_idle_daemon_is_small_and_quiet(self):
        with self.small() as daemon:
            daemon.stream(dict(GREEDY, model="small", max_tokens=50))
            time.sleep(1)
            rss = rss_megabytes(daemon.process.pid)
            with open("/proc/%d/maps" % daemon.process.pid) as f:
                maps = f.read()
            ticks = self.cpu_ticks(daemon)
            time.sleep(5)
            used = (self.cpu_ticks(daemon) - ticks) / os.sysconf("SC_CLK_TCK") / 5
            print("idle daemon: RSS %.1f MB, CPU %.2f %%" % (rss, used * 100))
            for driver in ("libvulkan", "libOpenCL", "libLLVM", "small.gguf"):
                self.assertNotIn(driver, maps)
            if not SANITIZED:
                self.assertLess(rss, 30)
                self.assertLess(used, 0.02)

    @staticmethod
    def cpu_ticks(daemon):
        with open("/proc/%d/stat" % daemon.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    # ---- systemd -----------------------------------------------------------------------------------------------

    def test_it_tells_systemd_what_it_does(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "notify")
            server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            server.bind(path)
            server.settimeout(60)

            def until(word):
                seen = []
                while True:
                    seen.append(server.recv(4096).decode())
                    if word in seen[-1].split("\n"):
                        return seen[-1]
                    self.assertLess(len(seen), 1000)

            with Daemon(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"}) as daemon:
                self.assertIn("STATUS=1 models", until("READY=1"))
                began = time.monotonic()
                for _ in range(5):
                    until("WATCHDOG=1")
                self.assertLess(time.monotonic() - began, 5)
                # A daemon that stands still feeds nobody.
                daemon.signal(signal.SIGSTOP)
                time.sleep(0.3)
                server.setblocking(False)
                try:
                    while True:
                        server.recv(4096)
                except BlockingIOError:
                    pass
                time.sleep(0.5)
                with self.assertRaises(BlockingIOError):
                    server.recv(4096)
                server.settimeout(60)
                daemon.signal(signal.SIGCONT)
                until("WATCHDOG=1")
                daemon.signal(signal.SIGHUP)
                reloading = until("RELOADING=1")
                stamp = int(next(l for l in reloading.split("\n") if l.startswith("MONOTONIC_USEC=")).split("=")[1])
                self.assertLess(abs(stamp / 1e6 - time.clock_gettime(time.CLOCK_MONOTONIC)), 5)
                until("READY=1")
                daemon.signal(signal.SIGTERM)
                until("STOPPING=1")
                self.assertEqual(daemon.wait(), 0)
            server.close()

    def test_it_serves_on_a_socket_that_systemd_opened(self):
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        config = Daemon.config_text  # the same file with another listener
        starter = ["/bin/sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&%d' % listener.fileno(), "sh"]

        class Activated(Daemon):
            def config_text(self, more=""):
                return config(self, more).replace("tcp: 127.0.0.1:8080", "systemd: true")

        with Activated(command=starter, pass_fds=(listener.fileno(),)) as daemon:
            daemon.port = port
            self.assertEqual(daemon.request("GET", "/healthz")[0], 200)
        listener.close()


class CommandLineTest(unittest.TestCase):
    def test_exit_codes_mean_something(self):
        for args, code in (
            (["--help"], 0), (["--version"], 0), (["version"], 0), (["serve", "--help"], 0), ([], 64), (["srve"], 64),
            (["serve", "--no-such-option"], 64), (["run", "--temperature", "9", "hello"], 64),
            (["completions", "tcsh"], 64), (["run", "--model", "/nonexistent.gguf", "hello"], 64),
            (["run", "--seed", "-1", "hello"], 64), (["run", "--threads", "100000", "hello"], 64),
            (["make-model", "--out", "/dev/null", "--seed", "-1"], 64),
            (["engine", "--fd", "99", "--model-id", "demo"], 64), (["engine", "--fd", "0", "--model-id", "demo"], 64),
            (["serve", "--ready-fd", "77"], 64),
        ):
            ended = flyball(*args, stdin=-3)
            self.assertEqual(ended.returncode, code, (args, ended.stdout, ended.stderr))
        self.assertIn("did you mean 'serve'", flyball("srve").stderr)
        self.assertIn("Exit codes", flyball("--help").stdout)

    def test_a_malformed_model_file_is_65(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(b"GGUF" + b"\xff" * 64)
            file.flush()
            ended = flyball("run", "--model", file.name, "hello")
            self.assertEqual(ended.returncode, 65, ended.stderr)
            self.assertIn("model_invalid", ended.stderr)

    def test_run_answers_and_counts(self):
        ended = flyball("run", "--json", "-n", "20", "Which engine should I use on a Mac?")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        answer = json.loads(ended.stdout)
        self.assertTrue(answer["text"].strip())
        self.assertGreater(answer["usage"]["completion_tokens"], 0)
        self.assertGreater(answer["decode_tokens_per_second"], 0)
        plain = flyball("run", "-n", "20", "Which engine should I use on a Mac?")
        self.assertEqual(plain.stdout.rstrip("\n"), answer["text"].rstrip("\n"))  # greedy: the same answer
        piped = flyball("run", "-q", "-n", "20", input="Which engine should I use on a Mac?\n")
        self.assertEqual(piped.stdout, plain.stdout)
        self.assertEqual(piped.stderr, "")

    def test_more_threads_than_processors_are_not_silently_fewer(self):
        processors = len(os.sched_getaffinity(0))
        ended = flyball("bench", "--json", "-p", "4", "-n", "2", "-r", "1", "-t", str(processors + 1))
        self.assertIn("%d threads are asked for" % (processors + 1), ended.stderr)
        self.assertLessEqual(json.loads(ended.stdout)["threads"], processors)  # a cgroup may allow fewer
        ended = flyball("bench", "--json", "-p", "4", "-n", "2", "-r", "1")
        self.assertGreater(json.loads(ended.stdout)["threads"], 0)
        self.assertNotIn("asked for", ended.stderr)

    def test_bench_measures(self):
        ended = flyball("bench", "--json", "-p", "32", "-n", "8", "-r", "1", "-s", "2", "-t", "1")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        figures = json.loads(ended.stdout)
        self.assertGreater(figures["prefill_tokens_per_second"], 0)
        self.assertGreater(figures["decode_tokens_per_second"], 0)

    # A process whose threads want more stack than there is memory gets none.
    @unittest.skipIf(SANITIZED, "a sanitizer has threads of its own")
    def test_a_model_is_made_without_more_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            make = "%s make-model --quiet --threads 4 --out %s/m.gguf" % (FLYBALL, folder)
            ended = subprocess.run(["sh", "-c", "ulimit -s 100000000; exec " + make], capture_output=True, text=True)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))
            self.assertEqual(os.listdir(folder), ["m.gguf"])
        self.assertEqual(flyball("make-model", "--out", "/nowhere/m.gguf", "--threads", "9999999").returncode, 64)

    def test_version_names_the_instruction_sets(self):
        version = json.loads(flyball("version", "--json").stdout)
        self.assertIn(version["cpu_isa_used"], version["cpu_isas"])

    def test_completions_know_every_command(self):
        for shell in ("bash", "zsh", "fish"):
            script = flyball("completions", shell)
            self.assertEqual(script.returncode, 0)
            for command in ("serve", "engine", "run", "explain", "check", "probe", "inspect", "make-model", "bench",
                            "tune", "version", "completions"):
                self.assertIn(command, script.stdout)
            self.assertIn("probe-timeout-ms", script.stdout)
        bash = flyball("completions", "bash").stdout
        ask = bash + "\nCOMP_WORDS=(flyball ru); COMP_CWORD=1; _flyball; echo \"${COMPREPLY[@]}\""
        self.assertEqual(subprocess.run(["bash", "-c", ask], capture_output=True, text=True).stdout.strip(), "run")


if __name__ == "__main__":
    unittest.main(verbosity=2)
