"""A request with rules, given as JSON has it, in the other form that can hold all of it: tensors."""

import base64
import json
import struct

import forms
import server as samplerd

TEXTS = ("engine", "top_k_ties", "top_p_crossing", "order", "id", "logprobs_mode")
IDS = ("allowed_token_ids", "banned_token_ids", "stop_token_ids", "xtc_protected_ids", "candidate_ids")
SEQUENCES = ("bad_words", "dry_sequence_breakers")


def by_json(made):
    """(body, content type)"""
    return json.dumps(made).encode(), samplerd.JSON


def by_tensors(made):
    """(body, content type) of a file of safetensors; logits may be (dtype, shape, bytes)."""
    tensors, texts = {}, {}
    for name, value in made.items():
        if name in TEXTS:
            texts[name] = samplerd.query_value(value)
        else:
            tensors.update(tensors_of(name, value, made))
    return forms.safetensors(tensors, texts), forms.SAFETENSORS


FORMS = {"json": by_json, "tensors": by_tensors}


def tensors_of(name, value, made):
    """{name: (dtype, shape, bytes)} of one parameter; none for a list of sequences that is empty."""
    if name == "logits":
        return {name: value if isinstance(value, tuple) else ("F32", forms.shape_of(value), forms.pack(value, "f32"))}
    if name == "history":
        return {name: i32(value, 2 if value and isinstance(value[0], list) else 1)}
    if name == "logit_bias":
        return bias_tensors(value if isinstance(value, list) else [value] * len(made["logits"]))
    if name == "token_bitmask":
        return {name: bitmask_tensor(value)}
    if name in IDS:
        return {name: i32(value, 2 if value and isinstance(value[0], list) else 1)}
    if name in SEQUENCES:
        return {name: i32(value, 3 if isinstance(value[0][0], list) else 2)} if value else {}
    if name == "adaptive_state":
        return {name: numbers("F64", "d", value if isinstance(value[0], list) else [value] * len(made["logits"]))}
    if name == "p_less":
        flags = value if isinstance(value, list) else [value]
        return {name: ("BOOL", [len(flags)], bytes(flags))}
    return {name: forms.tensor(name, value)}


def padded(value, depth, shape, pad):
    """Nested lists filled up to a shape, flat."""
    if depth == 0:
        return [value]
    filled = list(value) + [pad if depth == 1 else []] * (shape[0] - len(value))
    return [x for part in filled for x in padded(part, depth - 1, shape[1:], pad)]


def shape_of(value, depth):
    """The smallest box that holds nested lists; 1 at least each way, so that an empty list is one of padding."""
    if depth == 0:
        return []
    inner = [shape_of(part, depth - 1) for part in value] or [[1] * (depth - 1)]
    return [max(1, len(value)), *(max(sizes) for sizes in zip(*inner))]


def i32(value, depth):
    """Ids in nested lists as a tensor that -1 fills up."""
    shape = shape_of(value, depth)
    flat = padded(value, depth, shape, -1)
    return "I32", shape, struct.pack(f"<{len(flat)}i", *flat)


def numbers(dtype, code, rows):
    flat = [x for row in rows for x in row]
    return dtype, forms.shape_of(rows), struct.pack(f"<{len(flat)}{code}", *flat)


def bias_tensors(biases):
    """logit_bias of each row as ids and values; null is -infinity."""
    ids = [[int(t) for t in bias] for bias in biases]
    shape = shape_of(ids, 2)
    flat = padded([[-forms.INF if b is None else b for b in bias.values()] for bias in biases], 2, shape, 0.0)
    return {"logit_bias_ids": i32(ids, 2), "logit_bias_values": ("F32", shape, struct.pack(f"<{len(flat)}f", *flat))}


def bitmask_tensor(packed):
    """The words as they are in JSON."""
    return "I32", packed["shape"], base64.b64decode(packed["b64"])
