"""What the attack tests share: apps with keys, a client that is cheap to measure with, attackers in processes of their
own, and the figures of a light app alone and beside an attack, by turns. Python's standard library alone."""

import hashlib
import json
import math
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "service"))
from daemon import SANITIZED, Daemon, rss_megabytes  # noqa: E402,F401

CHAT, COMPLETIONS, EXPLAIN, MODELS = "/v1/chat/completions", "/v1/completions", "/v1/route/explain", "/v1/models"
HEALTH, METRICS = "/healthz", "/metrics"
LIGHT_CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0}

ROUNDS = 3             # pairs of turns; what is compared is the median of the rounds
TURN_REQUESTS = 300    # of a turn, so that its p99 is no single outlier
TURN_SECONDS = 2.5     # a turn ends after so long, however few requests it had: the daemon is then far beyond its bound
SETTLE_SECONDS = 20    # what an attack left behind is worked off within so long, or the next turn alone would measure it

TIMES_BUSY = 20        # p99 beside an attack: at most so many times p99 beside busy loops, on a machine that is slow or busy
TIMES_ALONE = 5        # p99 beside an attack: at most so many times p99 alone ...
# ... or so many seconds, whichever is more. Instrumented code is up to twenty times as slow, and unevenly so: there the
# bound only tells a daemon that answers from one that does not.
FLOOR = 10 if SANITIZED else 0.025
REFUSAL = 10 if SANITIZED else 0.010  # p99 of a refusal, however long it takes alone

# Connections of an attacker that wants them all. The daemon takes 4,096, or fewer where this machine lends a process
# fewer descriptors.
CONNECTIONS = min(4500, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 200)
CONNECTIONS_LIMIT = min(4096, CONNECTIONS - 200)


# ---- apps --------------------------------------------------------------------------------------------------------

def key_of(app):
    return "%s-key-of-the-attacks" % app


def manifest(app, limits=""):
    return "schema: flyball.app/v1\napp: %s\nkey_sha256: %s\n%s" % (
        app, hashlib.sha256(key_of(app).encode()).hexdigest(), "limits: {%s}\n" % limits if limits else "")


# The light app is measured; the limited one is refused all but its first request; the attacker has no limit of rate.
APPS = (manifest("light"), manifest("limited", "requests_per_minute: 1"), manifest("attacker"))


def demo(more="", apps=APPS, **kwargs):
    """The daemon with the embedded model of 1,024 tokens and APPS."""
    return Daemon({"demo": "embedded: true\ncontext: 1024"}, more=more, more_apps=apps, **kwargs)


# ---- a client ----------------------------------------------------------------------------------------------------

def message(method, path, body=None, app=None, fields=""):
    """The bytes of a request. app: whose key it carries; body: JSON, or bytes as they are."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    head = "%s %s HTTP/1.1\r\nHost: localhost\r\n%s" % (method, path, fields)
    if app:
        head += "Authorization: Bearer %s\r\n" % key_of(app)
    if body is not None:
        head += "Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    return head.encode() + b"\r\n" + (body or b"")


class Closed(ConnectionError):
    """The daemon closed the connection before it answered."""


def read_answer(connection, buffered=b""):
    """Status, head and body of the next answer, and what came behind it."""
    data = bytearray(buffered)

    def more():
        piece = connection.recv(262144)
        if not piece:
            raise Closed("closed after %d bytes: %r" % (len(data), bytes(data[:200])))
        data.extend(piece)

    while (end := data.find(b"\r\n\r\n")) < 0:
        more()
    head, at = bytes(data[:end]), end + 4
    fields = head.lower()
    if b"transfer-encoding: chunked" in fields:
        body = bytearray()
        while True:
            while (line := data.find(b"\r\n", at)) < 0:
                more()
            size = int(bytes(data[at:line]), 16)
            while len(data) < line + 2 + size + 2:
                more()
            body += data[line + 2:line + 2 + size]
            at = line + 2 + size + 2
            if size == 0:
                break
    else:
        found = fields.find(b"content-length:")
        size = int(fields[found + 15:].split(b"\r\n", 1)[0]) if found >= 0 else 0
        while len(data) < at + size:
            more()
        body, at = data[at:at + size], at + size
    return int(head[9:12]), head, bytes(body), bytes(data[at:])


class Client:
    """One keep-alive connection of its own. Where the daemon has closed it between two requests it is opened again,
    as every HTTP client does."""

    def __init__(self, port, timeout=60, keep_alive=True):
        self.port, self.timeout, self.keep_alive = port, timeout, keep_alive
        self.connection, self.rest, self.opened = None, b"", 0

    def open(self):
        self.close()
        self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.opened += 1

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection, self.rest = None, b""

    def send(self, request):
        """Status, head and body of the answer."""
        if not self.keep_alive:
            self.close()
        reused = self.connection is not None
        if not reused:
            self.open()
        try:
            self.connection.sendall(request)
            status, head, body, self.rest = read_answer(self.connection, self.rest)
        except (Closed, ConnectionResetError, BrokenPipeError):
            if not reused:
                raise
            self.close()
            return self.send(request)
        if b"connection: close" in head.lower():
            self.close()
        return status, head, body

    def ask(self, method, path, body=None, app=None, fields=""):
        """Status, header fields by their names in small letters, and the body, JSON where it is."""
        status, head, body = self.send(message(method, path, body, app, fields))
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if ": " in line)
        text = body.decode()
        return (status, {name.lower(): value for name, value in fields.items()},
                json.loads(text) if text.startswith("{") else text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- attackers ---------------------------------------------------------------------------------------------------

class Attackers:
    """A process that attacks from its start until stop(), and then tells what it achieved (attackers.py). A process of
    its own at a lower priority: this one's interpreter lock and the processor's time are the measurement's, and what is
    measured on a machine with two cores is how the daemon shares itself out, not how the attacker's own work delays
    everybody. The daemon's work for the attacker is done at the daemon's priority all the same."""

    def __init__(self, kind, port, **options):
        self.kind = kind
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "attackers.py"), kind,
                                         json.dumps(dict(options, port=port))],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.report = None

    def begin(self):
        """Returns when the attack is under way."""
        ready = self.process.stdout.readline()
        assert ready == "attacking\n", "the attacker %r did not begin: %r" % (self.kind, ready)

    def stop(self):
        """What it achieved."""
        if self.report is None:
            out, _ = self.process.communicate("", timeout=120)
            assert self.process.returncode == 0, "the attacker %r failed: %r" % (self.kind, out)
            self.report = json.loads(out)
        return self.report

    def __enter__(self):
        self.begin()
        return self

    def __exit__(self, failure, *_):
        if failure:
            self.process.kill()
            self.process.communicate()
        else:
            self.stop()


# ---- figures -----------------------------------------------------------------------------------------------------

def at_least(count):
    """So many of an attack show that it happened; an instrumented daemon takes one of them for a sign."""
    return 1 if SANITIZED else count


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


class Light:
    """The light app: one-token chats one after the other, each followed by a request of the limited app, which is
    refused. `fresh`: each request on a connection of its own."""

    def __init__(self, daemon, fresh=False):
        self.client, self.other = (Client(daemon.port, keep_alive=not fresh) for _ in range(2))
        self.chat = message("POST", CHAT, LIGHT_CHAT, "light")
        self.refused = message("POST", CHAT, LIGHT_CHAT, "limited")
        self.other.send(self.refused)  # its one request a minute
        for _ in range(50):
            self.ask()

    def timed(self, client, request, status):
        """Seconds until the answer with this status, or None, and the answer. A slow or busy daemon falls behind those who
        open connections, and turns new ones away with a 503: it is asked again, and serves in the end. The wait includes
        every try. No other 503 is asked again."""
        began = time.perf_counter()
        for _ in range(100):
            answered = client.send(request)
            turned_away = answered[0] == 503 and not client.keep_alive and b"Too many connections are open" in answered[2]
            if not turned_away and not (SANITIZED and answered[0] == 503):
                break
        return (time.perf_counter() - began if answered[0] == status else None), answered

    def ask(self):
        took, answered = self.timed(self.client, self.chat, 200)
        assert took is not None, "the light app's chat was answered %d: %r" % (answered[0], answered[2][:300])
        return took

    def turn(self):
        """p99 of chats and of refusals, and how many chats there were."""
        chats, refusals = [], []
        end = time.monotonic() + TURN_SECONDS
        while len(chats) < TURN_REQUESTS and time.monotonic() < end or not refusals:
            chats.append(self.ask())
            took, answered = self.timed(self.other, self.refused, 429)
            if took is not None:
                refusals.append(took)
            else:  # a minute is over
                assert answered[0] == 200, "the limited app was answered %d: %r" % (answered[0], answered[2][:300])
        return percentile(chats, 99), percentile(refusals, 99), len(chats)

    def settle(self):
        end, quick = time.monotonic() + SETTLE_SECONDS, 0
        while quick < 20 and time.monotonic() < end:
            quick = quick + 1 if self.ask() < FLOOR else 0

    def close(self):
        self.client.close()
        self.other.close()


class BusyLoops:
    """As many processes as processors that compute and ask nothing: what the machine alone does to the light app."""

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


class AttackTest(unittest.TestCase):
    def taken(self, daemon):
        """Waits until half of the daemon's connections are the attacker's: it may be bounded to fewer than all."""
        end = time.monotonic() + 30
        while len(os.listdir("/proc/%d/fd" % daemon.process.pid)) < CONNECTIONS_LIMIT / 2:
            self.assertLess(time.monotonic(), end, "the attacker has too few connections")
            time.sleep(0.05)

    def beside(self, daemon, kind, fresh=False, under_way=lambda: None, refusal=REFUSAL, line=0, **options):
        """Measures the light app alone and beside the attack, by turns, and asserts the bound. `under_way` returns when
        the daemon feels the attack. `line`: how many new connections of the attackers may stand before one of the light
        app, in the kernel's queue and then by newcomers' turns. The attackers' reports."""
        light, reports = Light(daemon, fresh), []

        def turns(first):
            """p99 of chats and of refusals in turns by `first` and beside the attack, in the same seconds: medians over
            the rounds, because something else on the machine spoils the one turn that it meets."""
            without, beside = [], []
            for _ in range(ROUNDS):
                light.settle()
                without.append(first())
                with Attackers(kind, daemon.port, **options) as attackers:
                    under_way()
                    beside.append(light.turn())
                reports.append(attackers.stop())
            return [[1000 * statistics.median(turn[figure] for turn in all_turns) for figure in (0, 1)]
                    for all_turns in (without, beside)]

        def beside_busy_loops():
            with BusyLoops():
                return light.turn()

        bounds = (("a chat", FLOOR, TIMES_ALONE), ("a refusal", refusal, 0))
        alone, beside = turns(light.turn)
        limits = [max(times * before, 1000 * least) for before, (_, least, times) in zip(alone, bounds)]
        print("%s: p99 alone %s ms, beside %s ms, at most %s" % (self._testMethodName, alone, beside, limits))
        if any(now > limit for now, limit in zip(beside, limits)):
            # The attackers take processors, too. On a slow or busy machine their mere work counts as much as what they ask
            # for, so the bound stands beside a load that asks for nothing.
            busy, beside = turns(beside_busy_loops)
            limits = [max(limit, TIMES_BUSY * with_loops) for limit, with_loops in zip(limits, busy)]
            if line:  # how long they take at the speed at which the attackers got connections in these very turns
                line_ms = 1000 * line * statistics.median(report["seconds"] / report["made"] for report in reports[-ROUNDS:])
                limits = [max(limit, line_ms) for limit in limits]
            print("  again: beside busy loops %s ms, beside the attack %s ms, at most %s" % (busy, beside, limits))
        light.close()
        mistakes = ["p99 of %s: %.1f ms, at most %.1f" % (what, now, limit)
                    for (what, _, _), now, limit in zip(bounds, beside, limits) if now > limit]
        for report in reports:
            print("  the attackers: %s" % json.dumps(report))
        self.assertEqual(mistakes, [])
        return reports
