"""Client of samplerd: logits in over HTTP, token ids out."""

from __future__ import annotations

from typing import Any, Optional

from ._answer import Answer, SamplerdError, read_answer
from ._http import Connections
from ._request import build_request

__all__ = ["Answer", "Client", "SamplerdError"]
__version__ = "0.1.0"


class Client:
    """Samples at one server.  May be shared by threads: each keeps a connection of its own alive."""

    def __init__(self, address: str = "http://127.0.0.1:8090", *, token: Optional[str] = None, timeout: float = 30.0,
                 retries: int = 2, ssl_context: Any = None):
        """address: "http://HOST:PORT", "https://HOST:PORT", "unix:PATH" or "unix:@NAME"; token: for servers that ask
        for one.
        """
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connections = Connections(address, timeout, retries, ssl_context)

    def sample(self, logits: Any, *, dtype: Optional[str] = None, vocab_size: Optional[int] = None,
               **parameters: Any) -> Answer:
        """Draw tokens; parameters are those of POST /sample (temperature, top_k, min_p, history, seed, ...).

        logits: nested lists of numbers, None masking a token; or an array or other object with the buffer protocol:
        [V], [B, V], or [M, B, V] with mix.  float64 is rounded to float32; integers are taken up to 2^24.
        dtype: of bytes, "f32", "f16", "bf16" or "f64", little-endian; "bf16" also for 16-bit integers that are its bits.
        vocab_size: cuts bytes and flat arrays into rows.
        Raises SamplerdError for an answer that is no success, ValueError and TypeError before anything is sent,
        OSError and http.client.HTTPException where there is no answer.
        """
        request = build_request(logits, dtype, vocab_size, parameters)
        headers = {"Content-Type": request.content_type, **self._headers}
        return read_answer(*self._connections.post(request.target, request.parts, headers))

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        self._connections.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
