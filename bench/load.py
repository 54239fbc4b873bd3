"""Programs under load: start one, send it requests with wrk or with our sender, read what it cost."""

import contextlib
import math
import os
import re
import socket
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
RESULT = re.compile(r"(\d+) requests in ([\d.]+) s: [\d.]+ a second, p50 ([\d.]+) ms, p99 ([\d.]+) ms, "
                    r"(\d+) not answered 200, (\d+) socket errors")


@dataclass
class Body:
    """What is sent: a file, its type, and the parameters that go with it in the query."""
    name: str
    vocab_size: int
    path: Path
    content_type: str
    query: str = ""


@dataclass
class Run:
    """What wrk saw, and the processor time the program under load took."""
    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failed: int
    cpu_seconds: float

    @property
    def rate(self):
        return self.requests / self.seconds

    @property
    def cpu_us(self):
        return 1e6 * self.cpu_seconds / self.requests if self.requests else math.nan


class Program:
    """A server of ours on a free port of the loopback interface, or on a unix socket."""

    def __init__(self, command, address):
        self.address = address
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def stop(self):
        """SIGTERM; SIGKILL where an upload that wrk broke off keeps it waiting."""
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait_until_listening(self):
        for _ in range(200):
            if self.process.poll() is not None:
                raise SystemExit(f"{self.process.args[0]} ended with {self.process.returncode}")
            with contextlib.suppress(OSError), self.connect():
                return
            time.sleep(0.02)
        raise SystemExit(f"{self.process.args[0]} does not listen")

    def connect(self):
        """A socket to it."""
        if not self.address.startswith("unix:"):
            host, port = self.address.split(":")
            return socket.create_connection((host, int(port)), 1)
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.address.removeprefix("unix:"))
        return s

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_kib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])

    def settle(self):
        """Wait until what an ended run left in the queue is done, so that the next is not charged for it."""
        before = -1
        for _ in range(100):
            now = self.cpu_seconds()
            if now == before:
                return
            before = now
            time.sleep(0.1)


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "%s:%d" % s.getsockname()


@contextlib.contextmanager
def serving(command, address=None):
    """Run a program for the length of a with block; command takes the address and gives the argument list."""
    address = address or free_address()
    program = Program(command(address), address)
    try:
        program.wait_until_listening()
        yield program
    finally:
        program.stop()


def send(program, body, connections, seconds):
    """One run of wrk, on one thread: each connection sends its next request when the last is answered."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(HERE / "post.lua"),
               f"http://{program.address}/sample{body.query}"]
    return measure(program, command, seconds, dict(os.environ, BODY=str(body.path), CONTENT_TYPE=body.content_type))


def send_file(sender, program, path, connections, seconds):
    """One run of our sender: a file is the whole request, head and body."""
    return measure(program, [sender, program.address, str(connections), str(seconds), path], seconds)


def measure(program, command, seconds, environment=None):
    before = program.cpu_seconds()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60 + seconds)
    found = RESULT.search(done.stdout)
    if done.returncode != 0 or found is None:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}ended with {done.returncode}; "
                         f"{program.process.args[0]}: {program.process.poll()}")
    cpu = program.cpu_seconds() - before
    program.settle()
    requests, took, p50, p99, not_ok, socket_errors = (float(x) for x in found.groups())
    return Run(int(requests), took, p50, p99, int(not_ok + socket_errors), cpu)


def median(runs, field):
    return statistics.median(getattr(run, field) for run in runs)
