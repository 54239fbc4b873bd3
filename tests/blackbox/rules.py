"""Every rule that a request can set, in float64 and as plainly as possible: the yardstick of the tests, and a page to
learn the rules from.

`left` is {token_id: logit} of the tokens that are neither masked nor cut, ascending by id.  A rule takes `left` and the
row's settings, and returns what is left after it, with new logits where it reshapes them.  p is the softmax of what is
left at that point; a cut that would keep nothing keeps the likeliest token.

    sample(logits, {"temperature": 1, "min_p": 0.1, "seed": 7})        one row, parameters as in JSON, no lists of rows
"""

import array
import math
from types import SimpleNamespace

INF = math.inf
MASK32 = 2 ** 32 - 1


class Refusal(ValueError):
    """A request that the server must answer with a 400."""


class FullyMasked(Refusal):
    """A row that it must answer with a 422."""


# ---- what the rules are made of ----

def f32(x):
    """The nearest float32: what a logit is."""
    return array.array("f", [x])[0]


def softmax(left):
    """{id: p}"""
    largest = max(left.values())
    weights = {t: math.exp(z - largest) for t, z in left.items()}
    total = math.fsum(weights.values())
    return {t: w / total for t, w in weights.items()}


def likeliest_first(left):
    """Ids by falling logit.  Equals stay in their order, so that the lower id is first."""
    return sorted(left, key=left.get, reverse=True)


def likeliest(left):
    """The first of likeliest_first()."""
    return max(left, key=left.get)


def entropy(probs):
    """H = -sum p ln p, in nats."""
    return -math.fsum(p * math.log(p) for p in probs.values() if p > 0)


def keep(left, ids):
    """What is left when only ids stay; the likeliest token stays in any case."""
    ids = set(ids) or {likeliest(left)}
    return {t: z for t, z in left.items() if t in ids}


def keep_where(left, probs, stays):
    """Keep the tokens whose p passes the test."""
    return keep(left, (t for t, p in probs.items() if stays(p)))


def last(ids, n):
    """The last n ids; all of them for n = -1."""
    return list(ids) if n < 0 else list(ids[max(0, len(ids) - n):])


# ---- masks and biases: before the chain ----

def allowed_token_ids(left, row):
    if row.allowed_token_ids is None:
        return left
    if not row.allowed_token_ids:
        raise Refusal("allowed_token_ids is an empty list")
    allowed = set(row.allowed_token_ids)
    return {t: z for t, z in left.items() if t in allowed}


def masked(left, ids):
    """left without ids; unlike what cuts, a mask may leave nothing: then the row cannot be sampled."""
    ids = set(ids)
    return {t: z for t, z in left.items() if t not in ids} if ids else left


def banned_token_ids(left, row):
    return masked(left, row.banned_token_ids)


def token_bitmask(left, row):
    """Token t is allowed iff bit t % 32 of word t // 32 is 1."""
    if row.token_bitmask is None:
        return left
    return {t: z for t, z in left.items() if row.token_bitmask[t // 32] >> t % 32 & 1}


def logit_bias(left, row):
    """Added; null masks.  vLLM limits a bias to -100..100."""
    if not row.logit_bias:
        return left
    limit = row.convention.bias_limit
    bias = {int(t): b for t, b in row.logit_bias.items()}
    left = masked(left, (t for t, b in bias.items() if b is None))
    return {t: z + max(-limit, min(limit, bias.get(t, 0))) for t, z in left.items()}


def bad_words(left, row):
    """The last id of a word is masked where the ids before it end the history."""
    text = row.generated if row.convention.bad_words_end_in_generated else row.history
    return masked(left, (word[-1] for word in row.bad_words if ends_with(text, word[:-1])))


def ends_with(text, ids):
    return len(ids) <= len(text) and text[len(text) - len(ids):] == ids


def stop_token_ids(left, row):
    """Masked while fewer than min_tokens ids have been generated."""
    return masked(left, row.stop_token_ids) if len(row.generated) < row.min_tokens else left


# ---- history ----

def repetition_penalty(left, row):
    """Each distinct id of the window, once: z > 0 ? z / r : z * r."""
    window = row.window if row.convention.repetition_sees_prompt else row.generated_window
    seen, r = set(window), row.repetition_penalty
    return {t: (z / r if z > 0 else z * r) if t in seen else z for t, z in left.items()}


def counts(row):
    """How often each id was generated within the window; llama.cpp counts the prompt, too."""
    window = row.window if row.convention.counts_see_prompt else row.generated_window
    found = {}
    for t in window:
        found[t] = found.get(t, 0) + 1
    return found


def frequency_penalty(left, row):
    """z -= f * count"""
    count = counts(row)
    return {t: z - row.frequency_penalty * count.get(t, 0) for t, z in left.items()}


def presence_penalty(left, row):
    """z -= s where count > 0"""
    count = counts(row)
    return {t: z - row.presence_penalty if t in count else z for t, z in left.items()}


def dry(left, row):
    """z -= multiplier * base^(n - allowed) for the ids that would continue a repetition of n >= allowed ids."""
    repeats = dry_repeats(last(row.history, row.dry_last_n), row.dry_sequence_breakers)
    base = row.dry_base
    most = math.floor(88.7228391 / math.log(base)) if base > 1.000001 else INF  # ln of the largest float32
    left = dict(left)
    for t, n in repeats.items():
        if t in left and n >= row.dry_allowed_length:
            left[t] -= row.dry_multiplier * base ** min(n - row.dry_allowed_length, most)
    return left


def dry_repeats(window, breakers):
    """{t: length of the longest suffix of the window that also stands directly before an earlier t}"""
    breakers = [[b] if isinstance(b, int) else list(b) for b in breakers]
    longest = after_last_breaker(window, breakers)
    repeats = {}
    for i in range(1, len(window)):
        n = 0
        while n < min(i, longest) and window[i - 1 - n] == window[-1 - n]:
            n += 1
        repeats[window[i]] = max(n, repeats.get(window[i], 0))
    return {t: n for t, n in repeats.items() if [t] not in breakers}


def after_last_breaker(window, breakers):
    """How many ids follow the last breaker."""
    for n in range(len(window)):
        if any(ends_with(window[:len(window) - n], b) for b in breakers):
            return n
    return len(window)


def no_repeat_ngram(left, row):
    """Every id is masked that would repeat n ids of the history."""
    n, text = row.no_repeat_ngram_size, row.history
    tail = text[len(text) - n + 1:]
    return masked(left, (text[i + n - 1] for i in range(len(text) - n + 1) if text[i:i + n - 1] == tail))


# ---- temperature and what else reshapes logits ----

def temperature(left, row):
    """z / T.  T = 0, which only a dynamic one can be here, leaves the likeliest token."""
    T = dynamic_temperature(left, row) if row.dynatemp_range > 0 else row.temperature
    return {t: z / T for t, z in left.items()} if T > 0 else keep(left, [likeliest(left)])


def dynamic_temperature(left, row):
    """T = lo + (hi - lo) * (H / ln n)^exponent, H and n of what is left."""
    lo = max(0.0, row.temperature - row.dynatemp_range)
    hi = row.temperature + row.dynatemp_range
    if len(left) == 1:
        return hi
    return lo + (hi - lo) * (entropy(softmax(left)) / math.log(len(left))) ** row.dynatemp_exponent


def smoothing(left, row):
    """z' = m - f (3 - c) / 2 * d^2 + f (c - 1) / 2 * d^3 with d = z - m"""
    f, c, m = row.smoothing_factor, row.smoothing_curve, max(left.values())
    return {t: m - f * (3 - c) / 2 * (z - m) ** 2 + f * (c - 1) / 2 * (z - m) ** 3 for t, z in left.items()}


def adaptive_p(left, row):
    """z' = 5 - 10 x^2 / (1 + x), x = abs(p - t) / 0.3: likely is what is near the target."""
    ws, tw = row.adaptive_state
    target = max(0.0, min(1.0, 2 * row.adaptive_target - ws / tw))
    x = {t: abs(p - target) / 0.3 for t, p in softmax(left).items()}
    return {t: 5 - 10 * x[t] ** 2 / (1 + x[t]) for t in left}


# ---- truncation ----

def top_n_sigma(left, row):
    """z >= m - s * standard deviation"""
    mean = math.fsum(left.values()) / len(left)
    deviation = math.sqrt(math.fsum((z - mean) ** 2 for z in left.values()) / len(left))
    border = max(left.values()) - row.top_n_sigma * deviation
    return keep(left, (t for t, z in left.items() if z >= border))


def top_k(left, row):
    """The k likeliest, with or without what is equal to the last of them."""
    ranked = likeliest_first(left)[:row.top_k]
    if row.top_k_ties == "lower_id":
        return keep(left, ranked)
    return keep(left, (t for t, z in left.items() if z >= left[ranked[-1]]))


def top_p(left, row):
    """The likeliest while their mass is within top_p; "keep" takes the token that crosses as well."""
    probs = softmax(left)
    if row.convention.mass_before_top_k and "top_k" in row.before:
        probs = softmax(row.before["top_k"])
    kept, mass = [], 0.0
    for t in likeliest_first(left):
        before, mass = mass, mass + probs[t]
        if before >= row.top_p if row.top_p_crossing == "keep" else mass > row.top_p:
            break
        kept.append(t)
    return keep(left, kept)


def min_p(left, row):
    """p >= min_p * max p; equal logits are equal, so a min_p of 1 keeps the likeliest and its equals."""
    border = max(left.values()) + math.log(row.min_p)
    return keep(left, (t for t, z in left.items() if z >= border))


def typical_p(left, row):
    """By abs(-ln p - H): the shortest prefix whose mass exceeds typical_p, and what is equal to the last of it."""
    probs = softmax(left)
    h = entropy(probs)
    distance = {t: abs(-math.log(p) - h) if p > 0 else INF for t, p in probs.items()}
    mass, ranked = 0.0, sorted(left, key=lambda t: (distance[t], t))
    if row.typical_p == 0:
        return keep(left, ranked[:1])
    for t in ranked:
        mass += probs[t]
        if mass > row.typical_p:
            return keep(left, (other for other in left if distance[other] <= distance[t]))
    return left


def top_a(left, row):
    """p >= a * (max p)^2"""
    probs = softmax(left)
    border = row.top_a * max(probs.values()) ** 2
    return keep_where(left, probs, lambda p: p >= border)


def tfs(left, row):
    """The i + 1 likeliest, i the first at which the running sum of the curve's second differences exceeds z."""
    ranked, probs = likeliest_first(left), softmax(left)
    p = [probs[t] for t in ranked]
    bends = [abs(p[i] - 2 * p[i + 1] + p[i + 2]) for i in range(len(p) - 2)]
    total = math.fsum(bends)
    if total == 0:
        return left
    mass = 0.0
    for i, bend in enumerate(bends):
        mass += bend / total
        if mass > row.tfs:
            return keep(left, ranked[:i + 1])
    return left


def epsilon_cutoff(left, row):
    """p >= e"""
    return keep_where(left, softmax(left), lambda p: p >= row.epsilon_cutoff)


def eta_cutoff(left, row):
    """p >= min(e, sqrt(e) * exp(-H))"""
    probs, e = softmax(left), row.eta_cutoff
    border = min(e, math.sqrt(e) * math.exp(-entropy(probs)))
    return keep_where(left, probs, lambda p: p >= border)


def top_h(left, row):
    """Of the 100 likeliest, renormalised: the prefix whose running entropy is within a share of all of it."""
    ranked = likeliest_first(left)[:100]
    probs = softmax({t: left[t] for t in ranked})
    most, running, kept = row.top_h * entropy(probs), 0.0, []
    for t in ranked:
        running += entropy({t: probs[t]})
        if running > most:
            break
        kept.append(t)
    return keep(left, kept)


def p_less(left, row):
    """p >= sum p^2, the chance that two draws agree; equal tokens reach it, which rounding must not hide."""
    probs = softmax(left)
    border = math.fsum(p * p for p in probs.values()) * (1 - 1e-12)
    return keep_where(left, probs, lambda p: p >= border)


def xtc(left, row):
    """When the coin says so: of the tokens with p >= threshold all but the least likely go."""
    if row.xtc_threshold > 0.5 or coin(row) >= row.xtc_probability:
        return left
    probs = softmax(left)
    top = [t for t in likeliest_first(left) if probs[t] >= row.xtc_threshold]
    gone = set(top[:-1]) - set(row.xtc_protected_ids)
    return keep(left, (t for t in left if t not in gone))


def mirostat(left, row):
    return (mirostat_1 if row.mirostat == 1 else mirostat_2)(left, row)


def mirostat_2(left, row):
    """-log2 p <= mu"""
    border = 2.0 ** -row.mirostat_mu
    return keep_where(left, softmax(left), lambda p: p >= border)


def mirostat_1(left, row):
    """The k likeliest, k from Zipf's exponent s of the 100 likeliest."""
    ranked = likeliest_first(left)
    s = zipf_exponent([left[t] for t in ranked[:100]])
    if s <= 0:
        return left
    e = s - 1
    try:
        k = (e * 2 ** row.mirostat_mu / (1 - row.vocab_size ** -e)) ** (1 / s)
    except (OverflowError, ZeroDivisionError):
        return left
    if isinstance(k, complex) or not k <= len(ranked):
        return left
    return keep(left, ranked[:max(1, math.floor(k))])


def zipf_exponent(z):
    """sum t b / sum t^2 with t_i = ln((i + 2) / (i + 1)), b_i = ln(p_i / p_(i+1))"""
    t = [math.log((i + 2) / (i + 1)) for i in range(len(z) - 1)]
    b = [z[i] - z[i + 1] for i in range(len(z) - 1)]
    return math.fsum(map(lambda x, y: x * y, t, b)) / math.fsum(x * x for x in t) if t else 0.0


# ---- engines ----

REFERENCE_ORDER = (
    "repetition_penalty", "frequency_penalty", "presence_penalty", "dry", "no_repeat_ngram", "top_n_sigma",
    "temperature", "smoothing", "top_k", "top_p", "min_p", "typical_p", "top_a", "tfs", "epsilon_cutoff", "eta_cutoff",
    "top_h", "p_less", "xtc", "mirostat", "adaptive_p", "skew")
LAST = ("mirostat", "adaptive_p", "skew")  # may only stand at the end of an order
PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty", "dry", "no_repeat_ngram")


def engine(order, defaults, **conventions):
    """One column of the table of engines; what it does not say is as in the reference."""
    return SimpleNamespace(**{
        "order": order,
        "defaults": defaults,
        "top_k_ties": "keep",
        "top_p_crossing": "keep",
        "top_p_zero": "likeliest",         # or "off", or "refused"
        "typical_p_zero": "off",           # or "likeliest", or "refused"
        "mass_before_top_k": False,        # top_p's mass is that of the softmax before top_k
        "repetition_sees_prompt": True,
        "counts_see_prompt": False,
        "bad_words_end_in_generated": False,
        "bias_limit": INF,
        "bias_after_penalties": False,
        "temperature_floor": 0,            # a smaller temperature becomes this
        "greedy_below": 0,                 # a smaller temperature is greedy
        "greedy_after_truncation": False,  # a greedy row takes the likeliest of what is left before temperature
        "order_with_mirostat": None,
        **conventions})


ENGINES = {
    "reference": engine(REFERENCE_ORDER, {"temperature": 0}, top_p_crossing="drop", top_p_zero="off"),
    "llama.cpp": engine(
        ("repetition_penalty", "frequency_penalty", "presence_penalty", "dry", "top_n_sigma", "top_k", "typical_p",
         "top_p", "min_p", "xtc", "temperature", "adaptive_p"),
        {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "penalty_last_n": 64, "dry_last_n": 64},
        top_k_ties="lower_id", typical_p_zero="likeliest", counts_see_prompt=True, greedy_after_truncation=True,
        order_with_mirostat=("temperature", "mirostat")),
    "vllm": engine(
        ("repetition_penalty", "frequency_penalty", "presence_penalty", "temperature", "min_p", "top_k", "top_p"),
        {"temperature": 1}, top_p_zero="refused", bad_words_end_in_generated=True, bias_limit=100,
        temperature_floor=0.01, greedy_below=1e-5),
    "transformers": engine(
        ("repetition_penalty", "no_repeat_ngram", "temperature", "top_h", "top_k", "top_p", "min_p", "typical_p",
         "epsilon_cutoff", "eta_cutoff"),
        {"temperature": 1, "top_k": 50}, typical_p_zero="refused"),
    "sglang": engine(
        ("frequency_penalty", "presence_penalty", "repetition_penalty", "temperature", "top_k", "top_p", "min_p"),
        {"temperature": 1}, top_k_ties="lower_id", top_p_zero="refused", mass_before_top_k=True,
        repetition_sees_prompt=False, bias_after_penalties=True),
}

OFF = {  # what a parameter is when neither the request nor the engine says
    "allowed_token_ids": None, "banned_token_ids": (), "token_bitmask": None, "logit_bias": {}, "bad_words": (),
    "min_tokens": 0, "stop_token_ids": (),
    "history": None, "prompt_tokens": 0, "penalty_last_n": -1, "repetition_penalty": 1, "frequency_penalty": 0,
    "presence_penalty": 0, "dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_last_n": -1,
    "dry_sequence_breakers": (), "no_repeat_ngram_size": 0,
    "dynatemp_range": 0, "dynatemp_exponent": 1, "smoothing_factor": 0, "smoothing_curve": 1,
    "top_k": 0, "top_p": 1, "min_p": 0, "typical_p": 1, "top_n_sigma": 0, "top_a": 0, "tfs": 1, "epsilon_cutoff": 0,
    "eta_cutoff": 0, "top_h": None, "p_less": False,
    "xtc_probability": 0, "xtc_threshold": 0.1, "xtc_protected_ids": (),
    "mirostat": 0, "mirostat_tau": 5, "mirostat_eta": 0.1, "mirostat_mu": None,
    "adaptive_target": None, "adaptive_decay": 0.9, "adaptive_state": None, "skew": 0,
    "candidate_ids": None, "replacement": True, "n": 1, "seed": 0, "offset": 0, "stream": 0,
}


# ---- the chain ----

def mass_is_on(value, at_zero):
    """Of top_p and typical_p: 0 means what the engine says."""
    return 0 < value < 1 or value == 0 and at_zero == "likeliest"


RULES = {  # name: (what it does, whether a row uses it)
    "repetition_penalty": (repetition_penalty, lambda row: row.repetition_penalty != 1),
    "frequency_penalty": (frequency_penalty, lambda row: row.frequency_penalty != 0),
    "presence_penalty": (presence_penalty, lambda row: row.presence_penalty != 0),
    "dry": (dry, lambda row: row.dry_multiplier > 0),
    "no_repeat_ngram": (no_repeat_ngram, lambda row: row.no_repeat_ngram_size > 0),
    "top_n_sigma": (top_n_sigma, lambda row: row.top_n_sigma > 0),
    "temperature": (temperature, lambda row: row.temperature != 1 or row.dynatemp_range > 0),
    "smoothing": (smoothing, lambda row: row.smoothing_factor > 0),
    "top_k": (top_k, lambda row: row.top_k > 0),
    "top_p": (top_p, lambda row: mass_is_on(row.top_p, row.convention.top_p_zero)),
    "min_p": (min_p, lambda row: row.min_p > 0),
    "typical_p": (typical_p, lambda row: mass_is_on(row.typical_p, row.convention.typical_p_zero)),
    "top_a": (top_a, lambda row: row.top_a > 0),
    "tfs": (tfs, lambda row: row.tfs < 1),
    "epsilon_cutoff": (epsilon_cutoff, lambda row: row.epsilon_cutoff > 0),
    "eta_cutoff": (eta_cutoff, lambda row: row.eta_cutoff > 0),
    "top_h": (top_h, lambda row: row.top_h is not None),
    "p_less": (p_less, lambda row: row.p_less),
    "xtc": (xtc, lambda row: row.xtc_probability > 0),
    "mirostat": (mirostat, lambda row: row.mirostat > 0),
    "adaptive_p": (adaptive_p, lambda row: row.adaptive_target is not None),
    "skew": (lambda left, row: left, lambda row: row.skew != 0),  # it changes the draw, not what is left
}


def settings(parameters, vocab_size):
    """A row's parameters with the engine's defaults and conventions, as the rules read them."""
    convention = ENGINES[parameters.get("engine", "reference")]
    row = SimpleNamespace(**{**OFF, **convention.defaults, **parameters})
    row.convention, row.vocab_size, row.before = convention, vocab_size, {}
    row.top_k_ties = parameters.get("top_k_ties", convention.top_k_ties)
    row.top_p_crossing = parameters.get("top_p_crossing", convention.top_p_crossing)
    row.temperature = f32(row.temperature)
    if row.mirostat_mu is None:
        row.mirostat_mu = 2 * row.mirostat_tau
    if row.adaptive_target is not None and row.adaptive_state is None:
        row.adaptive_state = [row.adaptive_target / (1 - row.adaptive_decay), 1 / (1 - row.adaptive_decay)]
    set_windows(row)
    set_temperature(row)
    set_order(row, parameters.get("order"))
    refuse(row)
    return row


def set_windows(row):
    """The parts of the history that the rules look at."""
    row.has_history = row.history is not None  # an empty one is one, too
    row.history = list(row.history or ())
    row.generated = row.history[row.prompt_tokens:]
    row.window = last(row.history, row.penalty_last_n)
    row.generated_window = row.window[max(0, len(row.window) - len(row.generated)):]


def set_temperature(row):
    """Whether the row is greedy, and the temperature that an engine makes of a small one."""
    row.greedy = row.temperature <= 0 or row.temperature < row.convention.greedy_below
    if row.convention.greedy_after_truncation and row.dynatemp_range > 0:  # llama.cpp: a range over 0 is no greed
        row.greedy = False
    row.temperature = max(row.temperature, row.convention.temperature_floor)


def set_order(row, order):
    """The names of the chain; all that is set must be in it."""
    row.order = tuple(order or row.convention.order)
    if row.mirostat and row.convention.order_with_mirostat and not order:
        row.order = row.convention.order_with_mirostat
        row.dynatemp_range = 0
        return
    for name in set(row.order) - set(RULES):
        raise Refusal(f"order: {name} is no rule")
    if len(set(row.order)) < len(row.order):
        raise Refusal("order: a rule stands twice")
    if any(a in LAST and b not in LAST for a, b in zip(row.order, row.order[1:])):
        raise Refusal("order: " + ", ".join(LAST) + " may only stand at the end")
    for name, (_, is_on) in RULES.items():
        if name not in row.order and is_on(row) and not (name == "temperature" and row.greedy):
            raise Refusal(f"{name} is set, but order leaves it out")


def refuse(row):
    """What cannot be asked for together."""
    for name in PENALTIES:
        if not row.has_history and RULES[name][1](row):
            raise Refusal(f"{name} is set without history")
    for name in ("top_p", "typical_p"):
        if getattr(row, name) == 0 and getattr(row.convention, name + "_zero") == "refused":
            raise Refusal(f"{name} 0 is not what this engine has")
    if row.n > 1 and (row.mirostat or row.adaptive_target is not None):
        raise Refusal("n must be 1")


def after_masks(logits, row):
    """What the masks and biases leave."""
    values = array.array("f", [-INF if z is None else z for z in logits])
    scored = enumerate(values) if row.candidate_ids is None else sorted(zip(row.candidate_ids, values))
    left = {t: z for t, z in scored if z != -INF}
    for mask in (allowed_token_ids, banned_token_ids, token_bitmask):
        left = mask(left, row)
    if not row.convention.bias_after_penalties:
        left = logit_bias(left, row)
    return stop_token_ids(bad_words(left, row), row)


def run_chain(logits, row, names=None):
    """What is left after the rules of names, the whole order by default; row.before has what was left before each."""
    left = after_masks(logits, row)
    biased = not row.convention.bias_after_penalties
    for name in row.order if names is None else names:
        if not biased and name not in PENALTIES:
            left, biased = logit_bias(left, row), True
        rule, is_on = RULES[name]
        row.before[name] = left
        if is_on(row) and left:
            left = rule(left, row)
    left = left if biased else logit_bias(left, row)
    if not left:
        raise FullyMasked("every token is masked")
    return left


# ---- the answer ----

def distribution(logits, parameters):
    """{token_id: probability} of what the draw chooses from."""
    return softmax(run_chain(logits, settings(parameters, len(logits))))


def greedy(logits, parameters):
    """The token of a row of temperature <= 0: the likeliest after masks, biases and penalties."""
    return likeliest(run_greedy(logits, settings(parameters, len(logits))))


def run_greedy(logits, row):
    """What a greedy row takes the likeliest of."""
    names = [name for name in row.order if name in PENALTIES]
    if row.convention.greedy_after_truncation:
        names = row.order[:row.order.index("temperature")]
    return run_chain(logits, row, names)


def sample(logits, parameters):
    """token_ids, and the states to be sent back with the next row: what the server answers for one row."""
    row = settings(parameters, len(logits))
    if row.greedy:
        return SimpleNamespace(token_ids=[likeliest(run_greedy(logits, row))] * row.n)
    probs = softmax(run_chain(logits, row))
    answer = SimpleNamespace(token_ids=draws(probs, row), probs=probs)
    if row.mirostat:
        answer.mirostat_mu = mirostat_after(row, probs[answer.token_ids[0]])
    if row.adaptive_target is not None:
        answer.adaptive_state = adaptive_after(row, answer.token_ids[0])
    return answer


def mirostat_after(row, p_drawn):
    """mu -= eta * (surprise - tau), in bits"""
    return row.mirostat_mu - row.mirostat_eta * (-math.log2(p_drawn) - row.mirostat_tau)


def adaptive_after(row, drawn):
    """ws = p + decay * ws, tw = 1 + decay * tw; p is the drawn token's before adaptive_p reshaped it."""
    p = softmax(row.before["adaptive_p"])[drawn]
    ws, tw = row.adaptive_state
    return [p + row.adaptive_decay * ws, 1 + row.adaptive_decay * tw]


# ---- the draw ----

def draws(probs, row):
    """n ids; None where without replacement no token is left."""
    probs, drawn = dict(probs), []
    for number in range(row.n):
        drawn.append(draw(probs, uniform(row, number), row.skew) if any(probs.values()) else None)
        if not row.replacement:
            probs.pop(drawn[-1], None)
    return drawn


def draw(probs, u, skew=0):
    """The first token whose running sum passes u of the total, by ascending id; with skew by falling p, u^exp(-s)."""
    walk = sorted(probs)
    if skew:
        walk, u = likeliest_first(probs), u ** math.exp(-skew)
    total, mass = math.fsum(probs.values()), 0.0
    for t in walk:
        mass += probs[t]
        if mass > u * total:
            return t
    return max(t for t in walk if probs[t] > 0)


def coin(row):
    """xtc's, one a row: the draw that no n reaches."""
    return uniform(row, 2 ** 32 - 1)


def uniform(row, number):
    """u in [0, 1) of the draw of this number."""
    seed, offset = int(row.seed), int(row.offset)
    x = philox4x32((offset & MASK32, offset >> 32, row.stream, number), (seed & MASK32, seed >> 32))
    return ((x[1] << 32 | x[0]) >> 11) * 2.0 ** -53  # 53 bits


def philox4x32(counter, key):
    """Ten rounds of Philox (Salmon et al., SC 2011)."""
    a, b, c, d = counter
    k, l = key
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = y >> 32 ^ b ^ k, y & MASK32, x >> 32 ^ d ^ l, x & MASK32
        k, l = k + 0x9E3779B9 & MASK32, l + 0xBB67AE85 & MASK32
    return a, b, c, d
