"""Logits in memory as the bytes that go out: row-major, little-endian float32, float16 or bfloat16."""

from __future__ import annotations

import operator
import struct
import sys
from typing import Any, List, NamedTuple, NoReturn, Optional, Tuple, Union

Bytes = Union[bytes, memoryview]

_WIDTHS = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8}
_CODES = {"f32": "f", "f16": "e", "bf16": "H", "f64": "d"}  # of struct and of the buffer protocol
_DTYPES = {"f": "f32", "e": "f16", "d": "f64"}
_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
_WIDER = {"f16": ("f16", "f32", "f64"), "bf16": ("bf16", "f32", "f64"), "f32": ("f32", "f64"), "f64": ("f32", "f64")}
_INTEGERS = {code: code.islower() for code in "bhilqnHILQN"}  # whether signed; "B" and "c" are bytes
_SIZED = {1: "b", 2: "h", 4: "i", 8: "q"}  # with struct's own sizes, which '<' and '>' ask for
_LARGEST_EXACT = 2**24  # up to here float32 holds every integer
_CHUNK = 65536  # numbers that are Python's own at a time


class Logits(NamedTuple):
    data: Bytes
    dtype: str
    shape: List[int]  # [V], [B, V] or [M, B, V]


class _Buffer(NamedTuple):
    view: memoryview
    order: str  # "<" or ">"
    code: str  # of struct
    dtype: str  # a key of _WIDTHS, "integer" or "bytes"
    shape: List[int]


def read_logits(logits: Any, dtype: Optional[str], vocab_size: Optional[int], num_weights: Optional[int]) -> Logits:
    """A buffer by what its type says, and bytes by what dtype and vocab_size say.

    float64 is rounded to float32 and integers become float32; every other number goes out bit for bit.
    num_weights: how many `mix` has, None without.
    """
    if dtype is not None and dtype not in _WIDTHS:
        raise ValueError(f"dtype is {dtype!r}; it must be one of {', '.join(_WIDTHS)}")
    buffer = _settle_dtype(_open(logits), dtype, vocab_size)
    shape = _settle_shape(buffer.shape, vocab_size, num_weights)
    if buffer.dtype in ("f64", "integer"):
        return Logits(_round(_contiguous(buffer.view), buffer.order + buffer.code), "f32", shape)
    return Logits(_little_endian(buffer), buffer.dtype, shape)


# ---- what it is ----

def _open(logits: Any) -> _Buffer:
    is_bf16 = False
    if hasattr(logits, "filled"):  # numpy.ma, whose buffer says nothing of its mask
        raise ValueError("logits are a masked array; logits.filled(-numpy.inf) masks the tokens")
    if hasattr(logits, "__array__"):  # numpy's arrays, and those of all who turn theirs into them
        logits = logits.__array__()
        is_bf16 = str(logits.dtype) == "bfloat16"
        if is_bf16:  # ml_dtypes' numbers cannot be told to the buffer protocol
            logits = logits.view("u2")
    try:
        view = memoryview(logits)
    except (TypeError, ValueError) as error:
        raise TypeError(f"logits are of type {type(logits).__name__}, which has no buffer of numbers ({error}); "
                        "they must be nested lists or an array") from None
    order, code = _format(view.format)
    name = "bf16" if is_bf16 else _DTYPES.get(code, "bytes" if code in ("B", "c") else "integer")
    if name == "integer":
        if code not in _INTEGERS:
            raise ValueError(f"logits have format {view.format!r}; they must be floats of 16, 32 or 64 bits or "
                             "integers")
        code = _SIZED[view.itemsize] if _INTEGERS[code] else _SIZED[view.itemsize].upper()
    return _Buffer(view, order, code, name, list(view.shape or ()))


def _format(text: str) -> Tuple[str, str]:
    """Byte order and code of a format of the buffer protocol."""
    native = "<" if sys.byteorder == "little" else ">"
    if text[:1] in ("<", ">", "!", "=", "@"):
        return {"<": "<", ">": ">", "!": ">"}.get(text[0], native), text[1:]
    return native, text


def _settle_dtype(buffer: _Buffer, dtype: Optional[str], vocab_size: Optional[int]) -> _Buffer:
    """The buffer as what it is sent as; a dtype that would make other numbers of it is refused."""
    if buffer.dtype == "bytes":
        if dtype is None or vocab_size is None:
            raise ValueError("logits are bytes; they need dtype and vocab_size")
        count, rest = divmod(buffer.view.nbytes, _WIDTHS[dtype])
        if rest:
            raise ValueError(f"logits have {buffer.view.nbytes} bytes; {dtype} takes {_WIDTHS[dtype]} for a number")
        return _Buffer(buffer.view, "<", _CODES[dtype], dtype, [count])
    if buffer.dtype == "integer":
        if dtype == "bf16" and buffer.view.itemsize == 2:  # bfloat16 where its type has no name
            return buffer._replace(dtype="bf16")
        if dtype in (None, "f32", "f64"):
            return buffer
        raise ValueError(f"logits are integers of {8 * buffer.view.itemsize} bits and dtype is {dtype!r}; "
                         "leave dtype out, or pass bytes")
    if dtype is not None and dtype not in _WIDER[buffer.dtype]:
        raise ValueError(f"logits are {_NAMES[buffer.dtype]} and dtype is {dtype!r}; leave dtype out, or pass bytes")
    return buffer


def _settle_shape(shape: List[int], vocab_size: Optional[int], num_weights: Optional[int]) -> List[int]:
    """[V], [B, V], or with mix [M, B, V] or [M, V]; vocab_size cuts a flat buffer into rows."""
    if vocab_size is not None and len(shape) == 1:
        return _cut(shape[0], operator.index(vocab_size), num_weights)
    if not 1 <= len(shape) <= 3:
        raise ValueError(f"logits have the shape {shape}; it must be [V], [B, V], or [M, B, V] with mix")
    if vocab_size is not None and shape[-1] != vocab_size:
        raise ValueError(f"logits have the shape {shape} and vocab_size is {vocab_size}")
    if num_weights is None:
        if len(shape) == 3:
            raise ValueError(f"logits have the shape {shape}, which is [M, B, V] and needs mix; it must be [B, V]")
        return shape
    stacks = 1 if len(shape) == 1 else shape[0]
    if num_weights != stacks:
        raise ValueError(f"mix has {num_weights} weights; logits have the shape {shape} and so {stacks} stacks")
    return shape


def _cut(count: int, vocab_size: int, num_weights: Optional[int]) -> List[int]:
    if vocab_size < 1:
        raise ValueError(f"vocab_size is {vocab_size}; it must be 1 or more")
    stacks = 1 if num_weights is None else num_weights
    rows, rest = divmod(count, vocab_size * stacks) if stacks else (0, count)
    if rest:
        raise ValueError(f"logits have {count} numbers, which vocab_size {vocab_size} does not cut into rows"
                         + (f" of {stacks} stacks" if num_weights is not None else ""))
    return [rows, vocab_size] if num_weights is None else [stacks, rows, vocab_size]


# ---- its bytes ----

def _contiguous(view: memoryview) -> Bytes:
    """The bytes in row-major order, where they lie if they do so in that order."""
    if view.c_contiguous and view.nbytes > 0 and view.format.lstrip("@") in "BbcHhIiLlQqNnefd":  # as cast() takes them
        return view.cast("B")
    return view.tobytes()


def _little_endian(buffer: _Buffer) -> Bytes:
    data = _contiguous(buffer.view)
    if buffer.order == "<":
        return data
    width, swapped = buffer.view.itemsize, bytearray(len(data))
    for i in range(width):
        swapped[i::width] = data[width - 1 - i::width]
    return memoryview(swapped)


def _round(data: Bytes, code: str) -> Bytes:
    """float64 or integers as float32, each nearest, ties to even."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        return _round_by_numpy(numpy, data, code)
    width, rounded = struct.calcsize(code), bytearray()
    for begin in range(0, len(data), width * _CHUNK):
        part = data[begin:begin + width * _CHUNK]
        values = struct.unpack(f"{code[0]}{len(part) // width}{code[1]}", part)
        if code[1] != "d" and max(map(abs, values)) > _LARGEST_EXACT:
            _refuse_value(max(values, key=abs))
        try:
            rounded += struct.pack(f"<{len(values)}f", *values)
        except OverflowError:
            _refuse_value(max(filter(_is_finite, values), key=abs))
    return memoryview(rounded)


def _is_finite(value: float) -> bool:
    return abs(value) <= sys.float_info.max


def _round_by_numpy(numpy: Any, data: Bytes, code: str) -> Bytes:
    """The same, many times as fast."""
    values = numpy.frombuffer(data, code)
    with numpy.errstate(over="ignore"):
        rounded = values.astype("<f4")
    if code[1] == "d":
        wrong = numpy.isinf(rounded) & numpy.isfinite(values)
    else:
        wrong = (values > _LARGEST_EXACT) | (values < -_LARGEST_EXACT)
    if wrong.any():
        _refuse_value(values[wrong.argmax()].item())
    return _contiguous(memoryview(rounded))


def _refuse_value(value: Union[int, float]) -> NoReturn:
    if isinstance(value, int):
        raise ValueError(f"logits have the integer {value}, which float32 may not hold; they must be from "
                         f"-{_LARGEST_EXACT} to {_LARGEST_EXACT}")
    raise ValueError(f"logits have {value!r}, which is beyond float32; they must be from -3.4028235e38 to 3.4028235e38, "
                     "or -inf, which masks")
