"""What clients/python sends for each kind of array: the numbers of the nested lists that it stands for, or nothing."""

import array
import ctypes
import struct
import sys
import unittest
import unittest.mock

import forms
from test_client import ROWS, RULES, address, client, samplerd

try:
    import numpy as np
except ImportError:
    np = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

FLAT = ROWS[0] + ROWS[1]
NEAR_TIES = [[0.1, 0.1 + 2**-30, 1 / 3, -1e-42], [1e-46, -0.7, 16777217.0, float("-inf")]]
ALL = {**RULES, "logprobs": True, "top_candidates": 4, "top_k": 0}


def endian(kind, values):
    """An array of ctypes of this kind, the byte order of which its format tells."""
    return (kind * len(values))(*values)


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = samplerd.Server()
        cls.client = client.Client(address(cls.server))

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def check(self, logits, rows=None, **options):
        rows = ROWS if rows is None else rows
        self.assertEqual(self.client.sample(logits, **ALL, **options), self.client.sample(rows, **ALL))

    def refuse(self, text, logits, **options):
        with self.assertRaisesRegex(ValueError, text):
            self.client.sample(logits, **options)


class Buffers(Base):
    """The standard library has buffers of every type and byte order; here the client does not see numpy."""

    numpy = None

    def setUp(self):
        patch = unittest.mock.patch.dict(sys.modules, numpy=self.numpy)
        patch.start()
        self.addCleanup(patch.stop)

    def test_float64_is_rounded_whatever_dtype_says(self):
        for dtype in (None, "f32", "f64"):
            for rows in (ROWS, NEAR_TIES):
                with self.subTest(dtype=dtype, rows=rows):
                    flat = rows[0] + rows[1]
                    self.check(array.array("d", flat), rows, dtype=dtype, vocab_size=4)
                    self.check(endian(ctypes.c_double.__ctype_be__, flat), rows, dtype=dtype, vocab_size=4)
        self.check(struct.pack("<8d", *FLAT), dtype="f64", vocab_size=4)

    def test_float64_beyond_float32_is_refused(self):
        for value in (1e39, -1e39, 3.4028235677973366e38):
            self.refuse("beyond float32", array.array("d", [1, value, float("-inf")]), dtype="f32", vocab_size=3)
        largest = 3.4028235677973362e38  # the last that rounds to a float32
        self.assertEqual(self.client.sample(array.array("d", [1, largest])).token_ids, [[1]])

    def test_integers_are_numbers_and_not_bits(self):
        rows = [[10, 8, 6, 3], [0, 127, 1, 2]]
        for code in "bhilqHILQ":
            for dtype in (None, "f32"):
                with self.subTest(code=code, dtype=dtype):
                    self.check(array.array(code, rows[0] + rows[1]), rows, dtype=dtype, vocab_size=4)
        for kind in (ctypes.c_int16, ctypes.c_uint32, ctypes.c_int64):
            self.check(endian(kind.__ctype_be__, rows[0] + rows[1]), rows, vocab_size=4)
        rows = [[-2**24, 2**24, 5, 2**24 - 1]] * 2
        self.check(array.array("q", rows[0] * 2), rows, vocab_size=4)

    def test_integers_that_float32_may_not_hold_are_refused(self):
        for code, value in (("i", 2**24 + 1), ("q", -2**63), ("Q", 2**64 - 1), ("i", -2**24 - 1)):
            self.refuse(f"integer {value}", array.array(code, [1, value]), dtype="f32", vocab_size=2)

    def test_byte_order_is_swapped(self):
        self.check(endian(ctypes.c_float.__ctype_be__, FLAT), vocab_size=4, dtype="f32")
        self.check(endian(ctypes.c_float.__ctype_le__, FLAT), vocab_size=4)

    def test_a_dtype_that_is_another_is_refused(self):
        for logits, dtype in ((array.array("f", FLAT), "f16"), (array.array("f", FLAT), "bf16"),
                              (array.array("d", FLAT), "f16"), (array.array("i", [1] * 8), "bf16"),
                              (array.array("H", [1] * 8), "f16"), (array.array("q", [1] * 8), "bf16")):
            with self.subTest(code=logits.typecode, dtype=dtype):
                self.refuse(f"dtype is '{dtype}'", logits, dtype=dtype, vocab_size=4)
        self.refuse("dtype is 'f8'", array.array("f", FLAT), dtype="f8", vocab_size=4)

    def test_sixteen_bits_as_bfloat16(self):
        bits = array.array("H", forms.pack_bf16(FLAT))
        self.check(bits, dtype="bf16", vocab_size=4)
        swapped = endian(ctypes.c_uint16.__ctype_be__, bits)
        self.check(swapped, dtype="bf16", vocab_size=4)

    def test_neither_numbers_nor_bytes(self):
        self.refuse("format", memoryview(b"\x01\x00").cast("?"))
        with self.assertRaisesRegex(TypeError, "nested lists or an array"):
            self.client.sample(object())
        self.refuse("need dtype and vocab_size", bytes(32), vocab_size=4)
        self.refuse("33 bytes", bytes(33), dtype="f32", vocab_size=4)

    def test_strides_are_followed(self):
        every_second = memoryview(array.array("f", [x for z in FLAT for x in (z, 99)]))[::2]
        self.check(every_second, vocab_size=4)

    def test_shapes(self):
        flat = memoryview(array.array("f", FLAT)).cast("B")
        self.refuse("needs mix", flat.cast("f", [2, 1, 4]))
        self.refuse("3 weights", flat.cast("f", [2, 1, 4]), mix=[1, 1, 1])
        self.refuse("2 weights", flat.cast("f", [4, 2]), mix=[1, 1])
        self.refuse("1, 1, 2, 4", flat.cast("f", [1, 1, 2, 4]), mix=[1])
        self.refuse("vocab_size is 2", flat.cast("f", [2, 4]), vocab_size=2)
        self.refuse("vocab_size 3", flat.cast("f"), vocab_size=3)
        self.refuse("vocab_size is 0", flat.cast("f"), vocab_size=0)
        self.refuse("of 2 stacks", array.array("f", FLAT + ROWS[0]), vocab_size=4, mix=[1, 1])
        mixed = self.client.sample([[ROWS[0]], [ROWS[1]]], mix=[1.5, -0.5], **ALL)
        for shape in ([2, 1, 4], [2, 4]):
            self.assertEqual(self.client.sample(flat.cast("f", shape), mix=[1.5, -0.5], **ALL), mixed)
        self.assertEqual(self.client.sample(flat, dtype="f32", vocab_size=4, mix=[1.5, -0.5], **ALL), mixed)


@unittest.skipUnless(np, "numpy is not installed (make deps-dev)")
class BuffersBesideNumpy(Buffers):
    numpy = np


class Lists(Base):
    def test_what_has_no_json_is_told(self):
        for name, value in (("logits", float("nan")), ("logits", float("inf")), ("bias", float("nan"))):
            request = {"logits": [[1.0, 2.0]], "bias": [0.0, 0.0], name: [[1.0, value]]}
            with self.assertRaisesRegex(ValueError, f"{name} has {value}; it must be finite"):
                self.client.sample(**request)
        with self.assertRaisesRegex(ValueError, "temperature is nan"):
            self.client.sample([[1, 2]], temperature=float("nan"))


@unittest.skipUnless(np, "numpy is not installed (make deps-dev)")
class Numpy(Base):
    def test_every_type(self):
        rows = [[10, 8, 6, 3], [0.5, 0.25, 1.0, -2.0]]
        for dtype in ("<f4", ">f4", "<f2", ">f2", "<f8", ">f8"):
            for given in (None, "f32"):
                with self.subTest(dtype=dtype, given=given):
                    self.check(np.array(rows, dtype=dtype), rows, dtype=given)
                    self.check(np.asfortranarray(np.array(rows, dtype=dtype)), rows, dtype=given, vocab_size=4)
                    self.check(np.array(rows + rows, dtype=dtype)[::-2][::-1], [rows[1], rows[1]], dtype=given)
        for dtype in ("<i8", ">i4", "<u8", "<i2", "i1"):
            self.check(np.array([[1, 2, 3, 4]] * 2, dtype=dtype), [[1, 2, 3, 4]] * 2, dtype="f32")
        self.check(np.array(NEAR_TIES), NEAR_TIES)

    def test_refused(self):
        self.refuse("beyond float32", np.array([[1, 1e39]]), dtype="f32")
        for dtype, value in (("i8", -2**63), ("u8", 2**64 - 1), ("i4", 2**24 + 1)):
            self.refuse(f"integer {value}", np.array([1, value], dtype=dtype))
        for dtype in ("?", "g", "F", "D"):
            self.refuse("format", np.zeros((1, 4), dtype=dtype), dtype="f32", vocab_size=4)
        self.refuse("masked array", np.ma.array([[1.0, 2.0]], mask=[[False, True]]))
        self.refuse("shape", np.array(1.0))
        self.refuse("needs mix", np.zeros((2, 2, 4), dtype="f4"))

    def test_parameters(self):
        plain = self.client.sample(ROWS, temperature=[0.8, 1], top_k=3, seed=[1, 2**64 - 1], logprobs=True)
        for logits in (ROWS, np.array(ROWS, dtype="f4"), [np.array(row, dtype="f4") for row in ROWS]):
            self.assertEqual(self.client.sample(
                logits, temperature=np.array([0.8, 1]), top_k=np.array(3), seed=np.array([1, 2**64 - 1], dtype="u8"),
                logprobs=np.bool_(True)), plain)
            self.assertEqual(self.client.sample(
                logits, temperature=[np.array(0.8), np.float64(1)], top_k=np.int32(3), seed=[1, 2**64 - 1],
                logprobs=np.array(True)), plain)
        self.assertIsNone(self.client.sample(np.array(ROWS, dtype="f4"), logprobs=np.bool_(False)).logprobs)

    def test_anything_that_becomes_an_array(self):
        class Tensor:
            def __array__(self, *_, **__):
                return np.array(ROWS)
        self.check(Tensor())

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_bfloat16(self):
        rows = np.array(ROWS, dtype=ml_dtypes.bfloat16)
        for dtype in (None, "bf16", "f32"):
            self.check(rows, dtype=dtype)
        self.refuse("bfloat16 and dtype is 'f16'", rows, dtype="f16")
        with self.assertRaises(TypeError):
            self.client.sample(rows.astype(ml_dtypes.float8_e5m2), dtype="f32", vocab_size=1)
        self.assertEqual(self.client.sample(ROWS, temperature=ml_dtypes.bfloat16(0.5), seed=7),
                         self.client.sample(ROWS, temperature=0.5, seed=7))


if __name__ == "__main__":
    unittest.main()
