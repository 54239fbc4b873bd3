"""What the numbers mean: the edges of every rule, and reported probabilities against float64."""

import math
import random
import unittest

import server as samplerd
from expected import argmax, distribution, f32, mixed, row_f32, softmax

MOST = 1024
DIGITS = 6e-9  # relative: half a unit of the ninth digit, and the rounding of two libraries' exp
BLAS = 2e-5  # relative, of a probability: mixed logits are float32 sums


def setUpModule():
    global SERVER
    SERVER = samplerd.Server()
    unittest.addModuleCleanup(SERVER.__exit__)


class Semantics(unittest.TestCase):
    def setUp(self):
        self.client = SERVER.connect()
        self.addCleanup(self.client.__exit__)

    def ask(self, logits, **fields):
        """The answer's JSON; the request must be accepted."""
        return self.client.sample({"logits": logits, **fields}).sampled()

    def kept(self, row, **fields):
        """{token_id: probability} as reported for one row."""
        answer = self.ask([row], top_candidates=MOST, seed=1, **fields)
        return dict(zip(answer["top_token_ids"][0], answer["top_probs"][0]))

    def assert_close(self, got, expected):
        self.assertEqual(sorted(got), sorted(expected))
        for token_id, prob in expected.items():
            self.assertTrue(math.isclose(got[token_id], prob, rel_tol=DIGITS), (token_id, got[token_id], prob))


class Edges(Semantics):
    def test_one_token(self):
        for fields in ({}, {"temperature": 1}, {"temperature": 1, "top_k": 1, "top_p": 0.5}, {"top_k": 9}):
            with self.subTest(**fields):
                answer = self.ask([[-3.5]], n=4, top_candidates=4, logprobs=True, **fields)
                self.assertEqual(answer["token_ids"], [[0] * 4])
                self.assertEqual((answer["top_token_ids"], answer["top_probs"]), ([[0]], [[1]]))
                self.assertEqual((answer["logprobs"], answer["top_logprobs"]), ([[0] * 4], [[0]]))

    def test_a_flat_row_is_a_batch_of_one(self):
        self.assertEqual(self.ask([1, 5, 2])["token_ids"], [[1]])

    def test_defaults_are_greedy(self):
        self.assertEqual(self.ask([[1, 2, 3], [3, 2, 1]])["token_ids"], [[2], [0]])

    def test_greedy_temperatures(self):
        for temperature in (0, 0.0, -0.0, -1, -1e300, 1e-300, 1e-46):
            with self.subTest(temperature=temperature):
                answer = self.ask([[1, 2, 2.001, 2]], temperature=temperature, n=16)
                self.assertEqual(answer["token_ids"], [[2] * 16])

    def test_greedy_takes_the_lowest_of_a_tie(self):
        for row in ([0.0, -0.0], [-0.0, 0.0], [7, 7, 7], [1, 7, 7], [None, -5, -5]):
            with self.subTest(row=row):
                self.assertEqual(self.ask([row])["token_ids"], [[argmax(row_f32(row))]])

    def test_greedy_ignores_the_other_rules(self):
        self.assertEqual(self.ask([[1, 9, 2]], top_k=1, top_p=0.1, seed=3)["token_ids"], [[1]])

    def test_a_tiny_temperature(self):
        """1e-38 is a temperature all the same: no overflow, and only the largest logit has weight."""
        self.assertEqual(self.kept([1, 2, 2, -3e38], temperature=1e-38), {1: 0.5, 2: 0.5})

    def test_a_huge_temperature(self):
        probs = self.kept([-1e3, 0, 3, 1e3], temperature=1e38)
        self.assert_close(probs, dict.fromkeys(range(4), 0.25))

    def test_extreme_logits(self):
        largest = 3.4028234663852886e38
        self.assertEqual(self.kept([largest, -largest], temperature=1), {0: 1})
        self.assertEqual(self.ask([[-largest, None]], temperature=1)["token_ids"], [[0]])
        self.assertEqual(self.ask([[0.0, 1e-45, 1e-40]])["token_ids"], [[2]])

    def test_top_k_edges(self):
        row = [5, 4, 4, 3, None]
        for top_k, ids in ((0, [0, 1, 2, 3]), (-1, [0, 1, 2, 3]), (1, [0]), (2, [0, 1, 2]), (3, [0, 1, 2]),
                           (4, [0, 1, 2, 3]), (5, [0, 1, 2, 3]), (1e300, [0, 1, 2, 3]), (2.0, [0, 1, 2])):
            with self.subTest(top_k=top_k):
                self.assertEqual(sorted(self.kept(row, temperature=1, top_k=top_k)), ids)

    def test_top_p_edges(self):
        row = [math.log(x) for x in (0.5, 0.3, 0.15, 0.05)]
        for top_p, kept in ((0, 4), (1, 4), (1e-300, 1), (0.49, 1), (0.79, 1), (0.81, 2), (0.94, 2), (0.96, 3),
                            (0.9999999, 3)):
            with self.subTest(top_p=top_p):
                self.assertEqual(sorted(self.kept(row, temperature=1, top_p=top_p)), list(range(kept)))

    def test_top_p_breaks_ties_by_id(self):
        self.assertEqual(sorted(self.kept([0.0] * 8, temperature=1, top_p=0.4)), [0, 1, 2])

    def test_top_p_sees_what_top_k_left(self):
        row = [math.log(x) for x in (0.4, 0.3, 0.2, 0.1)]
        self.assertEqual(sorted(self.kept(row, temperature=1, top_k=2, top_p=0.58)), [0])
        self.assertEqual(sorted(self.kept(row, temperature=1, top_p=0.72)), [0, 1])

    def test_masked_tokens_are_never_drawn(self):
        row = [None if i % 3 else -0.01 * i for i in range(300)]
        drawn = self.ask([row] * 8, temperature=100, n=1024)["token_ids"]
        self.assertLessEqual({t for ids in drawn for t in ids}, set(range(0, 300, 3)))

    def test_draws_follow_the_distribution(self):
        """Chi-square of 65536 draws: 3 degrees of freedom, 16.3 is the 0.1 % point."""
        row = [math.log(x) for x in (0.5, 0.3, 0.15, 0.05)]
        drawn = self.ask([row] * 64, temperature=1, n=1024, seed=12345)["token_ids"]
        counts = [sum(ids.count(t) for ids in drawn) for t in range(4)]
        total = sum(counts)
        chi2 = sum((c - total * p) ** 2 / (total * p) for c, p in zip(counts, (0.5, 0.3, 0.15, 0.05)))
        self.assertLess(chi2, 16.3)


class Answers(Semantics):
    def test_only_what_was_asked_for(self):
        self.assertEqual(self.ask([[1, 2]], seed=7), {"token_ids": [[1]], "seed": 7})

    def test_seed_comes_back_as_it_was_sent(self):
        for seed in (0, 7, 2 ** 53, "18446744073709551615", [1], ["9007199254740993"]):
            with self.subTest(seed=seed):
                self.assertEqual(self.words(self.ask([[1, 2]], seed=seed)["seed"]), self.words(seed))

    @staticmethod
    def words(seed):
        return [int(s) for s in seed] if isinstance(seed, list) else int(seed)

    def test_a_seed_above_2_53_is_answered_as_a_string(self):
        """As a number a JavaScript client would read another one."""
        self.assertEqual(self.ask([[1, 2]], seed="18446744073709551615")["seed"], "18446744073709551615")

    def test_a_number_and_a_string_are_the_same_seed(self):
        flat = [[0.0] * 500]
        self.assertEqual(self.ask(flat, temperature=1, seed=77, n=8)["token_ids"],
                         self.ask(flat, temperature=1, seed="77", n=8)["token_ids"])

    def test_an_absent_seed_is_fresh_and_replays(self):
        flat = [[0.0] * 5000, [1.0] * 5000]
        seeds = set()
        for _ in range(20):
            first = self.ask(flat, temperature=1, n=5)
            self.assertLess(first["seed"], 2 ** 53)
            seeds.add(first["seed"])
            self.assertEqual(self.ask(flat, temperature=1, n=5, seed=first["seed"]), first)
        self.assertEqual(len(seeds), 20)

    def test_draws_continue_with_n_and_change_with_offset(self):
        flat = [[0.0] * 5000]
        eight = self.ask(flat, temperature=1, n=8, seed=3)["token_ids"][0]
        self.assertEqual(self.ask(flat, temperature=1, n=3, seed=3)["token_ids"][0], eight[:3])
        self.assertEqual(len(self.ask(flat, temperature=1, n=1024, seed=3)["token_ids"][0]), 1024)
        self.assertNotEqual(self.ask(flat, temperature=1, n=8, seed=3, offset=1)["token_ids"][0], eight)
        self.assertEqual(self.ask(flat, temperature=1, n=8, seed=3, offset=0)["token_ids"][0], eight)

    def test_per_row_parameters(self):
        rows = [[5, 4, 4, 3]] * 4
        fields = {"temperature": [0, 1, 2, 1], "top_k": [0, 1, 2, 0], "top_p": [1, 1, 1, 0.5]}
        answer = self.ask(rows, seed=[1, 2, 3, 4], top_candidates=MOST, **fields)
        for i, row in enumerate(rows):
            got = dict(zip(answer["top_token_ids"][i], answer["top_probs"][i]))
            self.assert_close(got, distribution(row, **{k: v[i] for k, v in fields.items()}))

    def test_id_is_echoed(self):
        for text in ("a", "", "request 7", 'quote " and \\ and /', "tab\tnew\nline", "naïve 漢字 😀", "\u0001\u007f",
                     "x" * 100):
            with self.subTest(id=text):
                self.assertEqual(self.ask([[1, 2]], id=text)["id"], text)

    def test_id_in_raw_unicode(self):
        body = '{"logits":[[1,2]],"id":"漢字 😀"}'.encode()
        self.assertEqual(self.client.sample(body).sampled()["id"], "漢字 😀")

    def test_candidates_by_probability_then_id(self):
        answer = self.ask([[1, 3, 3, 2, None]], temperature=1, top_candidates=3, seed=1)
        self.assertEqual(answer["top_token_ids"], [[1, 2, 3]])
        answer = self.ask([[1, 3, 3, 2, None]], temperature=1, top_candidates=9, seed=1)
        self.assertEqual(answer["top_token_ids"], [[1, 2, 3, 0]])

    def test_whitespace_and_escapes_in_json(self):
        body = b' {\r\n\t"\\u006cogits" : [ [ 1 , 2e0 , 1.5E+0 , -0.0 ] ] , "top_k" : 2.0 } \n'
        self.assertEqual(self.client.sample(body).sampled()["token_ids"], [[1]])


class Probabilities(Semantics):
    """Reported numbers against the rules in float64.  Temperatures are exact in float32."""

    rules = ({}, {"temperature": 1}, {"temperature": 0.5, "top_k": 7}, {"temperature": 2, "top_p": 0.75},
             {"temperature": 1.25, "top_k": 50, "top_p": 0.9375})

    def setUp(self):
        super().setUp()
        generator = random.Random(11)
        self.rows = [[f32(generator.gauss(0, spread)) for _ in range(200)] for spread in (0.1, 1, 4)]
        self.rows[1][:20] = [None] * 20

    def test_processed(self):
        for row in self.rows:
            for rule in self.rules:
                with self.subTest(rule=rule):
                    self.check(row, rule, distribution(row, **{"temperature": 0, **rule}), "processed")

    def test_raw(self):
        """softmax(z) before any rule: dropped tokens are candidates too."""
        for row in self.rows:
            for rule in self.rules:
                with self.subTest(rule=rule):
                    self.check(row, rule, distribution(row), "raw")

    def check(self, row, rule, expected, mode):
        answer = self.ask([row], seed=9, n=20, top_candidates=MOST, logprobs=True, logprobs_mode=mode, **rule)
        got = dict(zip(answer["top_token_ids"][0], answer["top_probs"][0]))
        self.assert_close(got, expected)
        for token_id, logprob in [*zip(answer["top_token_ids"][0], answer["top_logprobs"][0]),
                                  *zip(answer["token_ids"][0], answer["logprobs"][0])]:
            exact = math.log(expected[token_id])
            self.assertTrue(math.isclose(logprob, exact, rel_tol=DIGITS, abs_tol=1e-12), (logprob, exact))

    def test_nine_digits(self):
        """Enough to tell neighbours of a float32 apart, and no more."""
        answer = self.client.sample({"logits": self.rows, "temperature": 1, "top_candidates": MOST, "seed": 1})
        for text in answer.sampled(parse_float=str)["top_probs"][1]:
            digits = text.partition("e")[0].replace(".", "").lstrip("0")
            self.assertLessEqual(len(digits), 9, text)

    def test_logprobs_of_masked_neighbours(self):
        answer = self.ask([[None, 0, None]], temperature=1, logprobs=True, top_candidates=3, seed=1)
        self.assertEqual((answer["logprobs"], answer["top_logprobs"]), ([[0]], [[0]]))


class LinearAlgebra(Semantics):
    def setUp(self):
        super().setUp()
        self.generator = random.Random(5)

    def row(self, size=300):
        return [f32(self.generator.gauss(0, 2)) for _ in range(size)]

    def check(self, logits, expected_rows, **fields):
        answer = self.ask(logits, temperature=1, seed=4, top_candidates=MOST, **fields)
        for i, row in enumerate(expected_rows):
            expected = dict(enumerate(softmax([-math.inf if x is None else x for x in row])))
            got = dict(zip(answer["top_token_ids"][i], answer["top_probs"][i]))
            self.assertEqual(sorted(got), [t for t in expected if expected[t] > 0])
            for token_id, prob in got.items():
                self.assertTrue(math.isclose(prob, expected[token_id], rel_tol=BLAS), (prob, expected[token_id]))

    def test_guidance(self):
        """Classifier-free guidance: 1.5 times with the prompt, -0.5 times without."""
        stacks = [[self.row(), self.row()], [self.row(), self.row()]]
        weights = [1.5, -0.5]
        rows = [mixed([stacks[0][i], stacks[1][i]], weights) for i in range(2)]
        self.check(stacks, rows, mix=weights)

    def test_three_models(self):
        stacks = [[self.row()] for _ in range(3)]
        weights = [0.5, 0.25, 0.25]
        self.check(stacks, [mixed([s[0] for s in stacks], weights)], mix=weights)

    def test_a_mask_in_any_stack_masks(self):
        a, b = self.row(), self.row()
        a[3], b[5] = None, None
        self.check([[a], [b]], [mixed([a, b], [2, -1])], mix=[2, -1])

    def test_a_stack_of_weight_zero_masks_nothing(self):
        a, b = self.row(), self.row()
        a[3], b[5] = None, None
        self.check([[a], [b]], [mixed([a, b], [1, 0])], mix=[1, 0])

    def test_one_bias_for_all_rows(self):
        rows, bias = [self.row(), self.row()], self.row()
        bias[7] = None
        self.check(rows, [mixed([r], [1], bias) for r in rows], bias=bias)

    def test_a_bias_per_row(self):
        rows, bias = [self.row(), self.row()], [self.row(), self.row()]
        bias[0][0], bias[1][1], rows[1][2] = None, None, None
        self.check(rows, [mixed([r], [1], b) for r, b in zip(rows, bias)], bias=bias)

    def test_only_the_sum_of_a_mix_must_be_float32(self):
        """Partial sums may leave it, in any order of the stacks; a sum that does is refused, to either side."""
        low, mid, high = -3.4028234663852886e38, 3e38, 3.4028234663852886e38
        stacks, weights = [[[low, 4, 2]], [[low, 5, 1]]], [-2, 3]
        for order in ([0, 1], [1, 0]):
            request = {"logits": [stacks[i] for i in order], "mix": [weights[i] for i in order]}
            self.assertEqual(self.client.sample(request).sampled()["token_ids"], [[1]])
        for request, param in (({"logits": [[[low, 1]], [[low, 1]]], "mix": [1, 1]}, "mix"),
                               ({"logits": [[[1, high]], [[1, high]]], "mix": [1, 1]}, "mix"),
                               ({"logits": [[mid, 1]], "bias": [mid, 0]}, "bias"),
                               ({"logits": [[1, -mid]], "bias": [0, -mid]}, "bias")):
            answer = self.client.sample(request)
            self.assertEqual(answer.status, 422)
            error = answer.json()["error"]
            self.assertEqual((error["param"], error["row"]), (param, 0))
            self.assertIn("beyond float32", error["message"])
            self.assertIn("null masks", error["message"])

    def test_mix_and_bias(self):
        a, b, bias = self.row(), self.row(), self.row()
        bias[0] = None
        self.check([[a], [b]], [mixed([a, b], [1.25, -0.25], bias)], mix=[1.25, -0.25], bias=bias)

    def test_bias_decides_a_greedy_row(self):
        self.assertEqual(self.ask([[1, 2, 3]], bias=[0, 5, None])["token_ids"], [[1]])

    def test_everything_masked_by_the_bias(self):
        answer = self.client.sample({"logits": [[1, 2], [1, None]], "bias": [[0, 0], [None, 0]]})
        self.assertEqual((answer.status, answer.json()["error"]["row"]), (422, 1))


if __name__ == "__main__":
    unittest.main()
