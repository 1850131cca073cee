#!/usr/bin/env python3
"""The log under a flood of refusals, and with a reader that has stopped."""

import fcntl
import os
import re
import signal
import struct
import tempfile
import termios
import threading
import time
import unittest

from attack import CHAT, LIGHT_CHAT, MODELS, AttackTest, Client, at_least, demo, message, read_answer

LINES_A_SECOND = 50
LINES = 40_000  # 9 MB
PIPE_BYTES = 4096
EXIT_SECONDS = 60


def unread(fd):
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]


class LogTest(AttackTest):
    def test_a_flood_of_refusals(self):
        with tempfile.TemporaryFile() as log, demo(stderr=log) as daemon:
            reports = self.beside(daemon, "refusals")
            refused, seconds = (sum(report[key] for report in reports) for key in ("refused", "seconds"))
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)
            log.seek(0)
            lines = log.read().split(b"\n")
            self.assertEqual([line for line in lines if b"Sanitizer" in line or b": runtime error: " in line], [])
            lines = sum(b"invalid_api_key" in line for line in lines)
            print("%d lines of %d refusals in %.1f s" % (lines, refused, seconds))
            self.assertGreater(refused, at_least(1000))
            self.assertGreater(refused, 10 * lines)
            self.assertGreater(lines, 0)
            self.assertLess(lines / seconds, LINES_A_SECOND)

    def answered_behind_a_stopped_reader(self, ask):
        read, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        with demo(stderr=write) as daemon:
            os.close(write)
            drained = threading.Event()

            def drain():  # what it says at its start; nobody reads any more once it serves
                while not drained.is_set():
                    if unread(read):
                        os.read(read, PIPE_BYTES)
                    else:
                        drained.wait(0.01)

            reader = threading.Thread(target=drain)
            reader.start()
            with Client(daemon.port, timeout=30) as client:
                client.ask("POST", CHAT, LIGHT_CHAT, "light")
                drained.set()
                reader.join()
                for _ in range(1000):
                    ask(client)
                self.assertGreater(unread(read), PIPE_BYTES - 1024, "the log did not fill its pipe")
                self.assertEqual(client.ask("GET", "/healthz")[0], 200)
            began = time.monotonic()
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(EXIT_SECONDS), 0)
            print("ended after %.2f s" % (time.monotonic() - began))
            os.close(read)

    def test_chats_with_a_stopped_reader_of_stderr(self):
        self.answered_behind_a_stopped_reader(
            lambda client: self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, "light")[0], 200))

    def test_refusals_with_a_stopped_reader_of_stderr(self):
        def ask(client):
            self.assertEqual(client.ask("GET", MODELS, fields="Authorization: Bearer nobody-has-this-key\r\n")[0], 401)
            self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, "light")[0], 200)

        self.answered_behind_a_stopped_reader(ask)

    def test_lost_lines_are_counted(self):
        """Once the reader goes on, the log says how many lines it lost."""
        read, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        fcntl.fcntl(read, fcntl.F_SETFL, os.O_NONBLOCK)
        with demo(stderr=write) as daemon:
            os.close(write)
            with Client(daemon.port, timeout=30) as client:
                request = message("GET", MODELS, app="light")
                for _ in range(LINES // 200):  # more than any queue of lines holds, 200 at once
                    client.open()
                    client.connection.sendall(request * 200)
                    for _ in range(200):
                        status, _, _, client.rest = read_answer(client.connection, client.rest)
                        self.assertEqual(status, 200)
                seen, end = b"", time.monotonic() + 30
                while not re.search(rb"lines (were )?(lost|dropped)[^\n]*\d|\d+ (lines|of its lines)[^\n]*(lost|dropped)", seen):
                    self.assertLess(time.monotonic(), end, seen[-2000:])
                    try:
                        seen += os.read(read, PIPE_BYTES)
                    except BlockingIOError:
                        client.ask("GET", MODELS, app="light")
        os.close(read)


if __name__ == "__main__":
    unittest.main(verbosity=2)
