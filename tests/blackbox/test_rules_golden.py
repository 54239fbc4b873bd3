"""Every golden result of the rules and of six engines, through the real server, as JSON and as tensors."""

import base64
import bisect
import math
import unittest

import random_rules
import rule_forms
import rules
import server as samplerd
from test_rules_reference import ENGINES, GREEDY, REAL, RELATIVE, differences, expected_probs, load, parameters

MOST = 1024  # the largest top_candidates
DRAWS = 16
U_MOVES = 2e-3  # what a u of the skewed draws may be moved by, relative


def setUpModule():
    global SERVER
    SERVER = samplerd.Server()
    unittest.addModuleCleanup(SERVER.__exit__)


class Asked(unittest.TestCase):
    """A case is asked in both forms on one connection."""

    def setUp(self):
        self.client = SERVER.connect()
        self.addCleanup(self.client.__exit__)

    def ask(self, form, made):
        body, content_type = rule_forms.FORMS[form](made)
        return self.client.request("POST", "/sample", body, content_type)

    def each(self, name, count, check):
        """check(case, form) of all of a file, each in a subtest."""
        cases = load(name)
        self.assertEqual(len(cases), count)
        for number, case in enumerate(cases):
            for form in rule_forms.FORMS:
                with self.subTest(file=name, case=number, form=form, about=case.get("about"), **case["params"]):
                    check(case, form)


def request_of(case, logits, **more):
    """The case as a request of one row."""
    return {"logits": logits, **parameters(case), **more}


def has_state(case):
    """Such a row is drawn from once."""
    return case["params"].get("mirostat", 0) > 0 or "adaptive_target" in case["params"]


def told(answer):
    """{id: p} of the only row."""
    return dict(zip(answer["top_token_ids"][0], answer["top_probs"][0]))


class Kept(Asked):
    """What is left, with its probabilities, and that draws come from it as Philox says."""

    def check(self, case, form):
        n = 1 if has_state(case) else DRAWS
        made = request_of(case, [case["logits"]], top_candidates=MOST, seed=7, n=n)
        answer = self.ask(form, made)
        if not case["kept_token_ids"]:
            self.assertEqual(answer.status, 422, answer.body[:500])
            return
        got = answer.sampled()
        self.assertEqual(differences(told(got), expected_probs(case)), {})
        (row,) = random_rules.expected(made)
        self.check_drawn(got["token_ids"][0], row.token_ids)

    def check_drawn(self, got, expected):
        """All but those that u decides by a hair."""
        self.assertEqual([t if e != "?" else e for t, e in zip(got, expected, strict=True)], expected)

    def test_mixed_rules(self):
        self.each("rules.json", 260, self.check)

    def test_engines(self):
        for engine, count in ENGINES.items():
            self.each(f"engines/{engine}.json", count, self.check)


class Greedy(Asked):
    def check(self, case, form):
        got = self.ask(form, request_of(case, [case["logits"]], n=3)).sampled()
        self.assertEqual(got["token_ids"], [[case["greedy_token_id"]] * 3])

    def test_greedy(self):
        for engine, count in GREEDY.items():
            self.each(f"engines/greedy/{engine}.json", count, self.check)


class RealRows(Asked):
    """Rows as a model gives them, as the bytes of their files."""

    def logits(self, name, form):
        content = (samplerd.DATA / name).read_bytes()
        dtype = name.rsplit(".", 1)[1]
        shape = [1, len(content) // {"f32": 4, "bf16": 2}[dtype]]
        if form == "tensors":
            return dtype.upper(), shape, content
        return {"b64": base64.b64encode(content).decode(), "dtype": dtype, "shape": shape}

    def check(self, case, form):
        made = request_of(case, self.logits(case["file"], form), top_candidates=MOST, seed=7)
        self.assertEqual(sorted(told(self.ask(form, made).sampled())), case["kept_token_ids"])

    def test_real_rows(self):
        for engine, count in REAL.items():
            self.each(f"engines/real/{engine}.json", count, self.check)


class Steps(Asked):
    """The state that comes back, after the token that the engine drew and along a walk of the server's own."""

    def check_engine(self, case, form):
        state = state_of(case)
        for step in case["steps"]:
            probs, drawn = expected_probs(step), step["drawn_token_id"]
            made = request_of(case, [step["logits"]], top_candidates=MOST, seed=seed_that_draws(probs, drawn),
                              **{state: [step["before"]]})
            got = self.ask(form, made).sampled()
            self.assertEqual(differences(told(got), probs), {})
            self.assertEqual(got["token_ids"], [[drawn]])
            self.assert_close(got[state], step["after"])

    def check_walk(self, case, form):
        state, sent = state_of(case), {}
        for seed, step in enumerate(case["steps"]):
            made = request_of(case, [step["logits"]], seed=seed, **sent)
            got = self.ask(form, made).sampled()
            (row,) = random_rules.expected(made)
            self.assert_close(got[state], random_rules.state_after(row, got["token_ids"][0][0]))
            sent = {state: got[state]}

    def assert_close(self, got, expected):
        """The state of the only row: a number, or a list of two."""
        self.assertEqual(len(got), 1)
        got, expected = (x if isinstance(x, list) else [x] for x in (got[0], expected))
        self.assertEqual(len(got), len(expected))
        for a, b in zip(got, expected):
            self.assertTrue(math.isclose(a, b, rel_tol=RELATIVE), (got, expected))

    def test_steps(self):
        self.each("engines/steps/llamacpp.json", 6, self.check_engine)

    def test_states_go_round(self):
        """What comes back is taken as it is."""
        self.each("engines/steps/llamacpp.json", 6, self.check_walk)


def state_of(case):
    """The name of the state that the case's rule carries."""
    return "adaptive_state" if "adaptive_target" in case["params"] else "mirostat_mu"


def seed_that_draws(probs, token):
    """The first seed whose u draws the token, not by a hair."""
    seed = 0
    while random_rules.certain_draw(probs, uniform(seed, 0), 0) != token:
        seed += 1
    return seed


def uniform(seed, number):
    return rules.uniform(rules.settings({"seed": seed}, 1), number)


class Skew(Asked):
    """Of many draws those whose u is that of a golden one."""

    SEEDS = 64

    @classmethod
    def setUpClass(cls):
        """Every u of some seeds, with the seed and the draw that give it."""
        cls.table = sorted((uniform(seed, draw), seed, draw) for seed in range(cls.SEEDS) for draw in range(MOST))

    def near(self, u):
        """(seed, draw) of a u within the margin of this one; None if no seed gives one."""
        i = bisect.bisect(self.table, (u,))
        found = min(self.table[max(0, i - 1):i + 1], key=lambda entry: abs(entry[0] - u))
        return found[1:] if abs(found[0] - u) <= U_MOVES * u else None

    def check(self, case, form):
        places = [self.near(u) for u in case["u"]]
        drawn = {seed: self.drawn(case, form, seed) for seed, _ in filter(None, places)}
        for place, expected in zip(places, case["drawn_token_id"], strict=True):
            if place is not None:
                self.assertEqual(drawn[place[0]][place[1]], expected)
                self.compared += 1

    def test_skew(self):
        self.compared = 0
        self.each("engines/skew/skew.json", 6, self.check)
        self.assertGreaterEqual(self.compared, 2 * 65)  # of 72 in each form

    def drawn(self, case, form, seed):
        return self.ask(form, request_of(case, [case["logits"]], seed=seed, n=MOST)).sampled()["token_ids"][0]


class RandomRequests(Asked):
    """Whole batches over the table of rules, against the yardstick."""

    COUNT = 300

    def test_random_requests(self):
        for number, made in enumerate(random_rules.requests(seed=20, count=self.COUNT)):
            made.pop("replacement", None)  # not served yet
            for form in rule_forms.FORMS:
                with self.subTest(request=number, form=form, **made):
                    self.check(made, self.ask(form, {**made, "top_candidates": MOST}).sampled())

    def check(self, made, got):
        for i, row in enumerate(random_rules.expected(made)):
            self.assertEqual([t if e != "?" else e for t, e in zip(got["token_ids"][i], row.token_ids, strict=True)],
                             row.token_ids)
            if not row.greedy:
                probs = dict(zip(got["top_token_ids"][i], got["top_probs"][i]))
                self.assertEqual(differences(probs, row.probs), {})
            for state in {"mirostat_mu", "adaptive_state"} & got.keys():
                self.check_state(got[state][i], random_rules.state_after(row, got["token_ids"][i][0]))

    def check_state(self, got, expected):
        got, expected = (x if isinstance(x, list) else [x] for x in (got, expected))
        for a, b in zip(got, expected, strict=True):
            self.assertTrue(math.isclose(a, b, rel_tol=RELATIVE, abs_tol=RELATIVE), (got, expected))


if __name__ == "__main__":
    unittest.main()
