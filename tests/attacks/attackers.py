"""One attacker in a process of its own: attackers.py KIND OPTIONS, the options as JSON. Says "attacking" when the attack
is under way, attacks until its standard input ends, and writes what it achieved as JSON (attack.Attackers starts it)."""

import collections
import json
import os
import re
import resource
import select
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attack import CHAT, COMPLETIONS, HEALTH, MODELS, message, read_answer  # noqa: E402

over = threading.Event()
begun = threading.Event()
lock = threading.Lock()


def on_threads(count, strike):
    """strike(n) again and again on `count` threads until the end."""

    def run(n):
        while not over.is_set():
            strike(n)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Tally:
    """Requests by the status of their answers, and the bytes sent for them. An answer may come, and the connection be
    closed, before the whole body was sent: what was sent of it counts."""

    def __init__(self):
        self.statuses, self.bytes, self.unanswered = collections.Counter(), 0, 0

    def count(self, status, sent):
        with lock:
            self.bytes += sent
            if status is None:
                self.unanswered += 1
            else:
                self.statuses[str(status)] += 1

    def report(self):
        return {"statuses": dict(self.statuses), "unanswered": self.unanswered, "megabytes": round(self.bytes / 1e6, 1)}


class Striker:
    """Sends large requests on one connection, which it opens again when the daemon has closed it."""

    def __init__(self, port, tally):
        self.port, self.tally, self.connection = port, tally, None

    def strike(self, request):
        sent, status = 0, None
        try:
            if self.connection is None:
                self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=5)
            view = memoryview(request)
            while sent < len(request) and not over.is_set():
                sent += self.connection.send(view[sent:sent + 262144])
        except OSError:
            pass  # closed while we sent: the answer is there already, or the connection is gone
        begun.set()
        try:
            if self.connection is not None and not over.is_set():
                status, head, _, _ = read_answer(self.connection)
                if sent < len(request) or b"connection: close" in head.lower():
                    self.close()
        except OSError:
            self.close()
        self.tally.count(status, sent)

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


def large_body(keys):
    """A chat of one token with so many keys that nobody reads: some 40 bytes each."""
    return json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1,
                       "metadata": {"one key among so many, %06d" % n: n for n in range(keys)}}).encode()


def in_chunks(method, path, body, app):
    head = message(method, path, None, app, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n")
    pieces = [body[i:i + 60_000] for i in range(0, len(body), 60_000)]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


# ---- kinds -------------------------------------------------------------------------------------------------------

def bodies(port, app, path=CHAT, connections=8, keys=90_000, chunked=False):
    """Bodies of several megabytes, on several connections at once."""
    body = large_body(keys)
    request = in_chunks("POST", path, body, app) if chunked else message("POST", path, body, app)
    tally = Tally()
    strikers = [Striker(port, tally) for _ in range(connections)]
    on_threads(connections, lambda n: strikers[n].strike(request))
    return dict(tally.report(), body_megabytes=round(len(body) / 1e6, 1))


SHAPES = {
    "one letter": lambda size: "a" * size,
    "words": lambda size: ("the river and the mill " * (size // 23 + 1))[:size],
    "blanks": lambda size: " " * size,
    "digits": lambda size: ("0123456789" * (size // 10 + 1))[:size],
    "accents": lambda size: "\u00e9" * (size // 2),
    "marks": lambda size: ("!?.,;:-" * (size // 7 + 1))[:size],
}


def prompts(port, app, path=COMPLETIONS, connections=6, size=4_000_000):
    """Prompts far beyond the model's context, each connection with a shape of its own."""
    requests = []
    for shape in SHAPES.values():
        text = shape(size)
        asked = {"prompt": text} if path == COMPLETIONS else {"messages": [{"role": "user", "content": text}]}
        body = json.dumps(dict(asked, max_tokens=1), ensure_ascii=False).encode()
        requests.append(message("POST", path, body, app))
    tally = Tally()
    strikers = [Striker(port, tally) for _ in range(connections)]
    on_threads(connections, lambda n: strikers[n].strike(requests[n % len(requests)]))
    return tally.report()


def refusals(port, connections=1):
    """Requests without a key, pipelined, whose answers are read as fast as they come."""
    request = message("GET", MODELS, fields="Authorization: Bearer nobody-has-this-key\r\n")
    flood, refused = request * 500, collections.Counter()

    def strike(n):
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=20)
        except OSError:
            return
        reader = threading.Thread(target=drain, args=(connection,), daemon=True)
        reader.start()
        try:
            while not over.is_set():
                connection.sendall(flood)
        except OSError:
            pass
        begun.set()
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        reader.join(20)
        connection.close()

    def drain(connection):
        answer, kept = b"HTTP/1.1 401 ", b""
        try:
            while piece := connection.recv(262144):
                seen = kept + piece
                kept = seen[-(len(answer) - 1):]  # an answer that is cut in two is counted once
                with lock:
                    refused["401"] += seen.count(answer)
                begun.set()
        except OSError:
            pass

    began = time.monotonic()
    on_threads(connections, strike)
    return {"refused": refused["401"], "seconds": round(time.monotonic() - began, 2)}


def idle(port, connections=4500, mode="silent", app="attacker", sources=1):
    """So many connections at once, opened again when the daemon closes them. silent: they send nothing; dribble: a byte
    of a header each second; kept: idle after one answered request of the app. sources: from so many addresses."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    poll, opened, made, closed, answered, refused = select.epoll(), {}, 0, 0, 0, 0
    line = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Dribble: "

    def lose(fd):
        nonlocal closed
        poll.unregister(fd)
        opened.pop(fd).close()
        closed += 1

    def refill():
        nonlocal made, answered, refused
        while len(opened) < connections and not over.is_set():
            try:
                connection = socket.create_connection(
                    ("127.0.0.1", port), timeout=5,
                    source_address=("127.0.1.%d" % (1 + len(opened) % sources), 0) if sources > 1 else None)
            except OSError:
                refused += 1
                break
            try:
                if mode == "kept":
                    connection.sendall(message("GET", MODELS, app=app))
                    answered += read_answer(connection)[0] == 200
                elif mode == "dribble":
                    connection.sendall(line)
            except OSError:
                connection.close()
                refused += 1
                break
            connection.setblocking(False)
            opened[connection.fileno()] = connection
            made += 1
            poll.register(connection.fileno(), select.EPOLLIN)
        for fd, _ in poll.poll(0):
            if fd in opened:
                try:
                    if opened[fd].recv(4096) == b"":
                        lose(fd)
                except OSError:
                    lose(fd)

    dribbled = 0
    while True:
        refill()
        begun.set()
        if mode == "dribble":
            for fd in list(opened):
                try:
                    opened[fd].send(b"x")
                    dribbled += 1
                except OSError:
                    lose(fd)
        if over.wait(0.25 if mode != "dribble" else 1):
            break
    still = len(opened)
    for connection in opened.values():
        connection.close()
    return {"made": made, "still": still, "closed": closed, "refused": refused, "answered": answered, "dribbled": dribbled}


WRITE = 16_384  # bytes


def flood(port, path=HEALTH, app=None, keys=0, connections=100, sources=1, reads="all"):
    """Requests without a pause, pipelined, as many in a write as fit 16 KiB, on connections that are opened again when
    the daemon closes them. keys: chats with so many keys that nobody reads, or GETs. sources: from so many addresses.
    reads: all, nothing, or a byte a second of the answers."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    request = message("POST", path, large_body(keys), app) if keys else message("GET", path, app=app)
    batch = memoryview(request * max(1, WRITE // len(request)))
    poll, opened, statuses = select.epoll(), {}, collections.Counter()
    made = refused = closed = sent = 0

    def connect(n):
        connection = socket.socket()
        if reads != "all":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WRITE)
        connection.settimeout(5)
        try:
            connection.bind(("127.0.0.%d" % (1 + n % sources), 0))
            connection.connect(("127.0.0.1", port))
        except OSError:
            connection.close()
            raise
        connection.setblocking(False)
        return connection

    def refill():
        nonlocal made, refused
        while len(opened) < connections and not over.is_set():
            try:
                connection = connect(len(opened))
            except OSError:
                refused += 1
                break
            opened[connection.fileno()] = [connection, 0, b""]  # where in the batch it is, the end of what it has read
            made += 1
            poll.register(connection.fileno(), select.EPOLLOUT | select.EPOLLRDHUP |
                          (select.EPOLLIN if reads == "all" else 0))

    def lose(fd):
        nonlocal closed
        poll.unregister(fd)
        opened.pop(fd)[0].close()
        closed += 1

    def serve(fd, events):
        nonlocal sent
        state = opened[fd]
        connection, at, kept = state
        try:
            if events & select.EPOLLIN:
                piece = connection.recv(262144)
                if not piece:
                    return lose(fd)
                seen = kept + piece
                statuses.update(status.decode() for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", seen))
                state[2] = seen[-12:]  # one byte less than is searched for: an answer cut in two is counted once
            elif events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                return lose(fd)
            if events & select.EPOLLOUT:
                count = connection.send(batch[at:])
                state[1] = (at + count) % len(batch)
                sent += count
        except BlockingIOError:
            pass
        except OSError:
            lose(fd)

    def sip(fd):
        try:
            opened[fd][0].recv(1)
        except BlockingIOError:
            pass
        except OSError:
            lose(fd)

    # Connections that are to stay are opened again now and then: opening is not their attack.
    pause, next_refill = {"all": 0, "nothing": 0.1, "a byte": 1}[reads], 0
    began = time.monotonic()
    while not over.is_set():
        if time.monotonic() >= next_refill:
            refill()
            if reads == "a byte":
                for fd in list(opened):
                    sip(fd)
            next_refill = time.monotonic() + pause
        for fd, events in poll.poll(0.05):
            if fd in opened:
                serve(fd, events)
        begun.set()
    still, seconds = len(opened), time.monotonic() - began
    for connection, _, _ in opened.values():
        connection.close()
    return {"made": made, "seconds": round(seconds, 2), "still": still, "refused": refused, "closed": closed,
            "statuses": dict(statuses), "megabytes": round(sent / 1e6, 1), "request_bytes": len(request)}


def hang_ups(port, app):
    """Streams that are left, requests that are cut in the middle, and answers that nobody reads."""
    counts = collections.Counter()
    stream = message("POST", COMPLETIONS, {"prompt": "Once upon a time", "stream": True, "max_tokens": 200}, app)
    long = message("POST", CHAT, {"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "n": 4,
                                  "logprobs": True, "top_logprobs": 20, "max_tokens": 60}, app)

    def strike(n):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                request = (stream, stream[:-10], long)[n % 3]
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(request)
                begun.set()
                over.wait(0.05 * (1 + n))
                counts["left"] += 1
        except OSError:
            counts["refused"] += 1
            over.wait(0.05)

    on_threads(6, strike)
    return dict(counts)


KINDS = {f.__name__: f for f in (bodies, prompts, refusals, idle, flood, hang_ups)}


def main():
    os.nice(5)
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    result = {}

    def attack():
        try:
            result["report"] = KINDS[kind](**options)
        finally:
            begun.set()

    attacker = threading.Thread(target=attack, daemon=True)
    attacker.start()
    begun.wait(60)
    print("attacking", flush=True)
    sys.stdin.read()
    over.set()
    attacker.join(60)
    print(json.dumps(result["report"]))


if __name__ == "__main__":
    main()
