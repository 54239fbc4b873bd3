"""Client of samplerd: logits in over HTTP, token ids out."""

from __future__ import annotations

import base64
import http.client
import json
import math
import socket
import threading
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Union

__all__ = ["Answer", "Client", "SamplerdError"]
__version__ = "0.1.0"

Number = Union[int, float]
Rows = Sequence[Sequence[Optional[float]]]

_WIDTHS = {"f32": 4, "f16": 2, "bf16": 2}
_FORMATS = {"f": "f32", "e": "f16"}  # of the buffer protocol
_LONGEST_WAIT = 5.0  # seconds that a Retry-After is followed for
_LARGEST_EXACT = 2**53


@dataclass(frozen=True)
class Answer:
    """What the server answered; None for what was not asked for."""

    token_ids: List[List[int]]  # [batch_size][n]
    seed: Union[int, List[int]]  # as used: send it again for the same tokens
    logprobs: Optional[List[List[float]]] = None  # [batch_size][n] natural logarithms
    top_token_ids: Optional[List[List[int]]] = None  # [batch_size][<= top_candidates]
    top_probs: Optional[List[List[float]]] = None
    top_logprobs: Optional[List[List[float]]] = None
    id: Optional[str] = None


class SamplerdError(Exception):
    """A refusal by the server."""

    def __init__(self, status: int, error: Mapping[str, Any]):
        super().__init__(error.get("message", f"HTTP status {status}"))
        self.status = status
        self.type: Optional[str] = error.get("type")
        self.code: Optional[str] = error.get("code")
        self.param: Optional[str] = error.get("param")
        self.row: Optional[int] = error.get("row")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """Samples at one server.  May be shared by threads: each keeps a connection of its own alive."""

    def __init__(self, address: str = "http://127.0.0.1:8090", *, token: Optional[str] = None, timeout: float = 30.0,
                 retries: int = 2, ssl_context: Any = None):
        """address: "http://HOST:PORT", "https://HOST:PORT" or "unix:PATH"; token: for servers that ask for one."""
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._retries = retries
        self._ssl_context = ssl_context
        self._local = threading.local()
        self._connect()  # a wrong address is told here

    def sample(self, logits: Any, *, dtype: Optional[str] = None, vocab_size: Optional[int] = None,
               **parameters: Any) -> Answer:
        """Draw tokens; parameters are those of POST /sample (temperature, top_k, top_p, seed, n, ...).

        logits: nested lists of numbers, None masking a token, or an object with the buffer protocol, C-contiguous: [V],
        [B, V], or [M, B, V] with mix.  dtype: "f32", "f16" or "bf16" where the buffer does not tell.
        """
        parameters = {name: value for name, value in parameters.items() if value is not None}
        if isinstance(logits, (list, tuple)):
            return self._sample_json({"logits": logits, **parameters})
        data, dtype, shape = _read_buffer(logits, dtype, vocab_size)
        if "bias" in parameters or "candidate_ids" in parameters:
            text = base64.b64encode(data).decode("ascii")
            return self._sample_json({"logits": {"b64": text, "dtype": dtype, "shape": shape}, **parameters})
        query = {"vocab_size": shape[-1], "dtype": dtype, **parameters}
        target = "/sample?" + urllib.parse.urlencode({name: _query_value(value) for name, value in query.items()})
        return self._sample(target, data, "application/octet-stream")

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _sample_json(self, request: Mapping[str, Any]) -> Answer:
        body = {name: _json_value(name, value) for name, value in request.items()}
        return self._sample("/sample", json.dumps(body, allow_nan=False).encode("utf-8"), "application/json")

    def _sample(self, target: str, body: Any, content_type: str) -> Answer:
        status, data = self._post(target, body, {"Content-Type": content_type, **self._headers})
        answer = json.loads(data) if data else {}
        if status != 200:
            raise SamplerdError(status, answer.get("error", {}))
        seed = answer.pop("seed")
        return Answer(seed=[int(s) for s in seed] if isinstance(seed, list) else int(seed), **answer)

    def _post(self, target: str, body: Any, headers: Mapping[str, str]) -> Any:
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                connection = self._connect()
                connection.request("POST", target, body, dict(headers))
                response = connection.getresponse()
                data = response.read()
            except (ConnectionError, http.client.BadStatusLine, http.client.IncompleteRead):
                self.close()
                if last:
                    raise
                continue
            if response.status != 503 or last:
                return response.status, data
            time.sleep(_seconds_to_wait(response.headers.get("Retry-After")))
        raise AssertionError("unreachable")

    def _connect(self) -> http.client.HTTPConnection:
        connection: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._new_connection()
        return connection

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._address.startswith("unix:"):
            return _UnixConnection(self._address[len("unix:"):], self._timeout)
        url = urllib.parse.urlsplit(self._address)
        if url.scheme == "http" and url.hostname:
            return http.client.HTTPConnection(url.hostname, url.port or 80, timeout=self._timeout)
        if url.scheme == "https" and url.hostname:
            return http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=self._timeout,
                                               context=self._ssl_context)
        raise ValueError(f"address is {self._address!r}; it must be http://HOST:PORT, https://HOST:PORT or unix:PATH")


def _seconds_to_wait(retry_after: Optional[str]) -> float:
    return min(float(retry_after), _LONGEST_WAIT) if retry_after and retry_after.isdigit() else 0.1


def _read_buffer(logits: Any, dtype: Optional[str], vocab_size: Optional[int]) -> Any:
    """The bytes of a buffer, its dtype and its shape as a list."""
    view = memoryview(logits)
    if not view.c_contiguous:
        raise ValueError("logits must be C-contiguous; numpy.ascontiguousarray makes them so")
    if dtype is None:
        dtype = _FORMATS.get(view.format.lstrip("<=@"))
        if dtype is None:
            raise ValueError(f"logits have format {view.format!r}; they must be float32 or float16, or name a dtype")
    if dtype not in _WIDTHS:
        raise ValueError(f"dtype is {dtype!r}; it must be one of {', '.join(_WIDTHS)}")
    shape = list(view.shape or ())
    if view.itemsize != _WIDTHS[dtype] or vocab_size is not None:
        if vocab_size is None:
            raise ValueError("logits as bytes need vocab_size")
        shape = [view.nbytes // (vocab_size * _WIDTHS[dtype]), vocab_size]
    return view.cast("B") if view.nbytes else b"", dtype, shape


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_list(value):
        return ",".join(_query_value(item) for item in value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def _json_value(name: str, value: Any) -> Any:
    """Lists of any kind as lists, -inf as null, and words above 2^53 as strings."""
    if _is_list(value):
        return [_json_value(name, item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, float) and value == -math.inf and name in ("logits", "bias"):
        return None
    if name in ("seed", "offset") and isinstance(value, int) and value > _LARGEST_EXACT:
        return str(value)
    return value
