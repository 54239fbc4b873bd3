"""One request, several ways in and two out: the same rows give the same answer, whatever carries them."""

import base64
import json
import random
import struct
import unittest

import server as samplerd
from forms import FORMS, NPY, SAFETENSORS, by_numbers, npy, pack, safetensors, shape_of

IDS = {"Accept": samplerd.RAW}


def setUpModule():
    global SERVER
    SERVER = samplerd.Server()
    unittest.addModuleCleanup(SERVER.__exit__)


# Numbers that all three dtypes hold.
RANDOM = random.Random(5)
ROWS = [[None if RANDOM.random() < 0.1 else RANDOM.randrange(-40, 41) / 8 for _ in range(37)] for _ in range(3)]

REQUESTS = [
    (ROWS, {"seed": 1}),
    (ROWS[:1], {"seed": 7, "temperature": 0.75, "n": 16}),
    (ROWS, {"seed": ["18446744073709551615", 0, "9007199254740993"], "temperature": [0.5, 1, 2], "n": 8}),
    (ROWS, {"seed": 3, "temperature": 1, "top_k": [5, 0, -1], "top_p": [1, 0.5, 0.9], "offset": [0, 1, 2], "n": 4}),
    (ROWS, {"seed": 4, "temperature": 1.5, "top_candidates": 5, "logprobs": True, "logprobs_mode": "raw", "id": "a b"}),
]


class Wire(unittest.TestCase):
    def setUp(self):
        self.client = SERVER.connect()
        self.addCleanup(self.client.__exit__)

    def post(self, query, body, media, **headers):
        target = "/sample" + ("?" + samplerd.query_text(query).replace(" ", "%20") if query else "")
        return self.client.request("POST", target, body, media, **headers)

    def check_error(self, answer, status, code, message):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], samplerd.JSON)
        error = answer.json()["error"]
        self.assertEqual(error["code"], code, error)
        self.assertIn(message, error["message"])


class OneRequest(Wire):
    def test_every_form_gives_the_same_answer(self):
        for rows, fields in REQUESTS:
            expected = self.post(*by_numbers(rows, fields))
            expected.sampled()
            for name, form in FORMS.items():
                with self.subTest(form=name, fields=fields):
                    answer = self.post(*form(rows, fields))
                    self.assertEqual((answer.status, answer.body), (200, expected.body))

    def test_every_form_gives_the_same_ids(self):
        for rows, fields in REQUESTS[:-1]:
            token_ids = self.post(*by_numbers(rows, fields)).sampled()["token_ids"]
            expected = b"".join(struct.pack(f"<{len(ids)}i", *ids) for ids in token_ids)
            for name, form in FORMS.items():
                with self.subTest(form=name, fields=fields):
                    answer = self.post(*form(rows, fields), **IDS)
                    self.assertEqual((answer.status, answer.body), (200, expected))
                    self.assertEqual(answer.headers["Content-Type"], samplerd.RAW)
                    one_seed = None if isinstance(fields["seed"], list) else str(fields["seed"])
                    self.assertEqual(answer.headers["X-Samplerd-Seed"], one_seed)

    def test_real_logits(self):
        """A model's own bfloat16 row, and the same widened to float32."""
        row = (samplerd.DATA / "json.bf16").read_bytes()
        wide = b"".join(b"\0\0" + row[i:i + 2] for i in range(0, len(row), 2))
        size, query = len(row) // 2, {"seed": 5, "temperature": 0.7, "top_p": 0.95, "n": 32, "top_candidates": 9}
        bodies = [
            ({"vocab_size": size, "dtype": "f32", **query}, wide, samplerd.RAW),
            ({"vocab_size": size, "dtype": "bf16", **query}, row, samplerd.RAW),
            (query, npy(wide, [size], "f32"), NPY),
            ({}, safetensors({"logits": ("BF16", [size], row)},
                             {k: samplerd.query_value(v) for k, v in query.items()}), SAFETENSORS),
            ({}, json.dumps({"logits": {"b64": base64.b64encode(row).decode(), "dtype": "bf16", "shape": [size]},
                             **query}).encode(), samplerd.JSON),
        ]
        expected = self.post(*bodies[0])
        expected.sampled()
        for body in bodies[1:]:
            with self.subTest(media=body[2]):
                self.assertEqual(self.post(*body).body, expected.body)

    def test_stacks(self):
        stacks = [ROWS, [[0 if x is None else -x for x in row] for row in ROWS]]
        data, shape = [pack(s, "f32") for s in stacks], [2, *shape_of(ROWS)]
        fields = {"mix": [1.5, -0.5], "seed": 2, "temperature": 1, "n": 5}
        texts = {"mix": "1.5,-0.5", "seed": "2", "temperature": "1", "n": "5"}
        expected = self.client.sample({"logits": stacks, **fields}).sampled()
        for query, body, media in (
                ({"vocab_size": shape[2], **fields}, b"".join(data), samplerd.RAW),
                (fields, npy(b"".join(data), shape, "f32"), NPY),
                ({}, safetensors({"logits": ("F32", shape, b"".join(data))}, texts), SAFETENSORS)):
            with self.subTest(media=media):
                self.assertEqual(self.post(query, body, media).sampled(), expected)

    def test_candidate_ids(self):
        """Logits of a few tokens, in any order, are a row where all others are masked."""
        ids = [[RANDOM.randrange(1000) * 40 + i for i in range(37)] for _ in ROWS]
        fields = {"temperature": 1, "top_k": 9, "seed": 6, "n": 16, "top_candidates": 4, "logprobs": True}
        full = [[None] * 40000 for _ in ROWS]
        for row, logits, tokens in zip(full, ROWS, ids):
            for token, z in zip(tokens, logits):
                row[token] = z
        expected = self.client.sample({"logits": full, **fields}).sampled()
        self.assertEqual(self.client.sample({"logits": ROWS, "candidate_ids": ids, **fields}).sampled(), expected)
        flat = [token for row in ids for token in row]
        texts = {name: samplerd.query_value(value) for name, value in fields.items()}
        for dtype, letter in (("I32", "i"), ("I64", "q")):
            with self.subTest(dtype=dtype):
                tensors = {"logits": ("F32", [3, 37], pack(ROWS, "f32")),
                           "candidate_ids": (dtype, [3, 37], struct.pack(f"<{len(flat)}{letter}", *flat))}
                self.assertEqual(self.post({}, safetensors(tensors, texts), SAFETENSORS).sampled(), expected)

    def test_bad_candidate_ids(self):
        for ids, code, message in (
                ([[1, 1]], "duplicate_id", "candidate_ids[0] has 1 twice"),
                ([[1, -1]], "out_of_range", "candidate_ids[0][1] is the number -1"),
                ([[1]], "wrong_length", "each must have its id")):
            with self.subTest(ids=ids):
                self.check_error(self.client.sample({"logits": [[1, 2]], "candidate_ids": ids}), 400, code, message)
        tensors = {"logits": ("F32", [1, 1], pack([[1]], "f32")), "candidate_ids": ("I32", [1, 1], b"\xff" * 4)}
        self.check_error(self.post({}, safetensors(tensors), SAFETENSORS), 400, "out_of_range", "is -1")

    def test_files_of_the_libraries(self):
        query = {"temperature": [0.5, 1], "top_k": [3, 2], "top_p": [0.5, 0.25], "offset": 12, "n": 3,
                 "seed": [7, "18446744073709551615"]}
        rows = [[10, 8, 6, 3], [1, None, 0.5, 2]]
        expected = self.client.sample({"logits": rows, **query}).sampled()["token_ids"]
        for name in ("f32", "f16"):
            for body in ((query, (samplerd.DATA / f"rows_{name}.npy").read_bytes(), NPY),
                         ({}, (samplerd.DATA / f"rows_{name}.safetensors").read_bytes(), SAFETENSORS)):
                with self.subTest(name=name, media=body[2]):
                    self.assertEqual(self.post(*body).sampled()["token_ids"], expected)


class Answers(Wire):
    GOOD = {"logits": [[1, 2, 3]], "seed": 1}

    def test_accept(self):
        for accept, media in (
                ("*/*", samplerd.JSON),
                ("", samplerd.JSON),
                ("application/json", samplerd.JSON),
                ("application/octet-stream", samplerd.RAW),
                ("application/octet-stream;q=0.5, application/json;q=0.6", samplerd.JSON),
                ("application/octet-stream, */*;q=0.1", samplerd.RAW),
                ("application/json;q=0, */*", samplerd.RAW)):
            with self.subTest(accept=accept):
                answer = self.client.sample(self.GOOD, Accept=accept)
                self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, media))

    def test_neither(self):
        for accept in ("text/html", "*/*;q=0", "application/json;q=0"):
            with self.subTest(accept=accept):
                answer = self.client.sample(self.GOOD, Accept=accept)
                self.check_error(answer, 406, "not_acceptable", samplerd.RAW)
                self.assertIn(samplerd.JSON, answer.json()["error"]["message"])

    def test_more_than_ids(self):
        for fields in ({"top_candidates": 1}, {"logprobs": True}, {"id": "x"}):
            with self.subTest(**fields):
                answer = self.client.sample({**self.GOOD, **fields}, **IDS)
                self.check_error(answer, 400, "conflicting_parameters", next(iter(fields)))
                self.assertEqual(answer.json()["error"]["param"], next(iter(fields)))

    def test_a_fresh_seed_can_be_replayed(self):
        request = {"logits": ROWS, "temperature": 2, "n": 64}
        first = self.client.sample(request, **IDS)
        again = self.client.sample({**request, "seed": first.headers["X-Samplerd-Seed"]}, **IDS)
        self.assertEqual((first.status, first.body), (200, again.body))

    def test_errors_are_json(self):
        self.check_error(self.client.sample({"logits": [[None]]}, **IDS), 422, "invalid_logits", "")


class Damage(Wire):
    def test_damaged_files(self):
        for name, media in (("rows_f32.npy", NPY), ("rows_bf16.safetensors", SAFETENSORS)):
            whole = (samplerd.DATA / name).read_bytes()
            for length in range(0, len(whole), 3):
                with self.subTest(name=name, length=length):
                    answer = self.post({}, whole[:length], media)
                    self.assertEqual(answer.status, 400, answer.body)
            self.assertEqual(self.post({}, whole, media).status, 200)

    def test_a_query_beside_safetensors(self):
        whole = (samplerd.DATA / "rows_f32.safetensors").read_bytes()
        self.check_error(self.post({"n": 2}, whole, SAFETENSORS), 400, "unexpected_query", "n is in the query")

    def test_the_types_are_told(self):
        answer = self.post({}, b"x", "application/x-numpy")
        for media in (samplerd.JSON, samplerd.RAW, NPY, SAFETENSORS):
            self.check_error(answer, 415, "unsupported_media_type", media)

    def test_what_is_decoded_counts(self):
        """Base64 that would fit as a body, but not with the bytes it is decoded to."""
        with samplerd.Server("--max-body-bytes", "16K", "--max-inflight-bytes", "16K") as server:
            for values, status in ((1000, 200), (2200, 413)):
                packed = {"b64": base64.b64encode(bytes(4 * values)).decode(), "dtype": "f32", "shape": [values]}
                answer = server.sample({"logits": packed})
                self.assertEqual(answer.status, status, answer.body)
            self.check_error(answer, 413, "too_large", "max_inflight_bytes")


if __name__ == "__main__":
    unittest.main()
