#!/usr/bin/env python3
"""Twenty large answers that nobody reads: what the daemon holds of them is bounded, and comes back when their clients
leave."""

import os
import socket
import time
import unittest

from attack import CHAT, COMPLETIONS, LIGHT_CHAT, SANITIZED, AttackTest, Client, demo, manifest, message, rss_megabytes

ANSWERS = 20
GROWTH_MB = 64
LEFT_MB = 24   # of what was held: an allocator keeps some of it
# Of each choice: some 5 MB of log probabilities an answer. A chat's take twice as many bytes.
CHAT_TOKENS, COMPLETION_TOKENS = 400, 900
QUIET = 2.0    # seconds without work, after which the engine has done what it will do


def ticks(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    except OSError:
        return 0


class UnreadAnswersTest(AttackTest):
    def attack(self, body, path=CHAT):
        # Nobody is cut off for not reading while the test lasts.
        with demo("http: {stalled_reader_timeout: 1h}\n",
                  (manifest("attacker", "in_flight: 1000"), manifest("light"))) as daemon, Client(daemon.port) as client:
            for app in ("light", "attacker"):
                self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, app)[0], 200)
            pid = daemon.process.pid
            before = rss_megabytes(pid)
            with open("/proc/%d/clear_refs" % pid, "w") as clear:
                clear.write("5")  # the peak begins anew
            request = message("POST", path, body, "attacker")
            unread = []
            for _ in range(ANSWERS):
                connection = socket.socket()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                connection.settimeout(30)
                connection.connect(("127.0.0.1", daemon.port))
                connection.sendall(request)
                unread.append(connection)
            (engine,) = daemon.workers()
            began, worked, since, quick = ticks(engine), ticks(engine), time.monotonic(), []
            end = time.monotonic() + (300 if SANITIZED else 45)
            while time.monotonic() < end and time.monotonic() - since < QUIET:
                asked = time.monotonic()
                self.assertEqual(client.ask("POST", CHAT, LIGHT_CHAT, "light")[0], 200)
                quick.append(time.monotonic() - asked)
                time.sleep(0.25)
                now = ticks(engine)
                if now - worked > 5:  # more than the light app's own token takes
                    since = time.monotonic()
                worked = now
            used = (worked - began) / os.sysconf("SC_CLK_TCK")
            peak = rss_megabytes(pid, "VmHWM:")
            for connection in unread:
                connection.close()
            after, end = rss_megabytes(pid), time.monotonic() + 30
            while after > before + LEFT_MB and time.monotonic() < end:
                time.sleep(0.2)
                after = rss_megabytes(pid)
            print("RSS %.1f MB, at most %.1f MB with %d answers unread, %.1f MB after them; the engine worked %.1f s; "
                  "a chat beside them took at most %.0f ms" % (before, peak, ANSWERS, after, used, 1000 * max(quick)))
            self.assertGreater(used, 0.2, "the engine had nothing to do")
            status, _, answer = client.ask("POST", path, dict(body, max_tokens=2), "attacker")
            self.assertEqual(status, 200, answer)
            if not SANITIZED:  # whose allocators keep what was freed
                self.assertLessEqual(peak, before + GROWTH_MB)
                self.assertLessEqual(after, before + LEFT_MB)

    def test_whole_chats_with_log_probabilities(self):
        self.attack({"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "n": 8, "logprobs": True,
                     "top_logprobs": 20, "max_tokens": CHAT_TOKENS, "ignore_eos": True})

    def test_whole_completions_with_log_probabilities(self):
        self.attack({"prompt": "Once upon a time", "n": 8, "logprobs": 20, "max_tokens": COMPLETION_TOKENS,
                     "ignore_eos": True},
                    COMPLETIONS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
