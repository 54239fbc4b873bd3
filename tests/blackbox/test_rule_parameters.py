"""Every parameter of a rule in every form of request: its range, wrong types, one for all rows and one a row, off is as if not
sent; and every rule on the rows where rules go wrong."""

import json
import math
import re
import struct
import unittest

import kserve
import random_rules
import rule_forms
import rules
import server as samplerd
from test_rules_reference import differences

ROWS = [[2.5, 1, -0.5, 0.25, -3, 1.75], [0.5, 0.25, 4, -1, 3.5, 0]]
HISTORY = [0, 1, 2, 0, 1, 3, 5, 0, 1]
SEEDS = ["11", "12"]
BASE = {"logits": ROWS, "history": HISTORY, "prompt_tokens": 2, "seed": SEEDS, "temperature": 1, "n": 16}
MOST = 8

# A value that is on, and what else makes it matter.
NUMBERS = {
    "temperature": (0.5, {}), "dynatemp_range": (0.4, {}), "dynatemp_exponent": (2, {"dynatemp_range": 0.4}),
    "smoothing_factor": (0.4, {}), "smoothing_curve": (1.5, {"smoothing_factor": 0.4}),
    "top_k": (2, {}), "top_p": (0.7, {}), "min_p": (0.2, {}), "typical_p": (0.5, {}), "top_n_sigma": (0.9, {}),
    "top_a": (0.3, {}), "tfs": (0.6, {}), "epsilon_cutoff": (0.1, {}), "eta_cutoff": (0.5, {}), "top_h": (0.5, {}),
    "p_less": (True, {}), "xtc_probability": (1, {}), "xtc_threshold": (0.2, {"xtc_probability": 1}),
    "repetition_penalty": (1.7, {}), "frequency_penalty": (0.6, {}), "presence_penalty": (0.7, {}),
    "penalty_last_n": (2, {"presence_penalty": 2}), "dry_multiplier": (1.5, {}),
    "dry_base": (3, {"dry_multiplier": 1.5, "dry_allowed_length": 1}), "dry_allowed_length": (1, {"dry_multiplier": 1.5}),
    "dry_last_n": (3, {"dry_multiplier": 1.5, "dry_allowed_length": 0}), "no_repeat_ngram_size": (2, {}),
    "min_tokens": (9, {"stop_token_ids": [0, 2]}), "prompt_tokens": (7, {"presence_penalty": 3}), "skew": (0.8, {}),
    "mirostat": (2, {"mirostat_mu": 1.2, "n": 1}), "mirostat_tau": (0.6, {"mirostat": 2, "n": 1}),
    "mirostat_eta": (0.5, {"mirostat": 2, "n": 1}), "mirostat_mu": (1.2, {"mirostat": 2, "n": 1}),
    "adaptive_target": (0.3, {"n": 1}), "adaptive_decay": (0.5, {"adaptive_target": 0.3, "n": 1}),
}
LISTS = {
    "allowed_token_ids": ([1, 2, 3], {}), "banned_token_ids": ([0, 2], {}), "stop_token_ids": ([0, 4], {"min_tokens": 9}),
    "xtc_protected_ids": ([0], {"xtc_probability": 1}), "logit_bias": ({"1": 3.5, "0": None}, {}),
    "bad_words": ([[0, 1, 2], [4]], {}), "dry_sequence_breakers": ([[0, 1]], {"dry_multiplier": 2}),
    "token_bitmask": (None, {}), "history": ([5, 5, 2], {"presence_penalty": 3}),
    "adaptive_state": ([1.5, 4], {"adaptive_target": 0.3, "n": 1}),
}
EMPTY = {"allowed_token_ids": [0, 1, 2, 3, 4, 5], "logit_bias": {}, "adaptive_state": None}
IN_QUERY = {"stop_token_ids", "banned_token_ids", "allowed_token_ids", "xtc_protected_ids", "history", "adaptive_state"}


def setUpModule():
    global SERVER, SCHEMA
    SERVER = samplerd.Server()
    unittest.addModuleCleanup(SERVER.__exit__)
    with SERVER.connect() as client:
        document = client.request("GET", "/openapi.json").json()
    SCHEMA = document["components"]["schemas"]["SampleRequest"]["properties"]


def bitmask(ids):
    words = sum(1 << i for i in ids)
    return {"b64": rule_forms.base64.b64encode(struct.pack("<I", words)).decode(), "dtype": "i32", "shape": [1, 1]}


# ---- forms: (client, request) to the answer as JSON, or the status and error ----

def ask_json(client, made):
    return told(client.request("POST", "/sample", json.dumps(made).encode(), samplerd.JSON))


def ask_tensors(client, made):
    body, media = rule_forms.by_tensors(made)
    return told(client.request("POST", "/sample", body, media))


def ask_query(client, made):
    fields = {name: flat(value) for name, value in made.items() if name != "logits"}
    body = struct.pack(f"<{sum(map(len, made['logits']))}f", *sum(made["logits"], []))
    target = "/sample?" + samplerd.query_text({"vocab_size": len(made["logits"][0]), **fields}).replace(" ", "%20")
    return told(client.request("POST", target, body, samplerd.RAW))


def ask_kserve(client, made):
    """Tensors by their names; the rows' answers as /sample has them."""
    tensors, texts = {}, {}
    for name, value in made.items():
        if name in rule_forms.TEXTS:
            texts[name] = samplerd.query_value(value)
        else:
            tensors.update(rule_forms.tensors_of(name, value, made))
    inputs = [({"name": name, "shape": shape, "datatype": KSERVE_TYPES[dtype],
                "parameters": {"binary_data_size": len(content)}}, content)
              for name, (dtype, shape, content) in tensors.items()]
    answer = kserve.post(client, inputs, **({"parameters": texts} if texts else {}))
    if answer.status != 200:
        return answer.status, {"message": answer.json()["error"]}
    found, _ = kserve.outputs_of(answer)
    rows = len(made["logits"])
    split = lambda values: [values[i * len(values) // rows:(i + 1) * len(values) // rows] for i in range(rows)]
    got = {name: split(values) for name, (_, _, values) in found.items() if name != "seed"}
    return {name: sum(values, []) if name == "mirostat_mu" else values for name, values in got.items()}


KSERVE_TYPES = {"F32": "FP32", "F64": "FP64", "I32": "INT32", "I64": "INT64", "U64": "UINT64", "U32": "UINT32",
                "BOOL": "BOOL"}


def told(answer):
    if answer.status != 200:
        return answer.status, answer.json()["error"]
    return {name: value for name, value in answer.json().items() if name != "seed"}


def flat(value):
    """A pair a row is one list in a query."""
    return [x for pair in value for x in pair] if isinstance(value, list) and value and isinstance(value[0], list) else value


FORMS = {"json": ask_json, "tensors": ask_tensors, "query": ask_query, "kserve": ask_kserve}


class Asked(unittest.TestCase):
    def setUp(self):
        self.client = SERVER.connect()
        self.addCleanup(self.client.__exit__)

    def ask(self, form, **parameters):
        return FORMS[form](self.client, {**BASE, **parameters})

    def in_forms(self, names, check, without=()):
        """check(name, form) of each, in a subtest."""
        for name in names:
            for form in FORMS:
                if form not in without:
                    with self.subTest(name=name, form=form):
                        check(name, form)


class Numbers(Asked):
    def test_all_are_here(self):
        """A new parameter of a rule needs its line above."""
        own = {"logits", "seed", "offset", "n", "top_candidates", "logprobs", "logprobs_mode", "mix", "bias", "id",
               "candidate_ids", "engine", "order", "top_k_ties", "top_p_crossing"}
        self.assertEqual(SCHEMA.keys() - own, NUMBERS.keys() | LISTS.keys())

    def test_off_is_as_if_not_sent(self):
        def check(name, form):
            off = rules.OFF[name] if name != "temperature" else 0
            if off is None:
                return
            more = {"n": 1} if name.startswith("mirostat") else {}
            without = {key: value for key, value in BASE.items() if key != name}
            self.assertEqual(FORMS[form](self.client, {**without, **more, name: off}),
                             FORMS[form](self.client, {**without, **more}))

        self.in_forms(NUMBERS, check)

    def test_on_is_not_off(self):
        """Or the tests of these values would show nothing."""
        for name in NUMBERS:
            value, more = NUMBERS[name]
            with self.subTest(name=name):
                without = {key: x for key, x in {**BASE, **more}.items() if key != name}
                self.assertNotEqual(ask_json(self.client, {**without, name: value, "top_candidates": MOST}),
                                    ask_json(self.client, {**without, "top_candidates": MOST}))

    def test_one_a_row(self):
        """[on, off] is on for row 0 and off for row 1, and a list of one is for all."""
        def check(name, form):
            value, more = NUMBERS[name]
            off = {"temperature": 1, "top_h": 1, "mirostat_mu": 10, "adaptive_target": 0.9}.get(name, rules.OFF.get(name))
            both, on = self.ask(form, **more, **{name: [value, off]}), self.ask(form, **more, **{name: value})
            for field, rows in self.ask(form, **more, **{name: [off, off]}).items():
                self.assertEqual(both[field], [on[field][0], rows[1]])
            self.assertEqual(self.ask(form, **more, **{name: [value]}), on)

        self.in_forms(NUMBERS, check)

    def test_range(self):
        def check(name, form):
            for number in outside(name):
                status, error = self.ask(form, **NUMBERS[name][1], **{name: number})
                self.assertEqual(status, 400)
                self.assertRegex(error["message"], rf"^{name} is {re.escape(f'{number:.15g}')}; it must be ")
            for number in outside(name)[:1]:
                status, error = self.ask(form, **NUMBERS[name][1], **{name: [NUMBERS[name][0], number]})
                self.assertEqual(status, 400)
                self.assertRegex(error["message"], rf"^{name}\[1\] is ")

        self.in_forms(NUMBERS, check)

    def test_wrong_type(self):
        def check(name, form):
            status, error = self.ask(form, **{name: "x"})
            self.assertEqual((status, error["code"], error["param"]), (400, "wrong_type", name))

        self.in_forms(NUMBERS, check, without=("tensors", "kserve"))

    def test_wrong_type_of_tensor(self):
        for name in NUMBERS:
            with self.subTest(name=name):
                dtype, content = ("F32", bytes(4)) if name == "p_less" else ("BOOL", bytes(1))
                tensors = {"logits": ("F32", [1, 2], bytes(8)), name: (dtype, [1], content)}
                answer = self.client.request("POST", "/sample", rule_forms.forms.safetensors(tensors),
                                             rule_forms.forms.SAFETENSORS)
                self.assertEqual((answer.status, answer.json()["error"]["code"]), (400, "wrong_type"))

    def test_wrong_length(self):
        def check(name, form):
            value, more = NUMBERS[name]
            status, error = self.ask(form, **more, **{name: [value] * 3})
            self.assertEqual(status, 400)
            self.assertEqual(error["message"], f"{name} has 3 values; it must be one value, or one for each of the 2 rows")

        self.in_forms(NUMBERS, check)

def outside(name):
    """Numbers that the schema does not allow, if any."""
    schema = SCHEMA[name]["anyOf"][0]
    if schema["type"] == "boolean":
        return []
    numbers = [schema["minimum"] - 1] if "minimum" in schema else []
    numbers += [schema["exclusiveMinimum"]] if "exclusiveMinimum" in schema else []
    numbers += [schema["maximum"] + 1] if "maximum" in schema and schema["maximum"] < 2**31 - 1 else []
    return numbers + ([0.5] if schema["type"] == "integer" else [])


class Lists(Asked):
    def value_of(self, name):
        value, more = LISTS[name]
        return (bitmask([1, 2, 3]) if name == "token_bitmask" else value), more

    def test_the_same_in_every_form(self):
        for name in LISTS:
            value, more = self.value_of(name)
            expected = self.ask("json", **more, **{name: value})
            self.assertIn("token_ids", expected)
            for form in FORMS:
                if form != "query" or (name in IN_QUERY and not isinstance(value[0], list)):
                    with self.subTest(name=name, form=form):
                        self.assertEqual(self.ask(form, **more, **{name: value}), expected)

    def test_one_a_row(self):
        for name in LISTS:
            value, more = self.value_of(name)
            off = bitmask(range(6)) if name == "token_bitmask" else EMPTY.get(name, [])
            without = {**BASE, **more}
            without = without if name != "history" else {key: x for key, x in without.items() if key != "history"}
            if name == "adaptive_state":
                off = [1, 2]
            on, none = (ask_json(self.client, {**without, name: x}) for x in (value, off))
            if name == "token_bitmask":
                both = {**value, "shape": [2, 1], "b64": rule_forms.base64.b64encode(struct.pack("<2I", 14, 63)).decode()}
            else:
                both = [value, off]
            for form in ("json", "tensors", "kserve"):
                with self.subTest(name=name, form=form):
                    got = FORMS[form](self.client, {**without, name: both})
                    for field in on:
                        self.assertEqual(got[field], [on[field][0], none[field][1]])

    def test_wrong_length(self):
        for name in LISTS:
            value, more = self.value_of(name)
            if name == "token_bitmask":
                value = {**value, "shape": [3, 1], "b64": rule_forms.base64.b64encode(struct.pack("<3I", 1, 1, 1)).decode()}
            else:
                value = [value] * 3
            for form in ("json", "tensors", "kserve"):
                with self.subTest(name=name, form=form):
                    status, error = self.ask(form, **more, **{name: value})
                    self.assertEqual(status, 400)
                    self.assertRegex(error["message"], r"has 3 (list|value)s; it must be one \1, or one for each of the 2 rows")

    def test_ids_are_checked(self):
        """The parameter, the row, the place and the value."""
        for name, value, place in (("allowed_token_ids", [[0], [1, 6]], "[1][1] is 6"), ("banned_token_ids", [0, 7], "[1] is 7"),
                                   ("stop_token_ids", [[6], []], "[0][0] is 6"), ("xtc_protected_ids", [9], "[0] is 9"),
                                   ("history", [[1], [2, 3, 8]], "[1][2] is 8"), ("logit_bias", {"6": 1}, "[0] is 6"),
                                   ("bad_words", [[0, 6]], "[0][1] is 6"), ("bad_words", [[[1]], [[0, 9]]], "[1][0][1] is 9")):
            for form in ("json", "tensors", "kserve"):
                with self.subTest(name=name, form=form):
                    status, error = self.ask(form, **{name: value})
                    self.assertEqual(status, 400)
                    row = r"(\[0\])?" if name == "logit_bias" else ""  # which tensors have
                    self.assertRegex(error["message"], f"{name}{row}{re.escape(place)}; it must be a token id from 0 to 5")

    def test_candidates(self):
        """Ids are looked up among them; one that is none is let be."""
        ids = [[70, 50, 60, 10, 20, 30]] * 2
        plain = self.ask("json", banned_token_ids=[0, 2], history=[])
        for form in ("json", "tensors", "kserve"):
            with self.subTest(form=form):
                got = self.ask(form, candidate_ids=ids, banned_token_ids=[70, 60, 999], history=[])
                self.assertEqual([len(row) for row in got["token_ids"]], [len(row) for row in plain["token_ids"]])
                self.assertLessEqual(set(sum(got["token_ids"], [])), {50, 10, 20, 30})

    def test_junk(self):
        for name, value in (("banned_token_ids", 3), ("banned_token_ids", {"1": 2}), ("banned_token_ids", [None]),
                            ("banned_token_ids", [[1], 2]), ("banned_token_ids", [1.5]), ("banned_token_ids", [-1]),
                            ("banned_token_ids", [1e300]), ("banned_token_ids", ["1"]), ("banned_token_ids", [True]),
                            ("logit_bias", [1]), ("logit_bias", {"-1": 1}), ("logit_bias", {"1.0": 1}), ("logit_bias", {"": 1}),
                            ("logit_bias", {"1": "1"}), ("logit_bias", {"1": 1, "01": 2}), ("logit_bias", {"1": 1e39}),
                            ("logit_bias", {"99999999999999999999": 1}), ("bad_words", [[]]), ("bad_words", {"1": 1}),
                            ("bad_words", [[[[1]]]]), ("bad_words", ["a"]), ("token_bitmask", [[1], [1, 2]]),
                            ("token_bitmask", [2**32]), ("token_bitmask", ["1"]), ("token_bitmask", {"b64": "AAAA"}),
                            ("token_bitmask", {"b64": "AAAAAA==", "dtype": "f32", "shape": [1]}), ("order", "top_k"),
                            ("order", [1]), ("order", ["top_k", "top_k"]), ("order", ["nothing"]), ("order", ["history"]),
                            ("adaptive_state", [1]), ("adaptive_state", [1, 2, 3]), ("adaptive_state", [[1, 2], [3]]),
                            ("adaptive_state", ["a", 1]), ("p_less", 1), ("p_less", "true"), ("p_less", [True, 0])):
            with self.subTest(name=name, value=value):
                status, error = self.ask("json", **{name: value})
                self.assertEqual((status, error["param"]), (400, name))
        self.assertEqual(self.ask("json"), self.ask("json"))  # and the connection goes on

    def test_padding(self):
        """-1 stands at the end alone; a tensor of it is an empty list."""
        for values, fine in (([0, 1, -1], True), ([-1, -1, -1], True), ([0, -1, 1], False), ([-2, 0, 0], False)):
            with self.subTest(values=values):
                tensors = {"logits": ("F32", [1, 3], struct.pack("<3f", 1, 2, 3)),
                           "banned_token_ids": ("I32", [3], struct.pack("<3i", *values))}
                answer = self.client.request("POST", "/sample", rule_forms.forms.safetensors(tensors),
                                             rule_forms.forms.SAFETENSORS)
                self.assertEqual(answer.status, 200 if fine else 400)

    def test_biases_are_two_tensors(self):
        ids, values = ("I32", [2], struct.pack("<2i", 0, 1)), ("F32", [2], struct.pack("<2f", 1, 2))
        for more, message in (({"logit_bias_ids": ids}, "logit_bias_values is missing"),
                              ({"logit_bias_values": values}, "logit_bias_ids is missing"),
                              ({"logit_bias_ids": ids, "logit_bias_values": ("F32", [1], bytes(4))}, "of the shape of"),
                              ({"logit_bias_ids": ids, "logit_bias_values": ("F32", [2], struct.pack("<2f", 1, math.nan))},
                               "has NaN for the id 1"),
                              ({"logit_bias": values}, "logit_bias_ids and logit_bias_values")):
            with self.subTest(message=message):
                tensors = {"logits": ("F32", [1, 2], bytes(8)), **more}
                answer = self.client.request("POST", "/sample", rule_forms.forms.safetensors(tensors),
                                             rule_forms.forms.SAFETENSORS)
                self.assertEqual(answer.status, 400)
                self.assertIn(message, answer.json()["error"]["message"])


class Conflicts(Asked):
    def test_what_cannot_be(self):
        for parameters, param, message in (
                ({"min_p": 0.1, "order": ["top_k", "temperature"]}, "min_p", "order leaves it out"),
                ({"engine": "vllm", "tfs": 0.5}, "tfs", "the engine vllm has no such rule"),
                ({"engine": "sglang", "top_p": 0}, "top_p", "which the engine sglang refuses"),
                ({"engine": "transformers", "typical_p": 0}, "typical_p", "which the engine transformers refuses"),
                ({"order": ["skew", "top_k", "temperature"]}, "order", "may only stand at the end"),
                ({"mirostat": 2}, "n", "must be 1"), ({"adaptive_target": 0.5}, "n", "must be 1"),
                ({"adaptive_target": 0.5, "n": 1, "adaptive_state": [1, 0]}, "adaptive_state", "must be above 0"),
                ({"allowed_token_ids": []}, "allowed_token_ids", "is an empty list")):
            with self.subTest(**parameters):
                status, error = self.ask("json", **parameters)
                self.assertEqual((status, error["param"]), (400, param))
                self.assertIn(message, error["message"])

    def test_penalties_want_a_history(self):
        for parameters in ({"repetition_penalty": 2}, {"frequency_penalty": 1}, {"presence_penalty": 1},
                           {"dry_multiplier": 1}, {"no_repeat_ngram_size": 2}):
            with self.subTest(**parameters):
                status, error = ask_json(self.client, {"logits": ROWS, "temperature": 1, **parameters})
                self.assertEqual((status, error["code"], error["param"]), (400, "missing_parameter", "history"))

    def test_fully_masked(self):
        """The rule that masked the last token, and its row."""
        for parameters, rule, row in (({"banned_token_ids": [[], [0, 1, 2, 3, 4, 5]]}, "banned_token_ids", 1),
                                      ({"banned_token_ids": [0, 1, 2], "logit_bias": {"3": None, "4": None, "5": None}},
                                       "logit_bias", 0),
                                      ({"allowed_token_ids": [3], "history": [3], "no_repeat_ngram_size": 1},
                                       "no_repeat_ngram", 0),
                                      ({"allowed_token_ids": [1], "token_bitmask": bitmask([2])}, "token_bitmask", 0)):
            with self.subTest(**parameters):
                parameters = {**parameters}
                if "token_bitmask" in parameters:
                    parameters["token_bitmask"] = {**parameters["token_bitmask"], "shape": [1]}
                status, error = self.ask("json", **parameters)
                self.assertEqual((status, error["code"], error["row"]), (422, "fully_masked", row))
                self.assertIn(f"{rule} masked the last of them", error["message"])

    def test_names_of_other_engines(self):
        """As docs/coming-from.md has them."""
        text = (samplerd.ROOT / "docs" / "coming-from.md").read_text()
        names = re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", text, re.M)
        self.assertGreater(len(names), 30)
        for theirs, ours in names:
            with self.subTest(theirs=theirs):
                status, error = self.ask("json", **{theirs: 1})
                self.assertEqual((status, error["code"], error["param"]), (400, "unknown_parameter", theirs))
                self.assertTrue(error["message"].endswith(f"here it is {ours}"), error["message"])


class Corners(Asked):
    """Every rule on rows of one token, of equal ones, of one that is not masked, of ties at the cut, of -0.0."""

    ROWS = ([3.5], [0.0], [1.25] * 6, [None, None, 2, None, None, None], [2, 2, 1, 1, 0, 0], [0.0, -0.0, 0.0, -0.0, -1, -1],
            [5, 4, 4, 4, 1, 1])

    def test_every_rule(self):
        for name, (value, more) in {**NUMBERS, **LISTS}.items():
            for logits in self.ROWS:
                made = {"logits": [logits], "history": [0, 0], "prompt_tokens": 1, "seed": ["5"], "temperature": 1, "n": 8,
                        **more, name: value}
                if name == "token_bitmask":
                    made[name] = {**bitmask([0, 2]), "shape": [1]}
                with self.subTest(name=name, logits=logits):
                    self.check(inside(made, len(logits)), name)

    def check(self, made, name):
        got = ask_json(self.client, {**made, "top_candidates": MOST})
        try:
            (expected,) = random_rules.expected(made)
        except rules.FullyMasked:
            self.assertEqual(got[0], 422)
            return
        if name in ("typical_p", "tfs", "top_h", "eta_cutoff", "epsilon_cutoff") and isinstance(got, dict):
            self.assertGreaterEqual(len(got["top_token_ids"][0]), 1)  # ties at these cuts: rounding decides in float64, too
            return
        self.assertIsInstance(got, dict, got)
        if not expected.greedy:
            self.assertEqual(differences(dict(zip(got["top_token_ids"][0], got["top_probs"][0])), expected.probs), {})
        self.assertEqual([t if e != "?" else e for t, e in zip(got["token_ids"][0], expected.token_ids)], expected.token_ids)


def inside(made, size):
    """Ids of a row of this size only."""
    def cut(value):
        if isinstance(value, dict):
            return {t: x for t, x in value.items() if not t.isdigit() or int(t) < size}
        return [x if not isinstance(x, list) else cut(x) for x in value if isinstance(x, (list, float)) or x < size]

    cut_ones = {}
    for name, value in made.items():
        ids = name in LISTS and name not in ("adaptive_state", "token_bitmask") or name == "history"
        kept = cut(value) if ids else value
        if name in ("bad_words", "dry_sequence_breakers"):
            kept = [words for words in kept if words]
        cut_ones[name] = kept or [0] if name == "allowed_token_ids" else kept
    return cut_ones


if __name__ == "__main__":
    unittest.main()
