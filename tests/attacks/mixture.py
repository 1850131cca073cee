#!/usr/bin/env python3
"""All attacks at once, engines that are killed, and reloads, beside 16 well-behaved greedy streams: mixture.py
[--seconds 60]. No stream is lost or altered, and between the attacks the daemon holds no more than after warm-up.

An attack lasts for one cycle; then everything rests until the daemon is quiet, and its RSS, descriptors and threads are
read. The first half of these quiet points is warm-up: an allocator, caches and tables find their size. Growth is the
least of the last quarter over the most of the warm-up, so that a leak shows and one large request does not. The last
cycle kills no engine: one that served all of it holds no KV block when it is quiet."""

import argparse
import itertools
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time

from attack import (CHAT, COMPLETIONS, EXPLAIN, SANITIZED, APPS, Attackers, Client, demo, manifest, message,
                    percentile, rss_megabytes)

STREAMS = 16
TOKENS = 60
MAX_GROWTH = 0.02
# Of RSS in a run that is mostly warm-up: how much an allocator keeps depends on which large requests met in one cycle.
SHORT_SECONDS, SHORT_RSS_GROWTH = 600, 0.25
KILL_EVERY = 4.0    # seconds; an answer may meet several deaths, but not without progress between two of them
RELOAD_EVERY = 0.7
QUIET = 3.0         # seconds without a change of descriptors: connections linger for two
AFTER = 6.0         # seconds of a cycle that the attackers' end and the quiet point take
LEAST = 4.0         # seconds that the attacks last, however much of their cycle a busy machine has taken before
QUIET_LIMIT = 300 if SANITIZED else 60  # seconds within which a daemon that nobody asks is quiet, or a stream is answered

CONFIG = """worker: {disable_after: 1000, backoff_min: 10ms, backoff_max: 100ms}
http: {connections: 900}
"""

PROMPTS = ["Once upon a time", "Which engine for a Mac?", "Tell me a story about a fox.", "Should I use Ollama?",
           "The river", "I have one RTX 4090.", "What is a KV cache?", "Ella lived near", "Use MLX.", "A small mill",
           "Which engine", "Paged attention", "Hello", "One two three", "The fox was happy", "Why"]

def asked(report):
    """Requests that were answered; an instrumented daemon owes some of them when their cycle ends."""
    return sum(report["statuses"].values()) + (report["unanswered"] if SANITIZED else 0)


# Each is an attack of attackers.py with its options, and the figure that shows that it happened: at least so many a cycle.
ATTACKS = [
    ("bodies", dict(app="limited", connections=2), asked, 4),
    ("bodies", dict(app="attacker", connections=2, path=EXPLAIN, chunked=True), asked, 4),
    ("prompts", dict(app="attacker", connections=3), asked, 3),
    ("prompts", dict(app="attacker", connections=2, path=CHAT, size=60_000), asked, 2),
    ("refusals", dict(), lambda r: r["refused"], 100),
    ("idle", dict(connections=1200, sources=50), lambda r: r["made"] + r["refused"], 1000),
    ("idle", dict(connections=300, sources=50, mode="dribble"), lambda r: r["dribbled"], 100),
    ("hang_ups", dict(app="attacker"), lambda r: r["left"], 10),
]


class Lost(Exception):
    pass


class Streams:
    """16 clients, each asking its prompt again and again while they are not at rest."""

    def __init__(self, port):
        self.port, self.done, self.seconds, self.wrong = port, 0, [], []
        self.running, self.over, self.lock = threading.Event(), threading.Event(), threading.Lock()
        self.busy = 0
        self.requests = [message("POST", COMPLETIONS, {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0,
                                                       "ignore_eos": True, "stream": True}, "steady") for prompt in PROMPTS]
        self.expected = [self.ask(n) for n in range(STREAMS)]  # one after the other, with nobody beside them
        assert len(set(self.expected)) == STREAMS, self.expected
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(STREAMS)]
        for thread in self.threads:
            thread.start()

    def ask(self, n):
        """The text of an answer, on a connection of its own: nothing is tried twice. Lost says what came instead."""
        try:
            with Client(self.port, timeout=QUIET_LIMIT) as client:
                status, _, body = client.send(self.requests[n])
        except (OSError, ValueError) as error:
            raise Lost(repr(error)) from error
        lines = body.decode(errors="replace").split("\n")
        if status != 200 or "data: [DONE]" not in lines:
            raise Lost("%d: %s" % (status, lines[-5:]))
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        for event in events:
            if "error" in event:
                raise Lost(json.dumps(event))
        return "".join(choice.get("text") or "" for event in events for choice in event["choices"])

    def run(self, n):
        while not self.over.is_set():
            if not self.running.wait(0.05):
                continue
            with self.lock:
                self.busy += 1
            began, wrong = time.monotonic(), None
            try:
                text = self.ask(n)
                if text != self.expected[n]:
                    wrong = "altered to %r" % text
            except Lost as lost:
                wrong = "lost: %s" % lost
            with self.lock:
                self.busy -= 1
                self.done += 1
                self.seconds.append(time.monotonic() - began)
                if wrong:
                    self.wrong.append("%r %s" % (PROMPTS[n], wrong))

    def rest(self):
        self.running.clear()
        while self.busy:
            time.sleep(0.01)

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class Mixture:
    def __init__(self, daemon, began, seconds):
        self.daemon, self.pid, self.began = daemon, daemon.process.pid, began
        self.cycles = max(4, round(seconds / 60))
        self.seconds = seconds / self.cycles  # of each
        self.kills = self.reloads = 0
        self.points, self.weak = [], []
        plain = daemon.text
        daemon.models = dict(daemon.models, extra="embedded: true")
        self.texts = itertools.cycle([daemon.config_text(CONFIG), plain.replace("drain_timeout", "drain_timeuot"), plain, ""])
        self.plain = plain

    def metrics(self):
        with Client(self.daemon.port) as client:
            return client.ask("GET", "/metrics", fields=OPERATOR)[2]

    def reload(self, text):
        self.daemon.write_config(text)
        self.daemon.signal(signal.SIGHUP)
        self.reloads += 1

    def attack(self, end, kills):
        """One cycle's attacks, kills and reloads, until `end`."""
        attackers = [Attackers(kind, self.daemon.port, **options) for kind, options, _, _ in ATTACKS]
        for attacker in attackers:
            attacker.begin()
        began = time.monotonic()
        kill_at, end = began + KILL_EVERY / 2, max(end, began + LEAST)
        while time.monotonic() < end:
            self.reload(next(self.texts))
            if kills and time.monotonic() >= kill_at:
                for engine in self.daemon.workers():
                    os.kill(engine, signal.SIGKILL)
                    self.kills += 1
                kill_at += KILL_EVERY
            time.sleep(RELOAD_EVERY)
        reports = [attacker.stop() for attacker in attackers]
        for (kind, options, figure, least), report in zip(ATTACKS, reports):
            if figure(report) < (1 if SANITIZED else least):
                self.weak.append((kind, options, report))
        return reports

    def quiet_point(self):
        """RSS in MB, descriptors and threads of a daemon that nobody asks anything."""
        self.reload(self.plain)
        end, since, before = time.monotonic() + QUIET_LIMIT, time.monotonic(), None
        while time.monotonic() - since < QUIET:
            now = len(os.listdir("/proc/%d/fd" % self.pid))
            if now != before:
                before, since = now, time.monotonic()
            assert time.monotonic() < end, "the daemon is not quiet: %d descriptors" % now
            time.sleep(0.05)
        return {"rss": round(rss_megabytes(self.pid), 1), "descriptors": before,
                "threads": len(os.listdir("/proc/%d/task" % self.pid))}

    def kv_blocks(self):
        """KV blocks in use, after a while without requests: 0, or it has lasted too long."""
        end = time.monotonic() + QUIET_LIMIT / 4
        while True:
            found = re.findall(r"^flyball_engine_kv_blocks_used\{[^}]*\} (\S+)$", self.metrics(), re.M)
            assert found, "no engine tells of its KV blocks"
            used = sum(map(float, found))
            if used == 0 or time.monotonic() > end:
                return used
            time.sleep(0.2)

    def run(self, streams):
        for cycle in range(self.cycles):
            engines = self.daemon.workers()
            streams.running.set()
            reports = self.attack(self.began + (cycle + 1) * self.seconds - AFTER, kills=cycle < self.cycles - 1)
            streams.rest()
            self.points.append(self.quiet_point())
            print("%4.0f s: %s, %d streams, %d kills, %d reloads" % (
                time.monotonic() - self.began, json.dumps(self.points[-1]), streams.done, self.kills, self.reloads), flush=True)
        assert engines and self.daemon.workers() == engines, "the engine of the last cycle did not serve all of it"
        self.blocks = self.kv_blocks()
        for (kind, options, _, _), report in zip(ATTACKS, reports):
            print("  %s %s: %s" % (kind, json.dumps(options), json.dumps(report)))


def growth(points, key):
    """Of the least of the last quarter over the most of the first half."""
    values = [point[key] for point in points]
    most, least = max(values[:len(values) // 2]), min(values[-max(1, len(values) // 4):])
    return (least - most) / max(most, 1)


OPERATOR = ""  # loopback


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--seconds", type=int, default=60)
    seconds = options.parse_args().seconds
    mistakes, began = [], time.monotonic()
    with tempfile.TemporaryFile() as log:
        with demo(CONFIG, APPS + (manifest("steady", "in_flight: 64"),), stderr=log) as daemon:
            streams = Streams(daemon.port)
            mixture = Mixture(daemon, began, seconds)
            try:
                mixture.run(streams)
            finally:
                streams.end()
            if daemon.process.poll() is not None:
                mistakes.append("the daemon ended: %d" % daemon.process.returncode)
        log.seek(0)
        reports = [line for line in log if b"Sanitizer" in line or b": runtime error: " in line]
    print("%d streams, p50 %.2f s, p99 %.2f s, at most %.2f s; %d lost or altered; %d kills; %d reloads" % (
        streams.done, percentile(streams.seconds, 50), percentile(streams.seconds, 99), max(streams.seconds),
        len(streams.wrong), mixture.kills, mixture.reloads))
    print("KV blocks in use at the end: %d" % mixture.blocks)
    if mixture.blocks:
        mistakes.append("%d KV blocks are in use when nobody asks" % mixture.blocks)
    for key in ("rss", "descriptors", "threads"):
        grown = growth(mixture.points, key)
        most = SHORT_RSS_GROWTH if key == "rss" and seconds < SHORT_SECONDS else MAX_GROWTH
        print("growth of %s: %.1f %% (at most %.0f)" % (key, 100 * grown, 100 * most))
        if grown > most and not (key == "rss" and SANITIZED):
            mistakes.append("%s grew by %.1f %%" % (key, 100 * grown))
    mistakes += streams.wrong[:5]
    mistakes += ["weak attack: %r" % (weak,) for weak in mixture.weak]
    mistakes += [line.decode(errors="replace") for line in reports[:20]]
    if streams.done < 3 * STREAMS:
        mistakes.append("only %d streams ran" % streams.done)
    if mixture.kills < mixture.cycles - 1:
        mistakes.append("only %d engines were killed" % mixture.kills)
    for mistake in mistakes:
        print("FAILED: %s" % mistake)
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
