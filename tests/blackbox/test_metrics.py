"""What the server tells: /metrics, X-Request-Id, Server-Timing, a request's line in the log, the dashboard."""

import json
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import server as samplerd
from exposition import Exposition, FormatError

GOOD = b'{"logits":[[10,8,6,3]]}'
POST = {"route": "/sample", "method": "POST"}
DASHBOARD = samplerd.ROOT / "docker" / "grafana-dashboard.json"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def scrape(server):
    """The exposition at this moment."""
    with server.connect() as client:
        return Exposition(client.request("GET", "/metrics").body.decode())


def settled(server, name, value, **labels):
    """The exposition once this sample is there: a request is counted just after its answer has been sent."""
    deadline = time.monotonic() + samplerd.START_SECONDS
    while True:
        seen = scrape(server)
        if seen.value(name, **labels) >= value or time.monotonic() > deadline:
            return seen
        time.sleep(0.01)


def log_lines(server):
    """Stop the server; the request lines it wrote."""
    assert server.stop() == 0, server.log()
    lines = [json.loads(line) for line in server.log().splitlines()]
    server.errors.close()
    return [line for line in lines if line["event"] == "request"]


class Reader(unittest.TestCase):
    """The reader of this test is strict."""

    def test_refuses_what_the_format_does_not_have(self):
        head = "# HELP a_total x\n# TYPE a_total counter\n"
        Exposition(head + 'a_total{b="c\\"\\\\",d=""} 1.5\n')
        for text in ("", head[:-1], "a_total 1\n", head + "a_total 1", head + "a_total 1\na_total 2\n",
                     head + "a_total  1\n", head + "a_total{} -1\n", head + 'a_total{b="c",} 1\n',
                     head + 'a_total{b="c",b="d"} 1\n', head + 'a_total{b="\\x"} 1\n', head + "b_total 1\n",
                     head + "a_total one\n", head + head, "# TYPE a_total counter\n" + head, head + "\n",
                     "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
                     "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n"):
            with self.subTest(text=text):
                self.assertRaises((FormatError, KeyError), Exposition, text)


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = samplerd.Server("--max-body-bytes", "64K", "--workers", "2", "--queue-depth", "7")
        cls.addClassCleanup(cls.server.__exit__)

    def moved(self, act, name, least=1, **labels):
        """What act() adds to this sample."""
        before = scrape(self.server).value(name, **labels)
        act()
        return settled(self.server, name, before + least, **labels).value(name, **labels) - before

    def test_the_page(self):
        with self.server.connect() as client:
            page = client.request("GET", "/metrics")
            self.assertEqual(page.status, 200)
            self.assertEqual(page.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            self.assertEqual(client.request("HEAD", "/metrics").body, b"")
            self.assertEqual(client.request("POST", "/metrics", b"").headers["Allow"], "GET, HEAD")

    def test_requests_by_route_method_and_code(self):
        def bad():
            self.server.sample(b"{")

        good = {**POST, "code": "200"}
        self.assertEqual(self.moved(lambda: self.server.sample(GOOD), "samplerd_http_requests_total", **good), 1)
        self.assertEqual(self.moved(bad, "samplerd_http_requests_total", **POST, code="400"), 1)
        self.assertEqual(self.moved(bad, "samplerd_http_request_duration_seconds_count", **POST, code="400"), 1)
        seen = scrape(self.server)
        self.assertGreater(seen.value("samplerd_http_request_duration_seconds_sum", **good), 0)
        self.assertIn("0.000025", seen.values_of("le"))

    def test_what_a_client_sends_makes_no_label(self):
        def act():
            with self.server.connect() as client:
                client.request("GET", "/nothing/here")
                client.request("BREW", "/sample")
                client.request("BREW", "/nothing/there")

        other = {"route": "other", "method": "other", "code": "404"}
        self.assertEqual(self.moved(act, "samplerd_http_requests_total", **other), 1)
        seen = scrape(self.server)
        self.assertEqual(seen.values_of("method") - {"GET", "HEAD", "POST", "other"}, set())
        self.assertEqual({r for r in seen.values_of("route") if "nothing" in r}, set())

    def test_a_client_that_leaves(self):
        def act():
            with self.server.socket() as s:
                s.sendall(b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                          b"Content-Length: 100\r\n\r\n{")
                time.sleep(0.1)

        self.assertEqual(self.moved(act, "samplerd_http_requests_total", **POST, code="none"), 1)

    def test_sampling(self):
        def raw():
            self.assertEqual(self.server.sample_raw([[1, 2], [3, 4], [5, 6]], n=4).status, 200)

        rows = {"media": "raw", "dtype": "f32"}
        self.assertEqual(self.moved(raw, "samplerd_rows_total", least=3, **rows), 3)
        self.assertEqual(self.moved(raw, "samplerd_tokens_total", least=12), 12)
        self.assertEqual(self.moved(raw, "samplerd_batch_rows_sum", least=3), 3)
        self.assertEqual(self.moved(raw, "samplerd_batch_rows_bucket", le="4"), 1)
        sent = self.moved(raw, "samplerd_http_request_body_bytes_sum", least=24, route="/sample")
        self.assertEqual(sent, 24)
        answer = len(self.server.sample_raw([[1, 2]], seed=1).body)
        got = self.moved(lambda: self.server.sample_raw([[1, 2]], seed=1), "samplerd_http_response_body_bytes_sum",
                         least=answer, route="/sample")
        self.assertEqual(got, answer)
        self.assertEqual(self.moved(lambda: self.server.sample(GOOD), "samplerd_rows_total", media="json",
                                    dtype="f32"), 1)

    def test_stages(self):
        def large():  # too much to be answered where it stands
            self.server.sample(GOOD + b" " * 60000)

        for stage in ("read", "queue", "parse", "sample", "write"):
            with self.subTest(stage=stage):
                self.assertEqual(self.moved(large, "samplerd_stage_duration_seconds_count", stage=stage), 1)
                self.assertGreater(scrape(self.server).value("samplerd_stage_duration_seconds_sum", stage=stage), 0)

    def test_rejections_by_reason(self):
        def request(method, target, **options):
            def act():
                with self.server.connect() as client:
                    client.request(method, target, **options)
            return act

        for reason, act in (
                ("malformed_json", lambda: self.server.sample(b"{")),
                ("out_of_range", lambda: self.server.sample({"logits": [[1]], "top_p": 2})),
                ("invalid_logits", lambda: self.server.sample({"logits": [[None]]})),
                ("too_large", lambda: self.server.sample(GOOD + b" " * 70000)),
                ("unsupported_media_type", request("POST", "/sample", body=b"", content_type="text/plain")),
                ("method_not_allowed", request("GET", "/sample")),
                ("not_found", request("GET", "/nowhere"))):
            with self.subTest(reason=reason):
                self.assertEqual(self.moved(act, "samplerd_rejections_total", reason=reason), 1)

    def test_gauges(self):
        seen = scrape(self.server)
        for name in ("samplerd_queue_requests", "samplerd_buffers_in_use_bytes"):
            self.assertEqual(seen.value(name), 0)
        self.assertEqual(seen.value("samplerd_queue_limit_requests"), 7)
        self.assertEqual(seen.value("samplerd_buffers_limit_bytes"), 256 << 20)
        self.assertNotIn("samplerd_shared_memory_regions", seen.types)  # it is off
        self.assertGreaterEqual(seen.value("samplerd_http_requests_in_flight"), 1)
        with self.server.socket() as s:
            s.sendall(b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 1000\r\n\r\n{")
            self.assertGreaterEqual(settled(self.server, "samplerd_buffers_in_use_bytes", 1000)
                                    .value("samplerd_buffers_in_use_bytes"), 1000)
            self.assertGreaterEqual(scrape(self.server).value("samplerd_http_requests_in_flight"), 2)

    def test_the_build(self):
        found = [dict(labels) for name, labels in scrape(self.server).samples if name == "samplerd_build_info"]
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0]["version"], (samplerd.ROOT / "VERSION").read_text().strip())
        self.assertIn(found[0]["kernels"], samplerd.KERNELS)
        self.assertRegex(found[0]["compiler"], r"(?i)gcc|clang")

    def test_the_process(self):
        first = scrape(self.server)
        self.server.sample({"logits": [[i % 97 for i in range(4000)]] * 3, "temperature": 1, "n": 1024})
        second = scrape(self.server)
        self.assertGreater(second.value("process_cpu_seconds_total"), first.value("process_cpu_seconds_total"))
        self.assertGreater(first.value("process_resident_memory_bytes"), 1 << 20)
        self.assertLess(abs(first.value("process_start_time_seconds") - time.time()), 600)
        self.assertGreaterEqual(first.value("process_threads"), 4)  # main, I/O, two workers
        self.assertGreater(first.value("process_max_fds"), first.value("process_open_fds"))
        held = [self.server.connect() for _ in range(5)]
        for client in held:
            client.request("GET", "/livez")
        most = scrape(self.server).value("process_open_fds")
        for client in held:
            client.http.close()
        deadline = time.monotonic() + samplerd.ANSWER_SECONDS
        while scrape(self.server).value("process_open_fds") > most - 5:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_promtool(self):
        if shutil.which("promtool") is None:
            self.skipTest("no promtool here")
        self.server.sample(GOOD)
        with self.server.connect() as client:
            text = client.request("GET", "/metrics").body
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def test_every_error_has_its_reason(self):
        """Codes that the sources give where they handle requests; others are of the start."""
        files = [file for folder in ("core", "proto") for file in (samplerd.ROOT / folder).rglob("*.c")]
        handlers = ("request/admission", "request/buffers", "request/call", "request/exchange", "net/framing",
                    "observe/record")
        files += [samplerd.ROOT / "server" / f"{name}.c" for name in handlers]
        written = {code for f in files for code in re.findall(r'STATUS_[A-Z_]+,\s*"([a-z_]+)"', f.read_text())}
        self.assertIn("invalid_logits", written)
        written.remove("no_thread")
        self.assertLessEqual(written, scrape(self.server).values_of("reason"))


class Timeout(unittest.TestCase):
    def test_a_body_that_does_not_come(self):
        server = samplerd.Server("--body-timeout-ms", "1000", "--log-format", "json", "--log-requests", "errors")
        with server.socket() as s:
            s.sendall(b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 100\r\n\r\n{")
            self.assertTrue(s.recv(65536).startswith(b"HTTP/1.1 408"))
        seen = settled(server, "samplerd_http_requests_total", 1, **POST, code="408")
        self.assertEqual(seen.value("samplerd_http_requests_total", **POST, code="408"), 1)
        self.assertEqual(seen.value("samplerd_rejections_total", reason="timeout"), 1)
        self.assertEqual([(line["code"], line["error"]) for line in log_lines(server)], [(408, "timeout")])


class Queue(unittest.TestCase):
    def test_waiting_requests_are_seen(self):
        body = samplerd.pack_rows([[i % 97 / 97 for i in range(50000)]]) * 75
        head = (f"POST /sample?vocab_size=50000&temperature=1&top_p=0.9&n=1024 HTTP/1.1\r\nHost: x\r\n"
                f"Content-Type: {samplerd.RAW}\r\nContent-Length: {len(body)}\r\n\r\n").encode()
        with samplerd.Server("--workers", "1") as server:
            sockets = [server.socket() for _ in range(3)]
            for s in sockets:
                s.sendall(head + body)
            self.assertGreaterEqual(settled(server, "samplerd_queue_requests", 1).value("samplerd_queue_requests"), 1)
            for s in sockets:
                self.assertTrue(s.recv(15).startswith(b"HTTP/1.1 200"))
                s.close()


class RequestId(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = samplerd.Server()
        cls.addClassCleanup(cls.server.__exit__)

    def test_is_echoed(self):
        for name in ("a", "~!x", "x" * 128):
            with self.subTest(name=name), self.server.connect() as client:
                for method, target, body in (("POST", "/sample", GOOD), ("POST", "/sample", b"{"),
                                             ("GET", "/livez", None), ("GET", "/nowhere", None),
                                             ("DELETE", "/sample", None), ("GET", "/metrics", None)):
                    answer = client.request(method, target, body, samplerd.JSON, X_Request_Id=name)
                    self.assertEqual(answer.headers["X-Request-Id"], name)

    def test_is_made_where_there_is_none_of_use(self):
        made = set()
        for name in (None, "", "x" * 129, "a b", "\xe9"):
            with self.subTest(name=name), self.server.connect() as client:
                headers = {} if name is None else {"X_Request_Id": name}
                answer = client.sample(GOOD, **headers).headers["X-Request-Id"]
                self.assertRegex(answer, r"\A[0-9a-f]{32}\Z")
                made.add(answer)
        self.assertEqual(len(made), 5)

    def test_of_a_body_refused_before_it_is_sent(self):
        with self.server.socket() as s:
            s.sendall(b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nX-Request-Id: early\r\n"
                      b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n")
            self.assertIn(b"X-Request-Id: early\r\n", s.recv(65536))

    def test_no_server_timing_unless_asked_for(self):
        self.assertIsNone(self.server.sample(GOOD).headers["Server-Timing"])


class ServerTiming(unittest.TestCase):
    def test_stages_in_milliseconds(self):
        with samplerd.Server("--server-timing", "on") as server, server.connect() as client:
            small = client.sample(GOOD).headers["Server-Timing"]
            large = client.sample(GOOD + b" " * 60000).headers["Server-Timing"]
            self.assertIsNone(client.request("GET", "/livez").headers["Server-Timing"])
            number = r";dur=\d+\.\d{3}"
            self.assertRegex(small, rf"\Aread{number}, parse{number}, sample{number}\Z")
            self.assertRegex(large, rf"\Aread{number}, queue{number}, parse{number}, sample{number}\Z")


class RequestLog(unittest.TestCase):
    def ask(self, wanted):
        """A good request and a bad one; what is logged of them."""
        server = samplerd.Server("--log-format", "json", "--log-requests", wanted)
        with server.connect() as client:
            client.sample(GOOD, X_Request_Id="good", traceparent=f"00-{TRACE}-b7ad6b7169203331-01")
            client.sample(b"{", X_Request_Id="bad", traceparent=f"00-{TRACE.upper()}-b7ad6b7169203331-01")
        return log_lines(server)

    def test_off_is_the_default(self):
        server = samplerd.Server("--log-format", "json", "--log-level", "debug")
        server.sample(GOOD)
        self.assertEqual(log_lines(server), [])
        self.assertEqual(self.ask("off"), [])

    def test_errors(self):
        lines = self.ask("errors")
        self.assertEqual([line["id"] for line in lines], ["bad"])
        self.assertEqual((lines[0]["code"], lines[0]["error"], lines[0]["level"]), (400, "malformed_json", "warn"))
        self.assertNotIn("trace_id", lines[0])
        self.assertNotIn("rows", lines[0])

    def test_all(self):
        good, bad = self.ask("all")
        self.assertEqual(bad["id"], "bad")
        wanted = {"level": "info", "id": "good", "trace_id": TRACE, "method": "POST", "route": "/sample", "code": 200,
                  "rows": 1, "vocab_size": 4, "request_bytes": len(GOOD)}
        self.assertEqual({key: good.get(key) for key in wanted}, wanted)
        self.assertGreater(good["answer_bytes"], 0)
        stages = [good[f"{stage}_ms"] for stage in ("read", "parse", "sample", "write")]
        self.assertTrue(all(0 <= t <= good["duration_ms"] for t in stages))
        self.assertAlmostEqual(sum(stages), good["duration_ms"], delta=0.01 * good["duration_ms"] + 0.01)

    def test_a_client_that_leaves(self):
        server = samplerd.Server("--log-format", "json", "--log-requests", "errors")
        with server.socket() as s:
            s.sendall(b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 100\r\n\r\n{")
            time.sleep(0.1)
        settled(server, "samplerd_http_requests_total", 1, **POST, code="none")
        lines = log_lines(server)
        self.assertEqual([(line["code"], line["request_bytes"]) for line in lines], [(0, 1)])


class Dashboard(unittest.TestCase):
    """Every metric that it names exists; its queries are queries."""

    @classmethod
    def setUpClass(cls):
        dashboard = json.loads(DASHBOARD.read_text())
        cls.queries = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", [])]
        cls.queries += [re.search(r"label_values\(([^,{]+)", v["definition"])[1]
                        for v in dashboard["templating"]["list"] if v["type"] == "query"]

    def test_every_metric_exists(self):
        with samplerd.Server() as server:
            seen = scrape(server)
        known = {name + suffix for name, kind in seen.types.items()
                 for suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}
        named = {name for query in self.queries for name in re.findall(r"\b(?:samplerd|process)_\w+", query)}
        self.assertGreater(len(named), 15)
        self.assertLessEqual(named, known)

    def test_no_id_or_place_twice(self):
        panels = json.loads(DASHBOARD.read_text())["panels"]
        self.assertEqual(len({p["id"] for p in panels}), len(panels))
        self.assertEqual(len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}), len(panels))

    def test_promtool(self):
        if shutil.which("promtool") is None:
            self.skipTest("no promtool here")
        rules = [{"record": f"query{i}", "expr": query.replace("$__rate_interval", "1m")}
                 for i, query in enumerate(self.queries)]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
