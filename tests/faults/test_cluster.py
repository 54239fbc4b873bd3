"""Three replicas behind a real HAProxy with docker/haproxy.cfg: one dies, or each is restarted in turn, under load."""

import array
import http.client
import json
import signal
import time
import unittest

from support import FAILURES, GOOD, HAProxy, Threads, await_true, free_port, haproxy_path, samplerd

REPLICAS, CLIENTS = 3, 8
DRAIN_DELAY_MS = 1500  # as docker/compose.yaml has it

# HAProxy can resend the first by itself; the second is more than its buffer holds.
SMALL = ("/sample", json.dumps(GOOD).encode(), samplerd.JSON)
LARGE = ("/sample?vocab_size=65536&temperature=1&top_k=40&seed=7",
         array.array("f", [i * 7919 % 65536 / 4096 for i in range(65536)]).tobytes(), samplerd.RAW)


class Client:
    """A keep-alive connection to the load balancer.  It counts the requests that it had to repeat."""

    def __init__(self, port):
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.asked = 0
        self.repeated = []

    def ask_once(self, request):
        """The body of a 200, or None and why not."""
        target, body, content_type = request
        try:
            self.http.request("POST", target, body, {"Content-Type": content_type})
            answer = self.http.getresponse()
            text = answer.read()
        except FAILURES as failure:
            self.http.close()
            return None, repr(failure)
        return (text, None) if answer.status == 200 else (None, f"{answer.status} {text[:200]!r}")

    def ask(self, request, want):
        """Ask, and once more if that failed; the answer must be this one."""
        self.asked += 1
        text, failure = self.ask_once(request)
        if text is None:
            self.repeated.append(failure)
            text, failure = self.ask_once(request)
        if text is None:
            raise AssertionError(f"lost after one retry: {self.repeated[-1]}, then {failure}")
        if text != want:
            raise AssertionError(f"{text!r} instead of {want!r}")


@unittest.skipUnless(haproxy_path(), "haproxy is not installed")
class Cluster(unittest.TestCase):
    def setUp(self):
        self.flags = ["--log-level", "error", "--drain-delay-ms", str(DRAIN_DELAY_MS)]
        self.ports = [free_port() for _ in range(REPLICAS)]
        self.servers = [self.start(port) for port in self.ports]
        self.addCleanup(self.stop_all)
        self.proxy = HAProxy(self.ports)
        self.addCleanup(self.proxy.__exit__)
        self.await_up(REPLICAS)
        self.clients = [Client(self.proxy.port) for _ in range(CLIENTS)]
        self.addCleanup(lambda: [client.http.close() for client in self.clients])
        self.want = {request: self.clients[0].ask_once(request)[0] for request in (SMALL, LARGE)}
        self.assertNotIn(None, self.want.values())

    def start(self, port):
        """A replica on this port."""
        return samplerd.Server(*self.flags, listen=f"127.0.0.1:{port}")

    def stop_all(self):
        """End the replicas that run; their own tests look at how they end."""
        for server in self.servers:
            if server.process.poll() is None:
                server.stop(signal.SIGKILL)
            server.process.stdout.close()
            server.errors.close()

    def await_up(self, count):
        """Wait until HAProxy holds that many to be up."""
        self.assertTrue(await_true(lambda: self.proxy.up() == count, 20), f"{self.proxy.up()}: {self.proxy.text()}")

    def load(self):
        """Every second client sends large requests."""
        def ask(number):
            request = LARGE if number % 2 else SMALL
            self.clients[number].ask(request, self.want[request])
        return Threads(CLIENTS, ask)

    def tell(self, what):
        """Print how many requests there were; returns those that were repeated."""
        repeated = [failure for client in self.clients for failure in client.repeated]
        print(f"\n  {what}: {sum(client.asked for client in self.clients)} requests, {len(repeated)} repeated",
              end="", flush=True)
        return repeated

    def test_kill_9_loses_nothing_that_is_sent_again(self):
        with self.load():
            for number in range(REPLICAS):
                time.sleep(1)
                self.servers[number].process.kill()
                self.servers[number].process.wait()
                self.await_up(REPLICAS - 1)
                time.sleep(1)
                self.servers[number].process.stdout.close()
                self.servers[number].errors.close()
                self.servers[number] = self.start(self.ports[number])
                self.await_up(REPLICAS)
        self.tell("kill -9")

    def test_a_rolling_restart_loses_nothing(self):
        with self.load():
            for number in range(REPLICAS):
                time.sleep(1)
                self.assertEqual(self.servers[number].stop(), 0, self.servers[number].log())
                self.servers[number].errors.close()
                self.servers[number] = self.start(self.ports[number])
                self.await_up(REPLICAS)
        self.assertEqual(self.tell("rolling restart"), [])


if __name__ == "__main__":
    unittest.main()
