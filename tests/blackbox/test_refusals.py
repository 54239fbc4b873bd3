"""A refusal reaches its client, however much that is busy sending: with the HTTP stacks that people use."""

import http.client
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import server as samplerd
from test_access import Folder, make_authority, make_certificate
from test_limits import answer_on, error_on, read_all, request
from test_service import GOOD

LARGE = 8 << 20  # more than the 4 MiB that are read past however small max_body_bytes is
TOKEN = "Bearer secret"
COMPILE_SECONDS = 300

FETCH = """
const [url, size, type, authorization] = process.argv.slice(1);
const headers = {"Content-Type": type, "Authorization": authorization};
const answer = await fetch(url, {method: "POST", body: new Uint8Array(Number(size)), headers});
console.log(answer.status, answer.headers.get("Retry-After"), (await answer.json()).error.code);
"""

GO = """
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
)

func main() {
	size, _ := strconv.Atoi(os.Args[2])
	request, _ := http.NewRequest("POST", os.Args[1], bytes.NewReader(make([]byte, size)))
	request.Header.Set("Content-Type", os.Args[3])
	request.Header.Set("Authorization", os.Args[4])
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var body struct{ Error struct{ Code string } }
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	after := answer.Header.Get("Retry-After")
	if after == "" {
		after = "null"
	}
	fmt.Println(answer.StatusCode, after, body.Error.Code)
}
"""


def output(*command):
    """What a client prints: status, Retry-After or null, code."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=samplerd.ANSWER_SECONDS)
    return done.stdout.strip() if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr[-500:]}"


def ask_urllib(url, size, media, authorization):
    """The same with Python's own."""
    headers = {"Content-Type": media, "Authorization": authorization}
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, bytes(size), headers))
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return f"{answer.status} {answer.headers['Retry-After'] or 'null'} {json.load(answer)['error']['code']}"


def ask_curl(url, size, media, authorization):
    """The same with curl, that asks for no 100 Continue."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "body")
        with open(path, "wb") as file:
            file.truncate(size)
        printed = output("curl", "-sS", url, "-H", "Expect:", "-H", f"Content-Type: {media}", "--data-binary",
                         f"@{path}", "-H", f"Authorization: {authorization}", "-w",
                         "\n%{http_code} %header{retry-after}")
    body, _, last = printed.rpartition("\n")
    status, _, after = last.partition(" ")
    return f"{status} {after or 'null'} {json.loads(body)['error']['code']}" if body else printed


class Clients(unittest.TestCase):
    """Each refusal of 8 MB, which every client must see, Retry-After included."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        tokens = os.path.join(cls.folder.name, "tokens")
        with open(tokens, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write("secret\n")
        cls.wide = samplerd.Server("--token-file", tokens, "--max-body-bytes", "8M", "--max-inflight-bytes", "8M")
        cls.addClassCleanup(cls.wide.__exit__)
        cls.narrow = samplerd.Server("--max-body-bytes", "1M")
        cls.addClassCleanup(cls.narrow.__exit__)

    def check(self, ask):
        def url(server, target="/sample?vocab_size=2"):
            return f"http://127.0.0.1:{server.port}{target}"

        cases = [
            ("401 null unauthorized", url(self.wide), samplerd.RAW, "Bearer wrong"),
            ("404 null not_found", url(self.wide, "/nowhere"), samplerd.RAW, TOKEN),
            ("405 null method_not_allowed", url(self.wide, "/version"), samplerd.RAW, TOKEN),
            ("415 null unsupported_media_type", url(self.wide), "text/plain", TOKEN),
            ("413 null too_large", url(self.narrow), samplerd.RAW, TOKEN),
            ("404 null not_found", url(self.narrow, "/nowhere"), samplerd.RAW, TOKEN),
        ]
        for _ in range(3):
            for expected, *arguments in cases:
                with self.subTest(expected):
                    self.assertEqual(ask(arguments[0], LARGE, *arguments[1:]), expected)
        with self.wide.socket() as s:  # it has all the memory there is, and takes its time
            s.sendall(request(b"Content-Length: %d" % LARGE, b"Authorization: Bearer secret", body=b""))
            time.sleep(0.3)
            for _ in range(3):
                self.assertEqual(ask(url(self.wide), LARGE, samplerd.RAW, TOKEN), "503 1 overloaded")

    def test_python(self):
        self.check(ask_urllib)

    def test_curl(self):
        self.check(ask_curl)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_node(self):
        if subprocess.run(["node", "-e", "fetch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this node has no fetch; 18 and later have")
        self.check(lambda url, size, *rest: output("node", "--input-type=module", "-e", FETCH, url, str(size), *rest))

    @unittest.skipUnless(shutil.which("go"), "go is not installed")
    def test_go(self):
        source, program = os.path.join(self.folder.name, "ask.go"), os.path.join(self.folder.name, "ask")
        with open(source, "w", encoding="ascii") as file:
            file.write(GO)
        environment = samplerd.environment(CGO_ENABLED="0", GOTOOLCHAIN="local", GOFLAGS="", GO111MODULE="off")
        subprocess.run(["go", "build", "-o", program, source], check=True, env=environment, timeout=COMPILE_SECONDS)
        self.check(lambda url, size, *rest: output(program, url, str(size), *rest))


class ManyAtOnce(unittest.TestCase):
    """40 clients of 16 MB each against 256 MB of memory."""

    CLIENTS, VOCAB_SIZE, ROWS = 40, 131072, 32

    def test_each_gets_an_answer(self):
        body, seen = bytes(4 * self.VOCAB_SIZE * self.ROWS), []

        def ask(server):
            try:
                with server.connect() as client:
                    answer = client.request("POST", f"/sample?vocab_size={self.VOCAB_SIZE}", body, samplerd.RAW)
                seen.append((answer.status, answer.headers["Retry-After"]))
            except (OSError, http.client.HTTPException) as error:
                seen.append(repr(error))

        with samplerd.Server() as server:
            threads = [threading.Thread(target=ask, args=(server,)) for _ in range(self.CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(seen), self.CLIENTS)
        self.assertIn((200, None), seen)
        self.assertLessEqual(set(seen), {(200, None), (503, "1")})


def chunk(size):
    """The beginning of a body in chunks, which goes on."""
    return b"%x\r\n%s\r\n" % (size, b" " * size)


CHUNKED = request(b"Transfer-Encoding: chunked", body=b"")


class Chunks(Folder):
    """A body in chunks over the limit is answered as soon as it is, not at its end, nor at that of its time."""

    LIMITS = ("--max-body-bytes", "100000")

    def check_413(self, s):
        begin = time.monotonic()
        status, error = error_on(s)
        self.assertEqual((status, error["code"]), (413, "too_large"))
        self.assertLess(time.monotonic() - begin, 10)  # body_timeout_ms is 30000
        return error["message"]

    def test_over_the_limit(self):
        with samplerd.Server(*self.LIMITS) as server, server.socket() as s:
            s.sendall(CHUNKED + chunk(100000))
            s.settimeout(0.3)
            self.assertRaises(TimeoutError, s.recv, 1)
            s.settimeout(samplerd.ANSWER_SECONDS)
            s.sendall(b"1\r\n \r\n")
            self.assertIn("max_body_bytes", self.check_413(s))
            self.assertEqual(read_all(s), b"")

    def test_headers(self):
        """Those of any other answer."""
        with samplerd.Server(*self.LIMITS) as server, server.socket() as s:
            s.sendall(CHUNKED.replace(b"\r\n\r\n", b"\r\nX-Request-Id: seven\r\n\r\n") + chunk(100001))
            answer = answer_on(s)
            self.assertEqual((answer.headers["Connection"], answer.headers["X-Request-Id"],
                              answer.headers["Content-Type"]), ("close", "seven", samplerd.JSON))
            with server.connect() as client:
                self.assertIn('code="413"', client.request("GET", "/metrics").body.decode())

    def test_kserve(self):
        with samplerd.Server(*self.LIMITS) as server, server.socket() as s:
            s.sendall(CHUNKED.replace(b"/sample", b"/v2/models/sampler/infer") + chunk(100001))
            answer = answer_on(s)
            self.assertEqual(answer.status, 413)
            self.assertIn("max_body_bytes", answer.json()["error"])

    def test_goes_on_sending(self):
        """A client that is in the middle of it is not cut off."""
        with samplerd.Server(*self.LIMITS) as server, server.socket() as s:
            s.sendall(CHUNKED)
            for _ in range(100):
                s.sendall(chunk(100000))
            self.check_413(s)

    def test_of_a_body_that_nobody_needs(self):
        """Its refusal, once more has come than is read past; where there is none, that it is too large."""
        refused = CHUNKED.replace(b"/sample", b"/nowhere")
        needless = CHUNKED.replace(b"POST /sample", b"GET /version")
        with samplerd.Server(*self.LIMITS) as server:
            for head, status, code in ((refused, 404, "not_found"), (needless, 413, "too_large")):
                with self.subTest(code), server.socket() as s:
                    s.sendall(head)
                    for _ in range(50):
                        s.sendall(chunk(100000))
                    found, error = error_on(s)
                    self.assertEqual((found, error["code"]), (status, code))

    @unittest.skipUnless(shutil.which("openssl"), "no openssl command to make certificates with")
    def test_tls(self):
        make_authority(self.folder, "ca")
        make_certificate(self.folder, "localhost", "ca", "serverAuth")
        context = ssl.create_default_context(cafile=os.path.join(self.folder, "ca.pem"))
        files = [os.path.join(self.folder, f"localhost.{end}") for end in ("pem", "key")]
        with samplerd.Server(*self.LIMITS, "--tls-cert-file", files[0], "--tls-key-file", files[1]) as server, \
                context.wrap_socket(server.socket(), server_hostname="localhost") as s:
            s.sendall(CHUNKED + chunk(100001))
            self.check_413(s)

    def test_descriptors_come_back(self):
        """A client that neither sends nor closes is not waited for; one that goes on for ever has its time."""
        flags = (*self.LIMITS, "--body-timeout-ms", "1000")
        with samplerd.Server(*flags) as server, server.socket() as quiet, server.socket() as endless:
            folder = f"/proc/{server.process.pid}/fd"
            for s in (quiet, endless):
                s.sendall(CHUNKED + chunk(100001))
                self.check_413(s)
            before, end = len(os.listdir(folder)), time.monotonic() + 10
            with self.assertRaises(OSError):
                while time.monotonic() < end:
                    endless.sendall(b" " * 1000)
                    time.sleep(0.01)
            while len(os.listdir(folder)) > before - 2 and time.monotonic() < end:
                time.sleep(0.05)
            self.assertLessEqual(len(os.listdir(folder)), before - 2)
            self.assertEqual(server.sample(GOOD).status, 200)


if __name__ == "__main__":
    unittest.main()
