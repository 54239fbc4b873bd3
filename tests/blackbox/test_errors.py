"""Every kind of bad request gets the right status, field, code and words, and does its connection no harm."""

import math
import socket
import unittest
from typing import NamedTuple

import server as samplerd

ANY = object()  # whatever it is
GOOD = b'{"logits":[[10,8,6,3]]}'
LIMIT = 65536  # max_body_bytes of the server under test
FOUR = samplerd.pack_rows([[10, 8, 6, 3]])
RAW_FOUR = "vocab_size=4"


def setUpModule():
    global SERVER
    SERVER = samplerd.Server("--max-body-bytes", str(LIMIT), "--max-answer-bytes", str(LIMIT))
    unittest.addModuleCleanup(SERVER.__exit__)


class Case(NamedTuple):
    """A body that is wrong, and what the answer must say."""
    body: bytes
    param: object
    code: str
    message: str = ""  # a part of it
    status: int = 400
    row: object = None
    query: str = ""


def with_field(text):
    """A good request with one more field."""
    return GOOD[:-1] + b"," + text.encode() + b"}"


MALFORMED = [
    Case(b"", ANY, "malformed_json"),
    Case(b"   ", ANY, "malformed_json"),
    Case(b"{", ANY, "malformed_json"),
    Case(b'{"logits":[[1,2', ANY, "malformed_json", row=ANY),
    Case(GOOD + b"x", ANY, "malformed_json"),
    Case(GOOD + GOOD, ANY, "malformed_json"),
    Case(b"{'logits':[[1,2]]}", ANY, "malformed_json"),
    Case(b'{"logits":[[1,2]],}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[1,2,]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[1 2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[01,2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[-,2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[1.,2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[.5,2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[+1,2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[0x1,2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[NaN,2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[Infinity,2]]}', ANY, "malformed_json", row=ANY),
    Case(b'{"logits":[[-Infinity,2]]}', ANY, "malformed_json", "null", row=ANY),
    Case(with_field('"temperature":01'), ANY, "malformed_json"),
    Case(with_field('"temperature":NaN'), "temperature", "malformed_json", "is NaN, which JSON does not have"),
    Case(with_field('"temperature":nan'), "temperature", "malformed_json", "is nan, which JSON does not have"),
    Case(with_field('"temperature":Infinity'), "temperature", "malformed_json", "temperature is Infinity, which JSON"),
    Case(with_field('"temperature":[-Infinity]'), "temperature", "malformed_json", "is -Infinity, which JSON", row=0),
    Case(with_field('"temperature":+1'), ANY, "malformed_json"),
    Case(with_field('"temperature"'), ANY, "malformed_json"),
    Case(with_field('"id":"a\nb"'), ANY, "malformed_json"),
    Case(with_field('"id":"\\ud800"'), ANY, "malformed_json"),
    Case(with_field('"id":"\\x41"'), ANY, "malformed_json"),
    Case(with_field('"id":"')[:-1] + b'\xff"}', ANY, "malformed_json", "UTF-8"),
    Case(with_field('"id":"')[:-1] + b'\xc0\xaf"}', ANY, "malformed_json", "UTF-8"),
    Case(with_field('"id":"')[:-1] + b'\xed\xa0\x80"}', ANY, "malformed_json", "UTF-8"),
    Case(b'{"logits":' + b"[" * 20000 + b"]" * 20000 + b"}", ANY, ANY),
    Case(with_field('"temperature":' + "[" * 10000 + "]" * 10000), ANY, ANY),
    Case(with_field('"junk":' + '{"a":' * 8000 + "1" + "}" * 8000), ANY, ANY),
]

WRONG_TYPE = [
    Case(b"[]", ANY, "wrong_type", "object"),
    Case(b"null", ANY, "wrong_type", "object"),
    Case(b"7", ANY, "wrong_type", "object"),
    Case(b'"logits"', ANY, "wrong_type", "object"),
    Case(b'{"logits":5}', "logits", "wrong_type"),
    Case(b'{"logits":null}', "logits", "wrong_type"),
    Case(b'{"logits":"1,2"}', "logits", "wrong_type"),
    Case(b'{"logits":[["1",2]]}', "logits", "wrong_type", row=ANY),
    Case(b'{"logits":[[true,2]]}', "logits", "wrong_type", row=ANY),
    Case(b'{"logits":[[{},2]]}', "logits", "wrong_type", row=ANY),
    Case(with_field('"temperature":"0.7"'), "temperature", "wrong_type", "\"0.7\""),
    Case(with_field('"temperature":true'), "temperature", "wrong_type"),
    Case(with_field('"temperature":{}'), "temperature", "wrong_type"),
    Case(with_field('"temperature":["0.7"]'), "temperature", "wrong_type", row=ANY),
    Case(with_field('"temperature":[[0.7]]'), "temperature", "wrong_type", row=ANY),
    Case(with_field('"top_p":"1"'), "top_p", "wrong_type"),
    Case(with_field('"top_k":"40"'), "top_k", "wrong_type"),
    Case(with_field('"seed":true'), "seed", "wrong_type"),
    Case(with_field('"seed":{}'), "seed", "wrong_type"),
    Case(with_field('"n":"1"'), "n", "wrong_type"),
    Case(with_field('"n":[1,1]'), "n", "wrong_type"),
    Case(with_field('"top_candidates":"3"'), "top_candidates", "wrong_type"),
    Case(with_field('"logprobs":1'), "logprobs", "wrong_type"),
    Case(with_field('"logprobs":"true"'), "logprobs", "wrong_type"),
    Case(with_field('"logprobs_mode":1'), "logprobs_mode", "wrong_type"),
    Case(with_field('"id":7'), "id", "wrong_type"),
]

OUT_OF_RANGE = [
    Case(with_field('"top_p":1.7'), "top_p", "out_of_range", "top_p is 1.7; it must be from 0 to 1"),
    Case(with_field('"top_p":-0.1'), "top_p", "out_of_range", "top_p is -0.1; it must be from 0 to 1"),
    Case(with_field('"top_p":[1.7]'), "top_p", "out_of_range", "1.7", row=ANY),
    Case(with_field('"top_p":1.0000001'), "top_p", "out_of_range", "from 0 to 1"),
    Case(with_field('"top_k":1.5'), "top_k", "out_of_range", "1.5"),
    Case(with_field('"temperature":1e999'), "temperature", "out_of_range"),
    Case(with_field('"n":0'), "n", "out_of_range", "from 1 to 1024"),
    Case(with_field('"n":1025'), "n", "out_of_range", "n is 1025; it must be"),
    Case(with_field('"n":1.5'), "n", "out_of_range", "1.5"),
    Case(with_field('"n":-1'), "n", "out_of_range", "from 1 to 1024"),
    Case(with_field('"top_candidates":1025'), "top_candidates", "out_of_range", "from 0 to 1024"),
    Case(with_field('"top_candidates":-1'), "top_candidates", "out_of_range", "from 0 to 1024"),
    Case(with_field('"logprobs_mode":"cooked"'), "logprobs_mode", "out_of_range", "processed"),
    Case(with_field('"seed":9007199254740993'), "seed", "out_of_range", "string"),
    Case(with_field('"seed":-1'), "seed", "out_of_range", "leave it out for a fresh one"),
    Case(with_field('"seed":1.5'), "seed", "out_of_range"),
    Case(with_field('"seed":1e30'), "seed", "out_of_range"),
    Case(with_field('"seed":"18446744073709551616"'), "seed", "out_of_range", "18446744073709551616"),
    Case(with_field('"seed":"-1"'), "seed", "out_of_range"),
    Case(with_field('"seed":""'), "seed", "out_of_range"),
    Case(with_field('"seed":"0x10"'), "seed", "out_of_range"),
    Case(with_field('"seed":" 1"'), "seed", "out_of_range"),
    Case(with_field('"seed":[9007199254740993]'), "seed", "out_of_range", "string", row=ANY),
    Case(with_field('"offset":-1'), "offset", "out_of_range"),
    Case(with_field('"offset":9007199254740993'), "offset", "out_of_range", "string"),
]

WRONG_LENGTH = [
    Case(b'{"logits":[]}', "logits", "wrong_length"),
    Case(b'{"logits":[[]]}', "logits", "wrong_length", row=ANY),
    Case(b'{"logits":[[1,2],[]]}', "logits", "wrong_length", row=ANY),
    Case(b'{"logits":[[1,2],[1]]}', "logits", "wrong_length", row=1),
    Case(b'{"logits":[[1,2],[1,2,3]]}', "logits", "wrong_length", row=1),
    Case(b'{"logits":[[1,2],3]}', "logits", ANY, row=ANY),
    Case(b'{"logits":[1,[2]]}', "logits", ANY, row=ANY),
    Case(with_field('"temperature":[]'), "temperature", "wrong_length"),
    Case(with_field('"temperature":[1,1]'), "temperature", "wrong_length", "2"),
    Case(with_field('"top_k":[1,1]'), "top_k", "wrong_length"),
    Case(with_field('"seed":[1,2]'), "seed", "wrong_length"),
    Case(with_field('"offset":[1,2,3]'), "offset", "wrong_length", "3"),
    Case(with_field('"bias":[1,2,3]'), "bias", "wrong_length"),
    Case(with_field('"bias":[[1,2,3,4],[1,2,3,4]]'), "bias", "wrong_length"),
    Case(b'{"logits":[[[1,2]],[[3,4]]],"mix":[1]}', "mix", "wrong_length"),
]

FIELDS = [
    Case(b"{}", "logits", "missing_parameter"),
    Case(b'{"temperature":1}', "logits", "missing_parameter"),
    Case(with_field('"top_pp":0.5'), "top_pp", "unknown_parameter", "top_p"),
    Case(with_field('"Temperature":0.5'), "Temperature", "unknown_parameter", "temperature"),
    Case(with_field('"max_tokens":5'), "max_tokens", "unknown_parameter"),
    Case(with_field('"":5'), ANY, "unknown_parameter"),
    Case(with_field('"top_p":0.5,"top_p":0.5'), "top_p", "duplicate_parameter"),
    Case(with_field('"logits":[[1,2]]'), "logits", "duplicate_parameter"),
    Case(with_field('"top_p":0.5,"top\\u005fp":0.5'), "top_p", "duplicate_parameter"),
    Case(b'{"logits":[[[1,2]],[[3,4]]]}', ANY, ANY, "mix"),
]

UNSAMPLABLE = [
    Case(b'{"logits":[[null,null]]}', "logits", "invalid_logits", status=422, row=0),
    Case(b'{"logits":[[1,2],[null,null],[null,null]]}', "logits", "invalid_logits", status=422, row=1),
    Case(b'{"logits":[[1,2],[1e999,0]]}', "logits", "invalid_logits", status=422, row=1),
    Case(b'{"logits":[[1,2],[1,2],[-1e999,null]]}', "logits", "invalid_logits", status=422, row=2),
    Case(b'{"logits":[[1e39,2]]}', "logits", "invalid_logits", status=422, row=0),
    Case(b'{"logits":[[null,null],[1e999,0]]}', "logits", "invalid_logits", status=422, row=0),
    Case(b'{"logits":[null,null,null]}', "logits", "invalid_logits", status=422, row=0),
]


def raw_case(rows, **fields):
    """A case whose body is these rows."""
    return Case(samplerd.pack_rows(rows), query=f"vocab_size={len(rows[0])}", **fields)


RAW = [
    Case(FOUR, "vocab_size", "missing_parameter"),
    Case(FOUR, "vocab_size", ANY, query="vocab_size"),
    Case(FOUR, "vocab_size", ANY, query="vocab_size="),
    Case(FOUR, "vocab_size", "out_of_range", query="vocab_size=0"),
    Case(FOUR, "vocab_size", ANY, query="vocab_size=-4"),
    Case(FOUR, "vocab_size", ANY, query="vocab_size=four"),
    Case(FOUR, "vocab_size", ANY, query="vocab_size=4.5"),
    Case(FOUR, "vocab_size", ANY, query="vocab_size=99999999999999999999"),
    Case(FOUR, ANY, "wrong_length", "16", query="vocab_size=3"),
    Case(FOUR[:-1], ANY, "wrong_length", "15", query=RAW_FOUR),
    Case(b"", ANY, "wrong_length", query=RAW_FOUR),
    Case(FOUR, "vocab_size", "duplicate_parameter", query=RAW_FOUR + "&vocab_size=4"),
    Case(FOUR, "top_p", "duplicate_parameter", query=RAW_FOUR + "&top_p=0.5&top_p=0.6"),
    Case(FOUR, "seed", "duplicate_parameter", "commas", query=RAW_FOUR + "&seed=5&seed=6"),
    Case(FOUR, "top_pp", "unknown_parameter", "top_p", query=RAW_FOUR + "&top_pp=0.5"),
    Case(FOUR, "top_p", "out_of_range", "1.7", query=RAW_FOUR + "&top_p=1.7"),
    Case(FOUR, "top_k", "out_of_range", "1.5", query=RAW_FOUR + "&top_k=1.5"),
    Case(FOUR, "temperature", "wrong_type", "warm", query=RAW_FOUR + "&temperature=warm"),
    Case(FOUR, "temperature", ANY, query=RAW_FOUR + "&temperature=nan"),
    Case(FOUR, "temperature", ANY, query=RAW_FOUR + "&temperature=inf"),
    Case(FOUR, "temperature", ANY, query=RAW_FOUR + "&temperature=0x1"),
    Case(FOUR, "temperature", ANY, query=RAW_FOUR + "&temperature=1%201"),
    Case(FOUR, "temperature", ANY, query=RAW_FOUR + "&temperature="),
    Case(FOUR, "temperature", ANY, query=RAW_FOUR + "&temperature=1,,1", row=ANY),
    Case(FOUR, "temperature", "wrong_length", query=RAW_FOUR + "&temperature=1,1"),
    Case(FOUR, "n", "out_of_range", query=RAW_FOUR + "&n=0"),
    Case(FOUR, "seed", "out_of_range", query=RAW_FOUR + "&seed=18446744073709551616"),
    Case(FOUR, "seed", ANY, query=RAW_FOUR + "&seed=-1"),
    Case(FOUR, "logprobs", ANY, query=RAW_FOUR + "&logprobs=maybe"),
    Case(FOUR, "logprobs_mode", ANY, query=RAW_FOUR + "&logprobs_mode=cooked"),
    Case(FOUR, "dtype", ANY, query=RAW_FOUR + "&dtype=f8"),
    raw_case([[1, 2], [1, math.nan]], param="logits", code="invalid_logits", status=422, row=1),
    raw_case([[1, math.inf], [1, math.nan]], param="logits", code="invalid_logits", status=422, row=0),
    raw_case([[1, 2], [1, 2], [None, None]], param="logits", code="invalid_logits", status=422, row=2),
]


class OnOneConnection(unittest.TestCase):
    """Each bad request goes out on one connection and a good one follows on the same."""

    def setUp(self):
        self.client = SERVER.connect()
        self.addCleanup(self.client.__exit__)

    def check_error(self, case, answer):
        self.assertEqual(answer.status, case.status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], samplerd.JSON)
        body = answer.json()
        self.assertEqual(list(body), ["error"])
        error = body["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code", "row"})
        self.assertEqual(error["type"], "invalid_request_error")
        for name in ("param", "code", "row"):
            if getattr(case, name) is not ANY:
                self.assertEqual(error[name], getattr(case, name), error)
        self.assertIn(case.message, error["message"])

    def check_alive(self):
        self.assertEqual(self.client.sample(GOOD).sampled()["token_ids"], [[0]])


class WhatClientsWrite(OnOneConnection):
    """Other spellings of a good request, which mean what they seem to."""

    BATCH = b'{"logits":[[1,2,3],[3,2,1]],"seed":7,"n":4,"temperature":2'

    def check_same(self, answer, expected):
        self.assertEqual((answer.status, answer.body), (200, expected.body))

    def test_null_is_absent(self):
        expected = self.client.sample(self.BATCH + b"}")
        fields = ("top_k", "top_p", "offset", "top_candidates", "logprobs", "logprobs_mode", "mix", "bias",
                  "candidate_ids", "id")
        for name in fields:
            with self.subTest(name=name):
                self.check_same(self.client.sample(self.BATCH + f',"{name}":null}}'.encode()), expected)

    def test_a_list_of_one(self):
        expected = self.client.sample(self.BATCH + b',"top_k":2,"logprobs":true,"bias":[0,1,0]}')
        listed = self.BATCH.replace(b"4", b"[4]").replace(b'"temperature":2', b'"temperature":[2]')
        self.check_same(self.client.sample(listed + b',"top_k":[2],"logprobs":[true],"bias":[[0,1,0]]}'), expected)

    def test_a_list_of_one_seed(self):
        """Rows of a list of seeds have equal draws where these are equal, those of one seed have not."""
        self.check_error(Case(b"", "seed", "wrong_length", "list of one"),
                         self.client.sample(self.BATCH.replace(b":7", b":[7]") + b"}"))
        self.assertEqual(self.client.sample(GOOD[:-1] + b',"seed":[7]}').sampled()["seed"], [7])

    def test_a_byte_order_mark(self):
        self.check_same(self.client.sample(b"\xef\xbb\xbf" + self.BATCH + b"}"),
                        self.client.sample(self.BATCH + b"}"))
        infer = b'{"inputs":[{"name":"logits","datatype":"FP32","shape":[1,2],"data":[1,2]}]}'
        answer = self.client.request("POST", "/v2/models/sampler/infer", b"\xef\xbb\xbf" + infer, samplerd.JSON)
        self.assertEqual(answer.status, 200, answer.body)

    def test_queries(self):
        rows = samplerd.pack_rows([[1, 2, 3], [3, 2, 1]])
        def ask(query):
            return self.client.request("POST", "/sample?vocab_size=3&n=4" + query, rows, samplerd.RAW)
        expected = ask("&temperature=2,1&seed=7&logprobs=true")
        for query in ("&temperature=2,%201&seed=7&logprobs=true", "&temperature=2,+1&seed=7&logprobs=true",
                      "&temperature=2,1&seed=7.0&logprobs=True", "&temperature=2,1&&seed=7&logprobs=1&"):
            with self.subTest(query=query):
                self.check_same(ask(query), expected)
        for flag in ("False", "false", "0"):
            self.assertNotIn("logprobs", ask("&logprobs=" + flag).sampled())

    def test_an_empty_query_beside_json(self):
        for query in ("?", "?&", "?&&"):
            self.assertEqual(self.client.request("POST", "/sample" + query, GOOD, samplerd.JSON).status, 200)

    def test_no_content_encoding(self):
        self.assertEqual(self.client.sample(GOOD, Content_Encoding="").status, 200)


class BadRequests(OnOneConnection):
    def check_json(self, cases):
        for case in cases:
            with self.subTest(body=case.body[:80]):
                self.check_error(case, self.client.sample(case.body))
                self.check_alive()

    def test_malformed_json(self):
        self.check_json(MALFORMED)

    def test_wrong_type(self):
        self.check_json(WRONG_TYPE)

    def test_out_of_range(self):
        self.check_json(OUT_OF_RANGE)

    def test_wrong_length(self):
        self.check_json(WRONG_LENGTH)

    def test_fields(self):
        self.check_json(FIELDS)

    def test_unsamplable_rows(self):
        self.check_json(UNSAMPLABLE)

    def test_raw(self):
        for case in RAW:
            with self.subTest(query=case.query, body=case.body[:80]):
                target = "/sample?" + case.query
                self.check_error(case, self.client.request("POST", target, case.body, samplerd.RAW))
                self.check_alive()

    def test_media_types(self):
        case = Case(GOOD, None, "unsupported_media_type", status=415)
        for media in (None, "application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x",
                      "application/jsonx", "", "json"):
            with self.subTest(media=media):
                answer = self.client.request("POST", "/sample", case.body, media)
                self.check_error(case, answer)
                for name in (samplerd.JSON, samplerd.RAW):
                    self.assertIn(name, answer.json()["error"]["message"])
                self.check_alive()

    def test_media_type_parameters_and_case(self):
        for media in ("application/json; charset=utf-8", "Application/JSON", "application/json;charset=UTF-8"):
            with self.subTest(media=media):
                answer = self.client.request("POST", "/sample", GOOD, media)
                self.assertEqual(answer.sampled()["token_ids"], [[0]])

    def test_methods(self):
        case = Case(b"", None, "method_not_allowed", status=405)
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            with self.subTest(method=method):
                answer = self.client.request(method, "/sample", GOOD if method == "PUT" else None)
                self.check_error(case, answer)
                self.assertEqual(answer.headers["Allow"], "POST")
                self.check_alive()

    def test_post_to_a_page(self):
        answer = self.client.request("POST", "/version", GOOD, samplerd.JSON)
        self.check_error(Case(b"", None, "method_not_allowed", status=405), answer)
        self.assertIn("GET", answer.headers["Allow"])
        self.check_alive()

    def test_not_found(self):
        for target in ("/", "/nope", "/sample/", "/Sample", "/v1/sample", "/%2e%2e/etc/passwd"):
            with self.subTest(target=target):
                self.check_error(Case(b"", None, "not_found", status=404),
                                 self.client.request("POST", target, GOOD, samplerd.JSON))
                self.check_alive()

    def test_query_with_json(self):
        """The JSON form reads its parameters from the body; elsewhere they may not pass unseen."""
        answer = self.client.request("POST", "/sample?temperature=0.7", GOOD, samplerd.JSON)
        self.assertEqual(answer.status, 400, answer.body)
        self.check_alive()


def padded(size):
    """A good body of exactly this many bytes."""
    return GOOD + b" " * (size - len(GOOD))


class Limits(OnOneConnection):
    too_large = Case(b"", None, "too_large", "max_body_bytes", 413)

    def test_a_body_at_the_limit(self):
        self.assertEqual(self.client.sample(padded(LIMIT)).sampled()["token_ids"], [[0]])

    def test_a_body_over_the_limit(self):
        for size in (LIMIT + 1, 2 * LIMIT):
            answer = self.client.sample(padded(size))
            self.check_error(self.too_large, answer)
            self.assertIn(str(LIMIT), answer.json()["error"]["message"])
            self.check_alive()

    def test_a_chunked_body(self):
        """Where its end is, others might see otherwise: the connection does not go on behind it."""
        chunks = iter([GOOD[:7], GOOD[7:8], GOOD[8:]])
        answer = self.client.request("POST", "/sample", chunks, samplerd.JSON)
        self.assertEqual(answer.sampled()["token_ids"], [[0]])
        self.assertEqual(answer.headers["Connection"], "close")

    def test_a_chunked_body_over_the_limit(self):
        chunks = (padded(LIMIT // 4) for _ in range(8))
        self.check_error(self.too_large, self.client.request("POST", "/sample", chunks, samplerd.JSON))

    def test_a_body_far_over_the_limit(self):
        """Nobody reads 1 GiB to refuse it: the answer comes before the body."""
        with SERVER.socket() as s:
            s.sendall(head(1 << 30))
            self.assertTrue(read_head(s).startswith(b"HTTP/1.1 413 "))

    def test_expect_100_continue(self):
        with SERVER.socket() as s:
            s.sendall(head(len(GOOD), "Expect: 100-continue"))
            self.assertTrue(read_head(s).startswith(b"HTTP/1.1 100 "))
            s.sendall(GOOD)
            self.assertTrue(read_head(s).startswith(b"HTTP/1.1 200 "))

    def test_expect_100_continue_over_the_limit(self):
        """The refusal comes instead of the 100, and nothing is uploaded."""
        with SERVER.socket() as s:
            s.sendall(head(LIMIT + 1, "Expect: 100-continue"))
            first = read_head(s)
            self.assertTrue(first.startswith(b"HTTP/1.1 413 "), first)

    def test_an_answer_over_the_limit(self):
        """max_answer_bytes is judged before anything is sampled."""
        rows = [[0] * 4] * 100
        case = Case(b"", ANY, "too_large", "max_answer_bytes", 413)
        self.check_error(case, self.client.sample({"logits": rows, "n": 1024}))
        self.check_alive()

    def test_a_client_that_hangs_up(self):
        """Half a request and a goodbye: the server goes on, and ends when told to."""
        with samplerd.Server("--idle-timeout-ms", "1000") as server:
            for part in (b"POST /sam", head(len(GOOD)), head(len(GOOD)) + GOOD[:5], head(len(GOOD)) + GOOD):
                with server.socket() as s:
                    s.sendall(part)
                    s.shutdown(socket.SHUT_RDWR)
            self.assertEqual(server.sample(GOOD).sampled()["token_ids"], [[0]])

    def test_not_http(self):
        with SERVER.socket() as s:
            s.sendall(b"\x16\x03\x01 hello\r\n\r\n")
            s.recv(4096)
        self.check_alive()


def head(length, *fields):
    """A request's head, for a body of this length."""
    lines = ["POST /sample HTTP/1.1", "Host: localhost", f"Content-Type: {samplerd.JSON}",
             f"Content-Length: {length}", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def read_head(s):
    """An answer's head, and whatever came with it."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = s.recv(4096)
        if not more:
            break
        received += more
    return received


if __name__ == "__main__":
    unittest.main()
