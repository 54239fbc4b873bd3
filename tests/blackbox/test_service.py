"""The program around the sampler: command line, pages, sockets and shutdown."""

import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import server as samplerd

GOOD = b'{"logits":[[10,8,6,3]]}'
VERSION = (samplerd.ROOT / "VERSION").read_text().strip()


class CommandLine(unittest.TestCase):
    def test_version(self):
        done = samplerd.run("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(VERSION, done.stdout)

    def test_help(self):
        done = samplerd.run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(samplerd.run("-h").stdout, done.stdout)
        for word in ("--config", "--listen", "--max-body-bytes", "--healthcheck", "SAMPLERD_"):
            self.assertIn(word, done.stdout)

    def test_print_config_is_the_example(self):
        self.assertEqual(samplerd.run("--print-config").stdout, (samplerd.ROOT / "config.example.ini").read_text())

    def test_print_config_reads_back(self):
        printed = samplerd.run("--print-config", "--workers", "3", SAMPLERD_MAX_BODY_BYTES="1M").stdout
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
            file.write(printed)
            file.flush()
            self.assertEqual(samplerd.run("--print-config", "--config", file.name).stdout, printed)
        self.assertIn("\nworkers = 3\n", printed)
        self.assertIn("\nmax_body_bytes = 1M\n", printed)

    def test_spellings(self):
        """Switches in the words of YAML and shells, sizes with the units of Kubernetes and others."""
        for text, printed in (("true", "on"), ("YES", "on"), ("1", "on"), ("False", "off"), ("no", "off"), ("0", "off")):
            for done in (samplerd.run("--print-config", f"--server-timing={text}"),
                         samplerd.run("--print-config", "--server-timing", text),
                         samplerd.run("--print-config", SAMPLERD_SERVER_TIMING=text)):
                self.assertIn(f"\nserver_timing = {printed}\n", done.stdout, text)
        for text in ("32M", "32Mi", "32MB", "32MiB", "33554432", "33554432B"):
            for done in (samplerd.run("--print-config", f"--max-body-bytes={text}"),
                         samplerd.run("--print-config", SAMPLERD_MAX_BODY_BYTES=text)):
                self.assertIn("\nmax_body_bytes = 32M\n", done.stdout, text)

    def test_check_config(self):
        example = str(samplerd.ROOT / "config.example.ini")
        self.assertEqual(samplerd.run("--check-config", "--config", example).returncode, 0)
        self.assertNotEqual(samplerd.run("--check-config", "--workers", "x").returncode, 0)

    def test_mistakes(self):
        for flags, variables, message in (
                (["--worker", "1"], {}, "--workers"),
                (["--workers", "1025"], {}, "from 0 to 1024"),
                ([], {"SAMPLERD_WORKERS": "1025"}, "SAMPLERD_WORKERS"),
                (["--listen", "127.0.0.1"], {}, "no port"),
                (["--config", "/nowhere.ini"], {}, "/nowhere.ini")):
            with self.subTest(flags=flags, **variables):
                done = samplerd.run(*flags, **variables)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, "")
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_variables_that_are_no_settings(self):
        """What Kubernetes and docker say about a service samplerd or samplerd-canary, and what is left empty."""
        variables = {"SAMPLERD_WORKERS": "", "SAMPLERD_TOKEN_FILE": "", "SAMPLERD_WORKRES": "",
                     "SAMPLERD_NAME": "/web/samplerd", "SAMPLERD_ENV_SAMPLERD_LISTEN": "0.0.0.0:8090"}
        for name in ("SAMPLERD", "SAMPLERD_CANARY", "SAMPLERD_MAX_BODY_BYTES"):
            link = "tcp://10.0.0.1:8090"
            variables.update({
                f"{name}_PORT": link, f"{name}_PORT_8090_TCP": link, f"{name}_PORT_8090_TCP_ADDR": "10.0.0.1",
                f"{name}_PORT_8090_TCP_PORT": "8090", f"{name}_PORT_8090_TCP_PROTO": "tcp",
                f"{name}_SERVICE_HOST": "10.0.0.1", f"{name}_SERVICE_PORT": "8090",
                f"{name}_SERVICE_PORT_HTTP": "8090"})
        with samplerd.Server(**variables) as server:
            self.assertEqual(server.sample(GOOD).status, 200)
            self.assertNotIn("environment", server.log())
        self.assertEqual(samplerd.run("--print-config", **variables).stdout, samplerd.run("--print-config").stdout)

    def test_pods_ask_for_no_service_links(self):
        pods = [path for path in (samplerd.ROOT / "docker/k8s").rglob("*.yaml") if "containers:" in path.read_text()]
        self.assertEqual(len(pods), 2)
        for path in pods:
            self.assertIn("\n      enableServiceLinks: false\n", path.read_text(), path)

    def test_misspelt_variables_are_told(self):
        variables = {"SAMPLERD_WORKRES": "1", "SAMPLERD_FROBNICATE": "1"}
        expected = ("name=SAMPLERD_WORKRES nearest=SAMPLERD_WORKERS\n", "name=SAMPLERD_FROBNICATE nearest=none\n")
        with samplerd.Server(**variables) as server:
            self.assertEqual(server.sample(GOOD).status, 200)
            log = server.log()
        checked = samplerd.run("--check-config", **variables)
        self.assertEqual(checked.returncode, 0)
        for text in (log, checked.stderr):
            self.assertEqual(text.count("unknown environment variable"), 2, text)
            for line in expected:
                self.assertIn(line, text)

    def test_an_address_in_use(self):
        with samplerd.Server() as server:
            done = samplerd.run("--listen", f"127.0.0.1:{server.port}")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("in use", done.stderr)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = samplerd.Server()
        cls.addClassCleanup(cls.server.__exit__)

    def test_health(self):
        with self.server.connect() as client:
            for target in ("/livez", "/readyz", "/healthz"):
                with self.subTest(target=target):
                    self.assertEqual(client.request("GET", target).status, 200)
                    head = client.request("HEAD", target)
                    self.assertEqual((head.status, head.body), (200, b""))

    def test_version(self):
        with self.server.connect() as client:
            self.assertEqual(client.request("GET", "/version").sampled()["version"], VERSION)

    def test_healthcheck(self):
        self.assertEqual(samplerd.run("--healthcheck", "--listen", f"127.0.0.1:{self.server.port}").returncode, 0)
        self.assertEqual(samplerd.run("--healthcheck", "--listen", f"0.0.0.0:{self.server.port}").returncode, 0)

    def test_healthcheck_without_a_server(self):
        with socket.socket() as idle:
            idle.bind(("127.0.0.1", 0))
            done = samplerd.run("--healthcheck", "--listen", f"127.0.0.1:{idle.getsockname()[1]}")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)


class Sockets(unittest.TestCase):
    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "samplerd.sock"
            with samplerd.Server(listen=f"unix:{path}") as server:
                self.assertEqual(server.sample(GOOD).sampled()["token_ids"], [[0]])
                self.assertEqual(samplerd.run("--healthcheck", "--listen", f"unix:{path}").returncode, 0)
            self.assertFalse(path.exists(), "the file goes with the server")

    def test_abstract_unix_socket(self):
        name = f"@samplerd-test-{os.getpid()}"
        with tempfile.TemporaryDirectory() as folder:
            with samplerd.Server(listen=f"unix:{name}", launcher=("env", "-C", folder)) as server:
                self.assertEqual(server.path, name)
                self.assertEqual(server.sample(GOOD).sampled()["token_ids"], [[0]])
                self.assertEqual(samplerd.run("--healthcheck", "--listen", f"unix:{name}").returncode, 0)
                self.assertIn(f"--abstract-unix-socket {name[1:]} ", server.banner)
                self.assertEqual(os.listdir(folder), [], "it has no file")
        with samplerd.Server(listen=f"unix:{name}") as server:
            self.assertEqual(server.sample(GOOD).status, 200)
        self.assertIn("name after unix:@ is empty", samplerd.run("--listen", "unix:@").stderr)

    def test_a_socket_file_left_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/samplerd.sock"
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(path)
            with samplerd.Server(listen=f"unix:{path}") as server:
                self.assertEqual(server.sample(GOOD).sampled()["token_ids"], [[0]])

    def test_ipv6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("no IPv6 here")
        with samplerd.Server(listen="[::1]:0") as server:
            self.assertEqual(server.sample(GOOD).sampled()["token_ids"], [[0]])

    def test_pipelined_requests_are_answered_in_order(self):
        request = (b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                   b"Content-Length: %d\r\n\r\n%s")
        bodies = [b'{"logits":[[1,2]],"id":"%d"}' % i for i in range(5)]
        with samplerd.Server() as server, server.socket() as s:
            s.sendall(b"".join(request % (len(b), b) for b in bodies))
            received = b""
            while received.count(b'"id"') < 5:
                received += s.recv(65536) or self.fail(received)
        self.assertEqual(re.findall(rb'"id":"(\d)"', received), [b"0", b"1", b"2", b"3", b"4"])

    def test_many_clients_at_once(self):
        answers = []

        def ask(server, number):
            with server.connect() as client:
                for i in range(20):
                    name = f"{number}/{i}"
                    answers.append(client.sample({"logits": [[0, number]], "id": name}).sampled()["id"] == name)

        with samplerd.Server("--workers", "4", "--io-threads", "2") as server:
            threads = [threading.Thread(target=ask, args=(server, n)) for n in range(1, 17)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.assertEqual(answers, [True] * 320)


def slow_request(rows):
    """The bytes of a request that keeps a worker busy for a millisecond or more a row: nearly flat rows."""
    body = samplerd.pack_rows([[i % 97 / 97 for i in range(50000)]]) * rows
    query = "vocab_size=50000&temperature=1&top_p=0.9&n=1024"
    head = (f"POST /sample?{query} HTTP/1.1\r\nHost: x\r\nContent-Type: {samplerd.RAW}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    return head.encode() + body


def finish(s):
    """Status and Retry-After of the answer on this socket."""
    answer = http.client.HTTPResponse(s)
    answer.begin()
    answer.read()
    return answer.status, answer.headers["Retry-After"]


class Overload(unittest.TestCase):
    """503 with Retry-After, at once, and only while it lasts."""

    def test_a_full_queue(self):
        request = slow_request(75)
        with samplerd.Server("--workers", "1", "--queue-depth", "1") as server:
            sockets = [server.socket() for _ in range(5)]
            for s in sockets:
                s.sendall(request)
            answers = sorted(finish(s) for s in sockets)
            for s in sockets:
                s.close()
            self.assertEqual(answers[0][0], 200)
            self.assertIn(answers[-1], [(503, str(seconds)) for seconds in range(1, 61)])
            self.assertEqual(server.sample(GOOD).status, 200)

    def test_spent_memory(self):
        """Half-sent bodies hold the budget; a request that finds none left is told so, not hung up on."""
        begun = (b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 1000000\r\n\r\n{")
        flags = ("--max-body-bytes", "1M", "--max-inflight-bytes", "4M", "--idle-timeout-ms", "1000")
        with samplerd.Server(*flags) as server:
            held = [server.socket() for _ in range(4)]
            for s in held:
                s.sendall(begun)
            time.sleep(0.3)
            refused = server.sample(GOOD + b" " * 900000)
            self.assertEqual((refused.status, refused.json()["error"]["code"]), (503, "overloaded"))
            self.assertTrue(refused.headers["Retry-After"].isdigit())
            for s in held:
                s.close()
            time.sleep(0.3)
            self.assertEqual(server.sample(GOOD + b" " * 900000).status, 200)


class BlasThreads(unittest.TestCase):
    def test_there_are_none(self):
        counts = []
        for number in ("1", "8"):
            with samplerd.Server(OPENBLAS_NUM_THREADS=number) as server:
                counts.append(len(os.listdir(f"/proc/{server.process.pid}/task")))
                maps = Path(f"/proc/{server.process.pid}/maps").read_text(encoding="ascii")
        self.assertEqual(counts[0], counts[1])
        self.assertNotRegex(maps, r"openblas-(pthread|openmp)")


class Shutdown(unittest.TestCase):
    """SIGTERM: what was begun is finished, then the exit status is 0 (which leaving `with` asserts)."""

    def test_at_once(self):
        """As soon as it says it listens, time after time: no thread may take the signal the wrong way."""
        for _ in range(20):
            with samplerd.Server():
                pass

    def test_an_idle_connection_does_not_hold_it_up(self):
        with samplerd.Server() as server, server.connect() as client:
            client.sample(GOOD)
            begin = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - begin, 10)

    def test_a_slow_upload_is_finished(self):
        with samplerd.Server() as server, server.socket() as s:
            head = (f"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: {samplerd.JSON}\r\n"
                    f"Content-Length: {len(GOOD)}\r\n\r\n")
            s.sendall(head.encode() + GOOD[:9])
            time.sleep(0.3)
            server.terminate()
            time.sleep(0.5)
            self.assertIsNone(server.process.poll(), "it left a request behind")
            s.sendall(GOOD[9:])
            answer = http.client.HTTPResponse(s)
            answer.begin()
            self.assertEqual(answer.status, 200)
            self.assertEqual(json.loads(answer.read())["token_ids"], [[0]])
            self.assertEqual(server.wait(), 0)

    def test_slow_sampling_is_finished(self):
        """Everything is uploaded, one worker has most of it still to do, and the server is told to stop."""
        with samplerd.Server("--workers", "1") as server, server.socket() as s:
            s.sendall(slow_request(200))
            server.terminate()
            answer = http.client.HTTPResponse(s)
            answer.begin()
            self.assertEqual(answer.status, 200)
            self.assertEqual(len(json.loads(answer.read())["token_ids"]), 200)

    def test_no_new_connections(self):
        with samplerd.Server() as server:
            server.stop()
            self.assertRaises(OSError, server.socket)


class Log(unittest.TestCase):
    def test_json_lines(self):
        server = samplerd.Server("--log-format", "json", "--log-level", "debug")
        server.sample(GOOD)
        self.assertEqual(server.stop(), 0)
        lines = server.log().splitlines()
        server.errors.close()
        self.assertTrue(lines)
        for line in lines:
            self.assertLessEqual({"time", "level", "event"}, set(json.loads(line)))

    def test_a_closed_stderr_is_no_trouble(self):
        reader, writer = os.pipe()
        os.close(reader)
        process = subprocess.Popen([samplerd.BINARY, "--listen", "127.0.0.1:0", "--log-level", "debug"],
                                   stdout=subprocess.PIPE, stderr=writer, env=samplerd.environment())
        os.close(writer)
        self.assertIn(b"http://127.0.0.1:", process.stdout.readline())
        process.terminate()
        self.assertEqual(process.wait(samplerd.START_SECONDS), 0)
        process.stdout.close()


if __name__ == "__main__":
    unittest.main()
