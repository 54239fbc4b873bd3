"""What the fault tests share: the black-box suite's server, a load, a real HAProxy."""

import http.client
import re
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "blackbox"))
import server as samplerd  # noqa: E402
from haproxy import HAProxy, free_port, haproxy_path  # noqa: E402,F401

GOOD = {"logits": [[10, 8, 6, 3]], "temperature": 0.8, "top_k": 2, "seed": 7}
FAILURES = (OSError, http.client.HTTPException)


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
