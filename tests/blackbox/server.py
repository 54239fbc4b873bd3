"""Start the real program, talk to it over a socket, stop it.

SAMPLERD names the binary; build/samplerd is the default.
"""

import array
import http.client
import json
import math
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests" / "data"
BINARY = os.path.abspath(os.environ.get("SAMPLERD", str(ROOT / "build" / "samplerd")))
KERNELS = ("generic", "avx2", "avx512", "neon")

JSON = "application/json"
RAW = "application/octet-stream"
START_SECONDS = 30  # a build that watches memory starts slowly
ANSWER_SECONDS = 120


def environment(**variables):
    """Ours, without settings of the program that happen to be in it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SAMPLERD_")}
    return {**kept, **variables}


def run(*flags, **variables):
    """Run the program to its end; for what prints and exits."""
    return subprocess.run([BINARY, *flags], capture_output=True, text=True, env=environment(**variables),
                          timeout=START_SECONDS, check=False)


class StartError(Exception):
    """The program ended before it was ready; the text is its stderr."""


class Server:
    """A running program: a context manager that leaves nothing behind."""

    def __init__(self, *flags, listen="127.0.0.1:0", launcher=(), pass_fds=(), **variables):
        """launcher: what comes before the program on its command line."""
        self.stopping = False
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([*launcher, BINARY, "--listen", listen, *flags],
                                        stdout=subprocess.PIPE, stderr=self.errors, pass_fds=pass_fds,
                                        env=environment(**variables))
        try:
            self.banner = self._await_banner()
            self.host, self.port, self.path = self._read_address()
        except BaseException:
            self.stop(signal.SIGKILL)
            self.errors.close()
            raise

    def _await_banner(self):
        """Read stdout to the end of the lines that say where the server listens and how to ask it."""
        deadline, printed = time.monotonic() + START_SECONDS, b""
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self.process.stdout], [], [], 0.1)
            if not ready:
                continue
            more = os.read(self.process.stdout.fileno(), 4096)
            if not more:
                raise StartError(self.log())
            printed += more
            if printed.count(b"\n") == 2:
                return printed.decode()
        raise StartError(f"not ready in {START_SECONDS} s: {printed!r} {self.log()}")

    def _read_address(self):
        """Host and port, or path, where the server says it listens."""
        found = re.search(r"https?://(127\.0\.0\.1|0\.0\.0\.0|\[::1\]):(\d+)[ \n/]|unix:(\S+)\n", self.banner)
        if not found:
            raise StartError(f"no address: {self.banner!r}")
        return (None, None, found[3]) if found[3] else (found[1].strip("[]"), int(found[2]), None)

    def await_log(self, text, count=1):
        """Wait until the log has this text so often."""
        deadline = time.monotonic() + START_SECONDS
        while self.log().count(text) < count:
            assert time.monotonic() < deadline, f"no {text!r}: {self.log()}"
            time.sleep(0.02)

    def log(self):
        """What the program wrote to stderr so far."""
        fd = self.errors.fileno()  # not by seek(): the program writes where this file stands
        return os.pread(fd, os.fstat(fd).st_size, 0).decode()

    def terminate(self, number=signal.SIGTERM):
        """Ask it to end, once: a second SIGTERM would make it break off."""
        if not self.stopping:
            self.stopping = True
            self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        """Ask it to end, return its exit status."""
        self.terminate(number)
        return self.wait()

    def wait(self):
        """Its exit status, once it ends by itself."""
        try:
            return self.process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        status = self.stop()
        log = self.log()
        self.errors.close()
        assert status == 0, f"exit status {status}: {log}"

    def connect(self):
        """A new connection."""
        return Client(self)

    def socket(self):
        """A bare socket, for what http.client would not send."""
        if self.path is not None:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            s.settimeout(ANSWER_SECONDS)
            s.connect(re.sub("^@", "\0", self.path))
            return s
        s = socket.create_connection((self.host, self.port), timeout=ANSWER_SECONDS)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # head and body are two writes
        return s

    def sample(self, request, **options):
        """One request on a connection of its own."""
        with self.connect() as client:
            return client.sample(request, **options)

    def sample_raw(self, rows, **query):
        """The same with raw logits."""
        with self.connect() as client:
            return client.sample_raw(rows, **query)


class Answer:
    """Status, headers and body of one answer."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self, **options):
        """The body's JSON; options as json.loads has them."""
        return json.loads(self.body, **options)

    def sampled(self, **options):
        """The same of an answer that must be a success."""
        assert self.status == 200, f"{self.status}: {self.body[:500]!r}"
        return self.json(**options)


class Client:
    """One keep-alive connection.  It never reconnects: a server that hangs up is noticed."""

    def __init__(self, server):
        self.http = http.client.HTTPConnection("localhost", timeout=ANSWER_SECONDS)
        self.http.sock = server.socket()
        self.http.auto_open = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()

    def request(self, method, target, body=None, content_type=None, **headers):
        """Send and receive.  A body that is an iterator goes out in chunks."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type is not None:
            fields["Content-Type"] = content_type
        self.http.request(method, target, body, fields, encode_chunked=hasattr(body, "__next__"))
        return Answer(self.http.getresponse())

    def sample(self, request, **options):
        """POST a dict (or the bytes of a body) as JSON."""
        body = request if isinstance(request, (bytes, bytearray)) else json.dumps(request).encode()
        return self.request("POST", "/sample", body, JSON, **options)

    def sample_raw(self, rows, **query):
        """POST rows of logits as float32; the query carries the rest."""
        query.setdefault("vocab_size", len(rows[0]))
        return self.request("POST", "/sample?" + query_text(query), pack_rows(rows), RAW)


def query_text(fields):
    """vocab_size=4&temperature=0.7,1.0"""
    return "&".join(f"{name}={query_value(value)}" for name, value in fields.items())


def query_value(value):
    """A value as the query string has it: lists with commas, bools in JSON's words."""
    if isinstance(value, (list, tuple)):
        return ",".join(query_value(v) for v in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def pack_rows(rows):
    """Rows as little-endian float32 bytes."""
    values = array.array("f", [-math.inf if x is None else x for row in rows for x in row])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
