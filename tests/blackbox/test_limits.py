"""What clients and load may not do to the server: malformed framing, deadlines, slow peers, shutdown under load."""

import http.client
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import server as samplerd
from test_service import GOOD, slow_request

HEAD = [b"POST /sample HTTP/1.1", b"Host: x", b"Content-Type: application/json"]
LENGTH = b"Content-Length: %d" % len(GOOD)


def request(*fields, head=tuple(HEAD), body=GOOD):
    """The bytes of a request with these header lines."""
    return b"\r\n".join([*head, *fields]) + b"\r\n\r\n" + body


def chunked(body=GOOD):
    """A body in one chunk."""
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def read_all(s, limit=samplerd.ANSWER_SECONDS):
    """All that comes until the server hangs up."""
    received, end = b"", time.monotonic() + limit
    while time.monotonic() < end:
        try:
            more = s.recv(65536)
        except ConnectionResetError:
            break
        if not more:
            break
        received += more
    else:
        raise AssertionError(f"still open after {limit} s: {received!r}")
    return received


def answer_on(s):
    """The next answer on a socket."""
    response = http.client.HTTPResponse(s)
    response.begin()
    return samplerd.Answer(response)


def error_on(s):
    """Status and error of the next answer, which must be in the one shape errors have."""
    answer = answer_on(s)
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code", "row"}, error
    return answer.status, error


MALFORMED = {
    "two lengths": request(LENGTH, LENGTH),
    "two lengths that differ": request(LENGTH, b"content-length: 5"),
    "length and coding": request(LENGTH, b"Transfer-Encoding: chunked", body=chunked()),
    "coding and length": request(b"transfer-encoding: chunked", LENGTH, body=chunked()),
    "another coding": request(b"Transfer-Encoding: identity"),
    "two codings": request(b"Transfer-Encoding: gzip, chunked", body=chunked()),
    "chunked twice": request(b"Transfer-Encoding: chunked, chunked", body=chunked()),
    "two lines of coding": request(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=chunked()),
    "nearly chunked": request(b"Transfer-Encoding: xchunked", body=chunked()),
    "chunked, and a space": request(b"Transfer-Encoding: chunked ", body=chunked()),
    "chunked behind a control character": request(b"Transfer-Encoding: \x0bchunked", body=chunked()),
    "chunked in HTTP/1.0": request(b"Transfer-Encoding: chunked", body=chunked(),
                                   head=[b"POST /sample HTTP/1.0", *HEAD[1:]]),
    "bare LF everywhere": request(LENGTH, body=b"").replace(b"\r\n", b"\n") + GOOD,
    "bare LF behind the request line": request(LENGTH).replace(b"\r\n", b"\n", 1),
    "bare LF behind a header": request(b"X-A: b\nX-B: c", LENGTH),
    "bare LF behind the last header": request(LENGTH + b"\n\r\n"),
    "bare LF for the empty line": request(LENGTH, body=b"")[:-2] + b"\n" + GOOD,
    "a bare CR": request(b"X-A: b\rX-B: c", LENGTH),
    "a space before the colon": request(b"Content-Length : %d" % len(GOOD)),
    "a tab before the colon": request(b"X-A\t: b", LENGTH),
    "a space in a name": request(b"X A: b", LENGTH),
    "a space before a name": request(LENGTH, head=[HEAD[0], b" Host: x", *HEAD[2:]]),
    "a folded header": request(b"X-A: b\r\n c", LENGTH),
    "a header folded by a tab": request(b"X-A: b\r\n\tc", LENGTH),
    "the last header folded": request(LENGTH + b"\r\n 0"),
    "a zero byte in a value": request(b"X-A: b\0c", LENGTH),
    "a zero byte before a name": request(b"\0X-A: b", LENGTH),
    "no name": request(b": b", LENGTH),
    "no host": request(LENGTH, head=[HEAD[0], HEAD[2]]),
    "two hosts": request(b"Host: y", LENGTH),
    "the same host twice": request(b"host: x", LENGTH),
    "two hosts in HTTP/1.0": request(b"Host: y", LENGTH, head=[b"POST /sample HTTP/1.0", *HEAD[1:]]),
    "two names in a host": request(LENGTH, head=[HEAD[0], b"Host: x y", HEAD[2]]),
    "a path in a host": request(LENGTH, head=[HEAD[0], b"Host: x/y", HEAD[2]]),
    "no host but in the target": request(LENGTH, head=[b"POST http://x/sample HTTP/1.1", HEAD[2]]),
}

SOUND = {
    "white space around a value": request(b"X-A:b", b"X-B: \t c \t", b"X-C:", b"X-D: \xc3\xa9", LENGTH),
    "an empty host": request(LENGTH, head=[HEAD[0], b"Host:", HEAD[2]]),
    "a host with a port": request(LENGTH, head=[HEAD[0], b"Host: [fe80::1%25eth0]:8090", HEAD[2]]),
    "a whole URL": request(LENGTH, head=[b"POST http://samplerd.example:8090/sample HTTP/1.1", *HEAD[1:]]),
    "a whole URL, https": request(LENGTH, head=[b"POST HTTPS://[::1]/sample HTTP/1.1", *HEAD[1:]]),
    "any case": request(b"CONTENT-length: %d" % len(GOOD)),
    "many headers": request(*(b"X-%d: %s" % (i, b"y" * 900) for i in range(100)), LENGTH),
    "chunked": request(b"Transfer-Encoding: chunked", body=chunked()),
    "Chunked": request(b"Transfer-Encoding: Chunked", body=chunked()),
    "a trailer": request(b"Transfer-Encoding: chunked", body=chunked()[:-2] + b"X-A: b\r\n\r\n"),
}

# Where the header comes in one piece; else libmicrohttpd, which finds them before we do, answers in HTML.
BEFORE_THE_LIBRARY = {
    "a length with a sign": request(b"Content-Length: +%d" % len(GOOD)),
    "a list of lengths": request(b"Content-Length: %d, %d" % (len(GOOD), len(GOOD))),
    "a hexadecimal length": request(b"Content-Length: 0x17"),
    "no length in Content-Length": request(b"Content-Length:"),
    "a space behind a length": request(b"Content-Length: %d " % len(GOOD)),
    "no colon": request(b"abc", LENGTH),
}


class Framing(unittest.TestCase):
    """Where a request ends must be beyond doubt; else it is refused, and what follows it is never read."""

    @classmethod
    def setUpClass(cls):
        cls.server = samplerd.Server("--idle-timeout-ms", "2000")
        cls.addClassCleanup(cls.server.__exit__)

    def test_malformed(self):
        for name, data in MALFORMED.items():
            with self.subTest(name), self.server.socket() as s:
                s.sendall(data + request(LENGTH))
                status, error = error_on(s)
                self.assertEqual((status, error["code"], error["type"]),
                                 (400, "malformed_header", "invalid_request_error"))
                self.assertEqual(read_all(s), b"", "another request was read")

    def test_malformed_on_a_used_connection(self):
        with self.server.socket() as s:
            for _ in range(3):
                s.sendall(request(LENGTH))
                self.assertEqual(answer_on(s).status, 200)
            s.sendall(request(b"X-A: b\nX-B: c", LENGTH))
            self.assertEqual(error_on(s)[0], 400)
            self.assertEqual(read_all(s), b"")

    def test_http_1_0_without_a_host(self):
        with self.server.socket() as s:
            s.sendall(request(LENGTH, head=[b"POST /sample HTTP/1.0", HEAD[2]]))
            self.assertEqual(answer_on(s).sampled()["token_ids"], [[0]])

    def test_a_proxy(self):
        """That is what curl takes the server for: the target is a whole URL, and its query counts."""
        command = ["curl", "-sS", "-x", f"http://127.0.0.1:{self.server.port}",
                   "http://samplerd.example/sample?vocab_size=2", "-H", "Content-Type: application/octet-stream",
                   "--data-binary", "abcdABCD"]
        done = subprocess.run(command, capture_output=True, check=True, timeout=samplerd.ANSWER_SECONDS)
        self.assertEqual(json.loads(done.stdout)["token_ids"], [[0]])

    def test_a_page_by_its_whole_url(self):
        with self.server.connect() as client:
            self.assertEqual(client.request("GET", "http://x/livez").body, b"ok\n")
            self.assertEqual(client.request("GET", "http://x").status, 404)
            answer = client.request("GET", "http://x/v2/nothing")
            self.assertEqual((answer.status, type(answer.json()["error"])), (404, str))

    def test_malformed_for_a_page(self):
        with self.server.socket() as s:
            s.sendall(b"GET /livez HTTP/1.1\nHost: x\n\n" * 2)
            self.assertEqual(error_on(s)[0], 400)
            self.assertEqual(read_all(s), b"")

    def check_malformed(self, s):
        status, error = error_on(s)
        self.assertEqual((status, error["code"]), (400, "malformed_header"))
        self.assertEqual(read_all(s), b"")

    def test_before_the_library(self):
        """What libmicrohttpd would refuse in HTML is refused before it does."""
        for name, data in BEFORE_THE_LIBRARY.items():
            with self.subTest(name), self.server.socket() as s:
                s.sendall(data + request(LENGTH))
                self.check_malformed(s)
            with self.subTest(name, used=True), self.server.socket() as s:
                for _ in range(3):
                    s.sendall(request(LENGTH))
                    self.assertEqual(answer_on(s).status, 200)
                s.sendall(data)
                self.check_malformed(s)

    def test_by_the_library(self):
        """400 and the end as well; its text is the library's own."""
        for name, data in BEFORE_THE_LIBRARY.items():
            with self.subTest(name), self.server.socket() as s:
                first = data.index(b"\r\n") + 2
                s.sendall(data[:first])
                time.sleep(0.05)
                s.sendall(data[first:] + request(LENGTH))
                self.assertEqual(answer_on(s).status, 400)
                self.assertEqual(read_all(s), b"")

    def test_more_than_64_bits_of_length(self):
        for target, length in ((b"/sample", b"18446744073709551616"), (b"/v2/models/sampler/infer", b"9" * 100)):
            head = [b"POST %s HTTP/1.1" % target, *HEAD[1:]]
            with self.subTest(target), self.server.socket() as s:
                s.sendall(request(b"content-length: " + length, head=head))
                answer = answer_on(s)
                self.assertEqual((answer.status, answer.headers["Content-Type"]), (413, samplerd.JSON))
                self.assertEqual(isinstance(answer.json()["error"], str), b"v2" in target)
                self.assertEqual(read_all(s), b"")

    def test_more_fields_than_a_query_may_have(self):
        with self.server.connect() as client:
            for fields in (256, 1):
                self.assertEqual(client.request("GET", "/livez?" + "&".join(["a=1"] * fields)).status, 200)
        for fields in (257, 3000, 30000):
            with self.subTest(fields), self.server.socket() as s:
                s.sendall(b"GET /livez?%s HTTP/1.1\r\nHost: x\r\n\r\n" % b"&".join([b"a"] * fields))
                begin = time.monotonic()
                status, error = error_on(s)
                self.assertEqual((status, error["code"]), (413, "too_large"))
                self.assertIn(str(fields), error["message"])
                self.assertEqual(read_all(s), b"")
                self.assertLess(time.monotonic() - begin, 5)  # header_timeout_ms is 10000

    def test_sound(self):
        for name, data in SOUND.items():
            with self.subTest(name), self.server.socket() as s:
                s.sendall(data)
                self.assertEqual(answer_on(s).sampled()["token_ids"], [[0]])

    def test_sound_byte_by_byte(self):
        with self.server.socket() as s:
            for _ in range(2):
                for byte in request(b"X-A: b", LENGTH):
                    s.sendall(bytes([byte]))
                self.assertEqual(answer_on(s).sampled()["token_ids"], [[0]])

    def test_nothing_is_read_behind_chunks(self):
        """A chunk's lines may end in a bare LF for the library and not for others."""
        with self.server.socket() as s:
            s.sendall(request(b"Transfer-Encoding: chunked", body=chunked()) + request(LENGTH))
            answer = answer_on(s)
            self.assertEqual((answer.status, answer.headers["Connection"]), (200, "close"))
            self.assertEqual(read_all(s), b"")


class Connections(unittest.TestCase):
    def test_max_connections(self):
        """One more waits until there is room, then is served."""
        with samplerd.Server("--max-connections", "3", "--io-threads", "2") as server:
            clients = [server.connect() for _ in range(3)]
            for client in clients:
                self.assertEqual(client.sample(GOOD).status, 200)
            with server.socket() as s:
                s.sendall(request(LENGTH))
                s.settimeout(0.5)
                self.assertRaises(TimeoutError, s.recv, 1)
                s.settimeout(samplerd.ANSWER_SECONDS)
                self.assertEqual(clients[0].sample(GOOD).status, 200)
                clients.pop().http.close()
                self.assertEqual(answer_on(s).status, 200)
            for client in clients:
                client.http.close()

    def test_max_connections_per_ip(self):
        with samplerd.Server("--max-connections-per-ip", "3") as server:
            clients = [server.connect() for _ in range(3)]
            for client in clients:
                self.assertEqual(client.sample(GOOD).status, 200)
            with server.socket() as s:
                self.assertEqual(read_all(s), b"")
            for client in clients:
                self.assertEqual(client.sample(GOOD).status, 200)
            clients.pop().http.close()
            self.assertEqual(eventually(lambda: server.sample(GOOD)).status, 200)
            for client in clients:
                client.http.close()


def eventually(ask):
    """What `ask` returns once it raises no error any more."""
    end = time.monotonic() + 30
    while True:
        try:
            return ask()
        except (OSError, http.client.HTTPException):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


ONE_WORKER = ("--workers", "1", "--request-timeout-ms", "0")


def long_request():
    """A second's work or more for one worker in a few MiB."""
    body = samplerd.pack_rows([[i % 97 / 97 for i in range(2000)]]) * 1000
    head = [b"POST /sample?vocab_size=2000&temperature=1&top_p=0.9&n=1024 HTTP/1.1", b"Host: x",
            b"Content-Type: application/octet-stream"]
    return request(b"Content-Length: %d" % len(body), head=head, body=body)


class Busy:
    """Requests that keep the one worker of a server busy for seconds; leaving awaits their answers."""

    def __init__(self, server, count):
        self.sockets = [server.socket() for _ in range(count)]
        for s in self.sockets:
            s.sendall(long_request())

    def finished(self):
        """Whether every one has some of its answer."""
        for s in self.sockets:
            s.setblocking(False)
        try:
            return all(s.recv(1, socket.MSG_PEEK) for s in self.sockets)
        except BlockingIOError:
            return False
        finally:
            for s in self.sockets:
                s.settimeout(samplerd.ANSWER_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in self.sockets:
            assert answer_on(s).status == 200
            s.close()


def with_deadline(data, timeout_ms):
    """The same request with X-Request-Timeout-Ms."""
    return data.replace(b"\r\n", b"\r\nX-Request-Timeout-Ms: %d\r\n" % timeout_ms, 1)


class Deadlines(unittest.TestCase):
    """504 when the time is up, whatever the workers do."""

    def check_late(self, s):
        status, error = error_on(s)
        self.assertEqual((status, error["code"], error["type"]), (504, "deadline_exceeded", "timeout_error"))

    def test_in_the_queue(self):
        """Answered while the only worker is still busy; the connection is as good as before."""
        with samplerd.Server(*ONE_WORKER) as server, Busy(server, 4) as busy, server.socket() as late:
            late.sendall(with_deadline(slow_request(1), 100))
            self.check_late(late)
            self.assertFalse(busy.finished(), "it was answered when the worker was free")
            late.sendall(request(LENGTH))
            self.assertEqual(answer_on(late).status, 200)

    def test_the_queue_has_room_again(self):
        with samplerd.Server(*ONE_WORKER, "--queue-depth", "5") as server, Busy(server, 4):
            for _ in range(5):
                sockets = [server.socket() for _ in range(2)]
                for s in sockets:
                    s.sendall(with_deadline(slow_request(1), 20))
                for s in sockets:
                    self.check_late(s)
                    s.close()

    def test_while_sampling(self):
        """Rows that have not begun are left out: what is left of the work is not done."""
        with samplerd.Server("--workers", "1", "--request-timeout-ms", "100") as server, server.socket() as s:
            begin = time.monotonic()
            for _ in range(3):
                s.sendall(long_request())
                self.check_late(s)
            self.assertGreater(time.monotonic() - begin, 0.3)
            self.assertEqual(server.sample(GOOD).status, 200)

    def test_the_header_only_shortens(self):
        with samplerd.Server("--workers", "1", "--request-timeout-ms", "100") as server, server.socket() as s:
            s.sendall(with_deadline(long_request(), 3600000))
            self.check_late(s)

    def test_none(self):
        with samplerd.Server("--request-timeout-ms", "0") as server:
            self.assertEqual(server.sample(GOOD).status, 200)
            self.assertEqual(server.sample(GOOD, X_Request_Timeout_Ms="60000").status, 200)
            with server.socket() as s:
                s.sendall(with_deadline(long_request(), 50))
                self.check_late(s)

    def test_a_malformed_header(self):
        with samplerd.Server() as server, server.connect() as client:
            for text in ("", "0", "-1", "1.5", "1s", "soon", "+5", "0x10", " ", "1 2"):
                with self.subTest(text):
                    answer = client.sample(GOOD, X_Request_Timeout_Ms=text)
                    self.assertEqual(answer.status, 400)
                    self.assertEqual(answer.json()["error"]["param"], "X-Request-Timeout-Ms")
            for text in ("60000", "007000", "99999999999999999999999"):
                self.assertEqual(client.sample(GOOD, X_Request_Timeout_Ms=text).status, 200)

    def test_all_at_once(self):
        """Many deadlines against few workers: each request gets one whole answer, 200 or 504."""
        seen = []

        def ask(server, number):
            with server.socket() as s:
                for i in range(10):
                    s.sendall(with_deadline(slow_request(20), 5 + 7 * (number * 10 + i) % 150))
                    seen.append(answer_on(s).status)

        with samplerd.Server("--workers", "2") as server:
            threads = [threading.Thread(target=ask, args=(server, n)) for n in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(server.sample(GOOD).status, 200)
        self.assertEqual(len(seen), 80)
        self.assertIn(504, seen)
        self.assertLessEqual(set(seen), {200, 504})


def trickle(s, data, pause=0.05):
    """Send byte after byte until the server has had enough; the error says so."""
    try:
        for byte in data:
            s.sendall(bytes([byte]))
            time.sleep(pause)
    except OSError:
        return
    raise AssertionError("it took all of it")


class Gone(unittest.TestCase):
    """Clients that close together with their last bytes, with the timeouts as they are by default."""

    PARTS = [request(b"Content-Length: 100", body=b"{"), b"POST /sample HTTP/1.1\r\nHos",
             b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"]

    def leave(self, server, part, times=50):
        for _ in range(times):
            with server.socket() as s:
                s.sendall(part)

    def test_descriptors_come_back(self):
        with samplerd.Server() as server:
            folder = f"/proc/{server.process.pid}/fd"
            before = len(os.listdir(folder))
            for part in self.PARTS:
                self.leave(server, part)
                end = time.monotonic() + samplerd.ANSWER_SECONDS
                while len(os.listdir(folder)) > before and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertLessEqual(len(os.listdir(folder)), before, part)

    def test_shutdown_does_not_wait_for_them(self):
        with samplerd.Server() as server:
            self.leave(server, self.PARTS[0])
            begun = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - begun, 20)  # body_timeout_ms is 30000


class Slow(unittest.TestCase):
    """A client that takes its time gets a 408, if anything, and holds nothing."""

    @classmethod
    def setUpClass(cls):
        cls.server = samplerd.Server("--header-timeout-ms", "500", "--body-timeout-ms", "500", "--io-threads", "2",
                                     "--max-body-bytes", "1M", "--max-inflight-bytes", "4M")
        cls.addClassCleanup(cls.server.__exit__)

    def check_408(self, s, name):
        status, error = error_on(s)
        self.assertEqual((status, error["code"]), (408, "timeout"))
        self.assertIn(name, error["message"])
        self.assertEqual(read_all(s), b"")

    def check_alive(self):
        """The whole budget of memory is there: it takes a body and its numbers that fill most of it."""
        body = b'{"logits":[[' + b",".join([b"1"] * 450000) + b"]]}"
        self.assertEqual(eventually_ok(self.server, body), 200)

    def test_header_trickle(self):
        with self.server.socket() as s:
            trickle(s, request(*[b"X-A: b"] * 1000))
            self.check_408(s, "header_timeout_ms")

    def test_request_line_trickle(self):
        with self.server.socket() as s:
            trickle(s, b"GET /" + b"a" * 1000)
            self.check_408(s, "header_timeout_ms")

    def test_half_a_header_on_a_used_connection(self):
        with self.server.socket() as s:
            s.sendall(request(LENGTH))
            self.assertEqual(answer_on(s).status, 200)
            s.sendall(request(LENGTH)[:40])
            self.check_408(s, "header_timeout_ms")

    def test_body_trickle(self):
        with self.server.socket() as s:
            s.sendall(request(b"Content-Length: 900000", body=b""))
            trickle(s, b" " * 1000)
            self.check_408(s, "body_timeout_ms")
        self.check_alive()

    def test_half_a_body(self):
        for data in (request(b"Content-Length: 900000", body=b"{" * 450000),
                     request(b"Content-Length: 900000", b"Expect: 100-continue", body=b""),
                     request(b"Transfer-Encoding: chunked", body=b"5\r\n{"),
                     request(b"Content-Length: 5", head=[b"POST /nowhere HTTP/1.1", b"Host: x"], body=b"")):
            with self.subTest(data[:150]), self.server.socket() as s:
                s.sendall(data)
                if b"100-continue" in data:
                    self.assertIn(b" 100 ", s.recv(len(b"HTTP/1.1 100 Continue\r\n\r\n"), socket.MSG_WAITALL))
                self.check_408(s, "body_timeout_ms")
        self.check_alive()

    def test_half_closed(self):
        """Nothing more will come, and libmicrohttpd may not notice."""
        for part in (b"POST /sam", request(LENGTH, body=b""), request(LENGTH, body=GOOD[:5])):
            with self.subTest(part), self.server.socket() as s:
                s.sendall(part)
                s.shutdown(socket.SHUT_WR)
                received = read_all(s)
                self.assertTrue(received == b"" or b" 408 " in received, received)

    def test_reset(self):
        """At any point of the way."""
        whole = slow_request(4)
        for size in (0, 10, 100, 300, len(whole) // 2, len(whole)):
            for _ in range(5):
                s = self.server.socket()
                s.sendall(whole[:size])
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.close()
        self.check_alive()

    def test_a_client_that_never_reads(self):
        """The answer is larger than the kernel keeps; its memory comes back all the same."""
        query = b"vocab_size=4&temperature=1&top_candidates=4&n=1024&logprobs=true"
        body = samplerd.pack_rows([[1, 2, 3, 4]]) * 100
        head = [b"POST /sample?" + query + b" HTTP/1.1", b"Host: x", b"Content-Type: application/octet-stream"]
        sockets = []
        for _ in range(4):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect((self.server.host, self.server.port))
            s.sendall(request(b"Content-Length: %d" % len(body), head=head, body=body))
            sockets.append(s)
        time.sleep(1)
        self.check_alive()
        for s in sockets:
            s.close()

    def test_others_do_not_notice(self):
        """200 connections that say half of what they have to say, and one that is in a hurry."""
        held = [self.server.socket() for _ in range(200)]
        for i, s in enumerate(held):
            s.sendall(request(LENGTH)[:i % 100])
        with self.server.connect() as client:
            for _ in range(100):
                self.assertEqual(client.sample(GOOD).status, 200)
        for s in held:
            if b" 408 " not in read_all(s):
                self.fail("no answer")
            s.close()

    def test_descriptors_come_back(self):
        folder = f"/proc/{self.server.process.pid}/fd"
        self.check_alive()
        before = len(os.listdir(folder))
        held = [self.server.socket() for _ in range(50)]
        for s in held:
            s.sendall(b"POST /sam")
        end = time.monotonic() + 30
        time.sleep(0.1)
        while len(os.listdir(folder)) > before and time.monotonic() < end:
            time.sleep(0.1)
        self.assertLessEqual(len(os.listdir(folder)), before)
        for s in held:
            s.close()


def eventually_ok(server, body):
    """Ask until memory is back."""
    end = time.monotonic() + 30
    while True:
        status = server.sample(body).status
        if status == 200 or time.monotonic() > end:
            return status
        time.sleep(0.1)


class Hammer(threading.Thread):
    """A client that asks and asks, and notes what it saw until the server is gone."""

    def __init__(self, server, keep_alive):
        super().__init__()
        self.server, self.keep_alive = server, keep_alive
        self.answered, self.wrong = 0, []

    def run(self):
        while True:
            try:
                s = self.server.socket()
            except OSError:
                return
            with s:
                try:
                    while self.ask(s):
                        pass
                except (OSError, http.client.HTTPException, AssertionError, ValueError) as e:
                    self.wrong.append(repr(e))

    def ask(self, s):
        """One request; returns whether the connection goes on."""
        s.setblocking(False)
        try:
            if s.recv(1, socket.MSG_PEEK) == b"":
                return False  # closed before it was sent
        except BlockingIOError:
            pass
        s.settimeout(samplerd.ANSWER_SECONDS)
        s.sendall(request(LENGTH))
        answer = answer_on(s)
        assert answer.sampled()["token_ids"] == [[0]]
        self.answered += 1
        return self.keep_alive and answer.headers["Connection"] != "close"


class Drain(unittest.TestCase):
    def hammer(self, *flags, **options):
        with samplerd.Server("--io-threads", "2", *flags, **options) as server:
            clients = [Hammer(server, keep_alive=n % 2 == 0) for n in range(8)]
            for c in clients:
                c.start()
            time.sleep(0.5)
            server.terminate()
            self.assertEqual(server.wait(), 0)
            for c in clients:
                c.join(samplerd.ANSWER_SECONDS)
                self.assertFalse(c.is_alive())
                self.assertGreater(c.answered, 0)
                self.assertEqual(c.wrong, [])

    def test_under_load(self):
        """Every request that went out got its whole answer."""
        for _ in range(5):
            self.hammer()

    def test_under_load_on_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(3):
                self.hammer(listen=f"unix:{folder}/samplerd.sock")

    def test_a_successor_may_listen(self):
        """On the same unix socket, while the one before finishes what it has; which leaves the successor's alone."""
        with tempfile.TemporaryDirectory() as folder:
            listen = f"unix:{folder}/samplerd.sock"
            with samplerd.Server(listen=listen) as old, old.socket() as s:
                s.sendall(request(LENGTH)[:-3])
                time.sleep(0.3)
                old.terminate()
                time.sleep(0.3)
                with samplerd.Server(listen=listen) as new:
                    s.sendall(request(LENGTH)[-3:])
                    self.assertEqual(answer_on(s).sampled()["token_ids"], [[0]])
                    self.assertEqual(old.wait(), 0)
                    self.assertEqual(new.sample(GOOD).status, 200)

    def test_under_load_with_a_delay(self):
        self.hammer("--drain-delay-ms", "700")

    def test_the_delay(self):
        """Not ready, but serving, new connections too; each answer closes its connection."""
        with samplerd.Server("--drain-delay-ms", "2000") as server, server.connect() as old:
            self.assertEqual(old.request("GET", "/readyz").status, 200)
            begin = time.monotonic()
            server.terminate()
            time.sleep(0.3)
            answer = old.request("GET", "/readyz")
            self.assertEqual((answer.status, answer.headers["Connection"]), (503, "close"))
            answer = server.sample(GOOD)
            self.assertEqual((answer.status, answer.headers["Connection"]), (200, "close"))
            with server.connect() as client:
                self.assertEqual(client.request("GET", "/livez").status, 200)
            self.assertEqual(server.wait(), 0)
            self.assertGreaterEqual(time.monotonic() - begin, 1.9)
            self.assertRaises(OSError, server.socket)

    def test_a_second_signal(self):
        """During the delay, and while a request is in the works: the end, with status 1."""
        for flags in (["--drain-delay-ms", "60000"], []):
            server = samplerd.Server(*flags)
            with self.subTest(flags), server.socket() as s:
                s.sendall(request(LENGTH)[:-3])
                time.sleep(0.3)
                server.terminate()
                time.sleep(0.5)
                self.assertIsNone(server.process.poll())
                server.process.terminate()
                self.assertEqual(server.wait(), 1)
            server.errors.close()

    def test_half_closed_connections_do_not_hold_it_up(self):
        """Their own deadlines end them, not idle_timeout_ms."""
        with samplerd.Server("--body-timeout-ms", "500", "--header-timeout-ms", "500") as server:
            sockets = [server.socket() for _ in range(30)]
            for i, s in enumerate(sockets):
                s.sendall((b"", b"POST /sam", request(LENGTH, body=b""))[i % 3])
                s.shutdown(socket.SHUT_WR)
            begin = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - begin, 20)
            for s in sockets:
                s.close()

    def test_what_waits_is_finished(self):
        """Bodies half uploaded, requests in the queue: all are answered in full."""
        with samplerd.Server("--workers", "1") as server:
            whole = slow_request(20)
            sockets = [server.socket() for _ in range(6)]
            for s in sockets:
                s.sendall(whole[:-1] if s is sockets[0] else whole)
            time.sleep(0.2)
            server.terminate()
            time.sleep(0.3)
            sockets[0].sendall(whole[-1:])
            for s in sockets:
                self.assertEqual(len(answer_on(s).sampled()["token_ids"]), 20)
                s.close()


if __name__ == "__main__":
    unittest.main()
