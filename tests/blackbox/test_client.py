"""clients/python against the real binary."""

import array
import os
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "clients" / "python"))

import samplerd as client  # noqa: E402  (the client's package; the suite's own module is `server`)
import server as samplerd  # noqa: E402

ROWS = [[10.0, 8.0, 6.0, 3.0], [0.5, 0.25, 1.0, -2.0]]
RULES = {"temperature": 0.8, "top_k": 3, "seed": 7, "n": 5}


def address(running):
    return f"unix:{running.path}" if running.path is not None else f"http://{running.host}:{running.port}"


class PythonClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = samplerd.Server()
        cls.client = client.Client(address(cls.server))

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def test_lists_and_buffers_give_the_same(self):
        expected = self.client.sample(ROWS, **RULES)
        flat = array.array("f", ROWS[0] + ROWS[1])
        self.assertEqual(self.client.sample(memoryview(flat).cast("B").cast("f", [2, 4]), **RULES), expected)
        self.assertEqual(self.client.sample(flat.tobytes(), dtype="f32", vocab_size=4, **RULES), expected)

    def test_half_precision(self):
        import struct
        half = struct.pack("<8e", *(ROWS[0] + ROWS[1]))
        bf16 = b"".join(struct.pack("<f", z)[2:] for z in ROWS[0] + ROWS[1])
        expected = self.client.sample(ROWS, **RULES)
        self.assertEqual(self.client.sample(half, dtype="f16", vocab_size=4, **RULES), expected)
        self.assertEqual(self.client.sample(bf16, dtype="bf16", vocab_size=4, **RULES), expected)

    def test_everything_that_can_be_asked(self):
        answer = self.client.sample([[1, 2, None]] * 2, temperature=[0, 1], seed=[2**64 - 1, 1], n=2, logprobs=True,
                                    top_candidates=2, bias=[0, 0, 1], id="é")
        self.assertEqual(answer.seed, [2**64 - 1, 1])
        self.assertEqual(answer.token_ids[0], [1, 1])
        self.assertEqual(answer.top_token_ids, [[1, 0], [1, 0]])
        self.assertEqual(answer.id, "é")
        self.assertAlmostEqual(sum(answer.top_probs[1]), 1.0, places=8)

    def test_buffers_with_candidate_ids(self):
        flat = array.array("f", [1, 5, 2])
        answer = self.client.sample(flat, candidate_ids=[30, 10, 20])
        self.assertEqual(answer.token_ids, [[10]])

    def test_rules_with_lists(self):
        """As JSON beside nested lists of logits, as a query or tensors beside bytes."""
        flat = array.array("f", ROWS[0] + ROWS[1]).tobytes()
        for rules in ({"history": [0, 1], "repetition_penalty": 1.5}, {"history": [[0, 1], [2]], "presence_penalty": [1, 0]},
                      {"history": [[], [3, 3]], "frequency_penalty": 0.5, "prompt_tokens": 0},
                      {"banned_token_ids": [0]}, {"banned_token_ids": [[0], []]}, {"allowed_token_ids": [[0, 1], [2, 3]]},
                      {"logit_bias": {1: 3.5, 0: None}}, {"logit_bias": [{"1": 3.5}, {}]}, {"logit_bias": {2: float("-inf")}},
                      {"bad_words": [[0, 1], [2]], "history": [0]}, {"bad_words": [[[2]], []]},
                      {"token_bitmask": [0b1010]}, {"token_bitmask": [[3], [-2]]},
                      {"dry_multiplier": 1, "dry_sequence_breakers": [1, [0, 2]], "history": [1, 0, 2, 1, 0]},
                      {"order": ["min_p", "temperature", "top_k"], "min_p": 0.1}, {"engine": "llama.cpp", "min_p": 0.2},
                      {"p_less": [True, False]}, {"stop_token_ids": [0], "min_tokens": 3},
                      {"top_k_ties": "lower_id", "top_p_crossing": "keep", "top_p": 0.9}):
            with self.subTest(**rules):
                expected = self.client.sample(ROWS, **{**RULES, **rules})
                self.assertEqual(self.client.sample(flat, dtype="f32", vocab_size=4, **{**RULES, **rules}), expected)

    def test_states(self):
        """They come with the answer, and go back in."""
        flat = array.array("f", ROWS[0] + ROWS[1]).tobytes()
        for rules, state in (({"mirostat": 2}, "mirostat_mu"), ({"adaptive_target": 0.4}, "adaptive_state")):
            first = self.client.sample(ROWS, temperature=1, seed=1, **rules)
            then = {state: getattr(first, state), "temperature": 1, "seed": 1, "offset": 1, **rules}
            self.assertEqual(len(then[state]), 2)
            self.assertEqual(self.client.sample(flat, dtype="f32", vocab_size=4, **then), self.client.sample(ROWS, **then))

    def test_minus_infinity_masks(self):
        self.assertEqual(self.client.sample([[float("-inf"), 1.0]], temperature=1, n=3).token_ids, [[1, 1, 1]])

    def test_a_refusal_says_everything(self):
        with self.assertRaises(client.SamplerdError) as caught:
            self.client.sample([[1, 2], [3, 4]], top_p=[0.5, 1.7])
        error = caught.exception
        self.assertEqual((error.status, error.code, error.param, error.row), (400, "out_of_range", "top_p", 1))
        self.assertIn("1.7", str(error))
        self.assertEqual(self.client.sample([[1, 2]]).token_ids, [[1]])

    def test_wrong_use_is_told_before_anything_is_sent(self):
        for arguments in ({"logits": b"1234"}, {"logits": b"1234", "dtype": "f32"}, {"logits": b"1234", "dtype": "f8"}):
            with self.assertRaises(ValueError):
                self.client.sample(**arguments)

    def test_addresses(self):
        for wrong in ("localhost:8090", "http://", "unix:", "http://localhost:8090/v1", "https://localhost/sample",
                      "http://localhost:8090?token=x", "http://localhost:8090/#a", "http://me:secret@localhost:8090",
                      "http://localhost:80900"):
            with self.subTest(address=wrong), self.assertRaises(ValueError):
                client.Client(wrong)
        with client.Client(address(self.server) + "/") as ask:
            self.assertEqual(ask.sample([[1, 2]]).token_ids, [[1]])

    def test_threads_share_a_client(self):
        expected = self.client.sample(ROWS, **RULES)
        wrong = []

        def ask():
            for _ in range(20):
                if self.client.sample(ROWS, **RULES) != expected:
                    wrong.append(1)
            self.client.close()

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Retries(unittest.TestCase):
    def test_a_restarted_server(self):
        with samplerd.Server(listen="127.0.0.1:0") as first:
            port = first.port
            ask = client.Client(address(first))
            ask.sample([[1, 2]])
        with samplerd.Server(listen=f"127.0.0.1:{port}"):
            self.assertEqual(ask.sample([[1, 2]]).token_ids, [[1]])
        ask.close()

    def test_nobody_there(self):
        with samplerd.Server() as gone:
            ask = client.Client(address(gone), retries=1)
        with self.assertRaises(ConnectionError):
            ask.sample([[1, 2]])

    def test_a_unix_socket(self):
        for place in (f"unix:/tmp/samplerd-client-{os.getpid()}.sock", f"unix:@samplerd-client-{os.getpid()}"):
            with self.subTest(place=place), samplerd.Server(listen=place), client.Client(place) as ask:
                self.assertEqual(ask.sample([[1, 2]]).token_ids, [[1]])


if __name__ == "__main__":
    unittest.main()
