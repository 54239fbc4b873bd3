"""The ways in which a client can hand over a row: as a body over TCP or a unix socket, or by shared memory."""

import contextlib
import json
import os
import tempfile
from pathlib import Path

import load

BASELINE = "raw, TCP"
REGION = "logits"


def request(path, content_type, body):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def raw_request(body):
    return request("/sample" + body.query, body.content_type, body.path.read_bytes())


def shared_request(body, parameters):
    logits = {"name": "logits", "datatype": "FP32", "shape": [1, body.vocab_size],
              "parameters": {"shared_memory_region": REGION, "shared_memory_byte_size": 4 * body.vocab_size}}
    text = json.dumps({"inputs": [logits], "parameters": parameters})
    return request("/v2/models/sampler/infer", "application/json", text.encode())


def register(program, key, byte_size):
    text = json.dumps({"key": key, "offset": 0, "byte_size": byte_size})
    with program.connect() as s:
        s.sendall(request(f"/v2/systemsharedmemory/region/{REGION}/register", "application/json", text.encode()))
        answer = s.recv(4096)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"the region is refused: {answer}")


@contextlib.contextmanager
def opened(command, body, parameters, directory):
    """Servers for a with block: {name: (program, file of the request)}, the row of the body in each request."""
    raw, shared = directory / "raw.http", directory / "shared.http"
    raw.write_bytes(raw_request(body))
    shared.write_bytes(shared_request(body, parameters))
    memory = Path("/dev/shm") / f"samplerd-bench-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        stack.callback(memory.unlink, missing_ok=True)
        memory.write_bytes(body.path.read_bytes())
        sockets = stack.enter_context(tempfile.TemporaryDirectory())
        tcp = stack.enter_context(load.serving(command))
        unix = stack.enter_context(load.serving(command, f"unix:{sockets}/samplerd.sock"))
        for program in (tcp, unix):
            register(program, "/" + memory.name, memory.stat().st_size)
        yield {BASELINE: (tcp, raw), "raw, unix socket": (unix, raw), "shared memory, TCP": (tcp, shared),
               "shared memory, unix socket": (unix, shared)}
