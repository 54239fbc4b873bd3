"""Web pages of other origins: what a browser is told before and after a call (CORS)."""

import http.client
import re
import signal
import socket
import time
import unittest

import server as samplerd
from test_access import GOOD, Folder, bearer

LISTED, OTHER, UNLISTED = "https://app.example", "http://localhost:3000", "https://evil.example"
ORIGINS = f"{LISTED}, {OTHER}"
READS = ("/livez", "/readyz", "/healthz", "/version", "/metrics", "/openapi.json", "/v2", "/v2/health/live",
         "/v2/health/ready", "/v2/models/sampler", "/v2/models/sampler/config", "/v2/systemsharedmemory/status")
POSTS = ("/sample", "/v2/models/sampler/infer", "/v2/systemsharedmemory/unregister",
         "/v2/systemsharedmemory/region/x/register")
SENT = ("authorization", "content-type", "content-encoding", "accept", "x-request-id", "x-request-timeout-ms",
        "inference-header-content-length", "traceparent")
EXPOSED = ("x-request-id", "x-samplerd-seed", "inference-header-content-length", "server-timing", "retry-after",
           "www-authenticate", "allow")


def words(text):
    """The members of a header that is a list, in small letters."""
    return {word.lower() for word in re.split(r",\s*", text)}


def cors_headers(answer):
    """Names of the CORS headers that an answer has."""
    return sorted(name for name in answer.headers if name.lower().startswith("access-control-"))


def preflight(client, path, method="POST", origin=LISTED, **headers):
    """What a browser asks first."""
    return client.request("OPTIONS", path, Origin=origin, Access_Control_Request_Method=method,
                          Access_Control_Request_Headers="authorization,content-type", **headers)


class Cors(Folder):
    """cors_origins."""

    def assert_open(self, answer, origin=LISTED):
        """A page of this origin may read the answer."""
        self.assertEqual(answer.headers.get_all("Access-Control-Allow-Origin"), [origin])
        self.assertEqual(answer.headers.get_all("Vary"), None if origin == "*" else ["Origin"])
        self.assertEqual(words(answer.headers["Access-Control-Expose-Headers"]), set(EXPOSED))

    def assert_closed(self, answer):
        """It may not, and a cache keeps the answers apart."""
        self.assertEqual((cors_headers(answer), answer.headers["Vary"]), ([], "Origin"))

    def assert_preflight(self, answer, methods, origin=LISTED):
        """A page of this origin may send such a request."""
        self.assertEqual((answer.status, answer.body), (204, b""))
        self.assertEqual(answer.headers.get_all("Access-Control-Allow-Origin"), [origin])
        self.assertEqual(words(answer.headers["Access-Control-Allow-Methods"]), words(methods))
        self.assertEqual(words(answer.headers["Access-Control-Allow-Headers"]), set(SENT))
        self.assertGreater(int(answer.headers["Access-Control-Max-Age"]), 0)
        self.assertEqual(answer.headers["Vary"], None if origin == "*" else "Origin")
        self.assertIsNone(answer.headers["Content-Length"])
        self.assertIsNone(answer.headers["Content-Type"])
        self.assertIsNotNone(answer.headers["X-Request-Id"])

    def test_none_configured(self):
        with samplerd.Server() as server, server.connect() as client:
            for answer, status in ((client.sample(GOOD, Origin=LISTED), 200), (preflight(client, "/sample"), 405),
                                   (preflight(client, "/nothing"), 404)):
                self.assertEqual((answer.status, cors_headers(answer)), (status, []))
                self.assertIsNone(answer.headers["Vary"])

    def test_preflight_of_each_path(self):
        with samplerd.Server("--cors-origins", ORIGINS) as server, server.connect() as client:
            for paths, methods in ((READS, "GET, HEAD"), (POSTS, "POST"), (("/nothing",), "GET, HEAD, POST")):
                for path in paths:
                    for method in ("GET", "HEAD", "POST", "DELETE"):
                        with self.subTest(path=path, method=method):
                            self.assert_preflight(preflight(client, path, method), methods)
                    self.assert_preflight(preflight(client, path, origin=OTHER), methods, OTHER)
                    self.assertEqual(preflight(client, path, origin=UNLISTED).status, 204)
                    self.assert_closed(preflight(client, path, origin=UNLISTED))

    def test_each_page(self):
        with samplerd.Server("--cors-origins", ORIGINS) as server, server.connect() as client:
            for path in (*READS, "/nothing"):
                for method in ("GET", "HEAD"):
                    with self.subTest(path=path, method=method):
                        self.assert_open(client.request(method, path, Origin=LISTED))
                        self.assert_open(client.request(method, path, Origin=OTHER), OTHER)
                        self.assert_closed(client.request(method, path, Origin=UNLISTED))
                        self.assert_closed(client.request(method, path))
            self.assert_open(client.sample(GOOD, Origin=LISTED))
            for origin in ("null", "*", "", LISTED + "/", LISTED.upper(), ORIGINS, "https://app.example.evil"):
                self.assert_closed(client.sample(GOOD, Origin=origin))

    def test_other_options(self):
        """What is no preflight is answered as ever."""
        with samplerd.Server("--cors-origins", ORIGINS) as server, server.connect() as client:
            self.assert_closed(client.request("OPTIONS", "/sample"))
            plain = client.request("OPTIONS", "/sample", Origin=LISTED)
            self.assertEqual((plain.status, plain.headers["Allow"]), (405, "POST"))
            self.assert_open(plain)
            bare = client.request("OPTIONS", "/sample", Access_Control_Request_Method="POST")
            self.assertEqual(bare.status, 405)
            posted = client.sample(GOOD, Origin=LISTED, Access_Control_Request_Method="POST")
            self.assertEqual(posted.status, 200)

    def test_every_origin(self):
        with samplerd.Server("--cors-origins", "*") as server, server.connect() as client:
            for origin in (LISTED, UNLISTED, "null"):
                self.assert_open(client.sample(GOOD, Origin=origin), "*")
                self.assert_preflight(preflight(client, "/sample", origin=origin), "POST", "*")
            self.assertEqual(cors_headers(client.sample(GOOD)), [])

    def test_tokens(self):
        tokens = self.write("secret\n", "tokens")
        with samplerd.Server("--cors-origins", ORIGINS, "--token-file", tokens) as server:
            with server.connect() as client:
                self.assert_preflight(preflight(client, "/sample"), "POST")
                answers = (client.sample(GOOD, Origin=LISTED, **bearer("secret")), client.sample(GOOD, Origin=LISTED),
                           client.request("OPTIONS", "/sample", Origin=LISTED))
                self.assertEqual([answer.status for answer in answers], [200, 401, 401])
                for answer in answers:
                    self.assert_open(answer)
                self.assert_closed(client.sample(GOOD, Origin=UNLISTED, **bearer("secret")))

    def test_errors(self):
        flags = ("--cors-origins", ORIGINS, "--max-body-bytes", "1000", "--max-inflight-bytes", "1000")
        with samplerd.Server(*flags) as server, server.connect() as client:
            for answer, status in (
                    (client.sample(b"x", Origin=LISTED), 400), (client.sample(b"x" * 2000, Origin=LISTED), 413),
                    (client.request("POST", "/sample", b"x", "text/html", Origin=LISTED), 415),
                    (client.sample(GOOD, Origin=LISTED, Accept="text/html"), 406),
                    (client.sample(b'{"logits":[[null]]}', Origin=LISTED), 422),
                    (client.request("POST", "/v2/models/sampler/infer", b"x", Origin=LISTED), 400)):
                with self.subTest(status=status):
                    self.assertEqual(answer.status, status, answer.body)
                    self.assert_open(answer)
            with server.connect() as first, server.connect() as second:
                first.http.putrequest("POST", "/sample")
                first.http.putheader("Content-Type", samplerd.JSON)
                first.http.putheader("Content-Length", "900")
                first.http.endheaders(b"x")
                self.await_lent(second, 900)
                full = second.sample(GOOD + b" " * 500, Origin=LISTED)
                self.assertEqual(full.status, 503)
                self.assert_open(full)
            with server.connect() as late:  # in the midst of a body in chunks
                answer = late.request("POST", "/sample", iter([b"x" * 900] * 9), samplerd.JSON, Origin=LISTED)
                self.assertEqual(answer.status, 413)
                self.assert_open(answer)

    def await_lent(self, client, count):
        """Wait until a request that is on its way holds so many bytes."""
        deadline = time.monotonic() + samplerd.ANSWER_SECONDS
        while f"\nsamplerd_buffers_in_use_bytes {count}\n" not in client.request("GET", "/metrics").body.decode():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_second_address(self):
        """It is for machines: no page may call it, and what has moved there is not at the first."""
        place = f"{self.folder}/admin.sock"
        with samplerd.Server("--cors-origins", ORIGINS, "--admin-listen", f"unix:{place}") as server:
            for method, path, status in (("GET", "/metrics", 200), ("GET", "/livez", 200), ("OPTIONS", "/livez", 405)):
                client = http.client.HTTPConnection("localhost")
                client.sock = socket.socket(socket.AF_UNIX)
                client.sock.connect(place)
                client.request(method, path, headers={"Origin": LISTED, "Access-Control-Request-Method": "GET"})
                answer = samplerd.Answer(client.getresponse())
                client.close()
                self.assertEqual((answer.status, cors_headers(answer), answer.headers["Vary"]), (status, [], None))
            with server.connect() as client:
                moved = client.request("GET", "/metrics", Origin=LISTED)
                self.assertEqual(moved.status, 404)
                self.assert_open(moved)

    def test_counted_and_logged(self):
        with samplerd.Server("--cors-origins", ORIGINS, "--log-requests", "all") as server:
            with server.connect() as client:
                preflight(client, "/sample", X_Request_Id="the-preflight")
                server.await_log("the-preflight")
                text = client.request("GET", "/metrics").body.decode()
            line = next(line for line in server.log().splitlines() if "the-preflight" in line)
            self.assertRegex(line, r"method=other route=/sample code=204")
        self.assertRegex(text, r'samplerd_http_requests_total\{[^}]*route="/sample",method="other",code="other"\} 1\n')

    def test_bad_lists(self):
        for origins, named in (("null", "null"), (f"{LISTED}, app.example", "app.example"),
                               (f"{LISTED}/", f"{LISTED}/"), (f"* {LISTED}", "*"), ("http://a:0", "http://a:0")):
            for check in ((), ("--check-config",)):
                self.refused(f'--cors-origins: "{named}" cannot be an origin', *check, "--cors-origins", origins)
        self.refused("180 bytes", "--cors-origins", "https://" + "a" * 180)
        ini = self.write("[server]\ncors_origins = null\n", "bad.ini")
        self.refused('bad.ini:2: cors_origins: "null"', "--config", ini)

    def test_every_origin_with_tokens(self):
        message, tokens = "cors_origins is * and token_file is set", self.write("secret\n", "tokens")
        self.refused(message, "--cors-origins", "*", "--token-file", tokens)
        self.refused(message, "--check-config", "--cors-origins", "*", SAMPLERD_TOKEN_FILE=tokens)
        ini = self.write(f"[server]\ncors_origins = {LISTED}\n", "samplerd.ini")
        with samplerd.Server("--config", ini, "--token-file", tokens) as server:
            self.write("[server]\ncors_origins = *\n", "samplerd.ini")
            server.process.send_signal(signal.SIGHUP)
            server.await_log(message)
            self.assertIn("not reloaded", server.log())
            self.assert_open(server.sample(GOOD, Origin=LISTED, **bearer("secret")))
            self.assert_closed(server.sample(GOOD, Origin=UNLISTED, **bearer("secret")))


if __name__ == "__main__":
    unittest.main()
