"""rules.py agrees with every golden result: the mixed cases, and what six engines' own code keeps."""

import array
import functools
import json
import math
import sys
import unittest

import rules
from server import DATA

RELATIVE, ABSOLUTE = 2e-4, 1e-7  # of a probability: the engines compute in float32
SMALLEST = 1e-12  # a token below may stay or go
ENGINES = {"aphrodite": 71, "exllamav2": 31, "llamacpp": 280, "sglang": 92, "transformers": 212, "vllm": 145}  # cases
GREEDY = {"llamacpp": 14, "sglang": 6, "transformers": 8, "vllm": 8}
REAL = {"llamacpp": 22, "sglang": 13, "transformers": 20, "vllm": 15}


def load(name):
    return json.loads((DATA / name).read_text())["cases"]


def parameters(case):
    """What the case asks for, named as in a request."""
    fields = {name: case[name] for name in ("engine", "history", "prompt_tokens") if name in case}
    return {**case["params"], **fields}


@functools.lru_cache(maxsize=None)
def real_row(name):
    """The float32 values of a file of real logits."""
    values = array.array("f" if name.endswith(".f32") else "H", (DATA / name).read_bytes())
    if sys.byteorder == "big":
        values.byteswap()
    if name.endswith(".bf16"):  # the upper half of a float32
        values = array.array("f", array.array("I", [v << 16 for v in values]).tobytes())
    return values.tolist()


def differences(got, expected):
    """The tokens whose probability in got is not the expected one; both are {id: p}."""
    return {t: (got.get(t), expected.get(t)) for t in got.keys() | expected.keys()
            if max(got.get(t, 0), expected.get(t, 0)) >= SMALLEST
            and (t not in got or t not in expected
                 or not math.isclose(got[t], expected[t], rel_tol=RELATIVE, abs_tol=ABSOLUTE))}


def expected_probs(case):
    return dict(zip(case["kept_token_ids"], case["probs"]))


def kept(case):
    """{id: p}; empty, as in the golden results, where every token is masked."""
    try:
        return rules.distribution(case["logits"], parameters(case))
    except rules.FullyMasked:
        return {}


class Golden(unittest.TestCase):
    def check(self, name, count):
        cases = load(name)
        self.assertEqual(len(cases), count)
        for number, case in enumerate(cases):
            with self.subTest(file=name, case=number, about=case.get("about"), **case["params"]):
                self.assertEqual(differences(kept(case), expected_probs(case)), {})

    def test_mixed_rules(self):
        self.check("rules.json", 260)

    def test_engines(self):
        for engine, count in ENGINES.items():
            self.check(f"engines/{engine}.json", count)

    def test_greedy(self):
        for engine, count in GREEDY.items():
            cases = load(f"engines/greedy/{engine}.json")
            self.assertEqual(len(cases), count)
            for number, case in enumerate(cases):
                with self.subTest(engine=engine, case=number, **case["params"]):
                    self.assertEqual(rules.greedy(case["logits"], parameters(case)), case["greedy_token_id"])

    def test_real_rows(self):
        for engine, count in REAL.items():
            cases = load(f"engines/real/{engine}.json")
            self.assertEqual(len(cases), count)
            for number, case in enumerate(cases):
                with self.subTest(engine=engine, case=number, file=case["file"], **case["params"]):
                    got = rules.distribution(real_row(case["file"]), parameters(case))
                    self.assertEqual(sorted(got), case["kept_token_ids"])


class Plain(unittest.TestCase):
    """Rows of temperature, top_k and top_p alone, and what is drawn from them."""

    def test_reference(self):
        for case in load("reference.json"):
            asked = {name: case[name] for name in ("temperature", "top_k", "top_p")}
            with self.subTest(case=case["name"]):
                if "greedy_token_id" in case:
                    self.assertEqual(rules.greedy(case["logits"], asked), case["greedy_token_id"])
                else:
                    self.assertEqual(differences(rules.distribution(case["logits"], asked), expected_probs(case)), {})

    def test_draws(self):
        for number, case in enumerate(load("draws.json")):
            for i, logits in enumerate(case["logits"]):
                with self.subTest(case=number, row=i):
                    self.assertEqual(rules.sample(logits, self.of_row(case, i)).token_ids, case["token_ids"][i])

    @staticmethod
    def of_row(case, i):
        """The parameters of row i."""
        asked = {name: value[i] if isinstance(value, list) else value
                 for name, value in case.items() if name not in ("logits", "token_ids")}
        return {**asked, "stream": 0 if isinstance(case["seed"], list) else i}


class Steps(unittest.TestCase):
    """What is left before the draw, and the state after it."""

    def test_steps(self):
        count = 0
        for case in load("engines/steps/llamacpp.json"):
            state = "adaptive_state" if "adaptive_target" in case["params"] else "mirostat_mu"
            for number, step in enumerate(case["steps"]):
                count += 1
                with self.subTest(step=number, **case["params"]):
                    self.check(step, {**parameters(case), state: step["before"]}, state)
        self.assertEqual(count, 36)

    def check(self, step, asked, state):
        row = rules.settings(asked, len(step["logits"]))
        probs = rules.softmax(rules.run_chain(step["logits"], row))
        self.assertEqual(differences(probs, expected_probs(step)), {})
        drawn = step["drawn_token_id"]
        if state == "mirostat_mu":
            self.assert_close(rules.mirostat_after(row, probs[drawn]), step["after"])
        else:
            self.assert_close(rules.adaptive_after(row, drawn), step["after"])

    def assert_close(self, got, expected):
        got, expected = (x if isinstance(x, list) else [x] for x in (got, expected))
        self.assertEqual(len(got), len(expected))
        for a, b in zip(got, expected):
            self.assertTrue(math.isclose(a, b, rel_tol=RELATIVE), (got, expected))


class Skew(unittest.TestCase):
    def test_drawn_tokens(self):
        for number, case in enumerate(load("engines/skew/skew.json")):
            probs = rules.distribution(case["logits"], parameters(case))
            for u, drawn in zip(case["u"], case["drawn_token_id"]):
                with self.subTest(case=number, u=u):
                    self.assertEqual(rules.draw(probs, u, case["params"]["skew"]), drawn)

    def test_how_often_each_is_drawn(self):
        """The share of u that draws the i-th likeliest is c_i^exp(skew) - c_(i-1)^exp(skew), c the running sum."""
        for number, case in enumerate(load("engines/skew/skew.json")):
            probs = rules.distribution(case["logits"], parameters(case))
            mass, before = 0.0, 0.0
            for t, expected in zip(rules.likeliest_first(probs), case["draw_probs"]):
                mass += probs[t]
                share = min(mass, 1) ** math.exp(case["params"]["skew"])
                with self.subTest(case=number, token=t):
                    self.assertTrue(math.isclose(share - before, expected, rel_tol=RELATIVE, abs_tol=ABSOLUTE))
                before = share


if __name__ == "__main__":
    unittest.main()
