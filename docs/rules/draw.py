#!/usr/bin/env python3
"""Draws what each rule keeps, from a server's own answers: docs/rules/draw.py http://127.0.0.1:8090 writes RULE.svg.

Left is the row 10, 8, 6, 3, right the 24 likeliest tokens of a real row (tests/data/news.f32).  Grey is softmax(z), blue what
is drawn from; a token that the rule took away is hatched.
"""

import base64
import json
import pathlib
import sys
import urllib.request
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
REAL = HERE.parent.parent / "tests" / "data" / "news.f32"
SHOWN = 24      # tokens of the real row
MOST = 1024     # the largest top_candidates, and n
WIDTH, HEIGHT, TOP, BASE = 330, 150, 34, 130

# What a picture shows: parameters for the small row, and for the real one where others tell more.  "first" and "second"
# stand for the likeliest tokens of the row.
SMALL = "small"
RULES = {
    "allowed_token_ids": {"allowed_token_ids": ["second", "third"]},
    "banned_token_ids": {"banned_token_ids": ["first"]},
    "token_bitmask": {"token_bitmask": "all but first"},
    "logit_bias": {"logit_bias": {"second": 2, "first": None}},
    "bad_words": {"bad_words": [["first", "second"]], "history": ["first"]},
    "min_tokens": {"min_tokens": 2, "stop_token_ids": ["first"], "history": ["third"]},
    "repetition_penalty": {"repetition_penalty": 1.3, "history": ["first", "second"]},
    "frequency_penalty": {"frequency_penalty": 1, "history": ["first", "first", "second"]},
    "presence_penalty": {"presence_penalty": 1, "history": ["first", "first", "second"]},
    "dry": {"dry_multiplier": 1, "history": ["third", "second", "first", "third", "second"]},
    "no_repeat_ngram": {"no_repeat_ngram_size": 2, "history": ["second", "first", "second"]},
    "top_n_sigma": {"top_n_sigma": 1, SMALL: {"top_n_sigma": 1}},
    "temperature": {"temperature": 2},
    "smoothing": {"smoothing_factor": 0.3},
    "top_k": {"top_k": 10, SMALL: {"top_k": 2}},
    "top_p": {"top_p": 0.7, SMALL: {"top_p": 0.99}},
    "min_p": {"min_p": 0.1},
    "typical_p": {"typical_p": 0.5},
    "top_a": {"top_a": 0.3},
    "tfs": {"tfs": 0.9, SMALL: {"tfs": 0.5}},
    "epsilon_cutoff": {"epsilon_cutoff": 0.02},
    "eta_cutoff": {"eta_cutoff": 0.3},
    "top_h": {"top_h": 0.5},
    "p_less": {"p_less": True},
    "xtc": {"xtc_probability": 1, "xtc_threshold": 0.05, SMALL: {"xtc_probability": 1, "xtc_threshold": 0.1}},
    "mirostat": {"mirostat": 2, "mirostat_mu": 4},
    "adaptive_p": {"adaptive_target": 0.1, "top_k": 24, SMALL: {"adaptive_target": 0.2}},
    "skew": {"skew": 0.7},
}


def sample(server, request):
    made = urllib.request.Request(server + "/sample", json.dumps(request).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(made) as answer:
        return json.load(answer)


def probs_of(server, logits, parameters):
    """{token id: p} of the only row; with skew, how often each token was drawn."""
    answer = sample(server, {"logits": logits, "temperature": 1, "top_candidates": MOST, "seed": 7,
                             "n": MOST if "skew" in parameters else 1, **parameters})
    if "skew" not in parameters:
        return dict(zip(answer["top_token_ids"][0], answer["top_probs"][0]))
    drawn = answer["token_ids"][0]
    return {token: drawn.count(token) / MOST for token in answer["top_token_ids"][0]}


def filled_in(value, ranked, size):
    """Parameters with the names of ranks replaced by token ids, in a row of this size."""
    names = dict(zip(("first", "second", "third"), ranked))
    if isinstance(value, dict):
        return {str(names.get(key, key)): filled_in(item, ranked, size) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, ranked, size) for item in value]
    if value == "all but first":
        words = [2**32 - 1] * -(-size // 32)
        words[ranked[0] // 32] -= 1 << ranked[0] % 32
        return words
    return names.get(value, value) if isinstance(value, str) else value


def bar(x, width, p, largest, style):
    height = round((BASE - TOP) * p / largest, 1)
    return f'<rect x="{x:.1f}" y="{BASE - height:.1f}" width="{width:.1f}" height="{height:.1f}" {style}/>'


def panel(left, title, ranked, before, after):
    """Bars of each token: softmax(z), and beside it what is drawn from."""
    step = (WIDTH - 40) / len(ranked)
    width = step * 0.42
    largest = max(*(before[t] for t in ranked), *(after.get(t, 0) for t in ranked))
    parts = [f'<text x="{left + 20}" y="18">{escape(title)}</text>',
             f'<path d="M{left + 16} {BASE + 0.5}H{left + WIDTH - 20}" class="axis"/>']
    for i, token in enumerate(ranked):
        x = left + 20 + i * step
        parts.append(bar(x, width, before[token], largest, 'class="was"' if token in after else 'class="gone"'))
        if token in after:
            parts.append(bar(x + width, width, after[token], largest, 'class="is"'))
    return parts


STYLE = """text{font:12px sans-serif;fill:#555}.axis{stroke:#888}.was{fill:#bbb}.is{fill:#2a6fdb}
.gone{fill:url(#hatch);stroke:#bbb}"""


def picture(server, parameters):
    shared = {key: value for key, value in parameters.items() if key != SMALL}
    real = {"b64": base64.b64encode(REAL.read_bytes()).decode(), "dtype": "f32", "shape": [1, 262144]}
    parts = []
    for left, logits, own, shown, size in ((0, [[10, 8, 6, 3]], parameters.get(SMALL, shared), 4, 4),
                                           (WIDTH, real, shared, SHOWN, 262144)):
        before = probs_of(server, logits, {})
        ranked = list(before)[:shown]
        after = probs_of(server, logits, filled_in(own, ranked, size))
        parts += panel(left, ", ".join(f"{name} {json.dumps(value)}" for name, value in own.items() if name != "history"), ranked,
                       before, after)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" width="{2 * WIDTH}">'
            f"<style>{STYLE}</style><defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
            'patternTransform="rotate(45)"><path d="M0 0V5" stroke="#999" stroke-width="2"/></pattern></defs>'
            + "\n".join(parts) + "</svg>\n")


def main():
    server, folder = sys.argv[1].rstrip("/"), pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    for rule, parameters in RULES.items():
        (folder / f"{rule}.svg").write_text(picture(server, parameters))


if __name__ == "__main__":
    main()
