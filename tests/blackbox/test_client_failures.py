"""What clients/python makes of proxies' pages, lost connections and requests too long for a query."""

import array
import email.utils
import socket
import struct
import time
import unittest

from canned import GOOD, Canned, Unread, page
from haproxy import HAProxy, haproxy_path
from test_client import address, client, samplerd

HTML = "<html><head><title>502 Bad Gateway</title></head>\n<body>" + "<hr>nginx" * 99 + "</body></html>"
JSON_ERROR = '{"error":{"message":"n is 0","type":"invalid_request_error","param":"n","code":"out_of_range","row":null}}'


def refusal(canned, logits=((1, 2),), **options):
    """The error that a request gets, and how long that took."""
    with client.Client(canned.address, **options) as ask:
        begin = time.monotonic()
        try:
            ask.sample(list(logits))
        except client.SamplerdError as error:
            return error, time.monotonic() - begin
    raise AssertionError("no error")


class Answers(unittest.TestCase):
    def test_a_page_is_told_by_status_and_text(self):
        for status in ("400 Bad Request", "500 Oops", "502 Bad Gateway", "200 OK", "301 Moved"):
            with self.subTest(status=status), Canned(page(status, HTML)) as canned:
                error, _ = refusal(canned, retries=0)
                self.assertEqual((error.status, error.code, error.param), (int(status[:3]), None, None))
                self.assertIn(f"HTTP status {status[:3]}, not by samplerd: 502 Bad Gateway nginx nginx", str(error))
                self.assertLess(len(str(error)), 300)

    def test_other_bodies(self):
        for body in ("", "[]", "{}", "null", '{"error":"no"}', '{"error":null}', '{"detail":"no"}', "\ufffe",
                     '{"token_ids":[[1]]}', '{"seed":7}', '{"seed":"x","token_ids":[]}'):
            for status in ("200 OK", "418 No"):
                with self.subTest(body=body, status=status), Canned(page(status, body)) as canned:
                    error, _ = refusal(canned, retries=0)
                    self.assertEqual(error.status, int(status[:3]))
                    self.assertIn(f"HTTP status {status[:3]}", str(error))

    def test_names_that_a_later_server_may_add(self):
        with Canned(page("200 OK", '{"token_ids":[[1]],"seed":7,"more":1}')) as canned:
            with client.Client(canned.address) as ask:
                self.assertEqual(ask.sample([[1, 2]]).token_ids, [[1]])

    def test_libmicrohttpds_own_page(self):
        with samplerd.Server() as server, client.Client(address(server), token="x" * 200000, retries=0) as ask:
            with self.assertRaises(client.SamplerdError) as caught:
                ask.sample([[1, 2]])
        self.assertIn(caught.exception.status, (413, 431))


class Repeats(unittest.TestCase):
    def test_busy_ones_are_repeated(self):
        for status in ("502 Bad Gateway", "503 Busy", "504 Late"):
            with self.subTest(status=status), Canned(page(status, HTML), page(status, JSON_ERROR), GOOD) as canned:
                with client.Client(canned.address) as ask:
                    begin = time.monotonic()
                    self.assertEqual(ask.sample([[1, 2]]).token_ids, [[1]])
                self.assertGreaterEqual(time.monotonic() - begin, 0.05 + 0.1)  # halves of 0.1 and 0.2
                self.assertEqual(len(canned.heads), 3)

    def test_others_are_not(self):
        for status in ("400 No", "401 No", "413 No", "422 No", "500 No", "501 No"):
            with self.subTest(status=status), Canned(page(status, JSON_ERROR), GOOD) as canned:
                error, _ = refusal(canned)
                self.assertEqual((error.status, str(error), error.param), (int(status[:3]), "n is 0", "n"))

    def test_retry_after(self):
        def in_two_seconds():
            return email.utils.formatdate(time.time() + 2, usegmt=True)  # cut to whole seconds

        for text, least, most in (("1", 1, 3), ("0", 0, 0.5), (in_two_seconds, 0.9, 3), ("soon", 0.05, 0.5),
                                  ("-3", 0, 0.5)):
            with self.subTest(text=text):
                text = text() if callable(text) else text
                with Canned(page("503 Busy", JSON_ERROR, f"Retry-After: {text}"), GOOD) as canned:
                    with client.Client(canned.address) as ask:
                        begin = time.monotonic()
                        ask.sample([[1, 2]])
                        took = time.monotonic() - begin
                self.assertGreaterEqual(took, least)
                self.assertLess(took, most + 1)

    def test_a_long_retry_after_is_not_waited_for(self):
        with Canned(page("503 Busy", JSON_ERROR, "Retry-After: 86400"), GOOD) as canned:
            with client.Client(canned.address) as ask:
                begin = time.monotonic()
                ask.sample([[1, 2]])
        self.assertLess(time.monotonic() - begin, 8)

    def test_the_last_one_is_told(self):
        with Canned(*[page("503 Busy", HTML, "Retry-After: 0")] * 3) as canned:
            error, _ = refusal(canned)
            self.assertEqual((error.status, len(canned.heads)), (503, 3))

    def test_an_end_without_an_answer(self):
        with Canned(GOOD, b"", b"", GOOD) as canned, client.Client(canned.address) as ask:
            ask.sample([[1, 2]])
            ask.sample([[1, 2]])
            self.assertEqual(len(canned.heads), 4)

    def test_a_time_out_leaves_no_answer_for_the_next(self):
        late = page("200 OK", '{"token_ids":[[9]],"seed":7}')
        with Canned(b"HTTP/1.1 100 Continue\r\n\r\n", late, GOOD) as canned:
            with client.Client(canned.address, timeout=0.3, retries=0) as ask:
                with self.assertRaises(socket.timeout):
                    ask.sample([[1, 2]])
                self.assertEqual(ask.sample([[1, 2]]).token_ids, [[9]])


class BrokenPipes(unittest.TestCase):
    """The answer to a body that nobody reads to its end."""

    LARGE = array.array("f", bytes(32 << 20))

    def test_a_refusal_that_is_there_is_read(self):
        refused = page("413 No", JSON_ERROR, "Connection: close")
        with Canned(Unread(refused), GOOD) as canned, client.Client(canned.address) as ask:
            with self.assertRaises(client.SamplerdError) as caught:
                ask.sample(self.LARGE)
            self.assertEqual((caught.exception.status, str(caught.exception)), (413, "n is 0"))
            self.assertEqual(ask.sample([[1, 2]]).token_ids, [[1]])

    def test_a_busy_one_is_repeated(self):
        busy = page("503 Busy", JSON_ERROR, "Retry-After: 0")
        with Canned(Unread(busy), GOOD) as canned, client.Client(canned.address) as ask:
            self.assertEqual(ask.sample(self.LARGE).token_ids, [[1]])

    def test_none_is_there(self):
        with Canned(*[Unread(b"")] * 3) as canned, client.Client(canned.address) as ask:
            with self.assertRaises(ConnectionError):
                ask.sample(self.LARGE)
            self.assertEqual(len(canned.heads), 3)


class ManyRows(unittest.TestCase):
    """Values for each of 1,500 rows are 60 KB of query."""

    ROWS = 1500

    def setUp(self):
        self.server = samplerd.Server()
        self.addCleanup(self.server.__exit__)
        self.rows = [[i * 7919 % 65536 / 4096 for i in range(row, row + 8)] for row in range(self.ROWS)]
        self.logits = memoryview(array.array("f", sum(self.rows, []))).cast("B").cast("f", [self.ROWS, 8])
        self.rules = {"temperature": [0.5 + row / 1000 for row in range(self.ROWS)],
                      "top_k": [row % 9 for row in range(self.ROWS)], "top_p": 0.9,
                      "seed": [2**64 - 1 - row for row in range(self.ROWS)], "offset": 3, "n": 2, "logprobs": True,
                      "logprobs_mode": "raw", "top_candidates": 3, "id": "many, é"}

    def check(self, there, **options):
        with client.Client(there) as ask:
            expected = ask.sample(self.rows, **self.rules)
            self.assertEqual(ask.sample(self.logits, **self.rules, **options), expected)
            half = struct.pack(f"<{8 * self.ROWS}e", *sum(self.rows, []))
            rows = [list(struct.unpack("<8e", half[i:i + 16])) for i in range(0, len(half), 16)]
            self.assertEqual(ask.sample(half, dtype="f16", vocab_size=8, **self.rules), ask.sample(rows, **self.rules))

    def test_straight(self):
        self.check(address(self.server))

    def test_candidates_and_stacks(self):
        ids = [[row + i for i in range(8)] for row in range(self.ROWS)]
        with client.Client(address(self.server)) as ask:
            self.assertEqual(ask.sample(self.logits, **self.rules, candidate_ids=ids),
                             ask.sample(self.rows, **self.rules, candidate_ids=ids))
            mixed = {"mix": [1.5, -0.5], "seed": list(range(2**63, 2**63 + self.ROWS // 2)), "temperature": 1.0}
            stacks = [self.rows[:self.ROWS // 2], self.rows[self.ROWS // 2:]]
            logits = self.logits.cast("B").cast("f", [2, self.ROWS // 2, 8])
            self.assertEqual(ask.sample(logits, **mixed), ask.sample(stacks, **mixed))

    def test_refusals_are_the_same(self):
        for rules in ({"temprature": 1.0}, {"repeat_penalty": [1.0] * self.ROWS}, {"top_p": 1.7}, {"n": 0},
                      {"top_k": [1] * (self.ROWS - 1)}, {"seed": [-1] * self.ROWS}, {"seed": [0.5] * self.ROWS},
                      {"logprobs": 3}, {"logprobs_mode": "new"}, {"top_candidates": 2.5}):
            with self.subTest(rules=next(iter(rules))), client.Client(address(self.server)) as ask:
                with self.assertRaises(client.SamplerdError) as caught:
                    ask.sample(self.logits, **{**self.rules, **rules})
                self.assertEqual(caught.exception.status, 400)
                with self.assertRaises(client.SamplerdError) as listed:
                    ask.sample(self.rows, **{**self.rules, **rules})
                self.assertEqual((listed.exception.status, listed.exception.param),
                                 (caught.exception.status, caught.exception.param))

    @unittest.skipUnless(haproxy_path(), "haproxy is not installed (make deps-dev)")
    def test_through_a_proxy(self):
        with HAProxy([self.server.port]) as proxy:
            self.check(f"http://127.0.0.1:{proxy.port}")

    @unittest.skipUnless(haproxy_path(), "haproxy is not installed (make deps-dev)")
    def test_a_proxys_own_page(self):
        with HAProxy([]) as proxy, client.Client(f"http://127.0.0.1:{proxy.port}", retries=1) as ask:
            with self.assertRaises(client.SamplerdError) as caught:
                ask.sample([[1, 2]])
            self.assertEqual(caught.exception.status, 503)
            self.assertIn("No server is available", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
