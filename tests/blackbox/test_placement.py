"""Where a request is sampled, by the I/O thread that read it or by a worker, shows in its time alone: a worker's
has a queue stage.
"""

import contextlib
import json
import os
import random
import unittest

import server as samplerd
import test_invariance
import test_limits

VOCAB_SIZE = 128256  # a row of 513 KB
WEIGHTS = {"temperature": 0.8, "seed": 5, "n": 3}  # tens of microseconds a row
MANY_IO_THREADS = ("--io-threads", "64")  # as many as CPUs, or more than requests


def make_body(seed):
    generator = random.Random(seed)
    return samplerd.pack_rows([[generator.gauss(-1, 3) for _ in range(VOCAB_SIZE)]])


@contextlib.contextmanager
def uploads(server, count):
    """Requests under way, each with a part of its body outstanding."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(count)]
        for client in clients:
            client.http.putrequest("POST", "/sample")
            client.http.putheader("Content-Type", samplerd.JSON)
            client.http.putheader("Content-Length", "100")
            client.http.endheaders(b"{")
        yield
        for client in clients:
            client.http.send(b'"logits":[[1,2]]}'.ljust(99))
            assert samplerd.Answer(client.http.getresponse()).status == 200


def serve(*flags, **options):
    return samplerd.Server("--server-timing", "on", *flags, **options)


def sample_raw(client, body, **parameters):
    query = samplerd.query_text({"vocab_size": VOCAB_SIZE, **WEIGHTS, **parameters})
    return client.request("POST", "/sample?" + query, body, samplerd.RAW)


def was_queued(answer):
    return "queue" in answer.headers["Server-Timing"]


class Placement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.body = make_body(1)

    def test_a_row_of_tens_of_microseconds_stays_while_others_are_under_way(self):
        with serve(*MANY_IO_THREADS) as server, uploads(server, 3), server.connect() as client:
            for parameters in ({}, {"temperature": 0}, {"top_k": 40, "top_p": 0.95}):
                with self.subTest(parameters=parameters):
                    answer = sample_raw(client, self.body, **parameters)
                    answer.sampled()
                    self.assertFalse(was_queued(answer))

    def test_larger_ones_go_to_a_worker(self):
        with serve(*MANY_IO_THREADS) as server, server.connect() as client:
            for body, parameters in ((self.body * 16, {}), (self.body, {"logprobs": True}), (self.body, {"n": 500})):
                answer = sample_raw(client, body, **parameters)
                answer.sampled()
                self.assertTrue(was_queued(answer), parameters)

    def test_each_cpu_has_an_io_thread_and_a_worker(self):
        cpus = sorted(os.sched_getaffinity(0))
        for count in {1, 2, len(cpus)} & set(range(len(cpus) + 1)):
            launcher = ("taskset", "-c", ",".join(str(cpu) for cpu in cpus[:count]))
            with self.subTest(cpus=count), samplerd.Server(launcher=launcher) as server:
                server.await_log(f"workers={count} io_threads={min(count, 64)}")

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "there is one CPU")
    def test_one_io_thread_hands_over_where_another_cpu_is_free(self):
        answers = []
        with serve("--io-threads", "1", "--workers", "2") as server, server.connect() as client:
            answers.append(sample_raw(client, self.body))
            self.assertFalse(was_queued(answers[0]), "nobody else asks")
            with uploads(server, 3):
                answers.append(sample_raw(client, self.body))
                self.assertTrue(was_queued(answers[1]))
                self.assertFalse(was_queued(sample_raw(client, self.body, temperature=0)), "a handover costs more")
        one_cpu = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
        with serve("--io-threads", "1", launcher=one_cpu) as server, server.connect() as client, uploads(server, 3):
            answers.append(sample_raw(client, self.body))
            self.assertFalse(was_queued(answers[2]), "no other CPU")
        self.assertEqual({answer.body for answer in answers}, {answers[0].body})

    def test_a_full_queue_is_none_of_its_business(self):
        flags = (*test_limits.ONE_WORKER, *MANY_IO_THREADS, "--queue-depth", "1")
        with serve(*flags) as server, server.connect() as client, test_limits.Busy(server, 2) as busy:
            for _ in range(20):
                self.assertEqual(sample_raw(client, self.body).status, 200)
            self.assertFalse(busy.finished())

    def test_the_same_bits_here_and_there(self):
        generator, queued = random.Random(20261205), []
        with serve(*MANY_IO_THREADS) as server, server.connect() as client:
            for _ in range(200):
                body = json.dumps(test_invariance.make_mixed_request(generator)).encode()
                answers = [client.sample(body), client.sample(body + b" " * 100_000)]
                self.assertEqual(answers[0].body, answers[1].body)
                queued.append([was_queued(answer) for answer in answers])
        self.assertGreater(queued.count([False, True]), 20)
