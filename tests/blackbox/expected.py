"""What an answer must be, in float64: the rules of the README written as plainly as possible."""

import math
import struct

INF = math.inf


def f32(x):
    """The nearest float32, which is what the server computes with."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def row_f32(row):
    """Logits as the server sees them; None is a masked token."""
    return [-INF if x is None else f32(x) for x in row]


def softmax(z, temperature=1.0):
    """Probabilities of logits z, of which at least one is not -inf."""
    largest = max(z)
    weights = [math.exp((x - largest) / temperature) for x in z]
    total = math.fsum(weights)
    return [w / total for w in weights]


def argmax(z):
    """The largest logit, lowest id on a tie."""
    return max(range(len(z)), key=lambda i: (z[i], -i))


def distribution(row, temperature=1.0, top_k=0, top_p=1.0):
    """{token_id: probability} of what the draw chooses from; of softmax(z) when the row is greedy."""
    z = row_f32(row)
    if f32(temperature) <= 0:
        temperature, top_k, top_p = 1.0, 0, 1.0
    if top_k > 0:
        border = sorted(z, reverse=True)[min(top_k, len(z)) - 1]
        z = [x if x >= border else -INF for x in z]
    probs = softmax(z, temperature)
    order = sorted((i for i in range(len(z)) if probs[i] > 0), key=lambda i: (-z[i], i))
    if 0 < top_p < 1:
        order = nucleus(order, probs, top_p)
    total = math.fsum(probs[i] for i in order)
    return {i: probs[i] / total for i in order}


def nucleus(order, probs, top_p):
    """The prefix whose running sum stays within top_p, and the first in any case."""
    mass, kept = 0.0, []
    for i in order:
        mass += probs[i]
        if kept and mass > top_p:
            break
        kept.append(i)
    return kept


def mixed(stacks, weights, bias=None):
    """sum_m weights[m] * stacks[m] + bias, a token masked anywhere staying masked."""
    size = len(stacks[0])
    bias = [0.0] * size if bias is None else row_f32(bias)
    stacks = [row_f32(s) for s in stacks]
    out = []
    for i in range(size):
        terms = [w * s[i] for w, s in zip(weights, stacks) if w != 0] + [bias[i]]
        masked = bias[i] == -INF or any(s[i] == -INF for w, s in zip(weights, stacks) if w != 0)
        out.append(None if masked else math.fsum(terms))
    return out
