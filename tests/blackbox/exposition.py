"""A strict reader of Prometheus' text format 0.0.4: whatever is not as the format has it is an error."""

import math
import re

TYPES = ("counter", "gauge", "histogram")
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
HEAD = re.compile(rf"# (HELP|TYPE) ({NAME}) (.+)")
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\+Inf|-?[0-9.]+(?:e[-+]?[0-9]+)?)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,(?!$)|$)')
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


class FormatError(Exception):
    """What is wrong, and the line."""


def read_labels(text, line):
    """The part between braces as a dict."""
    labels, at = {}, 0
    while at < len(text):
        found = LABEL.match(text, at)
        if not found or found[1] in labels:
            raise FormatError(line)
        labels[found[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], found[2])
        at = found.end()
    return labels


class Exposition:
    """types by family; samples by (name, frozenset of labels)."""

    def __init__(self, text):
        self.types, self.help, self.samples = {}, {}, {}
        if not text.endswith("\n"):
            raise FormatError("the last line does not end")
        self.family = None
        for line in text[:-1].split("\n"):
            if line.startswith("#"):
                self._head(line)
            else:
                self._sample(line)
        for name, kind in self.types.items():
            if kind == "histogram":
                self._check_histogram(name)

    def _head(self, line):
        found = HEAD.fullmatch(line)
        if not found:
            raise FormatError(line)
        word, name, rest = found.groups()
        if word == "HELP":
            if name in self.help:
                raise FormatError(f"twice: {line}")
            self.help[name] = rest
        else:
            if name in self.types or name not in self.help or rest not in TYPES:
                raise FormatError(line)
            self.types[name] = rest
            self.family = name

    def _sample(self, line):
        found = SAMPLE.fullmatch(line)
        if not found or self.family is None:
            raise FormatError(line)
        name, labels, value = found[1], read_labels(found[2] or "", line), float(found[3])
        if name not in [self.family + s for s in SUFFIXES[self.types[self.family]]]:
            raise FormatError(f"outside its family: {line}")
        key = (name, frozenset(labels.items()))
        if key in self.samples or value < 0:
            raise FormatError(line)
        self.samples[key] = value

    def _check_histogram(self, name):
        """Buckets rise, by bound and by count, to +Inf, which is the count; sum is there."""
        series = {}
        for (sample, labels), value in self.samples.items():
            if sample == name + "_bucket":
                bound = float(dict(labels)["le"])
                rest = frozenset(pair for pair in labels if pair[0] != "le")
                series.setdefault(rest, []).append((bound, value))
        for labels, buckets in series.items():
            counts = [count for _, count in buckets]
            if buckets != sorted(buckets) or counts != sorted(counts) or buckets[-1][0] != math.inf:
                raise FormatError(f"buckets of {name} {labels}: {buckets}")
            if self.samples[name + "_count", labels] != counts[-1] or (name + "_sum", labels) not in self.samples:
                raise FormatError(f"count or sum of {name} {labels}")

    def value(self, name, **labels):
        """One sample; 0 where there is none, as for a series that has not begun."""
        return self.samples.get((name, frozenset(labels.items())), 0)

    def total(self, name, **labels):
        """The sum of all samples of this name with at least these labels."""
        return sum(v for (n, l), v in self.samples.items() if n == name and l >= frozenset(labels.items()))

    def values_of(self, label):
        """Every value that this label has anywhere."""
        return {value for _, labels in self.samples for name, value in labels if name == label}
