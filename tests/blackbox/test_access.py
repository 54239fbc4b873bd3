"""Who may call and how they are reached: tokens, TLS, a second address, unix sockets, systemd."""

import contextlib
import fcntl
import hashlib
import http.client
import os
import re
import select
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import time
import unittest
import warnings
from pathlib import Path

import server as samplerd
from test_service import finish, slow_request

GOOD = b'{"logits":[[10,8,6,3]]}'
HEALTH = ("/livez", "/readyz", "/healthz")


class Folder(unittest.TestCase):
    """A folder for each class, and files in it."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def write(self, text, name="file", mode=0o600):
        """A file, replaced as a careful administrator does: whole."""
        path, fresh = self.folder / name, self.folder / (name + ".new")
        fresh.write_text(text)
        fresh.chmod(mode)
        fresh.rename(path)
        return str(path)

    def refused(self, message, *flags, **variables):
        """The program ends at once, with one line that has this message."""
        flags = flags if "--listen" in flags else ("--listen", "127.0.0.1:0", *flags)
        done = samplerd.run(*flags, **variables)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(message, done.stderr)
        self.assertIn("samplerd: ", done.stderr.splitlines()[-1])
        return done.stderr


def bearer(token):
    """The header of a token."""
    return {"Authorization": f"Bearer {token}"}


class Addresses(Folder):
    """What others can reach is not served to anybody without a word."""

    def test_others_could_call(self):
        for listen in ("0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"):
            with self.subTest(listen=listen):
                self.refused("allow_anonymous = on", "--listen", listen)
                self.refused("token_file", "--listen", listen, "--allow-anonymous", "off")
        self.refused("0.0.0.0", "--check-config", "--listen", "0.0.0.0:0")

    def test_they_may(self):
        tokens = self.write("secret\n")
        for flags, variables in ((["--allow-anonymous"], {}), (["--allow-anonymous", "on"], {}),
                                 ([], {"SAMPLERD_ALLOW_ANONYMOUS": "on"}), (["--token-file", tokens], {})):
            with self.subTest(flags=flags, **variables):
                with samplerd.Server(*flags, listen="0.0.0.0:0", **variables) as server, server.connect() as c:
                    self.assertEqual(c.request("GET", "/livez").status, 200)

    def test_mode_of_a_unix_socket(self):
        for flags, mode in (([], 0o660), (["--unix-socket-mode", "0600"], 0o600),
                            (["--unix-socket-mode=666"], 0o666)):
            with self.subTest(flags=flags):
                path = self.folder / "samplerd.sock"
                with samplerd.Server(*flags, listen=f"unix:{path}"):
                    self.assertEqual(stat.S_IMODE(path.stat().st_mode), mode)


class Tokens(Folder):
    """Authorization: Bearer."""

    def setUp(self):
        hashed = hashlib.sha256(b"third").hexdigest()
        self.tokens = self.write(f"# the notebook\nfirst\n\nsecond # the model server\nsha256:{hashed}\n")

    def serve(self, *flags):
        """A server that asks for a token."""
        return samplerd.Server("--token-file", self.tokens, *flags)

    def test_known(self):
        with self.serve() as server, server.connect() as client:
            for token in ("first", "second", "third"):
                self.assertEqual(client.sample(GOOD, **bearer(token)).sampled()["token_ids"], [[0]])
            self.assertEqual(client.request("GET", "/version", Authorization="bearer   first").status, 200)

    def test_unknown(self):
        headers = [{}, *({"Authorization": text} for text in (
            "", "Bearer", "Bearer ", "first", "Basic first", "Bearer firs", "Bearer firstt", "Bearer FIRST",
            "Bearer first second", "Bearer fi\trst", "Bearer #", "Bearerfirst", "Bearer " + "x" * 5000,
            "Bearer sha256:" + hashlib.sha256(b"third").hexdigest()))]
        with self.serve() as server, server.connect() as client:
            for header in headers:
                with self.subTest(header=header):
                    answer = client.sample(GOOD, **header)
                    self.assert_unauthorized(answer)
                    self.assertEqual(client.request("HEAD", "/version", **header).status, 401)

    def assert_unauthorized(self, answer):
        """A 401, complete."""
        self.assertEqual(answer.status, 401, answer.body)
        self.assertTrue(answer.headers["WWW-Authenticate"].startswith("Bearer"))
        error = answer.json()["error"]
        self.assertEqual((error["code"], error["type"]), ("unauthorized", "authentication_error"))

    def test_before_all_else(self):
        """An unknown caller is not told what is there, nor what is wrong with its request."""
        with self.serve("--max-body-bytes", "1000") as server, server.connect() as client:
            for method, target, body, content_type in (
                    ("GET", "/", None, None), ("GET", "/version", None, None), ("GET", "/nothing", None, None),
                    ("GET", "/sample", None, None), ("POST", "/sample", b"x", None),
                    ("POST", "/sample", b"x" * 2000, samplerd.JSON), ("POST", "/sample", b"", samplerd.JSON),
                    ("DELETE", "/version", None, None)):
                with self.subTest(method=method, target=target):
                    self.assert_unauthorized(client.request(method, target, body, content_type))

    def test_before_the_body(self):
        head = (b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
        with self.serve() as server, server.socket() as s:
            s.sendall(head)
            self.assertEqual(s.recv(12), b"HTTP/1.1 401")

    def test_health_is_open(self):
        with self.serve() as server, server.connect() as client:
            for target in HEALTH:
                self.assertEqual(client.request("GET", target).status, 200)
            self.assertEqual(samplerd.run("--healthcheck", "--listen", f"127.0.0.1:{server.port}",
                                          "--token-file", self.tokens).returncode, 0)

    def test_bad_files(self):
        for text, message in (("", "no token"), ("# nobody\n\n", "no token"), ("ok\nhush hush\n", ":2: "),
                              ("sha256:12\n", ":1: ")):
            with self.subTest(text=text):
                said = self.refused(message, "--token-file", self.write(text, "bad"))
                self.assertNotIn("hush", said)
        self.refused("No such file", "--token-file", "/nowhere/tokens")
        self.refused("no token", "--check-config", "--token-file", self.write("", "bad"))

    def test_a_file_that_all_can_read(self):
        for mode, warnings in ((0o600, 0), (0o640, 0), (0o644, 1)):
            with samplerd.Server("--token-file", self.write("a\n", "open", mode)) as server:
                self.assertEqual(server.log().count("every user of this machine"), warnings, oct(mode))

    def test_reload(self):
        config = self.write("[log]\nlog_level = info\n", "samplerd.ini")
        with self.serve("--config", config) as server, server.connect() as client:
            self.write("fourth\n")
            self.write("[log]\nlog_level = debug\n", "samplerd.ini")
            server.process.send_signal(signal.SIGHUP)
            server.await_log(" info reloaded")
            self.assertEqual(client.sample(GOOD, **bearer("first")).status, 401)
            self.assertEqual(client.sample(GOOD, **bearer("fourth")).status, 200)
            self.write("")
            self.write("[log]\nlog_levle = debug\n", "samplerd.ini")
            server.process.send_signal(signal.SIGHUP)
            server.await_log("not reloaded", 2)
            self.assertIn("no token", server.log())
            self.assertIn("log_levle", server.log())
            self.assertEqual(client.sample(GOOD, **bearer("fourth")).status, 200)

    def test_reload_of_nothing(self):
        """SIGHUP ends no server, whatever it has to read again, and as soon as it is up."""
        with samplerd.Server() as server:
            for _ in range(50):
                server.process.send_signal(signal.SIGHUP)
            server.await_log("reloaded")
            self.assertEqual(server.sample(GOOD).status, 200)


def openssl(*arguments, cwd):
    """Run the openssl command."""
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


def make_authority(folder, name):
    """NAME.pem and NAME.key: a certificate that signs others."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem", cwd=folder)


def make_certificate(folder, name, authority, purpose, newkey=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
    """NAME.pem and NAME.key, signed by the authority."""
    (folder / f"{name}.ext").write_text(
        f"subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage={purpose}\nbasicConstraints=CA:FALSE\n")
    openssl("req", "-newkey", *newkey, "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out",
            f"{name}.csr", cwd=folder)
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem", cwd=folder)


@unittest.skipUnless(shutil.which("openssl"), "no openssl command to make certificates with")
class Tls(Folder):
    """https, versions, client certificates, new certificates."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("ca", "stranger"):
            make_authority(cls.folder, name)
        make_certificate(cls.folder, "ec", "ca", "serverAuth")
        make_certificate(cls.folder, "rsa", "ca", "serverAuth", newkey=("rsa:2048",))
        make_certificate(cls.folder, "friend", "ca", "clientAuth")
        make_certificate(cls.folder, "foe", "stranger", "clientAuth")

    def path(self, name):
        """Of a file in the folder."""
        return str(self.folder / name)

    def flags(self, name="ec", *more):
        """Of a server with that certificate."""
        return ("--tls-cert-file", self.path(f"{name}.pem"), "--tls-key-file", self.path(f"{name}.key"), *more)

    def context(self, client=None, **settings):
        """A client's settings: it trusts ca, and may have a certificate."""
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if client is not None:
            context.load_cert_chain(self.path(f"{client}.pem"), self.path(f"{client}.key"))
        for name, value in settings.items():
            setattr(context, name, value)
        return context

    @contextlib.contextmanager
    def connect(self, server, context=None):
        """A keep-alive connection."""
        s = (context or self.context()).wrap_socket(server.socket(), server_hostname="localhost")
        client = samplerd.Client.__new__(samplerd.Client)
        client.http = http.client.HTTPConnection("localhost", timeout=samplerd.ANSWER_SECONDS)
        client.http.sock, client.http.auto_open = s, 0
        with client:
            yield client

    def test_versions(self):
        for name in ("ec", "rsa"):
            with samplerd.Server(*self.flags(name)) as server:
                for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                    with self.subTest(name=name, version=version):
                        context = self.context(minimum_version=version, maximum_version=version)
                        with self.connect(server, context) as client:
                            self.assertEqual(client.sample(GOOD).sampled()["token_ids"], [[0]])
                            self.assertEqual(client.sample(GOOD).status, 200)

    def test_old_versions(self):
        context = self.context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with samplerd.Server(*self.flags()) as server:
            with self.assertRaises((ssl.SSLError, ConnectionError)), self.connect(server, context):
                pass

    def test_large_bodies(self):
        rows = [[i % 97 / 97 for i in range(100000)]] * 30
        with samplerd.Server(*self.flags()) as server:
            for _ in range(3):
                with self.connect(server) as client:
                    answer = client.sample_raw(rows, seed=1, n=1000, temperature=1).sampled()
                    self.assertEqual([len(row) for row in answer["token_ids"]], [1000] * 30)

    def test_plain_http_is_not_answered(self):
        with samplerd.Server(*self.flags()) as server, server.socket() as s:
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                self.assertNotIn(b"HTTP/1", s.recv(100))
            with self.connect(server) as client:
                self.assertEqual(client.request("GET", "/livez").status, 200)

    def test_a_handshake_that_never_comes(self):
        with samplerd.Server(*self.flags(), "--header-timeout-ms", "300") as server, server.socket() as s:
            begin = time.monotonic()
            self.assertEqual(s.recv(1), b"")
            self.assertLess(time.monotonic() - begin, 10)

    def test_what_was_begun_is_finished(self):
        head = (f"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: {samplerd.JSON}\r\n"
                f"Content-Length: {len(GOOD)}\r\n\r\n")
        with samplerd.Server(*self.flags()) as server:
            with self.context().wrap_socket(server.socket(), server_hostname="localhost") as s:
                s.sendall(head.encode() + GOOD[:5])
                time.sleep(0.3)
                server.terminate()
                time.sleep(0.3)
                s.sendall(GOOD[5:])
                self.assertEqual(finish(s)[0], 200)

    def test_tokens_too(self):
        with samplerd.Server(*self.flags(), "--token-file", self.write("secret\n")) as server:
            with self.connect(server) as client:
                self.assertEqual(client.sample(GOOD).status, 401)
                self.assertEqual(client.sample(GOOD, **bearer("secret")).status, 200)

    def attempt(self, server, context):
        """Status of a request, or None when the handshake fails, which TLS 1.3 tells at the first answer."""
        try:
            with self.connect(server, context) as client:
                return client.sample(GOOD).status
        except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
            return None

    def test_client_certificates(self):
        with samplerd.Server(*self.flags("ec", "--tls-client-ca-file", self.path("ca.pem")),
                             listen="0.0.0.0:0") as server:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                for client, status in ((None, None), ("foe", None), ("ec", None), ("friend", 200)):
                    with self.subTest(client=client, version=version):
                        context = self.context(client, minimum_version=version, maximum_version=version)
                        self.assertEqual(self.attempt(server, context), status)

    def test_failed_handshakes(self):
        """Each is counted by its reason, with a warning that names the peer; a bare probe of the port is none."""
        def in_clear(server):
            with server.socket() as s:
                s.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                s.recv(100)

        def slowly(server):
            with server.socket() as s:
                s.sendall(b"\x16\x03\x01")
                s.recv(100)

        def with_context(context):
            return lambda server: self.assertIsNone(self.attempt(server, context))

        old = self.context()
        old.set_ciphers("AES128-SHA")
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        reasons = (("not_tls", in_clear), ("timeout", slowly), ("nothing_in_common", with_context(old)),
                   ("refused_by_client", with_context(ssl.create_default_context())),
                   ("client_certificate", with_context(self.context())),
                   ("client_certificate", with_context(self.context("foe"))))
        flags = self.flags("ec", "--tls-client-ca-file", self.path("ca.pem"), "--header-timeout-ms", "500")
        with samplerd.Server(*flags, listen="0.0.0.0:0") as server:
            server.socket().close()
            for reason, fail in reasons:
                before = server.log().count("TLS handshake failed")
                fail(server)
                server.await_log("TLS handshake failed", before + 1)
                line = server.log().splitlines()[-1]
                self.assertRegex(line, rf"peer=127\.0\.0\.1:\d+ reason={reason}\b")
                time.sleep(2)  # no line is left out
            with self.connect(server, self.context("friend")) as client:
                text = client.request("GET", "/metrics").body.decode()
            counted = re.findall(r'^samplerd_tls_handshake_failures_total{reason="(\w+)"} (\d+)$', text, re.M)
            self.assertEqual(dict(counted), {"client_certificate": "2", "not_tls": "1", "timeout": "1",
                                             "nothing_in_common": "1", "refused_by_client": "1"})

    def test_reload(self):
        shutil.copy(self.path("ec.pem"), self.path("now.pem"))
        shutil.copy(self.path("ec.key"), self.path("now.key"))
        shutil.copy(self.path("ca.pem"), self.path("friends.pem"))
        flags = self.flags("now", "--tls-client-ca-file", self.path("friends.pem"))
        with samplerd.Server(*flags) as server, self.connect(server, self.context("friend")) as old:
            self.assertEqual(old.sample(GOOD).status, 200)
            for name in ("pem", "key"):
                shutil.copy(self.path(f"rsa.{name}"), self.path(f"now.{name}"))
            shutil.copy(self.path("stranger.pem"), self.path("friends.pem"))
            server.process.send_signal(signal.SIGHUP)
            server.await_log("info reloaded")
            self.assertEqual(old.sample(GOOD).status, 200)
            self.assertIsNone(self.attempt(server, self.context("friend")))
            self.assertEqual(self.attempt(server, self.context("foe")), 200)
            with self.connect(server, self.context("foe")) as client:
                self.assertIn((("commonName", "rsa"),), client.http.sock.getpeercert()["subject"])
            shutil.copy(self.path("ec.key"), self.path("now.key"))
            server.process.send_signal(signal.SIGHUP)
            server.await_log("not reloaded")
            self.assertEqual(self.attempt(server, self.context("foe")), 200)

    def test_many_handshakes_while_reloading(self):
        with samplerd.Server(*self.flags("rsa", "--io-threads", "2")) as server:
            for i in range(60):
                if i % 3 == 0:
                    server.process.send_signal(signal.SIGHUP)
                self.assertEqual(self.attempt(server, None), 200)

    def test_bad_files(self):
        garbage = self.write("garbage\n", "garbage")
        cert, key = self.path("ec.pem"), self.path("ec.key")
        for flags, message in (
                (("--tls-cert-file", cert), "tls_key_file is not"),
                (("--tls-cert-file", cert, "--tls-key-file", "/nowhere"), "tls_key_file: /nowhere"),
                (("--tls-cert-file", "/nowhere", "--tls-key-file", key), "tls_cert_file: /nowhere"),
                (("--tls-cert-file", garbage, "--tls-key-file", key), "tls_cert_file"),
                (("--tls-cert-file", cert, "--tls-key-file", garbage), "tls_key_file"),
                (("--tls-cert-file", cert, "--tls-key-file", self.path("rsa.key")), "is not that of"),
                (self.flags("ec", "--tls-client-ca-file", garbage), "tls_client_ca_file"),
                (("--tls-client-ca-file", cert), "tls_cert_file is not")):
            with self.subTest(flags=flags):
                self.refused(message, *flags)
                self.refused(message, "--check-config", *flags)

    def test_healthcheck(self):
        with samplerd.Server(*self.flags()) as server:
            address = f"127.0.0.1:{server.port}"
            self.assertEqual(samplerd.run("--healthcheck", *self.flags(), "--listen", address).returncode, 0)
            self.assertEqual(samplerd.run("--healthcheck", "--listen", address).returncode, 1)
        flags = self.flags("ec", "--tls-client-ca-file", self.path("ca.pem"))
        admin = ("--admin-listen", f"unix:{self.folder}/admin.sock")
        with samplerd.Server(*flags, *admin) as server:
            address = f"127.0.0.1:{server.port}"
            self.assertEqual(samplerd.run("--healthcheck", *flags, *admin, "--listen", address).returncode, 0)
            self.assertIn("admin_listen", samplerd.run("--healthcheck", *flags, "--listen", address).stderr)


class Admin(Folder):
    """admin_listen: health and metrics, and nothing else."""

    @contextlib.contextmanager
    def connect(self):
        """A connection to the second address."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(samplerd.ANSWER_SECONDS)
        s.connect(f"{self.folder}/admin.sock")
        client = http.client.HTTPConnection("localhost")
        client.sock, client.auto_open = s, 0
        try:
            yield client
        finally:
            client.close()

    def ask(self, target, method="GET"):
        """Status of one request to it."""
        with self.connect() as client:
            client.request(method, target)
            return client.getresponse().status

    def serve(self, *flags):
        """A server with a second address."""
        return samplerd.Server("--admin-listen", f"unix:{self.folder}/admin.sock", *flags)

    def metric(self, name):
        """One number of /metrics at the second address."""
        with self.connect() as client:
            client.request("GET", "/metrics")
            text = client.getresponse().read().decode()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    def test_full_for_long(self):
        """Who finds no room for longer than a moment is told; this address answers, and has counted."""
        with self.serve("--max-connections", "3") as server:
            clients = [server.connect() for _ in range(3)]
            for client in clients:
                self.assertEqual(client.request("GET", "/livez").status, 200)
            for _ in range(2):
                with server.connect() as client:
                    answer = client.request("GET", "/livez")
                self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "1"))
                self.assertIn("all 3 connections are in use (max_connections)",
                              answer.json()["error"]["message"])
            with server.connect() as client:
                answer = client.request("POST", "/sample", bytes(8 << 20), samplerd.RAW)
                self.assertEqual(answer.status, 503)  # and no broken pipe
            self.assertEqual(self.metric('samplerd_connections_refused_total{limit="max_connections"}'), 3)
            self.assertIn(self.metric("samplerd_connections"), (3, 4))  # one may be parting
            self.assertEqual(self.metric("samplerd_connections_limit"), 3)
            for client in clients:
                self.assertEqual(client.request("GET", "/livez").status, 200)
                client.http.close()
            with server.connect() as client:
                self.assertEqual(client.request("GET", "/livez").status, 200)
            self.assertEqual(server.log().count("no room for connections"), 1)

    def test_limit_of_open_files(self):
        """Fewer descriptors than connections: said at the start, and this address keeps its own."""
        flags = ("--admin-listen", f"unix:{self.folder}/admin.sock", "--io-threads", "1")
        launcher = ("sh", "-c", 'ulimit -n 180; exec "$@"', "sh")
        with samplerd.Server(*flags, launcher=launcher) as server:
            self.assertIn("max_connections does not fit the limit of open files", server.log())
            limit = self.metric("samplerd_connections_limit")
            self.assertTrue(1 < limit < 100, limit)
            with contextlib.ExitStack() as open_ones:
                for _ in range(150):
                    open_ones.enter_context(server.socket())
                deadline = time.monotonic() + samplerd.ANSWER_SECONDS
                while self.metric("samplerd_connections") < limit and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.assertEqual(self.metric("samplerd_connections"), limit)
                self.assertLess(self.metric("process_open_fds"), 180 - 32)
            with server.connect() as client:
                self.assertIn(client.request("GET", "/livez").status, (200, 503))

    def test_pages(self):
        with self.serve("--token-file", self.write("secret\n")) as server, server.connect() as client:
            for target in HEALTH:
                self.assertEqual(self.ask(target), 200)
                self.assertEqual(client.request("GET", target).status, 200)
            self.assertEqual(self.ask("/sample", "POST"), 404)
            self.assertEqual(self.ask("/version"), 404)
            self.assertEqual(self.ask("/livez", "POST"), 405)
        self.assertFalse((self.folder / "admin.sock").exists())

    def test_metrics_move(self):
        """At the first address they ask for a token; at their own they do not."""
        token = ("--token-file", self.write("secret\n"))
        with samplerd.Server(*token) as server, server.connect() as client:
            self.assertEqual(client.request("GET", "/metrics").status, 401)
            self.assertEqual(client.request("GET", "/metrics", **bearer("secret")).status, 200)
        with self.serve(*token) as server, server.connect() as client:
            self.assertEqual(client.request("GET", "/metrics", **bearer("secret")).status, 404)
            self.assertEqual(self.ask("/metrics"), 200)

    def test_health_while_all_are_busy(self):
        with self.serve("--workers", "1", "--queue-depth", "1") as server:
            sockets = [server.socket() for _ in range(3)]
            for s in sockets:
                s.sendall(slow_request(200))
            with server.connect() as client:
                for _ in range(10):
                    for target in HEALTH:
                        self.assertEqual(client.request("GET", target).status, 200)
                        self.assertEqual(self.ask(target), 200)
            answered, _, _ = select.select(sockets, [], [], 0)
            self.assertLess(len(answered), len(sockets), "nobody is busy any more")
            self.assertIn(200, [finish(s)[0] for s in sockets])
            for s in sockets:
                s.close()

    def test_an_address_in_use(self):
        with self.serve():
            self.refused("in use", "--admin-listen", f"unix:{self.folder}/admin.sock")
            self.assertEqual(self.ask("/livez"), 200)

    def test_draining(self):
        """What was accepted is being finished, and the second address says so."""
        head = (f"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Type: {samplerd.JSON}\r\n"
                f"Content-Length: {len(GOOD)}\r\n\r\n")
        with self.serve() as server, server.socket() as s:
            s.sendall(head.encode() + GOOD[:5])
            time.sleep(0.3)
            server.terminate()
            time.sleep(0.3)
            self.assertEqual((self.ask("/readyz"), self.ask("/livez")), (503, 200))
            s.sendall(GOOD[5:])
            self.assertEqual(finish(s)[0], 200)


class Systemd(Folder):
    """A socket handed over, and notices."""

    def activate(self, *listeners, count=None, pid="$$", listen="127.0.0.1:1", flags=()):
        """Start the program with these sockets as descriptors 3 and up; listen is then of no account."""
        with contextlib.ExitStack() as copies:
            fds = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 100) for s in listeners]  # none of those to be made
            for fd in fds:
                copies.callback(os.close, fd)
            made = " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(fds))
            count = len(listeners) if count is None else count
            script = f'LISTEN_PID={pid} LISTEN_FDS={count} exec "$0" "$@" {made}'
            return samplerd.Server(*flags, launcher=("bash", "-c", script), listen=listen, pass_fds=fds)

    def test_tcp(self):
        with socket.create_server(("127.0.0.1", 0)) as listener, self.activate(listener) as server:
            self.assertEqual(server.port, listener.getsockname()[1])
            for _ in range(3):
                self.assertEqual(server.sample(GOOD).sampled()["token_ids"], [[0]])

    def test_unix(self):
        path = f"{self.folder}/systemd.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            with self.activate(listener) as server:
                self.assertEqual(server.path, path)
                self.assertEqual(server.sample(GOOD).status, 200)
        self.assertTrue(os.path.exists(path), "it is systemd's file")

    def test_several(self):
        """Each of them is served while connections to another stay open."""
        path, name = f"{self.folder}/several.sock", f"\0samplerd-{os.getpid()}"
        with contextlib.ExitStack() as stack:
            tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listeners = [tcp, stack.enter_context(socket.create_server(("127.0.0.1", 0)))]
            for place in (path, name):
                listeners.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
                listeners[-1].bind(place)
                listeners[-1].listen()
            server = stack.enter_context(self.activate(*listeners, flags=("--max-connections", "8")))
            self.assertEqual(server.port, tcp.getsockname()[1])
            held = [stack.enter_context(server.connect()) for _ in range(6)]
            for client in held:
                self.assertEqual(client.sample(GOOD).status, 200)
            for place in (("127.0.0.1", listeners[1].getsockname()[1]), path, name):
                for _ in range(2):
                    self.assertEqual(self.ask_at(place), 200)
            server.await_log("listening there too", 3)
            self.assertIn(f"address=unix:@{name[1:]}", server.log())
            self.assertEqual(server.stop(), 0)

    @staticmethod
    def ask_at(place):
        """Status of /readyz at an address as socket.connect() takes it."""
        with socket.socket(socket.AF_INET if isinstance(place, tuple) else socket.AF_UNIX) as s:
            s.settimeout(samplerd.START_SECONDS)
            s.connect(place)
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            return finish(s)[0]

    def test_what_others_can_reach(self):
        with socket.create_server(("0.0.0.0", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as local:
            with self.assertRaisesRegex(samplerd.StartError, "allow_anonymous"):
                self.activate(local, listener)
            with self.assertRaisesRegex(samplerd.StartError, "allow_anonymous"):
                self.activate(listener)
            with self.activate(listener, flags=("--allow-anonymous",)) as server:
                self.assertEqual(server.sample(GOOD).status, 200)

    def test_mistakes(self):
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as idle, \
                open("/dev/null", "rb") as file:
            for handed, count, pid, message in ((listener, 17, "$$", "from 0 to 16 sockets"),
                                                (listener, 2, "$$", "descriptor 4"),
                                                (listener, "x", "$$", "LISTEN_FDS"),
                                                (file, 1, "$$", "no socket"),
                                                (idle, 1, "$$", "no stream socket that listens")):
                with self.subTest(count=count, message=message):
                    with self.assertRaisesRegex(samplerd.StartError, message):
                        self.activate(handed, count=count, pid=pid)
            with self.activate(listener, pid=1, listen="127.0.0.1:0") as server:
                self.assertNotEqual(server.port, listener.getsockname()[1], "it was another process's")

    def test_notices(self):
        for name in (f"{self.folder}/notify", f"\0samplerd-{os.getpid()}"):
            with self.subTest(name=name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
                told.bind(name)
                told.settimeout(samplerd.START_SECONDS)
                with samplerd.Server(NOTIFY_SOCKET=name.replace("\0", "@")) as server:
                    self.assertEqual(told.recv(200), b"READY=1")
                    server.process.send_signal(signal.SIGHUP)
                    self.assertRegex(told.recv(200), rb"^RELOADING=1\nMONOTONIC_USEC=\d+$")
                    self.assertEqual(told.recv(200), b"READY=1")
                    server.stop()
                    self.assertEqual(told.recv(200), b"STOPPING=1")

    def test_units(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze")
        for name in ("samplerd.service", "samplerd.socket"):
            text = (samplerd.ROOT / "packaging/systemd" / name).read_text()
            (self.folder / name).write_text(text.replace("/usr/local/bin/samplerd", samplerd.BINARY))
        done = subprocess.run(["systemd-analyze", "verify", "./samplerd.service", "./samplerd.socket"],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("samplerd", done.stderr)  # of other units it may say what it likes


if __name__ == "__main__":
    unittest.main()
