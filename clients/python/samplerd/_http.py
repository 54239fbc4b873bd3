"""A connection for each thread, kept alive; a request is repeated while that may help."""

from __future__ import annotations

import email.utils
import http.client
import random
import socket
import threading
import time
import urllib.parse
from typing import Any, List, Mapping, Optional, Tuple

from ._logits import Bytes

_BUSY = (502, 503, 504)  # of the server or of a proxy before it: the next answer may be another
_LONGEST_WAIT = 5.0  # seconds that a Retry-After is followed for
_FIRST_WAIT = 0.1  # seconds; doubled for each further attempt
_LOST = (ConnectionError, http.client.BadStatusLine, http.client.IncompleteRead)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float):
        super().__init__("localhost", timeout=timeout)
        self._path = "\0" + path[1:] if path.startswith("@") else path  # Linux's abstract namespace

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Connections:
    """Connections to one address.  May be shared by threads."""

    def __init__(self, address: str, timeout: float, retries: int, ssl_context: Any):
        self._address = address
        self._timeout = timeout
        self._retries = retries
        self._ssl_context = ssl_context
        self._local = threading.local()
        self._connection()  # a wrong address is told here

    def post(self, target: str, parts: List[Bytes], headers: Mapping[str, str]) -> Tuple[int, bytes]:
        """Status and body of the answer to this POST, or of the last one."""
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            was_open = self._connection().sock is not None
            try:
                status, retry_after, data = self._post_once(target, parts, headers)
            except _LOST:
                if last:
                    raise
                # One that was kept alive may have ended between two requests, which says nothing of the server.
                time.sleep(0 if was_open else _seconds_to_wait(attempt, None))
                continue
            if status not in _BUSY or last:
                return status, data
            time.sleep(_seconds_to_wait(attempt, retry_after))
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _post_once(self, target: str, parts: List[Bytes],
                   headers: Mapping[str, str]) -> Tuple[int, Optional[str], bytes]:
        connection = self._connection()
        try:
            failure = _send(connection, target, parts, headers)
            response, data = _receive(connection, failure)
            if failure is not None:  # half a request has gone out
                self.close()
        except BaseException:  # what is left of this exchange must not be taken for the next one's
            self.close()
            raise
        return response.status, response.headers.get("Retry-After"), data

    def _connection(self) -> http.client.HTTPConnection:
        connection: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._new_connection()
        return connection

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._address.startswith("unix:") and self._address != "unix:":
            return _UnixConnection(self._address[len("unix:"):], self._timeout)
        url = urllib.parse.urlsplit(self._address)
        if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
            raise ValueError(f"address is {self._address!r}; it must be http://HOST:PORT, https://HOST:PORT, unix:PATH "
                             "or unix:@NAME")
        if url.path not in ("", "/") or url.query or url.fragment:
            raise ValueError(f"address is {self._address!r}; it must end with the port, since requests go to /sample")
        if url.scheme == "http":
            return http.client.HTTPConnection(url.hostname, url.port or 80, timeout=self._timeout)
        return http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=self._timeout,
                                           context=self._ssl_context)


def _send(connection: http.client.HTTPConnection, target: str, parts: List[Bytes],
          headers: Mapping[str, str]) -> Optional[OSError]:
    """Send a request; what ended it half way is returned, since the answer that says why may have come."""
    if connection.sock is None:
        connection.connect()
    try:
        length = str(sum(len(part) for part in parts))
        connection.request("POST", target, iter(parts), {**headers, "Content-Length": length})
    except socket.timeout:
        raise
    except OSError as failure:  # ConnectionError, or TLS's own
        return failure
    return None


def _receive(connection: http.client.HTTPConnection,
             failure: Optional[OSError]) -> Tuple[http.client.HTTPResponse, bytes]:
    try:
        response = connection.getresponse()
        return response, response.read()
    except (OSError, http.client.HTTPException):
        if failure is None:
            raise
        raise ConnectionResetError(f"the connection ended while the request was sent: {failure}") from None


def _seconds_to_wait(attempt: int, retry_after: Optional[str]) -> float:
    """What Retry-After says, or twice as long for each attempt, and not at one time for all callers."""
    asked = None if retry_after is None else _read_retry_after(retry_after)
    wait = _FIRST_WAIT * 2**attempt * random.uniform(0.5, 1) if asked is None else asked
    return min(max(wait, 0.0), _LONGEST_WAIT)


def _read_retry_after(text: str) -> Optional[float]:
    """Seconds, or a date as RFC 9110 writes it; None if it is neither."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError):
        return None
