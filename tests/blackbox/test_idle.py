"""A kept-alive connection is closed when it has been idle, and never under a request that has come."""

import select
import tempfile
import time
import unittest

import server as samplerd
from test_limits import LENGTH, answer_on, error_on, read_all, request

IDLE = 1.0  # seconds, idle_timeout_ms
SLACK = 5.0  # what a busy machine may take


def closed(s):
    """Whether the other end has hung up, as far as is known here."""
    return bool(select.select([s], [], [], 0)[0])


class Idle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        flags = ("--idle-timeout-ms", str(int(IDLE * 1000)), "--header-timeout-ms", "2000", "--io-threads", "2")
        cls.servers = [samplerd.Server(*flags),
                       samplerd.Server(*flags, listen=f"unix:{cls.folder.name}/samplerd.sock")]
        for server in cls.servers:
            cls.addClassCleanup(server.__exit__)

    def used(self, server):
        """A connection that has been served, and the time when it became idle, at the latest."""
        s = server.socket()
        self.addCleanup(s.close)
        s.sendall(request(LENGTH))
        self.assertEqual(answer_on(s).status, 200)
        return s, time.monotonic()

    def test_it_ends(self):
        """Without a word: nothing was asked."""
        for server in self.servers:
            s, begun = self.used(server)
            self.assertEqual(read_all(s), b"")
            self.assertGreater(time.monotonic() - begun, IDLE - 0.05)
            self.assertLess(time.monotonic() - begun, IDLE + SLACK)

    def test_a_request_before_the_end(self):
        for server in self.servers:
            s, _ = self.used(server)
            for _ in range(3):
                time.sleep(IDLE * 0.8)
                s.sendall(request(LENGTH))
                self.assertEqual(answer_on(s).status, 200)

    def test_a_request_about_the_end(self):
        """
        It is answered, or finds the connection closed before it is sent.  What crosses the end on its way cannot
        be known by either side; that is a matter of microseconds.
        """
        for server in self.servers:
            connections = [self.used(server) for _ in range(200)]
            sent, lost = 0, 0
            for number, (s, begun) in enumerate(connections):
                time.sleep(max(0, begun + IDLE + (number - 100) / 1000 - time.monotonic()))
                if closed(s):
                    continue
                sent += 1
                try:
                    s.sendall(request(LENGTH))
                    lost += answer_on(s).status != 200
                except (OSError, samplerd.http.client.HTTPException):
                    lost += 1
            self.assertGreater(sent, 20)
            self.assertLessEqual(lost, 2, f"of {sent}")

    def test_a_request_that_has_begun(self):
        """Half of its first line before the end, the rest behind it."""
        for part in (1, 7, 40):
            s, begun = self.used(self.servers[0])
            time.sleep(max(0, begun + IDLE - 0.15 - time.monotonic()))
            s.sendall(request(LENGTH)[:part])
            time.sleep(0.5)
            s.sendall(request(LENGTH)[part:])
            self.assertEqual(answer_on(s).status, 200)

    def test_a_request_that_is_never_finished(self):
        """Its header has its own time, and is told of it."""
        s, begun = self.used(self.servers[0])
        time.sleep(max(0, begun + IDLE - 0.15 - time.monotonic()))
        s.sendall(request(LENGTH)[:7])
        status, error = error_on(s)
        self.assertEqual((status, error["code"]), (408, "timeout"))
        self.assertIn("header_timeout_ms", error["message"])
        self.assertEqual(read_all(s), b"")


if __name__ == "__main__":
    unittest.main()
