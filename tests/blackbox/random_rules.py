"""Requests made up at random over the whole table of rules, and what the server must answer to them.

No request is near a decision: it is made up anew where a small move of logits or of parameters would change what is kept.
So the server may compute in float32 what rules.py computes in float64.

    for request in requests(seed=1, count=100):         a dict as POST /sample takes it in JSON
        for row in expected(request): ...               Expected, one a row
"""

import base64
import math
import random
import struct
from types import SimpleNamespace

import rules

MOVE = 1e-5  # of a logit (of 1 at least) and of a parameter, relative
PATTERNS = 8  # moves that must change nothing
AMPLIFIED = 2e-2  # what a move may do to a probability, relative: float32 moves logits 170 times less
SMALLEST = 1e-12  # of a probability: a token below may stay or go
TOLD = 1e-7  # of a probability that must be right


# ---- logits ----

def normal(r, size):
    scale = r.choice((0.1, 1, 3, 8))
    return [round(r.gauss(0, scale), 4) for _ in range(size)]


def tied(r, size):
    """Few distinct values, both zeros among them."""
    return [r.choice((-2.0, -0.0, 0.0, 0.5, 1.0, 3.0)) for _ in range(size)]


def flat(r, size):
    return [r.choice((0, 7.25, -3))] * size


def peaked(r, size):
    return [20.0 * (i == size // 2) + r.gauss(0, 1) for i in range(size)]


def far_away(r, size):
    return [round(r.uniform(900, 912), 3) for _ in range(size)]


def logits(r, size):
    row = r.choice((normal, normal, normal, tied, flat, peaked, far_away))(r, size)
    holes = r.choice((0, 0, 0.1, 0.8))
    row = [None if r.random() < holes else z for z in row]
    return row if any(z is not None for z in row) else [0.0] * size


# ---- the rules' parameters: {rule: {parameter: a random value}} ----

def one_of(*values):
    return lambda r, size: r.choice(values)


def ids(r, size, most=6):
    """Some ids, each once."""
    return sorted(r.sample(range(size), r.randint(1, min(size, most))))


def some_or_none(r, size):
    return ids(r, size) if r.random() < 0.8 else []


def allowed(r, size):
    return ids(r, size, size)


def bias(r, size):
    return {str(t): r.choice((-3.5, 0.25, 2, 150, None)) for t in ids(r, size)}


def sequences(r, size):
    return [[r.randrange(size) for _ in range(r.choice((1, 1, 2, 3)))] for _ in range(r.randint(1, 4))]


def breakers(r, size):
    """Sequences that hold no other one, of which engines differ."""
    whole = sequences(r, size)
    return [s for s in whole if all(s == other or not any(other == s[i:i + len(other)] for i in range(len(s)))
                                    for other in whole)]


WINDOW = one_of(-1, 0, 3, 20, 1000)
CHAIN = {
    "repetition_penalty": {"repetition_penalty": one_of(0.8, 1.1, 1.5)},
    "frequency_penalty": {"frequency_penalty": one_of(-0.4, 0.15, 0.7)},
    "presence_penalty": {"presence_penalty": one_of(-0.6, 0.3, 1.5)},
    "dry": {"dry_multiplier": one_of(0.3, 0.8, 2), "dry_base": one_of(1, 1.2, 1.75),
            "dry_allowed_length": one_of(0, 1, 2, 3), "dry_last_n": WINDOW, "dry_sequence_breakers": breakers},
    "no_repeat_ngram": {"no_repeat_ngram_size": one_of(1, 2, 3, 5)},
    "top_n_sigma": {"top_n_sigma": one_of(0.5, 1, 2.5)},
    "smoothing": {"smoothing_factor": one_of(0.05, 0.3, 1), "smoothing_curve": one_of(1, 1.5, 2)},
    "top_k": {"top_k": one_of(1, 2, 5, 20, 1000)},
    "top_p": {"top_p": one_of(0.1, 0.5, 0.9, 0.99)},
    "min_p": {"min_p": one_of(0.01, 0.1, 0.4, 1)},
    "typical_p": {"typical_p": one_of(0.1, 0.5, 0.9)},
    "top_a": {"top_a": one_of(0.05, 0.3, 1.5)},
    "tfs": {"tfs": one_of(0.2, 0.9, 0.98)},
    "epsilon_cutoff": {"epsilon_cutoff": one_of(0.0005, 0.01, 0.1)},
    "eta_cutoff": {"eta_cutoff": one_of(0.0005, 0.01, 0.1)},
    "top_h": {"top_h": one_of(0.1, 0.4, 0.8)},
    "p_less": {"p_less": one_of(True)},
    "xtc": {"xtc_probability": one_of(0.3, 0.7, 1), "xtc_threshold": one_of(0.01, 0.1, 0.5, 0.6),
            "xtc_protected_ids": some_or_none},
    "mirostat": {"mirostat": one_of(1, 2), "mirostat_tau": one_of(1, 3, 5), "mirostat_eta": one_of(0.1, 0.4),
                 "mirostat_mu": one_of(0.5, 2, 6)},
    "adaptive_p": {"adaptive_target": one_of(0.05, 0.3, 0.7), "adaptive_decay": one_of(0, 0.5, 0.99),
                   "adaptive_state": one_of([1.5, 4], [0.1, 1], [30, 100])},
    "skew": {"skew": one_of(-0.8, 0.4, 1.2)},
}
MASKS = {
    "allowed_token_ids": allowed, "banned_token_ids": some_or_none, "logit_bias": bias, "bad_words": sequences,
    "stop_token_ids": ids, "min_tokens": one_of(0, 1, 5, 100),
}
TEMPERATURES = {"vllm": one_of(0.004, 0.6, 1, 1.7)}
OF_THE_REQUEST = {"p_less", "mirostat"}  # one for all rows; the engine, the order and the conventions are, too
REAL = [name for parameters in CHAIN.values() for name, value in parameters.items()
        if isinstance(value(random.Random(0), 1), float)] + ["temperature", "dynatemp_range", "dynatemp_exponent"]


# ---- a request ----

def request(r, sizes=(1, 2, 5, 30, 120)):
    """Anything that the table allows, near decisions or not, with rows of one of these sizes."""
    engine = r.choice(("reference", "reference", *rules.ENGINES))
    batch, size = r.choice((1, 1, 2, 3)), r.choice(sizes)
    made = {"logits": [logits(r, size) for _ in range(batch)], **header(r, engine, batch)}
    universe = candidates(r, made, size)
    used = chosen(r, engine)
    for name in used:
        set_all(r, made, CHAIN[name], batch, universe)
    for name in r.sample(sorted(MASKS), r.choice((0, 0, 1, 2))):
        set_all(r, made, {name: MASKS[name]}, batch, universe)
    set_temperature(r, made, engine, batch)
    set_history(r, made, used, batch, universe)
    set_bitmask(r, made, batch, size)
    set_conventions(r, made, used)
    set_draws(r, made, used)
    return made


def header(r, engine, batch):
    """The engine, unless it goes without saying, and seeds."""
    seed = r.randrange(2 ** 53) if r.random() < 0.5 else [str(r.randrange(2 ** 64)) for _ in range(batch)]
    named = {} if engine == "reference" and r.random() < 0.5 else {"engine": engine}
    return {**named, "seed": seed, "offset": r.choice((0, 5, 2 ** 40))}


def candidates(r, made, size):
    """How many ids there are; sometimes the logits are of a few of them."""
    if r.random() >= 0.15:
        return size
    universe = 3 * size
    made["candidate_ids"] = [r.sample(range(universe), size) for _ in made["logits"]]
    return universe


def chosen(r, engine):
    """Some rules that the engine has; of those that carry a state one at most."""
    names = [name for name in rules.ENGINES[engine].order if name in CHAIN]
    if engine == "llama.cpp" and r.random() < 0.2:
        return ["mirostat"]
    used = r.sample(names, min(len(names), r.choice((0, 1, 1, 2, 3, 4, 6))))
    return [name for name in used if not (name == "adaptive_p" and "mirostat" in used)]


def set_all(r, made, parameters, batch, size):
    """Each parameter, or most of what only refines a rule: one for all rows or one a row."""
    for number, (name, value) in enumerate(parameters.items()):
        if number > 0 and r.random() < 0.3:
            continue
        each = name not in OF_THE_REQUEST and r.random() < 0.5
        made[name] = [value(r, size) for _ in range(batch)] if each else value(r, size)


def set_temperature(r, made, engine, batch):
    """Greedy rows, too, but where a state would have to follow what was not drawn."""
    value = TEMPERATURES.get(engine, one_of(0.3, 0.8, 1, 1.6))
    if not {"mirostat", "adaptive_target"} & made.keys() and r.random() < 0.15:
        value = one_of(0, -1, 0.9)
    set_all(r, made, {"temperature": value}, batch, None)
    if engine in ("reference", "llama.cpp") and "mirostat" not in made and r.random() < 0.15:
        set_all(r, made, {"dynatemp_range": one_of(0.1, 0.25), "dynatemp_exponent": one_of(1, 0.5, 2)}, batch, None)


def set_history(r, made, used, batch, size):
    if not set(used) & set(rules.PENALTIES) and r.random() < 0.5:
        return

    def history(r, size):
        few = r.sample(range(size), min(size, 3))
        return [r.choice(few) for _ in range(r.choice((0, 1, 12, 60)))]

    made["history"] = [history(r, size) for _ in range(batch)] if r.random() < 0.5 else history(r, size)
    lengths = [len(h) for h in made["history"]] if nested(made["history"]) else [len(made["history"])]
    if r.random() < 0.6:
        made["prompt_tokens"] = r.randint(0, min(lengths))
    if r.random() < 0.5:
        set_all(r, made, {"penalty_last_n": WINDOW}, batch, None)


def nested(value):
    """Whether it is a list of lists."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def set_bitmask(r, made, batch, size):
    """Sometimes, of about half of the ids; the bits past them are as they come."""
    if "candidate_ids" in made or r.random() >= 0.1:
        return
    words, rows = (size + 31) // 32, r.choice((0, batch))
    bits = [r.getrandbits(32) for _ in range(words * max(1, rows))]
    made["token_bitmask"] = {"b64": base64.b64encode(struct.pack(f"<{len(bits)}I", *bits)).decode(), "dtype": "i32",
                             "shape": [rows, words] if rows else [words]}


def set_conventions(r, made, used):
    """Ties, crossing and an order of one's own, where the definition says what it means."""
    if r.random() < 0.2:
        made["top_k_ties"] = r.choice(("keep", "lower_id"))
    if r.random() < 0.2:
        made["top_p_crossing"] = r.choice(("keep", "drop"))
    engine = made.get("engine", "reference")
    greedy = engine == "llama.cpp" and any(t <= 0 for t in as_list(made["temperature"]))
    unsaid = engine == "llama.cpp" and "mirostat" in made or engine == "sglang" or greedy
    if not unsaid and r.random() < 0.4:
        made["order"] = order(r, engine, used)


def as_list(value):
    return value if isinstance(value, list) else [value]


def order(r, engine, used):
    """All that is set, by the request or by default, in any order; the last ones last."""
    names = {"temperature", *used, *(n for n in rules.ENGINES[engine].defaults if n in CHAIN)}
    names |= set(r.sample(rules.ENGINES[engine].order, 3))
    return (r.sample(sorted(names - set(rules.LAST)), len(names - set(rules.LAST)))
            + [name for name in rules.LAST if name in names])


def set_draws(r, made, used):
    if "mirostat" in used or "adaptive_p" in used:
        return
    made["n"] = r.choice((1, 4, 16))
    if r.random() < 0.2 and min(as_list(made["temperature"])) > 1e-5:
        made["replacement"] = False


# ---- its rows ----

SEQUENCES = ("bad_words", "dry_sequence_breakers")
LISTS = ("allowed_token_ids", "banned_token_ids", "stop_token_ids", "xtc_protected_ids", "history", "candidate_ids",
         "adaptive_state")
WHOLE = ("order",)


def rows(made):
    """(logits, parameters) a row, as rules.py takes them."""
    for i, row in enumerate(made["logits"]):
        parameters = {name: of_row(name, value, i) for name, value in made.items() if name != "logits"}
        yield row, {**parameters, "stream": 0 if isinstance(made.get("seed"), list) else i}


def of_row(name, value, i):
    """A parameter's value for row i: its i-th, if it has one a row."""
    if name in WHOLE:
        return value
    if name == "token_bitmask":
        return bitmask_of_row(value, i)
    depth = 2 if name in SEQUENCES else 1 if name in LISTS else 0
    return value[i] if depth_of(value) > depth else value


def depth_of(value):
    """How many lists stand within each other; an empty one counts as a list of numbers."""
    return 1 + max((depth_of(v) for v in value), default=0) if isinstance(value, list) else 0


def bitmask_of_row(value, i):
    words = struct.unpack(f"<{math.prod(value['shape'])}I", base64.b64decode(value["b64"]))
    width = value["shape"][-1]
    return words[i * width:(i + 1) * width] if len(value["shape"]) == 2 else words


# ---- near decisions ----

def outcome(row, parameters):
    """{id: p} of what is drawn from; of a greedy row {token: 1}."""
    if rules.settings(parameters, len(row)).greedy:
        return {rules.greedy(row, parameters): 1.0}
    return rules.distribution(row, parameters)


def is_near(row, parameters, r):
    """Whether small moves change what is kept, or probabilities by far more than the moves."""
    found = outcome(row, parameters)
    return any(differ(found, moved_outcome(row, parameters, r)) for _ in range(PATTERNS))


def differ(a, b):
    if any(max(a.get(t, 0), b.get(t, 0)) >= SMALLEST for t in a.keys() ^ b.keys()):
        return True
    return any(not math.isclose(a[t], b[t], rel_tol=AMPLIFIED, abs_tol=TOLD) for t in a.keys() & b.keys())


def moved_outcome(row, parameters, r):
    """The outcome with every logit moved, equals alike, and every real parameter."""
    moved = {z: z + MOVE * max(1, abs(z)) * r.uniform(-1, 1) for z in set(row) - {None}}
    near = {name: value * (1 + MOVE * r.uniform(-1, 1)) if name in REAL and value not in (0, 1) else value
            for name, value in parameters.items()}
    return outcome([moved.get(z) for z in row], near)


def requests(seed, count):
    """As many requests that can be answered, none of them near a decision."""
    r = random.Random(seed)
    while count > 0:
        made = request(r)
        try:
            near = any(is_near(row, parameters, r) for row, parameters in rows(made))
        except rules.FullyMasked:
            continue
        if not near:
            count -= 1
            yield made


# ---- what must be answered ----

def expected(made):
    """A row: greedy, probs {id: p} (of a greedy row None), token_ids with None where u is near a border, row (its
    settings, which rules.mirostat_after() and rules.adaptive_after() take with the token that was drawn)."""
    for logits_of_row, parameters in rows(made):
        row = rules.settings(parameters, len(logits_of_row))
        if row.greedy:
            token = rules.likeliest(rules.run_greedy(logits_of_row, row))
            yield SimpleNamespace(greedy=True, probs=None, token_ids=[token] * row.n, row=row)
        else:
            probs = rules.softmax(rules.run_chain(logits_of_row, row))
            yield SimpleNamespace(greedy=False, probs=probs, token_ids=certain_draws(probs, row), row=row)


def certain_draws(probs, row):
    """rules.draws(), with "?" for a token that a slightly other u would not draw, and for all that follow from it."""
    left, drawn = dict(probs), []
    for number in range(row.n):
        token = certain_draw(left, rules.uniform(row, number), row.skew)
        if token == "?" and not row.replacement:
            return drawn + ["?"] * (row.n - number)
        drawn.append(token)
        if not row.replacement:
            left.pop(token, None)
    return drawn


def state_after(row, drawn):
    """What the answer's mirostat_mu or adaptive_state must be, for one row of expected()."""
    if row.row.mirostat:
        return rules.mirostat_after(row.row, row.probs[drawn])
    return rules.adaptive_after(row.row, drawn)


def certain_draw(probs, u, skew):
    """The token, None when none is left, "?" near a border."""
    if not any(probs.values()):
        return None
    found = {rules.draw(probs, min(1 - 2 ** -53, max(0, u + move)), skew) for move in (-3e-4, 0, 3e-4)}
    return found.pop() if len(found) == 1 else "?"
