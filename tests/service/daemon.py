"""The real `flyball` from outside, for the end-to-end scripts: its processes, its files, and requests to it.
Python's standard library alone."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

FLYBALL = os.environ["FLYBALL"]
SANITIZED = os.environ.get("FLYBALL_SANITIZED", "") not in ("", "OFF")
GREEDY = {"prompt": "Once upon a time", "temperature": 0, "ignore_eos": True}
START_LIMIT = 120  # seconds; the machine may be busy and the binary instrumented

CONFIG = """schema: flyball.config/v1
listeners:
  local:
    tcp: 127.0.0.1:8080
loopback_without_key: true
default_app: example
models:
%(models)s
default_model: %(default)s
kv_spill: %(kv_spill)s
drain_timeout: 300s
%(more)s
"""


APP = """schema: flyball.app/v1
app: example
privacy: local_only
limits:
  in_flight: 200
"""


def flyball(*args, **kwargs):
    return subprocess.run([FLYBALL, *args], capture_output=True, text=True, timeout=300, **kwargs)


def process_state(pid):
    """As of /proc, "" where there is none, and the parent's id."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            state, parent = f.read().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return "", 0
    return state, int(parent)


def children(parent, command):
    """Ids of the processes `flyball COMMAND` that this one has started and that have not ended."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        state, of = process_state(pid)
        if of != parent or state in "ZX":
            continue
        try:
            with open("/proc/%d/cmdline" % pid) as f:
                words = f.read().split("\0")
        except OSError:
            continue
        if words[1:2] == [command]:
            found.append(pid)
    return found


class Daemon:
    """models: id -> lines of its entry. Leaves with everything it started."""

    def __init__(self, models=None, more="", env=None, command=None, pass_fds=(), config=None,
                 kv_spill="{max_bytes: 0B}", app=APP, more_apps=(), probe_ms=100, stderr=None):
        """stderr: a file or descriptor that takes the log instead of `log`."""
        self.kv_spill = kv_spill  # none: what one test has left on the disk another one must not find
        self.dir = tempfile.TemporaryDirectory(prefix="flyball-e2e-")
        self.config = os.path.join(self.dir.name, "config.yaml")
        self.models = models or {"demo": "embedded: true"}
        self.write_config(config or self.config_text(more))
        os.mkdir(os.path.join(self.dir.name, "apps.d"))
        with open(os.path.join(self.dir.name, "apps.d", "example.yaml"), "w") as out:
            out.write(app)
        for n, text in enumerate(more_apps):
            with open(os.path.join(self.dir.name, "apps.d", "more%d.yaml" % n), "w") as out:
                out.write(text)
        environment = dict(os.environ, **(env or {}))
        for name in ("NOTIFY_SOCKET", "JOURNAL_STREAM", "LISTEN_FDS", "LISTEN_PID"):
            if name not in (env or {}):
                environment.pop(name, None)
        serve = [FLYBALL, "serve", "--config", self.config, "--print-url", "--probe-timeout-ms", str(probe_ms)]
        if command is None:
            command = serve + ["--port", "0"]
        else:
            command = command + serve
        self.log = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr or subprocess.PIPE, text=True,
                                        env=environment, pass_fds=pass_fds)
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        self.url = self.process.stdout.readline().strip()
        self.port = int(self.url.rsplit(":", 1)[1]) if self.url.startswith("http") else None

    def _read_log(self):
        for line in self.process.stderr or ():
            self.log.append(line.rstrip("\n"))

    def config_text(self, more=""):
        if "state_dir:" not in more:  # what one test has left there is not another's past
            more += "\nstate_dir: " + os.path.join(self.dir.name, "state")
        if "calibrate:" not in more:  # nothing is measured beside a test
            more += "\ncalibrate: {ceilings: false}"
        models = "".join("  %s:\n    %s\n" % (name, entry.replace("\n", "\n    ")) for name, entry in self.models.items())
        return CONFIG % {"models": models.rstrip("\n"), "default": next(iter(self.models)), "more": more,
                         "kv_spill": self.kv_spill}

    def write_config(self, text):
        self.text = text
        with open(self.config, "w") as out:
            out.write(text)

    def __enter__(self):
        assert self.port or self.url, "the daemon did not start:\n" + "\n".join(self.log)
        return self

    def __exit__(self, failure, *_):
        if failure:
            print("the daemon's log:\n" + "\n".join(self.log), file=sys.stderr)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.reader.join()
        if self.process.stderr:
            self.process.stderr.close()
        self.dir.cleanup()
        # Of the daemon and of its workers, whose stderr it is too; an exit status alone does not tell of theirs.
        reports = [line for line in self.log if "Sanitizer" in line or ": runtime error: " in line]
        assert failure or not reports, "\n".join(self.log)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=120):
        return self.process.wait(timeout)

    def wait_for_log(self, text, timeout=60, count=1):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if sum(text in line for line in self.log) >= count:
                return True
            time.sleep(0.02)
        raise AssertionError("no %r in the log:\n%s" % (text, "\n".join(self.log)))

    def workers(self):
        """Process ids of the engine workers."""
        return children(self.process.pid, "engine")

    def request(self, *args, **kwargs):
        return self.request_with_headers(*args, **kwargs)[:2]

    def request_with_headers(self, method, path, body=None, timeout=180):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"content-type": "application/json"} if body is not None else {}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, json.loads(text) if text.startswith("{") else text, response.headers

    def events(self, path, body, timeout=180, key=None):
        """The events of a streamed answer of OpenAI's API, as they come; None is [DONE]."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = {"content-type": "application/json"}
            if key:
                headers["authorization"] = "Bearer " + key
            connection.request("POST", path, json.dumps(dict(body, stream=True)), headers)
            response = connection.getresponse()
            if response.status != 200:
                raise AssertionError("%d: %s" % (response.status, response.read().decode()))
            for raw in response:
                line = raw.decode().rstrip("\r\n")
                if not line.startswith("data: "):
                    continue
                event = None if line == "data: [DONE]" else json.loads(line[6:])
                if event and "error" in event:
                    raise AssertionError(event["error"])
                yield event
        finally:
            connection.close()

    def stream(self, body, on_event=None, timeout=180, key=None):
        """The concatenated text, the finish reason, and whether [DONE] came. on_event(n) sees each piece come."""
        text, reason, done, n = "", None, False, 0
        for event in self.events("/v1/completions", body, timeout, key):
            if event is None:
                done = True
                continue
            for choice in event.get("choices", []):
                text += choice.get("text") or ""
                reason = choice.get("finish_reason") or reason
            n += 1
            if on_event:
                on_event(n)
        return text, reason, done


class SmallModelTest(unittest.TestCase):
    """Tests that share a folder and a small model in it."""

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


def process_gone(pid, timeout=20):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if process_state(pid)[0] in ("", "Z", "X"):
            return True
        time.sleep(0.02)
    return False


def rss_megabytes(pid, field="VmRSS:"):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    return None


def peak_rss_megabytes(pid):
    return rss_megabytes(pid, "VmHWM:")


def kill_workers(daemon):
    for pid in daemon.workers():
        os.kill(pid, signal.SIGKILL)
