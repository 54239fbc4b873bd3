"""Bodies as others write them, to the real server: what stands in for what, and what is refused."""

import struct
import unittest

import forms
import kserve
import server as samplerd

ROWS = [[10, 8, 6, 3], [1, 2, 0, 5]]
BIAS = [0, 4.5, -8, None]


def setUpModule():
    global CLIENT
    server = samplerd.Server()
    unittest.addModuleCleanup(server.__exit__)
    CLIENT = server.connect()
    unittest.addModuleCleanup(CLIENT.__exit__)


def tensors(metadata=None, **more):
    """Rows as safetensors; more: {name: (dtype, shape, bytes)}."""
    body = forms.safetensors({"logits": ("F32", [2, 4], forms.pack(ROWS, "f32")), **more}, metadata)
    return CLIENT.request("POST", "/sample", body, forms.SAFETENSORS)


def error_of(answer, status=400):
    assert answer.status == status, f"{answer.status}: {answer.body[:500]!r}"
    return answer.json()["error"]


class Metadata(unittest.TestCase):
    """safetensors' __metadata__ is its writers' own, and ours where a name is a parameter's."""

    def test_other_entries_are_ignored(self):
        expected = CLIENT.sample({"logits": ROWS, "seed": 7, "temperature": 1, "n": 5}).sampled()
        ours = {"temperature": "1", "n": "5", "seed": "7"}
        others = ({"format": "pt"}, {"format": "np", "step": "12", "dtype": "bfloat16", "": "", "total_size": "9"},
                  {f"modelspec.{i}": "x" * 100 for i in range(1000)})
        for other in others:
            with self.subTest(other=list(other)[:5]):
                self.assertEqual(tensors({**other, **ours}).sampled(), expected)
                self.assertEqual(tensors({**ours, **other}).sampled(), expected)
                self.assertEqual(tensors(other).sampled()["token_ids"], [[0], [3]])

    def test_null_is_none(self):
        text = b'{"__metadata__":null,"logits":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}}'
        body = struct.pack("<Q", len(text)) + text + forms.pack(ROWS, "f32")
        self.assertEqual(CLIENT.request("POST", "/sample", body, forms.SAFETENSORS).sampled()["token_ids"], [[0], [3]])

    def test_what_was_meant_to_be_a_parameter_is_refused(self):
        for name, meant in (("temprature", "temperature"), ("Temperature", "temperature"), ("topk", "top_k"),
                            ("top-p", "top_p"), ("Seed", "seed"), ("N", "n"), ("seeds", "seed"),
                            ("num_candidates", "top_candidates"), ("logprob", "logprobs"), ("ofset", "offset")):
            with self.subTest(name=name):
                error = error_of(tensors({"format": "pt", name: "1"}))
                self.assertEqual((error["code"], error["param"]), ("unknown_parameter", name))
                self.assertEqual(error["message"], f"{name} is not a known parameter; did you mean {meant}?")


class Bias(unittest.TestCase):
    """Any float type that logits may have."""

    def setUp(self):
        self.expected = CLIENT.sample({"logits": ROWS, "bias": BIAS, "seed": 7, "temperature": 1, "n": 9,
                                       "top_candidates": 4}).sampled()

    def test_safetensors(self):
        for dtype in forms.PACK:
            with self.subTest(dtype=dtype):
                bias = dtype.upper(), [4], forms.pack([BIAS], dtype)
                parameters = {"seed": "7", "temperature": "1", "n": "9", "top_candidates": "4"}
                self.assertEqual(tensors(parameters, bias=bias).sampled(), self.expected)

    def test_kserve(self):
        for datatype, dtype in kserve.DTYPES.items():
            with self.subTest(datatype=datatype):
                data = forms.pack([BIAS], dtype)
                entry = {"name": "bias", "datatype": datatype, "shape": [4],
                         "parameters": {"binary_data_size": len(data)}}
                answer = kserve.post(CLIENT, [kserve.rows_tensor(ROWS), (entry, data)],
                                     parameters={"seed": 7, "temperature": 1, "n": 9})
                self.assertEqual(kserve.outputs_of(answer)[0]["token_ids"][2],
                                 kserve.flat(self.expected["token_ids"]))


if __name__ == "__main__":
    unittest.main()
