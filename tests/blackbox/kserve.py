"""Requests and answers of KServe v2, with binary tensors or without."""

import json
import math
import struct

LENGTH = "Inference-Header-Content-Length"
MODEL = "/v2/models/sampler"
FORMATS = {"FP32": "f", "FP64": "d", "FP16": "e", "INT32": "i", "INT64": "q", "UINT64": "Q", "BOOL": "?"}
DTYPES = {"FP32": "f32", "FP16": "f16", "BF16": "bf16", "FP64": "f64"}  # of logits, as /sample has them


def flat(values):
    """The numbers of nested lists, in order."""
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def pack(datatype, values):
    return struct.pack(f"<{len(values)}{FORMATS[datatype]}", *(-math.inf if x is None else x for x in values))


def unpack(datatype, data):
    size = struct.calcsize(FORMATS[datatype])
    return list(struct.unpack(f"<{len(data) // size}{FORMATS[datatype]}", data))


def tensor(name, datatype, shape, values, binary):
    """An input, and its bytes if they go behind the header."""
    entry = {"name": name, "shape": shape, "datatype": datatype}
    if not binary:
        return {**entry, "data": values}, b""
    data = pack(datatype, flat(values))
    return {**entry, "parameters": {"binary_data_size": len(data)}}, data


def rows_tensor(rows, datatype="FP32", binary=True):
    return tensor("logits", datatype, [len(rows), len(rows[0])], rows, binary)


def body_of(inputs, **members):
    """The request's bytes and, if any are of tensors, its header."""
    text = json.dumps({"inputs": [entry for entry, _ in inputs], **members}).encode()
    data = b"".join(data for _, data in inputs)
    return text + data, {LENGTH: str(len(text))} if data else {}


def post(client, inputs, path=MODEL + "/infer", content_type=None, **members):
    body, headers = body_of(inputs, **members)
    return client.request("POST", path, body, content_type, **headers)


def outputs_of(answer):
    """{name: (datatype, shape, values)}, and the JSON."""
    assert answer.status == 200, f"{answer.status}: {answer.body[:500]!r}"
    header = int(answer.headers.get(LENGTH, len(answer.body)))
    root, data, found = json.loads(answer.body[:header]), answer.body[header:], {}
    for output in root["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        values = output.get("data") if size is None else unpack(output["datatype"], data[:size])
        data = data[size or 0:]
        found[output["name"]] = (output["datatype"], output["shape"], values)
    assert not data, f"{len(data)} bytes of no output"
    return found, root
