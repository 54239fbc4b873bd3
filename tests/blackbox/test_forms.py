"""Bodies as others write them, to the real server: what stands in for what, and what is refused."""

import struct
import unittest

import forms
import kserve
import server

ROWS = [[10, 8, 6, 3], [1, 2, 0, 5]]
BIAS = [0, 4.5, -8, None]


def setUpModule():
    global CLIENT
    running = server.Server()
    unittest.addModuleCleanup(running.__exit__)
    CLIENT = running.connect()
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


class Numbers(unittest.TestCase):
    """Of 64 bits, of the other byte order, in Fortran order: rounded, turned, or refused."""

    FIELDS = {"seed": 7, "temperature": 1, "n": 20, "logprobs": True}

    def in_json(self, rows):
        return CLIENT.sample({"logits": rows, **self.FIELDS})

    def test_float64_is_rounded_as_json_numbers_are(self):
        rows = [[1 + 2**-24, 1 + 3 * 2**-24, 1 / 3, -0.1], [1e-50, 5e-324, -2.5, None], [1e39, 1, 2, 3], [-1e39, 1, 2, 3]]
        for batch in ([rows[0]], rows[:2], rows[3:], rows):
            expected = self.in_json(batch)
            for name in ("by_base64 f64", "by_raw f64", "by_npy f64", "by_metadata f64", "by_tensors f64"):
                with self.subTest(form=name, rows=len(batch)):
                    query, body, kind = forms.FORMS[name](batch, self.FIELDS)
                    target = "/sample" + ("?" + server.query_text(query) if query else "")
                    answer = CLIENT.request("POST", target, body, kind)
                    self.assertEqual((answer.status, answer.json()), (expected.status, expected.json()))

    def test_npy_of_either_byte_order(self):
        expected = self.in_json(ROWS).json()
        for code, letter in (("2", "e"), ("4", "f"), ("8", "d")):
            for order in "<>":
                with self.subTest(descr=order + "f" + code):
                    data = struct.pack(f"{order}8{letter}", *ROWS[0], *ROWS[1])
                    body = forms.npy(data, [2, 4], f"{order}f{code}")
                    answer = CLIENT.request("POST", "/sample?" + server.query_text(self.FIELDS), body, forms.NPY)
                    self.assertEqual(answer.sampled(), expected)
        for descr in (">f16", ">i4", "|f4", "=f4", ">f1"):
            with self.subTest(descr=descr):
                answer = CLIENT.request("POST", "/sample", forms.npy(bytes(32), [2, 4], descr), forms.NPY)
                self.assertEqual(error_of(answer)["code"], "unsupported_dtype")

    def test_npy_in_fortran_order(self):
        data = forms.pack(ROWS, "f32")
        expected = self.in_json(ROWS[:1]).json()
        for shape in ([4], [1, 4]):
            body = forms.npy(data[:16], shape, "f32", fortran_order=True)
            answer = CLIENT.request("POST", "/sample?" + server.query_text(self.FIELDS), body, forms.NPY)
            self.assertEqual(answer.sampled(), expected)
        answer = CLIENT.request("POST", "/sample", forms.npy(data, [2, 4], "f32", fortran_order=True), forms.NPY)
        self.assertEqual(error_of(answer)["code"], "unsupported_order")

    def test_rows_are_counted(self):
        data = forms.pack(ROWS, "f32")
        query = "/sample?vocab_size=4&rows="
        self.assertEqual(CLIENT.request("POST", query + "2", data, server.RAW).sampled()["token_ids"], [[0], [3]])
        error = error_of(CLIENT.request("POST", query + "2&dtype=f16", data, server.RAW))
        self.assertEqual((error["param"], error["code"]), ("rows", "wrong_length"))
        self.assertEqual(error["message"], "rows is 2; the body has 4, by its 32 bytes, vocab_size 4 and dtype f16")
        for value in ("0", "-1", "1.5", "x"):
            self.assertEqual(error_of(CLIENT.request("POST", query + value, data, server.RAW))["param"], "rows")


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
