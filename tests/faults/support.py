"""What the fault tests share: the black-box suite's server, a load, a real HAProxy."""

import http.client
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "blackbox"))
import server as samplerd  # noqa: E402

GOOD = {"logits": [[10, 8, 6, 3]], "temperature": 0.8, "top_k": 2, "seed": 7}
FAILURES = (OSError, http.client.HTTPException)


def free_port():
    """A port of 127.0.0.1 that was free just now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def head(length, content_type=samplerd.JSON, query=""):
    """The header of a POST /sample."""
    return (f"POST /sample{query} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {length}\r\n\r\n").encode()


def resident_bytes(pid):
    """Resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024


def descriptors(pid):
    """Open descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def await_true(condition, seconds=10):
    """Whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def percentile(values, share):
    """The value that this share of all stays at or below."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Threads:
    """Run ask(number) over and over on each of some threads, until the end of `with`; raise what they raised."""

    def __init__(self, count, ask):
        self.done, self.failures, self.seconds = threading.Event(), [], []
        self.threads = [threading.Thread(target=self._run, args=(ask, n)) for n in range(count)]

    def _run(self, ask, number):
        try:
            while not self.done.is_set():
                begin = time.monotonic()
                ask(number)
                self.seconds.append(time.monotonic() - begin)
        except BaseException as failure:  # pylint: disable=broad-except
            self.failures.append(failure)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *raised):
        self.done.set()
        for thread in self.threads:
            thread.join()
        if self.failures and raised[0] is None:
            raise self.failures[0]


class HAProxy:
    """docker/haproxy.cfg in front of servers on these ports, on a free port."""

    def __init__(self, ports):
        self.port = free_port()
        text = (samplerd.ROOT / "docker" / "haproxy.cfg").read_text()
        text, binds = re.subn(r"bind :8090", f"bind 127.0.0.1:{self.port}", text)
        servers = "\n".join(f"    server replica{p} 127.0.0.1:{p}" for p in ports)
        text, templates = re.subn(r"    server-template .*", servers, text)
        assert (binds, templates) == (1, 1), "docker/haproxy.cfg has other lines than this adapts"
        self.folder = tempfile.TemporaryDirectory()
        self.log = open(f"{self.folder.name}/log", "w+", encoding="utf-8")
        self.stats = f"{self.folder.name}/stats"
        text = text.replace("global\n", f"global\n    stats socket {self.stats}\n", 1)
        path = Path(self.folder.name) / "haproxy.cfg"
        path.write_text(text)
        # -db: in the foreground
        self.process = subprocess.Popen([haproxy_path(), "-db", "-f", str(path)], stdout=self.log,
                                        stderr=self.log)

    def up(self):
        """How many servers it holds to be up."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(5)
                s.connect(self.stats)
                s.sendall(b"show stat\n")
                text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
        except OSError:
            return -1
        rows = [line.split(",") for line in text.splitlines() if line.startswith("replicas,replica")]
        return sum(row[17] == "UP" for row in rows)

    def text(self):
        """Its log."""
        self.log.seek(0)
        return self.log.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.log.close()
        self.folder.cleanup()


def haproxy_path():
    """Where HAProxy is, or None; Debian keeps it out of users' PATH."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
