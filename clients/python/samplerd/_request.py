"""One call as a request: nested lists as JSON, buffers raw, or as safetensors where the query would be long."""

from __future__ import annotations

import base64
import json
import math
import struct
import urllib.parse
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ._logits import Bytes, Logits, read_logits

# Bytes of a request's target.  HAProxy holds 15 KiB of all headers, nginx 8 KiB of this line.
_LONGEST_TARGET = 4096
_LARGEST_JSON_INTEGER = 2**53  # above it the server takes decimal strings
_TEXTS = ("id", "logprobs_mode", "engine", "order", "top_k_ties", "top_p_crossing")  # the parameters that are no numbers
_ID_LISTS = ("history", "allowed_token_ids", "banned_token_ids", "stop_token_ids", "xtc_protected_ids")
_SEQUENCES = ("bad_words", "dry_sequence_breakers")
_IN_BODIES = ("logit_bias", "token_bitmask", *_SEQUENCES)  # no query has them
_SAFETENSORS_ALIGNMENT = 64


class Request(NamedTuple):
    target: str
    content_type: str
    parts: List[Bytes]  # of the body


def build_request(logits: Any, dtype: Optional[str], vocab_size: Optional[int],
                  parameters: Mapping[str, Any]) -> Request:
    parameters = {name: _plain(value) for name, value in parameters.items() if value is not None}
    if isinstance(logits, (list, tuple)):
        return _json_request({"logits": _plain(logits), **parameters})
    mix = parameters.get("mix")
    num_weights = None if mix is None else len(mix) if isinstance(mix, list) else 1
    read = read_logits(logits, dtype, vocab_size, num_weights)
    if "bias" in parameters or "candidate_ids" in parameters:
        text = base64.b64encode(read.data).decode("ascii")
        return _json_request({"logits": {"b64": text, "dtype": read.dtype, "shape": read.shape}, **parameters})
    if any(name in _IN_BODIES or _is_nested(value) for name, value in parameters.items()):
        return _safetensors_request(read, parameters)
    raw = _raw_request(read, parameters)
    return raw if len(raw.target) <= _LONGEST_TARGET else _safetensors_request(read, parameters)


def _plain(value: Any) -> Any:
    """numpy's scalars and arrays, and every other kind of list and number, as Python's own."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    return float(value) if hasattr(value, "__float__") else value


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, (list, dict)) for item in value)


# ---- JSON ----

def _json_request(fields: Mapping[str, Any]) -> Request:
    body = json.dumps({name: _json_value(name, value) for name, value in fields.items()}, allow_nan=False)
    return Request("/sample", "application/json", [body.encode("utf-8")])


def _json_value(name: str, value: Any) -> Any:
    """-inf as null, which masks.  NaN and +infinity have no JSON, and null in their place would mask, too."""
    if isinstance(value, list):
        return [_json_value(name, item) for item in value]
    if isinstance(value, dict):
        return {key: _json_value(name, item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        if name in ("logits", "bias", "logit_bias"):
            if value == -math.inf:
                return None
            raise ValueError(f"{name} has {value!r}; it must be finite, None or -inf masks a token")
        raise ValueError(f"{name} is {value!r}; it must be finite")
    if name in ("seed", "offset") and isinstance(value, int) and value > _LARGEST_JSON_INTEGER:
        return str(value)
    return value


# ---- raw ----

def _raw_request(logits: Logits, parameters: Mapping[str, Any]) -> Request:
    query = {"vocab_size": logits.shape[-1], "dtype": logits.dtype, **parameters}
    target = "/sample?" + urllib.parse.urlencode({name: _query_value(value) for name, value in query.items()}, safe=",")
    return Request(target, "application/octet-stream", [logits.data])


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_query_value(item) for item in value)
    return repr(value) if isinstance(value, float) else str(value)


# ---- safetensors ----

def _safetensors_request(logits: Logits, parameters: Mapping[str, Any]) -> Request:
    """Every parameter as a tensor: unlike metadata, one of an unknown name is refused."""
    metadata = {name: _query_value(value) for name, value in parameters.items() if name in _TEXTS}
    tensors: Dict[str, Tuple[str, List[int], bytes]] = {}
    for name, value in parameters.items():
        if name not in _TEXTS:
            tensors.update(_tensors(name, value))
    header: Dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    parts, end = [logits.data], len(logits.data)
    header["logits"] = {"dtype": logits.dtype.upper(), "shape": logits.shape, "data_offsets": [0, end]}
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        parts.append(data)
        end += len(data)
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-(len(text) + 8) % _SAFETENSORS_ALIGNMENT)
    return Request("/sample", "application/x-safetensors", [struct.pack("<Q", len(text)) + text, *parts])


def _tensors(name: str, value: Any) -> Dict[str, Tuple[str, List[int], bytes]]:
    """A parameter's tensors: dtype, shape, bytes."""
    if name == "logit_bias":
        return _bias_tensors(value if isinstance(value, list) else [value])
    if name in _ID_LISTS:
        return {name: _ids(name, value, 2 if _is_nested(value) else 1)}
    if name in _SEQUENCES:
        lists = [item if isinstance(item, list) else [item] for item in value]
        per_row = any(_is_nested(item) for item in lists)
        rows = [[one if isinstance(one, list) else [one] for one in row] for row in lists] if per_row else lists
        return {name: _ids(name, rows, 3 if per_row else 2)}
    if name == "token_bitmask":
        rows = value if _is_nested(value) else [value]
        return {name: ("U32", _shape(rows, 2), _packed(name, "I", [word & 0xFFFFFFFF for row in rows for word in row]))}
    if _is_nested(value):
        return {name: ("F64", _shape(value, 2), _packed(name, "d", [_number(name, item) for row in value for item in row]))}
    return {name: _tensor(name, value)}


def _tensor(name: str, value: Any) -> Tuple[str, List[int], bytes]:
    """A number, or one a row."""
    values = [_number(name, item) for item in (value if isinstance(value, list) else [value])]
    if all(isinstance(item, bool) for item in values):
        return "BOOL", [len(values)], bytes(values)
    if not all(isinstance(item, int) for item in values):
        return "F64", [len(values)], _packed(name, "d", values)
    dtype, code = ("U64", "Q") if min(values) >= 0 else ("I64", "q")
    try:
        return dtype, [len(values)], _packed(name, code, values)
    except ValueError:
        raise ValueError(f"{name} has {max(values, key=abs)}; it must fit into 64 bits") from None


def _packed(name: str, code: str, values: List[Any]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}{code}", *values)
    except struct.error:
        raise ValueError(f"{name} has a value that is no number of its kind") from None


def _shape(value: Any, depth: int) -> List[int]:
    """The smallest box that holds nested lists, 1 at least each way."""
    if depth == 0:
        return []
    inner = [_shape(item, depth - 1) for item in value] or [[1] * (depth - 1)]
    return [max(1, len(value)), *(max(sizes) for sizes in zip(*inner))]


def _filled(value: Any, shape: List[int], pad: Any) -> List[Any]:
    """Nested lists filled up to a shape, flat."""
    if not shape:
        return [value]
    rest = [pad if len(shape) == 1 else []] * (shape[0] - len(value))
    return [x for item in [*value, *rest] for x in _filled(item, shape[1:], pad)]


def _ids(name: str, value: Any, depth: int) -> Tuple[str, List[int], bytes]:
    """Ids in nested lists; -1 fills them up."""
    try:
        shape = _shape(value, depth)
        return "I64", shape, _packed(name, "q", _filled(value, shape, -1))
    except TypeError:
        raise ValueError(f"{name} must be lists of token ids") from None


def _bias_tensors(biases: List[Mapping[str, Any]]) -> Dict[str, Tuple[str, List[int], bytes]]:
    """One list of ids and numbers for all rows, or one for each; None masks."""
    ids = [[int(key) for key in bias] for bias in biases]
    values = [[-math.inf if item is None else item for item in bias.values()] for bias in biases]
    shape = _shape(ids, 2)
    data = _packed("logit_bias", "f", _filled(values, shape, 0.0))
    return {"logit_bias_ids": _ids("logit_bias", ids, 2), "logit_bias_values": ("F32", shape, data)}


def _number(name: str, value: Any) -> Any:
    if isinstance(value, str) and value.isascii() and value.isdecimal():  # a seed as the server's JSON writes it
        return int(value)
    if isinstance(value, (bool, int, float)):
        return value
    raise ValueError(f"{name} has {value!r}; it must be a number")
