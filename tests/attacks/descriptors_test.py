#!/usr/bin/env python3
"""A daemon with 64 descriptors: clients beyond its bound are answered, engines start, and nothing hangs."""

import collections
import contextlib
import signal
import socket
import time
import unittest

from attack import CHAT, LIGHT_CHAT, SANITIZED, AttackTest, Client, demo, message, read_answer
from daemon import kill_workers

CLIENTS = 100
PATIENCE = 120 if SANITIZED else 30  # seconds until a client counts as hanging; the first of them waits for an engine to load


class DescriptorsTest(AttackTest):
    def few(self):
        return demo(command=["/bin/sh", "-c", 'ulimit -n 64; exec "$@" --port 0', "sh"])

    def answers(self, connections):
        """How many of them were answered with each status, "closed" for those that were closed without an answer."""
        seen, end = collections.Counter(), time.monotonic() + PATIENCE
        for connection in connections:
            connection.settimeout(max(0.01, end - time.monotonic()))
            try:
                seen[read_answer(connection)[0]] += 1
            except socket.timeout:
                seen["hanging"] += 1
            except OSError:
                seen["closed"] += 1
        return seen

    def connect(self, daemon, request=b""):
        connection = socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE)
        try:
            connection.sendall(request)
        except OSError:
            pass  # closed at once: what was sent before is read below
        return connection

    def test_more_clients_than_descriptors_are_all_answered(self):
        with self.few() as daemon:
            request = message("POST", CHAT, LIGHT_CHAT, "light")
            clients = [self.connect(daemon, request) for _ in range(CLIENTS)]
            seen = self.answers(clients)
            for connection in clients:
                connection.close()
            print("of %d clients: %r" % (CLIENTS, dict(seen)))
            self.assertEqual(seen["hanging"], 0, seen)
            self.assertGreater(seen[200], 0, seen)  # an engine started
            self.assertTrue(any("limit of open files" in line for line in daemon.log), daemon.log)

    def test_an_engine_starts_beside_idle_connections(self):
        with self.few() as daemon, contextlib.ExitStack() as idle:
            for _ in range(CLIENTS):
                idle.enter_context(self.connect(daemon))
            with Client(daemon.port, timeout=PATIENCE) as client:
                self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, "light")[0], 200)
                kill_workers(daemon)
                self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, "light")[0], 200)
            idle.close()
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
