#!/usr/bin/env python3
"""The command line from outside: exit codes, one answer, one measurement, completions.
One test: command_line_test.py [-v] CommandLineTest.test_name"""

import contextlib
import http.server
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import FLYBALL, SANITIZED, flyball  # noqa: E402


@contextlib.contextmanager
def taken_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


class CommandLineTest(unittest.TestCase):
    def test_exit_codes_mean_something(self):
        for args, code in (
            (["--help"], 0), (["--version"], 0), (["version"], 0), (["serve", "--help"], 0), ([], 64), (["srve"], 64),
            (["serve", "--no-such-option"], 64), (["run", "--temperature", "9", "hello"], 64),
            (["completions", "tcsh"], 64), (["run", "--model", "/nonexistent.gguf", "hello"], 74),
            (["run", "--seed", "-1", "hello"], 64), (["run", "--threads", "100000", "hello"], 64),
            (["make-model", "--out", "/dev/null", "--seed", "-1"], 64),
            (["engine", "--fd", "99", "--model-id", "demo"], 64), (["engine", "--fd", "0", "--model-id", "demo"], 64),
            (["serve", "--ready-fd", "77"], 64), (["--config", "x.yaml", "serve"], 64),
            (["tune", "--shapes", "12"], 64), (["make-model", "--out", "/dev/null", "--shape", "huge"], 64),
        ):
            ended = flyball(*args, stdin=-3)
            self.assertEqual(ended.returncode, code, (args, ended.stdout, ended.stderr))
        self.assertIn("the first word is a command, not '--config'", flyball("--config", "x.yaml", "serve").stderr)
        self.assertIn("did you mean 'serve'", flyball("srve").stderr)
        self.assertIn("Exit codes", flyball("--help").stdout)

    # Each command's help lists its options: a number without a range, or another refusal, would show.
    def test_every_number_has_a_range_and_a_refusal_that_names_it(self):
        commands = re.findall(r"^  ([a-z-]+) ", flyball("--help").stdout.split("Subcommands:")[1], re.MULTILINE)
        numbers = 0
        for command in commands + ["measure"]:
            shown = flyball(command, "--help").stdout
            for option, kind, limits in re.findall(r"(--[a-z-]+) (U?INT|FLOAT)(?::((?:\d+ to|above \d+, at most) \d+))?", shown):
                numbers += 1
                self.assertTrue(limits, (command, option, "has no range"))
                ended = flyball(command, option, "12x")
                self.assertEqual(ended.returncode, 64, (command, option, ended.stderr))
                what = "number" if kind == "FLOAT" else "whole number"
                self.assertIn("%s: \"12x\" is no %s " % (option, what), ended.stderr, command)
                self.assertIn(limits, ended.stderr, command)
                self.assertIn("See flyball %s --help." % command, ended.stderr)
        self.assertGreater(numbers, 30)
        for args, said in (
            (["serve", "--port", "99999"], "flyball: --port: \"99999\" is no whole number from 0 to 65535\n"),
            (["run", "--max-tokens", "-1", "x"], "--max-tokens: \"-1\" is no whole number from 0 to 4294967295\n"),
            (["run", "--seed", "abc", "x"], "--seed: \"abc\" is no whole number from 0 to 18446744073709551615\n"),
            (["run", "--top-p", "0", "x"], "--top-p: \"0\" is no number above 0, at most 1\n"),
            (["run", "--temperature", "nan", "x"], "--temperature: \"nan\" is no number from 0 to 2\n"),
            (["bench", "--streams", "1,999"], "--streams: \"999\" is no whole number from 1 to 256\n"),
            (["run", "--threads", "9" * 500, "x"], "9999...\" is no whole number from 0 to 4096\n"),
        ):
            self.assertIn(said, flyball(*args, stdin=-3).stderr, args)

    def test_a_directory_that_is_no_model_is_told_what_one_holds(self):
        with tempfile.TemporaryDirectory() as folder:
            for args in (["run", "--model", folder, "hello"], ["inspect", folder], ["plan", folder]):
                ended = flyball(*args)
                self.assertEqual(ended.returncode, 74, (args, ended.stderr))
                self.assertIn("%s: this directory is no model: there is no config.json, tokenizer.json, "
                              "model.safetensors; a model directory holds" % folder, ended.stderr)
                self.assertEqual(ended.stderr.count(folder), 1, ended.stderr)

    def test_before_a_daemon_has_run_there_are_no_records(self):
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, XDG_STATE_HOME=folder, XDG_CONFIG_HOME=folder, HOME=folder)
            env.pop("STATE_DIRECTORY", None)
            none = "flyball.db: There is no such file: no daemon has kept records here yet (flyball serve)."
            for args in (["usage"], ["app", "suggest", "example"], ["graph", "--since", "7d"],
                         ["usage", "--store", folder + "/other/flyball.db"]):
                ended = flyball(*args, env=env)
                self.assertEqual(ended.returncode, 74, (args, ended.stderr))
                self.assertIn(none, ended.stderr)
                self.assertEqual(ended.stderr.count(folder), 1, ended.stderr)

    def test_a_file_that_is_not_the_one_meant_is_told_with_what_to_name(self):
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "notes.txt")
            with open(text, "w") as f:
                f.write("no database " * 100)
            for args, code, said in (
                (["advise", "--config", folder, "mac"], 78, "cannot be read: it is a directory: name a file in it"),
                (["usage", "--store", folder], 74, "cannot be read: it is a directory: name the flyball.db in it"),
                (["usage", "--store", text], 74,
                 "this file is no database of a daemon: name the flyball.db in the daemon's state_dir"),
                (["bench", "--backends", "cpu", "-p", "4", "-n", "2", "-r", "1", "--svg", folder], 74,
                 "The chart cannot be written to %s: Is a directory: name a file in a directory" % folder),
            ):
                ended = flyball(*args)
                self.assertEqual(ended.returncode, code, (args, ended.stderr))
                self.assertIn(said, ended.stderr)

    # In WAL mode even a reader writes an index beside the file.
    @unittest.skipIf(os.geteuid() != 0, "only root can be another user")
    def test_a_database_of_another_user_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            store = os.path.join(folder, "flyball.db")
            with contextlib.closing(sqlite3.connect(store)) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("CREATE TABLE t (a)")
                database.commit()
            os.chmod(store, 0o644)
            index = "which this user may not: run the command as the daemon's user"
            ended = flyball("usage", "--store", store, user=65534)
            self.assertEqual(ended.returncode, 74, ended.stderr)
            self.assertIn(index, ended.stderr)
            with contextlib.closing(sqlite3.connect(store)) as database:  # the index stays while it is open
                database.execute("INSERT INTO t VALUES (1)")
                database.commit()
                os.chmod(store + "-shm", 0o600)
                ended = flyball("usage", "--store", store, user=65534)
            self.assertEqual(ended.returncode, 74, ended.stderr)
            self.assertIn(index, ended.stderr)
            os.chmod(store, 0o600)
            ended = flyball("usage", "--store", store, user=65534)
            self.assertEqual(ended.returncode, 74, ended.stderr)
            self.assertRegex(ended.stderr, "cannot be read: user .* may not read it, which belongs to user root: "
                                           "run the command as user root")

    def test_without_a_daemon_a_command_says_so_and_what_else_there_is(self):
        with socket.socket() as refused:
            refused.bind(("127.0.0.1", 0))  # nobody listens
            url = "http://127.0.0.1:%d" % refused.getsockname()[1]
            none = ("flyball: no daemon answers at %s (Connection refused): start it with `flyball serve`, or name "
                    "another URL with --url; " % url)
            for args, instead in (
                (["explain", "req-1"], "--store FILE or --config FILE reads the receipt from the daemon's database, "
                                       "without a running daemon"),
                (["graph"], "--since 7d counts in the daemon's database instead, without a running daemon"),
            ):
                ended = flyball(*args, "--url", url)
                self.assertEqual(ended.returncode, 69, ended.stderr)
                self.assertIn(none + instead, ended.stderr)

    def test_a_server_that_is_no_daemon_is_told(self):
        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_error(404)

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
            serving = threading.Thread(target=other.serve_forever)
            serving.start()
            url = "http://127.0.0.1:%d" % other.server_port
            ended = flyball("explain", "req-1", "--url", url)
            other.shutdown()
            serving.join()
        self.assertEqual(ended.returncode, 69, ended.stderr)
        self.assertIn("%s answered 404 without JSON: the server there is no Flyball daemon: name the daemon's URL with "
                      "--url" % url, ended.stderr)

    def test_a_directory_that_cannot_be_made_is_told(self):
        with tempfile.NamedTemporaryFile() as file:  # no directory, so nothing lies below it
            env = dict(os.environ, XDG_STATE_HOME=file.name, XDG_CACHE_HOME=file.name, XDG_CONFIG_HOME=file.name,
                       HOME=file.name)
            env.pop("STATE_DIRECTORY", None)
            ended = flyball("calibrate", "--quick", "--backends", "cpu", env=env)
            self.assertEqual(ended.returncode, 74, ended.stderr)
            self.assertIn("%s/flyball: The state directory cannot be made: " % file.name, ended.stderr)
            with taken_port() as port:  # ends it
                ended = flyball("serve", "--port", str(port), "--probe-timeout-ms", "1", env=env)
                self.assertIn("the state directory cannot be made, nothing survives a restart: ", ended.stderr)
                self.assertIn("(%s/flyball)" % file.name, ended.stderr)

    def test_a_taken_port_is_told_with_what_to_do(self):
        with taken_port() as port:
            with tempfile.TemporaryDirectory() as state:  # a daemon of this user may run, and has its own
                ended = flyball("serve", "--port", str(port), "--probe-timeout-ms", "1",
                                env=dict(os.environ, XDG_STATE_HOME=state))
            self.assertEqual(ended.returncode, 74, ended.stderr)
            self.assertIn("127.0.0.1:%d: Cannot listen: port %d is taken: name another one for listener local "
                          "in config.yaml or, if it is the first TCP listener, with --port N (0: any free one)."
                          % (port, port), ended.stderr)

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
        stopped = flyball("run", "-q", "--stop", "#none#", "--stop", "#such#", "-n", "20", "Which engine should I use on a Mac?")
        self.assertEqual(stopped.stdout, plain.stdout)  # an option ends before the prompt
        self.assertEqual(flyball("run", "--raw", "--system", "Be short.", "hello").returncode, 64)  # it has no place
        piped = flyball("run", "-q", "-n", "20", input="Which engine should I use on a Mac?\n")
        self.assertEqual(piped.stdout, plain.stdout)
        self.assertEqual(piped.stderr, "")

    def test_an_output_that_is_full_is_told(self):
        with open("/dev/full", "w") as full:
            ended = subprocess.run([FLYBALL, "run", "-q", "-n", "4", "hello"], stdout=full, stderr=subprocess.PIPE,
                                   text=True, timeout=300)
        self.assertEqual(ended.returncode, 74, ended.stderr)
        self.assertIn("cannot write to standard output: No space left on device", ended.stderr)

    def test_more_threads_than_processors_are_not_silently_fewer(self):
        processors = len(os.sched_getaffinity(0))
        ended = flyball("bench", "--json", "-p", "4", "-n", "2", "-r", "1", "-t", str(processors + 1))
        self.assertIn("%d threads are asked for" % (processors + 1), ended.stderr)
        self.assertLessEqual(json.loads(ended.stdout)["threads"], processors)  # a cgroup may allow fewer
        ended = flyball("bench", "--json", "-p", "4", "-n", "2", "-r", "1")
        self.assertGreater(json.loads(ended.stdout)["threads"], 0)
        self.assertNotIn("asked for", ended.stderr)

    # PoCL offers this machine's processor as often as it is asked to.
    def test_a_device_named_again_is_one_more(self):
        env = dict(os.environ, POCL_DEVICES="pthread pthread")
        first, second = ["--device", "#0"], ["--device", "#1"]
        plan = flyball("inspect", "--json", *first, *second, env=env)
        if plan.returncode == 69:
            self.skipTest("no two OpenCL devices here: " + plan.stderr)
        devices = json.loads(plan.stdout)["devices"]
        self.assertEqual([(d["first_layer"], d["layers"]) for d in devices], [(0, 3), (3, 3)])
        self.assertEqual(len(json.loads(flyball("inspect", "--json", *first, env=env).stdout)["devices"]), 1)
        ask = ["run", "--json", "-n", "8", "hello"]
        split = flyball(*ask, "--backend", "opencl", *first, *second, env=env)
        self.assertEqual(split.returncode, 0, split.stderr)
        self.assertEqual(json.loads(split.stdout)["text"], json.loads(flyball(*ask).stdout)["text"])
        refused = flyball(*ask, "--backend", "vulkan", *first, *second, env=env)
        self.assertIn("The Vulkan engine runs on one device", refused.stderr)

    def test_bench_measures(self):
        ended = flyball("bench", "--json", "-p", "32", "-n", "8", "-r", "1", "-s", "2", "-t", "1")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        figures = json.loads(ended.stdout)
        self.assertGreater(figures["prefill_tokens_per_second"], 0)
        self.assertGreater(figures["decode_tokens_per_second"], 0)

    def test_bench_compares_engines_on_one_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            svg = os.path.join(folder, "engines.svg")
            ended = flyball("bench", "--backends", "all", "--streams", "1,2", "-p", "16", "-n", "4", "-r", "1",
                            "--json", "--svg", svg)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            engines = json.loads(ended.stdout)["engines"]
            self.assertEqual([e["backend"] for e in engines], ["cpu", "vulkan", "opencl"])
            ran = [e for e in engines if "error" not in e]
            self.assertIn("this processor", ran[0]["device"])
            for engine in ran:
                self.assertEqual([r["streams"] for r in engine["results"]], [1, 2])
                self.assertTrue(all(r["decode_tokens_per_second"] > 0 for r in engine["results"]))
            for engine in engines:  # a machine may lack a device, and that is said
                self.assertTrue(engine["results"] or "device" in engine["error"]["message"], engine)
            drawn = xml.etree.ElementTree.parse(svg).getroot()
            bars = [r for r in drawn.iter("{http://www.w3.org/2000/svg}rect") if r.get("x") == "150"]
            self.assertEqual(len(bars), 2 * 2 * len(ran))
            ended = flyball("bench", "--backends", "cpu", "-p", "4", "-n", "2", "-r", "1", "--svg", "/nowhere/a.svg")
            self.assertEqual(ended.returncode, 74, ended.stderr)
        self.assertEqual(flyball("bench", "--streams", "1,8").returncode, 64)
        self.assertEqual(flyball("bench", "--svg", "a.svg").returncode, 64)
        self.assertEqual(flyball("bench", "--backends", "metal").returncode, 64)

    def test_profile_says_where_the_time_goes(self):
        ran = 0
        for backend, device in (("cpu", []), ("vulkan", ["--device", "llvmpipe"]), ("opencl", ["--device", "pthread"])):
            ended = flyball("profile", "--backend", backend, *device, "--json", "-p", "40", "-n", "3", "-s", "2")
            if ended.returncode == 69 and backend != "cpu":
                continue
            self.assertEqual(ended.returncode, 0, ended.stderr)
            ran += 1
            prefill, decode = json.loads(ended.stdout)["profiles"]
            self.assertEqual((prefill["steps"], decode["steps"]), (1, 3))
            for profile in (prefill, decode):
                kinds = profile["kinds"]
                self.assertEqual(len(kinds), 7)
                for kind in ("GEMM/GEMV", "attention", "norm/activation", "sampling"):
                    self.assertGreater(kinds[kind]["ms_per_step"], 0, (backend, kind))
                self.assertEqual(kinds["MoE routing"]["launches_per_step"], 0)  # the demo has no experts
                shares = sum(kind["share"] for kind in kinds.values())
                self.assertTrue(0 < shares < 1.05, (backend, shares))
                by_kernel = sum(kernel["ms_per_step"] for kernel in profile["kernels"].values())
                self.assertAlmostEqual(by_kernel, sum(kind["ms_per_step"] for kind in kinds.values()))
        self.assertGreater(ran, 0)

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
                            "profile", "tune", "version", "completions", "engines", "advise", "prove", "why-not", "graph",
                            "simulate", "ps", "load", "unload", "capabilities"):
                self.assertIn(command, script.stdout)
            self.assertIn("probe-timeout-ms", script.stdout)
            self.assertNotIn("measure", re.findall(r"[\w-]+", script.stdout))  # calibrate's own
        bash = flyball("completions", "bash").stdout
        ask = bash + "\nCOMP_WORDS=(flyball ru); COMP_CWORD=1; _flyball; echo \"${COMPREPLY[@]}\""
        self.assertEqual(subprocess.run(["bash", "-c", ask], capture_output=True, text=True).stdout.strip(), "run")


if __name__ == "__main__":
    unittest.main(verbosity=2)
