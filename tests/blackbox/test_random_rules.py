"""The requests that random_rules.py makes up: the same for a seed, over the whole table, none near a decision."""

import random
import unittest

import random_rules
import rules

NAMES = set(rules.OFF) - {"stream", "candidate_ids"} | {"engine", "order", "top_k_ties", "top_p_crossing", "temperature"}


class RandomRequests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.requests = list(random_rules.requests(seed=1, count=300))

    def test_a_seed_names_them(self):
        self.assertEqual(list(random_rules.requests(seed=1, count=10)), self.requests[:10])
        self.assertNotEqual(list(random_rules.requests(seed=2, count=10)), self.requests[:10])

    def test_every_parameter_is_asked_for(self):
        self.assertEqual(NAMES - {name for made in self.requests for name in made}, set())

    def test_every_engine_is_asked_for(self):
        self.assertEqual(set(rules.ENGINES), {made.get("engine", "reference") for made in self.requests})

    def test_every_rule_cuts_or_reshapes(self):
        """A rule that never changes what is left is not tested by them."""
        idle = set(rules.RULES) - {"skew"}
        for made in self.requests:
            for row in random_rules.expected(made):
                for name, left in row.row.before.items():
                    rule, is_on = rules.RULES[name]
                    if name in idle and is_on(row.row) and rule(left, row.row) != left:
                        idle.discard(name)
        self.assertEqual(idle, set())

    def test_no_move_of_float32_changes_them(self):
        """Moves of other patterns than those that they were looked through with."""
        r = random.Random(5)
        near = sum(random_rules.is_near(row, parameters, r)
                   for made in self.requests for row, parameters in random_rules.rows(made))
        self.assertLessEqual(near, 3)  # a move ten times as large as float32's still finds a few

    def test_what_must_be_drawn_can_be(self):
        for made in self.requests:
            for row in random_rules.expected(made):
                self.assertEqual(len(row.token_ids), made.get("n", 1))
                if not row.greedy:
                    self.assertLessEqual(set(row.token_ids), set(row.probs) | {"?", None})


if __name__ == "__main__":
    unittest.main()
