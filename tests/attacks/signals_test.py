#!/usr/bin/env python3
"""SIGHUP from the first moment on, and what /readyz says of engines that died."""

import os
import signal
import threading
import time
import unittest

from attack import CHAT, LIGHT_CHAT
from daemon import Daemon, SmallModelTest, kill_workers, process_gone

MODELS = 12  # each is read by a process of its own before the daemon listens, so that a start takes a while
STARTS = 5


def knows_of_hangups(pid):
    """Whether the process has said what SIGHUP shall do, or has come so far in its start that it should have: it has
    started a process. Before main() nobody can."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            if f.read().split():
                return True
        with open("/proc/%d/status" % pid) as f:
            masks = [int(line.split()[1], 16) for line in f if line.startswith(("SigBlk:", "SigIgn:", "SigCgt:"))]
    except OSError:
        return False
    return any(mask >> (signal.SIGHUP - 1) & 1 for mask in masks)


class SignalsTest(SmallModelTest):
    def test_hangups_while_it_starts(self):
        models = {"demo": "embedded: true"}
        for n in range(MODELS):
            path = os.path.join(self.dir.name, "copy-%d.gguf" % n)
            os.link(self.model, path)
            models["copy-%d" % n] = "path: " + path
        counts = []
        for _ in range(STARTS):
            served, sent = threading.Event(), []
            told, tell = os.pipe()

            def hang_up():
                pid = int(os.read(told, 100))
                try:
                    while not served.is_set() and not knows_of_hangups(pid):
                        time.sleep(0.0005)
                    while not served.is_set():
                        os.kill(pid, signal.SIGHUP)
                        sent.append(pid)
                        time.sleep(0.003)
                except OSError:
                    pass  # it is gone, which shows below

            sender = threading.Thread(target=hang_up)
            sender.start()
            try:
                daemon = Daemon(models, pass_fds=(tell,), command=[
                    "/bin/sh", "-c", 'echo $$ >&%d; exec "$@" --port 0' % tell, "sh"])
            finally:
                served.set()
                sender.join()
                os.close(told)
                os.close(tell)
            if not daemon.url:
                daemon.__exit__(True)
                self.fail("the daemon ended with %d behind %d hangups" % (daemon.process.returncode, len(sent)))
            with daemon:
                status, answer = daemon.request("POST", CHAT, dict(LIGHT_CHAT, model="demo"))
                self.assertEqual(status, 200, answer)
                daemon.signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(), 0)
            counts.append(len(sent))
        print("hangups during each start: %r" % counts)
        self.assertGreater(min(counts), 2, "a start was over before it was attacked")

    def test_readyz_tells_that_the_only_engine_is_disabled(self):
        for preload in (False, True):
            with Daemon({"demo": "embedded: true\npreload: %s" % str(preload).lower()}) as daemon:
                self.assertEqual(daemon.request("POST", CHAT, LIGHT_CHAT)[0], 200)
                self.assertEqual(daemon.request("GET", "/readyz")[0], 200)
                for _ in range(3):  # worker.disable_after
                    end = time.monotonic() + 60
                    while not daemon.workers():
                        self.assertLess(time.monotonic(), end, daemon.log)
                        daemon.request("POST", CHAT, LIGHT_CHAT)
                    pids = daemon.workers()
                    kill_workers(daemon)
                    for pid in pids:
                        self.assertTrue(process_gone(pid))
                end = time.monotonic() + 60
                while (status := daemon.request("POST", CHAT, LIGHT_CHAT)[0]) != 503:
                    self.assertLess(time.monotonic(), end, "the engine is not disabled: %d" % status)
                status, answer = daemon.request("GET", "/readyz")
                print("preload %s: /readyz is %d %r" % (preload, status, answer))
                self.assertEqual(status, 503)


if __name__ == "__main__":
    unittest.main(verbosity=2)
