"""What comes back."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Union

_LONGEST_TEXT = 200  # characters of an answer that is not the server's own


@dataclass(frozen=True)
class Answer:
    """What the server answered; None for what was not asked for."""

    token_ids: List[List[int]]  # [batch_size][n]
    seed: Union[int, List[int]]  # as used: send it again for the same tokens
    logprobs: Optional[List[List[float]]] = None  # [batch_size][n] natural logarithms
    top_token_ids: Optional[List[List[int]]] = None  # [batch_size][<= top_candidates]
    top_probs: Optional[List[List[float]]] = None
    top_logprobs: Optional[List[List[float]]] = None
    mirostat_mu: Optional[List[float]] = None  # [batch_size] to be sent with the next step
    adaptive_state: Optional[List[List[float]]] = None  # [batch_size][2] the same
    id: Optional[str] = None


class SamplerdError(Exception):
    """A refusal by the server, or an answer of something in between; that has a status and a message alone."""

    def __init__(self, status: int, error: Mapping[str, Any]):
        super().__init__(error.get("message", f"HTTP status {status}"))
        self.status = status
        self.type: Optional[str] = error.get("type")
        self.code: Optional[str] = error.get("code")
        self.param: Optional[str] = error.get("param")
        self.row: Optional[int] = error.get("row")


_FIELDS = {field.name for field in dataclasses.fields(Answer)}


def read_answer(status: int, data: bytes) -> Answer:
    """The answer, or raise what it says."""
    try:
        answer = json.loads(data)
        if status != 200:
            raise SamplerdError(status, {**answer["error"]})
        seed = answer.pop("seed")
        answer["seed"] = [int(s) for s in seed] if isinstance(seed, list) else int(seed)
        return Answer(**{name: value for name, value in answer.items() if name in _FIELDS})
    except (ValueError, LookupError, TypeError, AttributeError):  # another server's page, or JSON of another kind
        raise SamplerdError(status, {"message": _describe(status, data)}) from None


def _describe(status: int, data: bytes) -> str:
    """The status and the beginning of the text, without HTML's tags."""
    text = " ".join(re.sub(r"<[^>]*>", " ", data.decode("utf-8", "replace")).split())
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + "..."
    return f"HTTP status {status}, not by samplerd: {text}" if text else f"HTTP status {status} without a text"
