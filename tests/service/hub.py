"""A hub of the tests' own, which breaks off and lies where a test has it do so, and what tests of `flyball models`
share."""

import contextlib
import hashlib
import http.server
import json
import os
import ssl
import struct
import subprocess
import tempfile
import threading
import unittest

from daemon import FLYBALL, flyball

REPO = "org/tiny-GGUF"
TOKEN = "hf_abcdefghijklmnop"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_oid(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """Serves `files` and the listings made of them; `hooks` answer a path their own way. `log` has (path, headers)."""

    def __init__(self, tls=None):
        self.files, self.pages, self.hooks, self.log, self.listed = {}, {}, {}, [], {}
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.log.append((self.path, dict(self.headers)))
                self.close_connection = True
                with contextlib.suppress(ConnectionError, ssl.SSLError, BrokenPipeError):
                    hub.answer(self)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request, address):  # a client that was killed, or refused the certificate
                pass
        self.server = Server(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = "%s://127.0.0.1:%d" % ("https" if tls else "http", self.port)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def add(self, repo, name, data, lfs=True, **lies):
        self.files["/%s/resolve/main/%s" % (repo, name)] = data
        entry = {"type": "file", "path": name, "size": len(data), "oid": git_oid(data)}
        if lfs:
            entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 135}
            entry["lfs"].update(lies)
        else:
            entry.update(lies)
        self.listed.setdefault(repo, []).append(entry)

    def answer(self, request):
        path = request.path.split("?")[0]
        if path in self.hooks:
            return self.hooks[path](request)
        if path.startswith("/api/models/") and path.endswith("/tree/main"):
            repo = path[len("/api/models/"):-len("/tree/main")]
            if repo in self.listed:
                return self.send(request, 200, json.dumps(self.listed[repo]).encode())
        if path in self.files:
            return self.send_file(request, self.files[path])
        self.send(request, 404, b"no such file")

    def send(self, request, status, body, **fields):
        request.send_response(status)
        for name, value in fields.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def send_file(self, request, data, cut=None, etag=None, ranges=True, shift=0, before_piece=None):
        """cut: bytes of the body until the connection breaks; shift: a 206 begins that many bytes too late."""
        etag = etag or '"%s"' % sha256(data)[:16]
        wanted, first, status = request.headers.get("Range"), 0, 200
        if wanted and ranges and request.headers.get("If-Range", etag) == etag:
            first, status = int(wanted[len("bytes="):].split("-")[0]) + shift, 206
            if first >= len(data):
                return self.send(request, 416, b"")
        last = int(wanted.split("-")[1]) if status == 206 and wanted[-1] != "-" else len(data) - 1
        body = data[first:last + 1]
        request.send_response(status)
        request.send_header("ETag", etag)
        request.send_header("Content-Length", str(len(body)))
        if status == 206:
            request.send_header("Content-Range", "bytes %d-%d/%d" % (first, last, len(data)))
        request.end_headers()
        body = body if cut is None else body[:cut]
        piece = 16384 if before_piece else len(body)
        for at in range(0, len(body), piece or 1):
            if before_piece:
                before_piece(first + at)
            request.wfile.write(body[at:at + piece])


def split_gguf(data, count):
    """A GGUF file's shards as llama.cpp's gguf-split makes them: metadata in the first, tensors in all."""
    at = 24
    tensors, keys = struct.unpack_from("<QQ", data, 8)

    def text():
        nonlocal at
        size, = struct.unpack_from("<Q", data, at)
        at += 8 + size
        return data[at - size:at]
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def value(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            inner, n = struct.unpack_from("<IQ", data, at)
            at += 12
            for _ in range(n):
                value(inner)
        else:
            at += sizes[kind]
    pairs, begin = [], at
    for _ in range(keys):
        begin = at
        key = text()
        kind, = struct.unpack_from("<I", data, at)
        at += 4
        value(kind)
        pairs.append((key, data[begin:at]))
    infos = []
    for _ in range(tensors):
        name_at = at
        text()
        dims, = struct.unpack_from("<I", data, at)
        at += 4 + 8 * dims + 4
        offset, = struct.unpack_from("<Q", data, at)
        infos.append((data[name_at:at], offset))
        at += 8
    base = (at + 31) // 32 * 32
    ends = sorted(offset for _, offset in infos) + [len(data) - base]
    bytes_of = {offset: data[base + offset:base + ends[i + 1]] for i, offset in enumerate(ends[:-1])}

    def own(key, kind, form, number):
        return struct.pack("<Q", len(key)) + key + struct.pack("<I" + form, kind, number)
    shards = []
    for number in range(count):
        mine = infos[len(infos) * number // count:len(infos) * (number + 1) // count]
        kept = [pair for key, pair in pairs if number == 0 or key == b"general.architecture"]
        kept += [own(b"split.no", 2, "H", number), own(b"split.count", 2, "H", count),
                 own(b"split.tensors.count", 5, "i", len(infos))]
        head, body = b"GGUF" + struct.pack("<IQQ", 3, len(mine), len(kept)) + b"".join(kept), b""
        for info, offset in mine:
            head += info + struct.pack("<Q", len(body))
            body += bytes_of[offset] + b"\0" * (-len(bytes_of[offset]) % 32)
        shards.append(head + b"\0" * (-len(head) % 32) + body)
    return shards


class HubTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="flyball-pull-")
        path = os.path.join(cls.shared.name, "made.gguf")
        subprocess.run([FLYBALL, "make-model", "--out", path, "--shape", "tiny", "--type", "Q8_0", "--quiet"],
                       check=True)
        with open(path, "rb") as f:
            cls.model = f.read()

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="flyball-pull-")
        self.addCleanup(folder.cleanup)
        self.dir = os.path.realpath(folder.name)
        self.models = os.path.join(self.dir, "models")
        self.config = os.path.join(self.dir, "config.yaml")
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.environment = dict(os.environ, HOME=self.dir, XDG_CONFIG_HOME=self.dir, XDG_STATE_HOME=self.dir)
        self.write_config()

    def write_config(self, hub=None, token=False, more="models:\n  demo:\n    embedded: true\ndefault_model: demo\n"):
        if token:
            with open(os.path.join(self.dir, "token"), "w", opener=lambda p, f: os.open(p, f, 0o600)) as out:
                out.write(TOKEN + "\n")
        with open(self.config, "w") as out:
            out.write("schema: flyball.config/v1\nlisteners:\n  local:\n    tcp: 127.0.0.1:8080\n"
                      "loopback_without_key: true\ndefault_app: example\nmodels_dir: models\n"
                      "hub: {url: '%s'%s}\n%s" % ((hub or self.hub).url, ", token: {file: token}" * token, more))

    def run_models(self, *args, expect=0, **env):
        ended = flyball("models", *args, "--config", self.config, env=dict(self.environment, **env))
        self.assertEqual(ended.returncode, expect, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def pull(self, *args, expect=0, **env):
        return self.run_models("pull", *args, expect=expect, **env)

    def path(self, name, repo=REPO):
        return os.path.join(self.models, repo, name)

    def url_path(self, name, folders="files"):
        return os.path.join(self.models, "127.0.0.1_%d" % self.hub.port, folders, name)

    def assert_holds(self, path, data):
        with open(path, "rb") as f:
            self.assertEqual(sha256(f.read()), sha256(data), path)
        with open(path + ".sha256") as f:
            self.assertEqual(f.read(), "%s  %s\n" % (sha256(data), os.path.basename(path)))

    def all_files(self):
        return sorted(os.path.join(at, name) for at, _, names in os.walk(self.models) for name in names)

    def named_files(self):
        return [path for path in self.all_files()
                if ".part" not in path and not path.endswith((".sha256", ".new", ".source.json"))]
