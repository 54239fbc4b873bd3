"""A real HAProxy in front of servers, where it is installed."""

import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import server as samplerd


def free_port():
    """A port of 127.0.0.1 that was free just now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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
        self._await_open()

    def _await_open(self):
        """Wait until it listens."""
        deadline = time.monotonic() + samplerd.START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

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
