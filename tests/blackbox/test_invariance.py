"""A row's answer depends on the row, its parameters, seed and offset, and on nothing else: not on its
neighbours, their order, the number of workers or the instruction set.  Compared as text, digit for digit.
"""

import random
import re
import struct
import unittest

import random_rules
import server as samplerd

PER_ROW = ("temperature", "top_k", "top_p", "seed", "offset")
ANSWERED = ("token_ids", "logprobs", "top_token_ids", "top_probs", "top_logprobs")
VOCAB_SIZES = (1, 7, 100, 2049, 5000)
ROWS = 24


def blas_cores():
    """The names that OpenBLAS has for kinds of CPU, as far as this one can run their code."""
    needs = {"Prescott": "pni", "Nehalem": "sse4_2", "Sandybridge": "avx", "Haswell": "avx2", "Zen": "avx2",
             "SkylakeX": "avx512f"}
    with open("/proc/cpuinfo", encoding="ascii") as text:
        flags = set(next((line for line in text if line.startswith("flags")), "").split())
    return [name for name, flag in needs.items() if flag in flags] or ["ARMV8", "NEOVERSEN1"]


BLAS_CORES = blas_cores()


def make_row(generator, size):
    """Logits of some shape: spread, flat, peaked or full of ties; some tokens masked."""
    shape = generator.choice(("spread", "flat", "peaked", "ties"))
    if shape == "flat":
        row = [generator.uniform(-0.01, 0.01) for _ in range(size)]
    elif shape == "ties":
        row = [float(generator.randrange(-3, 4)) for _ in range(size)]
    else:
        row = [generator.gauss(0, 3) for _ in range(size)]
    if shape == "peaked":
        row[generator.randrange(size)] = 25.0
    for i in range(size):
        if size > 1 and generator.random() < 0.1:
            row[i] = None
    if all(x is None for x in row):
        row[0] = 0.0
    return row


def make_batch(generator, size):
    """A request with every per-row parameter given by row."""
    return {
        "logits": [make_row(generator, size) for _ in range(ROWS)],
        "temperature": [generator.choice((0, 0.3, 0.7, 1.0, 1.7)) for _ in range(ROWS)],
        "top_k": [generator.choice((0, 1, 5, 40, size + 3)) for _ in range(ROWS)],
        "top_p": [generator.choice((0, 0.05, 0.5, 0.95, 0.999, 1)) for _ in range(ROWS)],
        "seed": [str(generator.getrandbits(64)) for _ in range(ROWS)],
        "offset": [generator.getrandbits(40) for _ in range(ROWS)],
        "n": 3, "top_candidates": 20, "logprobs": True,
    }


def choose(batch, rows):
    """The request of these rows only, in this order."""
    return {name: [value[i] for i in rows] if name == "logits" or name in PER_ROW else value
            for name, value in batch.items()}


def make_mixed_request(generator):
    """A whole request with every feature that enters an answer, chosen at random."""
    size, rows, stacks = generator.choice(VOCAB_SIZES[1:]), 3, generator.choice((0, 2, 3))
    batch = choose(make_batch(generator, size), range(rows))
    if stacks:
        others = [[[generator.gauss(0, 3) for _ in range(size)] for _ in range(rows)] for _ in range(stacks - 1)]
        batch["logits"] = [batch["logits"], *others]
        batch["mix"] = [generator.uniform(-2, 2) for _ in range(stacks)]
    if generator.random() < 0.5:
        bias = [[generator.gauss(0, 1) for _ in range(size)] for _ in range(generator.choice((1, rows)))]
        batch["bias"] = bias if len(bias) == rows else bias[0]
    if generator.random() < 0.3:
        batch["candidate_ids"] = [generator.sample(range(2 * size), size) for _ in range(rows)]
        if "bias" in batch and not isinstance(batch["bias"][0], list):
            batch["bias"] = [batch["bias"]] * rows
    batch["logprobs_mode"] = generator.choice(("processed", "raw"))
    return batch


def near_ties(generator):
    """Mixes whose two likeliest tokens differ by rounding alone: greedy tells any other order of sums."""
    rows, first, second = 64, [], []
    for _ in range(rows):
        a, b = (struct.unpack("f", struct.pack("f", generator.gauss(0, 3)))[0] for _ in range(2))
        c = struct.unpack("f", struct.pack("f", generator.gauss(0, 3)))[0]
        first.append([a, b])
        second.append([c, c + 1.7 / 0.7 * (b - a)])
    return {"logits": [first, second], "mix": [1.7, -0.7], "top_candidates": 2, "logprobs": True, "seed": 1}


def alone_of(logits, parameters):
    """One row as a request of its own."""
    made = {name: value for name, value in parameters.items() if name != "stream"}
    for name in ("seed", "candidate_ids"):
        made[name] = [made[name]] if name in made else None
    if "token_bitmask" in made:
        made["token_bitmask"] = list(made["token_bitmask"])
    return {"logits": [logits], **made}


def sampled(client, batch):
    """Each row's answer, numbers left as the text they came in."""
    answer = client.sample(batch).sampled(parse_float=str, parse_int=str)
    return list(zip(*(answer[name] for name in ANSWERED)))


class Invariance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        generator = random.Random(20240229)
        cls.batches = [make_batch(generator, size) for size in VOCAB_SIZES]
        with samplerd.Server("--workers", "1", "--kernels", "generic") as server, server.connect() as client:
            cls.alone = [[sampled(client, choose(batch, [i]))[0] for i in range(ROWS)] for batch in cls.batches]

    def check_server(self, *flags):
        shuffle = random.Random(7).sample
        with samplerd.Server(*flags) as server, server.connect() as client:
            for batch, alone, size in zip(self.batches, self.alone, VOCAB_SIZES):
                for order in (range(ROWS), shuffle(range(ROWS), ROWS), shuffle(range(ROWS), 5)):
                    with self.subTest(flags=flags, vocab_size=size, order=order):
                        self.assertEqual(sampled(client, choose(batch, order)), [alone[i] for i in order])

    def test_one_worker(self):
        self.check_server("--workers", "1")

    def test_four_workers(self):
        self.check_server("--workers", "4")

    def test_each_kernel_table(self):
        for name in samplerd.KERNELS:
            try:
                self.check_server("--workers", "4", "--kernels", name)
            except samplerd.StartError as error:
                self.assertNotEqual(name, "generic")
                self.assertIn(name, str(error), "the message names what is not there")

    def test_all_rules_on_each_table(self):
        """Whole answers, byte for byte, refusals too."""
        generator, answers, sampled_ones = random.Random(20261207), {}, 0
        requests = [random_rules.request(generator, (7, 1025, 2049, 5000)) for _ in range(150)]
        for request in requests:
            request.pop("replacement", None)  # not served yet
            request.update(top_candidates=30, logprobs=True)
        for kernels in samplerd.KERNELS:
            for workers in ("1", "4"):
                try:
                    server = samplerd.Server("--workers", workers, "--kernels", kernels)
                except samplerd.StartError:
                    self.assertNotEqual(kernels, "generic")
                    continue
                with server, server.connect() as client:
                    for i, request in enumerate(requests):
                        with self.subTest(kernels=kernels, workers=workers, request=i):
                            answer = client.sample(request)
                            sampled_ones += answer.status == 200
                            self.assertIn(answer.status, (200, 422), answer.body)
                            self.assertEqual(answer.body, answers.setdefault(i, answer.body))
        self.assertGreater(sampled_ones, 100)

    def test_all_rules_in_any_batch(self):
        """A row of a batch has the answer that it has alone, where it has a seed of its own."""
        generator, compared = random.Random(20261208), 0
        with samplerd.Server() as server, server.connect() as client:
            for number in range(200):
                request = random_rules.request(generator, (7, 120, 2049))
                request.pop("replacement", None)
                request.update(top_candidates=30, logprobs=True)
                together = client.sample(request)
                if not isinstance(request["seed"], list) or together.status != 200:
                    continue
                for i, (logits, parameters) in enumerate(random_rules.rows(request)):
                    alone = client.sample(alone_of(logits, parameters))
                    with self.subTest(request=number, row=i):
                        self.assertEqual(alone.status, 200, alone.body)
                        for name, value in alone.json().items():
                            self.assertEqual(together.json()[name][i:i + 1], value, name)
                        compared += 1
        self.assertGreater(compared, 50)

    def test_each_core_of_blas(self):
        """Whole answers, byte for byte, by the code that OpenBLAS has for each kind of CPU."""
        generator, answers, started = random.Random(20261204), {}, []
        requests = [make_mixed_request(generator) for _ in range(40)] + [near_ties(generator) for _ in range(20)]
        requests.append({"logits": [[[-0.949999988079071, -1.25]], [[6.079999923706055, 5.351428508758545]]],
                         "mix": [1.7, -0.7], "seed": 1})
        for core in BLAS_CORES:
            with samplerd.Server(OPENBLAS_CORETYPE=core) as server, server.connect() as client:
                started.append(re.search(r"blas=(\w+)", server.log())[1])
                for i, request in enumerate(requests):
                    answer = client.sample(request)
                    self.assertEqual(answer.status, 200, answer.body)
                    with self.subTest(core=core, request=i):
                        self.assertEqual(answer.body, answers.setdefault(i, answer.body))
        self.assertGreater(len(set(started)), 1, "the variable chooses")

    def test_raw_answers_as_json_does(self):
        with samplerd.Server() as server, server.connect() as client:
            for batch, alone in zip(self.batches, self.alone):
                fields = {name: value for name, value in batch.items() if name != "logits"}
                answer = client.sample_raw(batch["logits"], **fields).sampled(parse_float=str, parse_int=str)
                self.assertEqual(list(zip(*(answer[name] for name in ANSWERED))), alone)

    def test_one_seed_for_all_rows_numbers_the_rows(self):
        """With a single seed the row's index is the stream: rows draw apart, and the first as if alone."""
        flat = [[0.0] * 1000] * 8
        with samplerd.Server() as server, server.connect() as client:
            together = client.sample({"logits": flat, "temperature": 1, "seed": 5}).sampled()["token_ids"]
            first = client.sample({"logits": flat[:1], "temperature": 1, "seed": 5}).sampled()["token_ids"]
            by_row = client.sample({"logits": flat, "temperature": 1, "seed": [5] * 8}).sampled()["token_ids"]
        self.assertEqual(together[:1], first)
        self.assertGreater(len(set(map(tuple, together))), 1)
        self.assertEqual(by_row, first * 8)


if __name__ == "__main__":
    unittest.main()
