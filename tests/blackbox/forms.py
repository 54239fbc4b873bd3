"""The bodies of POST /sample: one request in every form that a client can send it in."""

import base64
import json
import struct

import server as samplerd

NPY = "application/x-npy"
SAFETENSORS = "application/x-safetensors"
INF = float("inf")


# ---- bytes ----

def pack_bf16(values):
    """The upper halves of float32, of values that have nothing in the lower."""
    return b"".join(struct.pack("<f", x)[2:] for x in values)


PACK = {
    "f32": lambda values: struct.pack(f"<{len(values)}f", *values),
    "f16": lambda values: struct.pack(f"<{len(values)}e", *values),
    "bf16": pack_bf16,
    "f64": lambda values: struct.pack(f"<{len(values)}d", *values),
}


def pack(rows, dtype):
    """Rows as bytes of a dtype; None is a masked token."""
    return PACK[dtype]([-INF if x is None else x for row in rows for x in row])


def npy(data, shape, dtype, fortran_order=False):
    """What numpy.save() writes."""
    descr = {"f32": "<f4", "f16": "<f2", "f64": "<f8"}.get(dtype, dtype)
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def safetensors(tensors, metadata=None):
    """{name: (dtype, shape, bytes)} as a file."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


# ---- the same request in every form: (query, body, content type) ----

def shape_of(rows):
    return [len(rows), len(rows[0])]


def by_numbers(rows, fields):
    return {}, json.dumps({"logits": rows, **fields}).encode(), samplerd.JSON


def by_base64(dtype):
    def form(rows, fields):
        packed = {"b64": base64.b64encode(pack(rows, dtype)).decode(), "dtype": dtype, "shape": shape_of(rows)}
        return {}, json.dumps({"logits": packed, **fields}).encode(), samplerd.JSON
    return form


def by_raw(dtype):
    def form(rows, fields):
        return {"vocab_size": len(rows[0]), "dtype": dtype, **fields}, pack(rows, dtype), samplerd.RAW
    return form


def by_npy(dtype):
    def form(rows, fields):
        return fields, npy(pack(rows, dtype), shape_of(rows), dtype), NPY
    return form


def by_metadata(dtype):
    """Every parameter as text."""
    def form(rows, fields):
        texts = {name: samplerd.query_value(value) for name, value in fields.items()}
        return {}, safetensors({"logits": (dtype.upper(), shape_of(rows), pack(rows, dtype))}, texts), SAFETENSORS
    return form


def tensor(name, value):
    values = value if isinstance(value, list) else [value]
    if name in ("seed", "offset"):
        return "U64", [len(values)], struct.pack(f"<{len(values)}Q", *map(int, values))
    if isinstance(value, bool):
        return "BOOL", [1], bytes([value])
    return "F64", [len(values)], struct.pack(f"<{len(values)}d", *values)


def by_tensors(dtype):
    """Every parameter that can be one as a tensor, the logits last and not aligned."""
    def form(rows, fields):
        texts = {name: value for name, value in fields.items() if isinstance(value, str) and name != "seed"}
        tensors = {name: tensor(name, value) for name, value in fields.items() if name not in texts}
        tensors["logprobs"] = "BOOL", [1], bytes([fields.get("logprobs", False)])
        tensors["logits"] = dtype.upper(), shape_of(rows), pack(rows, dtype)
        return {}, safetensors(tensors, texts), SAFETENSORS
    return form


FORMS = {"numbers": by_numbers}
for name in PACK:
    FORMS.update({f"{form.__name__} {name}": form(name)
                  for form in (by_base64, by_raw, by_npy, by_metadata, by_tensors)
                  if not (form is by_npy and name == "bf16")})
