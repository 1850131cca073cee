#!/usr/bin/env python3
"""The log of the whole daemon: a reader that is stopped stops nothing, and a flood of refusals is no flood of lines.
One test: log_test.py [-v] LogTest.test_name"""

import os
import re
import signal
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import SANITIZED, Daemon  # noqa: E402

ASK = {"prompt": "x", "max_tokens": 1}
FLOOD = 2_000 if SANITIZED else 40_000  # requests; some 30,000 lines fill the queue


class Paused(Daemon):
    """Its log is read while `reading` is set."""

    def __init__(self, **kwargs):
        self.reading = threading.Event()
        self.reading.set()
        super().__init__(**kwargs)

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            self.reading.wait()

    def __exit__(self, *args):
        self.reading.set()
        super().__exit__(*args)


def flood(daemon, request, status, count):
    """`count` requests on one connection, a hundred at a time."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as client:
        expected = b"HTTP/1.1 %d " % status
        for _ in range(count // 100):
            client.sendall(request * 100)
            seen, tail = 0, b""
            while seen < 100:
                piece = client.recv(1 << 20)
                assert piece, "the daemon closed the connection"
                text = tail + piece
                seen += text.count(expected)
                tail = text[-(len(expected) - 1):]
            client.settimeout(60)


MODELS = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
WRONG_KEY = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer no-such-key\r\n\r\n"


class LogTest(unittest.TestCase):
    def lost(self, daemon):
        return int(float(re.search(r"^flyball_log_lines_lost (\S+)$", daemon.request("GET", "/metrics")[1], re.M).group(1)))

    def test_a_stopped_reader_stops_neither_requests_nor_engines(self):
        with Paused() as daemon:
            daemon.reading.clear()
            flood(daemon, MODELS, 200, FLOOD)
            # An engine that starts has the same log.
            status, answer = daemon.request("POST", "/v1/completions", ASK)
            self.assertEqual(status, 200, answer)
            lost = self.lost(daemon)
            daemon.reading.set()
            if not SANITIZED:
                self.assertGreater(lost, 0)
                daemon.wait_for_log("the log could not be written, lines lost: ")
                told = next(int(m.group(1)) for line in daemon.log if (m := re.search(r"lines lost: (\d+)", line)))
                self.assertGreaterEqual(told, lost)
            later = daemon.request_with_headers("GET", "/v1/models")[2]["x-request-id"]
            daemon.wait_for_log(later)

    def test_a_stopped_reader_delays_the_end_by_a_second(self):
        with Paused() as daemon:
            self.assertEqual(daemon.request("POST", "/v1/completions", ASK)[0], 200)
            daemon.reading.clear()
            flood(daemon, MODELS, 200, 2_000)
            before = time.monotonic()
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(60), 0)
            self.assertLess(time.monotonic() - before, 60, "its reader would never have read")

    def test_nothing_is_lost_at_an_ordinary_end(self):
        with Daemon() as daemon:
            flood(daemon, MODELS, 200, 2_000)
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)
            daemon.reader.join()
            self.assertEqual(sum("operation=models status=200" in line for line in daemon.log), 2_000)
            self.assertIn("stopped", daemon.log[-1])

    def test_a_flood_of_refusals_is_two_lines_a_second(self):
        with Daemon() as daemon:
            before, started = len(daemon.log), time.monotonic()
            flood(daemon, WRONG_KEY, 401, FLOOD)
            seconds = time.monotonic() - started
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)
            daemon.reader.join()
            lines = [line for line in daemon.log[before:] if "code=invalid_api_key" in line]
            self.assertLessEqual(len(lines), 2 * (seconds + 2))
            counted = [int(m.group(1)) for line in lines if (m := re.search(r" count=(\d+)", line))]
            self.assertEqual(sum(counted) + len(lines) - len(counted), FLOOD)


if __name__ == "__main__":
    unittest.main()
