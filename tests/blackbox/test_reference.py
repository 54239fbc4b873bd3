"""Every expected result in tests/data, through the real server, as JSON and as raw logits."""

import array
import json
import sys
import unittest

import server as samplerd
from expected import row_f32

TOLERANCE = 3e-6  # of a probability, as the reference states it
MOST = 1024  # the largest top_candidates


def load(name):
    return json.loads((samplerd.DATA / name).read_text())


def setUpModule():
    global SERVER
    SERVER = samplerd.Server()
    unittest.addModuleCleanup(SERVER.__exit__)


class OverBothForms(unittest.TestCase):
    """A case is asked twice on one connection: in JSON and with raw logits."""

    def setUp(self):
        self.client = SERVER.connect()
        self.addCleanup(self.client.__exit__)

    def answers(self, rows, parameters):
        yield "json", self.client.sample({"logits": rows, **parameters}).sampled()
        yield "raw", self.client.sample_raw(rows, **parameters).sampled()


class Reference(OverBothForms):
    def check_kept(self, case, answer):
        got = dict(zip(answer["top_token_ids"][0], answer["top_probs"][0]))
        self.assertEqual(sorted(got), case["kept_token_ids"])
        for token_id, prob in zip(case["kept_token_ids"], case["probs"]):
            self.assertAlmostEqual(got[token_id], prob, delta=TOLERANCE)
        self.assertIn(answer["token_ids"][0][0], got)
        self.assertEqual(answer["top_probs"][0], sorted(answer["top_probs"][0], reverse=True))

    def test_reference(self):
        for case in load("reference.json")["cases"]:
            parameters = {name: case[name] for name in ("temperature", "top_k", "top_p")}
            parameters["top_candidates"] = MOST
            for form, answer in self.answers([case["logits"]], parameters):
                with self.subTest(case=case["name"], form=form):
                    if "greedy_token_id" in case:
                        self.assertEqual(answer["token_ids"], [[case["greedy_token_id"]]])
                    else:
                        self.check_kept(case, answer)


class Draws(OverBothForms):
    def test_draws(self):
        for number, case in enumerate(load("draws.json")["cases"]):
            parameters = {name: value for name, value in case.items() if name not in ("logits", "token_ids")}
            for form, answer in self.answers(case["logits"], parameters):
                with self.subTest(case=number, form=form):
                    self.assertEqual(answer["token_ids"], case["token_ids"])
                    if form == "json":
                        self.assertEqual(self.words(answer["seed"]), self.words(case["seed"]))

    @staticmethod
    def words(seed):
        """Seeds as numbers, however they are written."""
        return [int(s) for s in seed] if isinstance(seed, list) else int(seed)


def real_row(entry):
    """The float32 values of one file of real logits."""
    body = (samplerd.DATA / entry["file"]).read_bytes()
    values = array.array("f" if entry["dtype"] == "f32" else "H")
    values.frombytes(body)
    if sys.byteorder == "big":
        values.byteswap()
    if entry["dtype"] == "bf16":  # the upper half of a float32
        values = array.array("f", array.array("I", [v << 16 for v in values]).tobytes())
    assert len(values) == entry["vocab_size"]
    return values.tolist()


class RealRows(OverBothForms):
    def check(self, case, answer):
        self.assertEqual(answer["token_ids"], [case["token_ids"]])
        if case["temperature"] <= 0:  # a greedy row keeps one but reports softmax(z)
            return
        slack, kept = case.get("kept_within", 0), len(answer["top_token_ids"][0])
        if case["kept"] + slack < MOST:
            self.assertLessEqual(abs(kept - case["kept"]), slack)
        elif case["kept"] - slack >= MOST:
            self.assertEqual(kept, MOST)

    def check_top(self, entry, answer):
        """The likeliest tokens, known to five digits."""
        for (token_id, _, prob), got_id, got in zip(entry["top"], answer["top_token_ids"][0], answer["top_probs"][0]):
            self.assertEqual(got_id, token_id)
            self.assertAlmostEqual(got, prob, delta=1e-5)

    def test_real_rows(self):
        for entry in load("rows.json")["rows"]:
            row = real_row(entry)
            text = json.dumps(row)
            raw = samplerd.pack_rows([row])
            self.assertEqual(row_f32(row[:64]), row[:64])
            for case in entry["cases"]:
                parameters = {k: case[k] for k in ("temperature", "top_k", "top_p", "seed", "n") if k in case}
                parameters["top_candidates"] = MOST
                tail = json.dumps(parameters)[1:]
                query = samplerd.query_text({"vocab_size": len(row), **parameters})
                for form, answer in (
                        ("json", self.client.sample(f'{{"logits":[{text}],{tail}'.encode())),
                        ("raw", self.client.request("POST", "/sample?" + query, raw, samplerd.RAW))):
                    with self.subTest(file=entry["file"], form=form, **parameters):
                        self.check(case, answer.sampled())
            likeliest = self.client.sample_raw([row], temperature=1, top_candidates=8, seed=1).sampled()
            with self.subTest(file=entry["file"]):
                self.check_top(entry, likeliest)


if __name__ == "__main__":
    unittest.main()
