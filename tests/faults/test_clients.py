"""Clients that are slow, many or gone."""

import http.client
import json
import socket
import struct
import threading
import time
import unittest

from support import GOOD, Threads, await_true, descriptors, head, percentile, samplerd


def finish(s):
    """Status, Retry-After and body of the answer on this socket."""
    answer = http.client.HTTPResponse(s)
    answer.begin()
    return answer.status, answer.headers["Retry-After"], answer.read()


class SlowUploads(unittest.TestCase):
    """Two hundred clients that send a byte now and then cost the others nothing to speak of."""

    UPLOADS, SECONDS, CLIENTS = 200, 5, 4
    FLOOR = 0.020  # seconds; below it the machine's own noise is what is measured

    def p99(self, server):
        """Of requests that are sent meanwhile, one after the other on each connection."""
        clients = [server.connect() for _ in range(self.CLIENTS)]
        with Threads(self.CLIENTS, lambda n: clients[n].sample(GOOD).sampled()) as load:
            time.sleep(self.SECONDS)
        for client in clients:
            client.http.close()
        return percentile(load.seconds, 0.99), len(load.seconds)

    def test_p99(self):
        body = json.dumps(GOOD).encode() + b" " * 100_000
        with samplerd.Server() as server:
            alone, asked_alone = self.p99(server)
            slow = [server.socket() for _ in range(self.UPLOADS)]
            for s in slow:
                s.sendall(head(len(body)))
            sent, done = 0, threading.Event()

            def drip():
                nonlocal sent
                while not done.wait(0.1):
                    for s in slow:
                        s.sendall(body[sent:sent + 1])
                    sent += 1

            dripping = threading.Thread(target=drip)
            dripping.start()
            try:
                beside, asked_beside = self.p99(server)
            finally:
                done.set()
                dripping.join()
            self.assertGreater(sent, 10)
            for s in slow:
                s.sendall(body[sent:])
            answers = {finish(s)[::2] for s in slow}
            for s in slow:
                s.close()
        print(f"\n  p99 {alone * 1e3:.2f} ms of {asked_alone} alone, {beside * 1e3:.2f} ms of {asked_beside} beside "
              f"{self.UPLOADS} slow uploads", end="", flush=True)
        self.assertLess(beside, max(3 * alone, self.FLOOR))
        self.assertEqual([(status, json.loads(text)["token_ids"]) for status, text in answers], [(200, [[0]])],
                         "the slow ones get their answer too")


class FullQueue(unittest.TestCase):
    def test_it_refuses_and_recovers(self):
        rows = samplerd.pack_rows([[i % 97 / 97 for i in range(50_000)]]) * 20
        request = head(len(rows), samplerd.RAW, "?vocab_size=50000&temperature=1&top_p=0.9&n=1024&seed=1") + rows
        with samplerd.Server("--workers", "1", "--queue-depth", "2") as server:
            for _ in range(3):
                sockets = [server.socket() for _ in range(12)]
                senders = [threading.Thread(target=s.sendall, args=(request,)) for s in sockets]
                for sender in senders:
                    sender.start()
                answers = [finish(s) for s in sockets]
                for sender in senders:
                    sender.join()
                for s in sockets:
                    s.close()
                refused = [answer for answer in answers if answer[0] == 503]
                served = [answer for answer in answers if answer[0] == 200]
                self.assertEqual(len(refused) + len(served), len(answers), answers)
                self.assertTrue(refused, "the queue was never full")
                self.assertTrue(served)
                self.assertEqual(len({body for _, _, body in served}), 1)
                for _, retry_after, body in refused:
                    self.assertIn(int(retry_after), range(1, 61))
                    self.assertEqual(json.loads(body)["error"]["code"], "queue_full")
                self.assertEqual(server.sample(GOOD).status, 200)


class DroppedConnections(unittest.TestCase):
    """
    Whatever a client was in the middle of, its connection leaves no descriptor behind.

    Not at once, though: when a client sends part of a request and hangs up before that is read, the end goes
    unnoticed (libmicrohttpd 0.9.75 with epoll) until the connection's time is up.  So times are short here.
    """

    CONNECTIONS, AT_ONCE = 10_000, 200
    TIMEOUTS = ("--idle-timeout-ms", "1000", "--header-timeout-ms", "1000", "--body-timeout-ms", "1000")
    RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close by RST

    def test_no_descriptor_is_left(self):
        body = json.dumps(GOOD).encode()
        beginnings = (b"", b"POST /sam", head(len(body)), head(len(body)) + body[:9], head(len(body)) + body)
        with samplerd.Server(*self.TIMEOUTS) as server:
            pid = server.process.pid
            server.sample(GOOD)
            time.sleep(0.2)
            before, most = descriptors(pid), 0
            for first in range(0, self.CONNECTIONS, self.AT_ONCE):
                sockets = [server.socket() for _ in range(self.AT_ONCE)]
                for number, s in enumerate(sockets, first):
                    s.sendall(beginnings[number % len(beginnings)])
                    if number % 2:
                        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, self.RESET)
                most = max(most, descriptors(pid))
                for s in sockets:
                    s.close()
            self.assertGreater(most, before, "the descriptors of connections are not among those counted")
            self.assertTrue(await_true(lambda: descriptors(pid) <= before),
                            f"{before} descriptors before, {descriptors(pid)} after")
            self.assertEqual(server.sample(GOOD).status, 200)


if __name__ == "__main__":
    unittest.main()
