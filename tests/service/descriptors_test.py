#!/usr/bin/env python3
"""A low limit of open files: the daemon serves and starts workers, and clients beyond its bound are told so."""

import os
import re
import signal
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import GREEDY, Daemon  # noqa: E402

BODY_TO_COME = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n")


class Limited(Daemon):
    """May open so many files, soft and hard limit."""

    def __init__(self, files, **kwargs):
        command = ["/bin/sh", "-c", 'ulimit -n %d; exec "$@" --port 0' % files, "sh"]
        super().__init__(command=command, **kwargs)

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return client


class DescriptorsTest(unittest.TestCase):
    def test_64_files_are_enough_to_serve_and_what_is_too_much_is_told(self):
        with Limited(64) as daemon:
            daemon.wait_for_log("http.connections reduced")
            limit = int(re.search(r"http\.connections reduced .* configured=4096 connections=(\d+) open_files=64",
                                  "\n".join(daemon.log)).group(1))
            self.assertGreaterEqual(limit, 16)
            # Silent clients in any number keep nobody out, and the worker starts beside them.
            silent = [daemon.connect() for _ in range(3 * limit)]
            self.assertEqual(daemon.request("POST", "/v1/completions", dict(GREEDY, max_tokens=4))[0], 200)
            self.assertEqual(len(daemon.workers()), 1)
            for client in silent:
                client.close()
            # As many requests as there may be connections, all at work: whoever comes then is told at once.
            working = []
            while len(working) <= limit:
                client = daemon.connect()
                client.sendall(BODY_TO_COME)
                begin = time.monotonic()
                answer = client.recv(4096)
                if answer.startswith(b"HTTP/1.1 503 "):
                    self.assertIn(b"Too many connections are open", answer)
                    self.assertIn(b"\r\nRetry-After: 1\r\n", answer)
                    self.assertLess(time.monotonic() - begin, 60)
                    client.close()
                    break
                self.assertTrue(answer.startswith(b"HTTP/1.1 100 "), answer)
                working.append(client)
            self.assertGreater(len(working), limit // 2)  # of one address three quarters
            self.assertLessEqual(len(working), limit)
            files = len(os.listdir("/proc/%d/fd" % daemon.process.pid))
            print("%d of 64 files open beside %d requests in work" % (files, len(working)))
            self.assertLess(files, 64)
            for client in working:
                client.close()
            # A busy daemon sees these ends late, perhaps after a request that is sent at once: the request waits for them.
            end = time.monotonic() + 60
            while len(os.listdir("/proc/%d/fd" % daemon.process.pid)) > files - len(working):
                self.assertLess(time.monotonic(), end, "connections of clients that left are still open")
                time.sleep(0.02)
            self.assertEqual(daemon.request("POST", "/v1/completions", dict(GREEDY, max_tokens=4))[0], 200)
            daemon.signal(signal.SIGHUP)
            self.assertTrue(daemon.wait_for_log("connections=%d open_files=64" % limit, count=2))
            self.assertEqual(daemon.request("GET", "/healthz")[0], 200)

    def test_a_limit_that_is_too_low_is_an_error_with_both_numbers(self):
        daemon = Limited(32)
        try:
            self.assertEqual(daemon.wait(), 78)
            daemon.reader.join()
            self.assertRegex("\n".join(daemon.log),
                             r"RLIMIT_NOFILE: The process may open 32 files, and needs \d+ for 1 models")
        finally:
            daemon.__exit__(True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
