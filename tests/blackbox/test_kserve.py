"""KServe v2 as its clients speak it: infer with JSON and binary tensors, metadata, errors that are strings."""

import json
import math
import os
import random
import resource
import struct
import threading
import time
import unittest

import server as samplerd
from exposition import Exposition
from kserve import LENGTH, MODEL, body_of, flat, outputs_of, pack, post, rows_tensor, tensor, unpack

LIMIT = 1 << 20  # max_body_bytes of the server under test


def setUpModule():
    global SERVER
    SERVER = samplerd.Server("--max-body-bytes", str(LIMIT))
    unittest.addModuleCleanup(SERVER.__exit__)


class SameTokens(unittest.TestCase):
    """Whatever the form, the same rows with the same parameters give what POST /sample gives."""

    def setUp(self):
        pick = random.Random(7)
        self.rows = [[round(pick.gauss(0, 3), 3) for _ in range(100)] for _ in range(3)]
        self.rows[1][5] = None
        self.fields = {"temperature": [0.5, 1.5, 0], "top_k": [50, 0, 3], "top_p": [0.9, 0.95, 1],
                       "seed": [1, 2 ** 53, 7], "offset": 3, "n": 4, "top_candidates": 5}
        self.wanted = SERVER.sample({"logits": self.rows, **self.fields, "logprobs": True}).sampled()

    def inputs(self, binary):
        def per_row(name, datatype, shape):
            values = self.fields[name]
            return tensor(name, datatype, shape, values if isinstance(values, list) else [values], binary)
        return [per_row("temperature", "FP64", [3]), rows_tensor(self.rows, binary=binary),
                per_row("top_k", "INT32", [3, 1]), per_row("top_p", "FP64", [3, 1]),
                per_row("seed", "UINT64", [3]), per_row("offset", "INT64", [1]), per_row("n", "INT32", [1]),
                per_row("top_candidates", "INT64", [1, 1]), tensor("logprobs", "BOOL", [1], [True], binary)]

    def check(self, answer):
        found, root = outputs_of(answer)
        self.assertEqual((root["model_name"], root["model_version"]), ("sampler", "1"))
        self.assertEqual(found["token_ids"], ("INT32", [3, 4], flat(self.wanted["token_ids"])))
        self.assertEqual(found["seed"], ("UINT64", [3], [1, 2 ** 53, 7]))
        padded = [(ids + [-1] * 5)[:5] for ids in self.wanted["top_token_ids"]]
        self.assertEqual(found["top_token_ids"], ("INT32", [3, 5], flat(padded)))
        for name, wide in (("logprobs", 4), ("top_probs", 5)):
            datatype, shape, values = found[name]
            self.assertEqual((datatype, shape), ("FP32", [3, wide]))
            wanted = flat([(row + [0] * wide)[:wide] for row in self.wanted[name]])
            for got, want in zip(values, wanted, strict=True):
                self.assertAlmostEqual(got, want, delta=1e-6 * max(1, abs(want)))

    def test_every_form(self):
        with SERVER.connect() as client:
            for binary in (False, True):
                for binary_output in (False, True):
                    for path in (MODEL, MODEL + "/versions/1"):
                        for content_type in (None, samplerd.JSON, samplerd.RAW):
                            with self.subTest(binary=binary, binary_output=binary_output, path=path,
                                              content_type=content_type):
                                self.check(post(client, self.inputs(binary), path + "/infer", content_type,
                                                parameters={"binary_data_output": binary_output}))

    def test_unaligned(self):
        """Spaces before the tensors put them at every alignment."""
        with SERVER.connect() as client:
            body, headers = body_of(self.inputs(True))
            header = int(headers[LENGTH])
            for spaces in range(8):
                shifted = body[:header] + b" " * spaces + body[header:]
                self.check(client.request("POST", MODEL + "/infer", shifted, None,
                                          **{LENGTH: str(header + spaces)}))

    def test_chunked(self):
        with SERVER.connect() as client:
            body, headers = body_of(self.inputs(True))
            pieces = (body[i:i + 97] for i in range(0, len(body), 97))
            self.check(client.request("POST", MODEL + "/infer", pieces, None, **headers))


class Infer(unittest.TestCase):
    def test_outputs(self):
        """Only what is asked for, in that order, in that form."""
        names = ["logprobs", "seed", "token_ids"]
        with SERVER.connect() as client:
            for binary in (False, True):
                asked = [{"name": n, "parameters": {"binary_data": binary}} for n in names]
                found, root = outputs_of(post(client, [rows_tensor([[1, 5, 2]])], outputs=asked, id="a b"))
                self.assertEqual(list(found), names)
                self.assertEqual(root["id"], "a b")
                self.assertEqual(found["token_ids"], ("INT32", [1, 1], [1]))
                self.assertEqual("data" in root["outputs"][0], not binary)

    def test_headers(self):
        with SERVER.connect() as client:
            answer = post(client, [rows_tensor([[1, 5, 2]])])
            self.assertEqual(answer.headers["Content-Type"], samplerd.JSON)
            self.assertIsNone(answer.headers[LENGTH])
            answer = post(client, [rows_tensor([[1, 5, 2]])], parameters={"binary_data_output": True})
            self.assertEqual(answer.headers["Content-Type"], samplerd.RAW)
            self.assertGreater(int(answer.headers[LENGTH]), 0)

    def test_parameters(self):
        rows = [[1.0, 0.5, 0.25, 0]] * 2
        fields = {"temperature": 0.7, "top_k": 3, "top_p": 0.95, "seed": 2 ** 64 - 1, "n": 16}
        wanted = SERVER.sample({"logits": rows, **fields, "seed": str(2 ** 64 - 1)}).sampled()
        with SERVER.connect() as client:
            found, _ = outputs_of(post(client, [rows_tensor(rows)], parameters={**fields, "priority": 1}))
        self.assertEqual(found["token_ids"][2], flat(wanted["token_ids"]))
        self.assertEqual(found["seed"], ("UINT64", [1], [2 ** 64 - 1]))

    def test_replay(self):
        """A fresh seed comes back and gives the same tokens again."""
        with SERVER.connect() as client:
            more = {"temperature": 1, "n": 64}
            found, _ = outputs_of(post(client, [rows_tensor([[0] * 50])], parameters=more))
            again, _ = outputs_of(post(client, [rows_tensor([[0] * 50])],
                                       parameters={**more, "seed": found["seed"][2][0]}))
            self.assertEqual(found, again)

    def test_halves(self):
        rows = [[0.5, 1.5, -2, 1]]
        with SERVER.connect() as client:
            found, _ = outputs_of(post(client, [rows_tensor(rows, "FP16")]))
            self.assertEqual(found["token_ids"][2], [1])
            half = b"".join(struct.pack("<f", x)[2:] for x in rows[0])
            entry = {"name": "logits", "shape": [1, 4], "datatype": "BF16",
                     "parameters": {"binary_data_size": len(half)}}
            found, _ = outputs_of(post(client, [(entry, half)]))
            self.assertEqual(found["token_ids"][2], [1])

    def test_mix_bias_and_candidate_ids(self):
        with SERVER.connect() as client:
            stacks = tensor("logits", "FP32", [2, 1, 3], [1, 2, 3, 0, 0, 9], True)
            mix, bias = tensor("mix", "FP32", [2], [1, -1], True), tensor("bias", "FP32", [3], [0, 0, 9], False)
            self.assertEqual(outputs_of(post(client, [stacks, mix]))[0]["token_ids"][2], [1])
            self.assertEqual(outputs_of(post(client, [stacks, mix, bias]))[0]["token_ids"][2], [2])
            for datatype in ("INT32", "INT64"):
                for binary in (False, True):
                    ids = tensor("candidate_ids", datatype, [1, 3], [70, 50, 60], binary)
                    found, _ = outputs_of(post(client, [rows_tensor([[1, 9, 2]]), ids]))
                    self.assertEqual(found["token_ids"][2], [50])

    def test_rows_of_floats_as_json(self):
        """FP32 and FP64, whatever the order of the members: null masks."""
        with SERVER.connect() as client:
            for datatype in ("FP32", "FP64"):
                for size in (4, 100000):
                    members = {"name": "logits", "datatype": datatype, "shape": [1, size],
                               "data": [None, 1.5, 2.25] + [0.1] * (size - 3)}
                    for names in (("name", "datatype", "shape", "data"), ("data", "shape", "datatype", "name")):
                        entry = {name: members[name] for name in names}
                        bias = tensor("bias", datatype, [size], [9, None] + [0] * (size - 2), False)
                        with self.subTest(datatype=datatype, size=size, names=names):
                            found, _ = outputs_of(post(client, [(entry, b"")]))
                            self.assertEqual(found["token_ids"][2], [2])
                            found, _ = outputs_of(post(client, [(entry, b""), bias], parameters={"top_k": 1}))
                            self.assertEqual(found["token_ids"][2], [2])

    def test_large(self):
        """Requests that are handed to a worker."""
        row = [((i * 7919) % 10007) / 1000 for i in range(50000)]
        with SERVER.connect() as client:
            for binary in (False, True):
                found, _ = outputs_of(post(client, [rows_tensor([row], binary=binary)]))
                self.assertEqual(found["token_ids"][2], [row.index(max(row))])


class Metadata(unittest.TestCase):
    def get(self, path):
        with SERVER.connect() as client:
            answer = client.request("GET", path)
            self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, samplerd.JSON), path)
            return answer.json()

    def test_server(self):
        server = self.get("/v2")
        self.assertEqual(server["name"], "samplerd")
        self.assertIn("binary_tensor_data", server["extensions"])

    def test_health(self):
        for path in ("/v2/health/live", "/v2/health/ready", MODEL + "/ready", MODEL + "/versions/1/ready"):
            self.get(path)

    def test_model(self):
        model = self.get(MODEL)
        self.assertEqual(model, self.get(MODEL + "/versions/1"))
        self.assertEqual((model["name"], model["versions"]), ("sampler", ["1"]))
        self.assertEqual(model["inputs"][0], {"name": "logits", "datatype": "FP32", "shape": [-1, -1]})
        self.assertEqual(model["outputs"][0], {"name": "token_ids", "datatype": "INT32", "shape": [-1, -1]})

    def test_config(self):
        config = self.get(MODEL + "/config")
        self.assertEqual(config, self.get(MODEL + "/versions/1/config"))
        self.assertEqual((config["name"], config["max_batch_size"]), ("sampler", 0))
        self.assertEqual([i["name"] for i in config["input"] if not i["optional"]], ["logits"])

    def test_every_input_is_taken(self):
        """As the metadata has it, with one row of two tokens."""
        with SERVER.connect() as client:
            for entry in self.get(MODEL)["inputs"]:
                name, shape = entry["name"], entry["shape"]
                if name in ("logits", "mix"):
                    continue
                shape = [1, 1] if name == "token_bitmask" else [1, 2] if len(shape) == 2 else [1] * len(shape)
                size = math.prod(shape)
                second = 1 if name == "adaptive_state" else 0 if name in ("bias", "candidate_ids") else -1
                first = 0.5 if name == "adaptive_decay" else 1
                values = [True] if entry["datatype"] == "BOOL" else [first, second][:size]
                for binary in (False, True):
                    inputs = [rows_tensor([[1, 2]]), tensor(name, entry["datatype"], shape, values, binary)]
                    if name != "history":
                        inputs.append(tensor("history", "INT32", [1], [0], binary))
                    if name == "logit_bias_ids":
                        inputs.append(tensor("logit_bias_values", "FP32", [1, 2], [0.5, 1], binary))
                    if name != "logit_bias_values":  # which came with its ids
                        outputs_of(post(client, inputs))


class Errors(unittest.TestCase):
    def refused(self, answer, status, words):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], samplerd.JSON)
        root = answer.json()
        self.assertEqual(list(root), ["error"])
        self.assertIsInstance(root["error"], str)
        self.assertIn(words, root["error"])

    def test_one_connection(self):
        """Errors, each followed by a request that is answered."""
        rows, plain = rows_tensor([[1, 2]]), rows_tensor([[1, 2]], binary=False)
        body, headers = body_of([rows])
        calls = [
            (lambda c: post(c, [plain], parameters={"top_p": 1.7}), 400, "top_p is 1.7; it must be from 0 to 1"),
            (lambda c: post(c, [plain], parameters={"topk": 1}), 400, "did you mean top_k?"),
            (lambda c: post(c, [plain], outputs=[{"name": "tokens"}]), 400, "there is no output tokens"),
            (lambda c: post(c, []), 400, "logits is missing"),
            (lambda c: post(c, [rows_tensor([[math.nan, 1]])]), 422, "NaN"),
            (lambda c: post(c, [rows_tensor([[1, 2], [None, None]])]), 422, "1"),
            (lambda c: post(c, [plain], MODEL + "/versions/2/infer"), 404, "its one version 1"),
            (lambda c: post(c, [plain], "/v2/models/gpt/infer"), 404, "the one model is sampler"),
            (lambda c: post(c, [plain], MODEL + "/infer?n=2"), 400, "is in the query"),
            (lambda c: c.request("GET", "/v2/models/gpt/ready"), 404, "the one model is sampler"),
            (lambda c: c.request("GET", "/v2/nothing"), 404, "/v2/nothing"),
            (lambda c: c.request("GET", MODEL + "/infer"), 405, "takes POST"),
            (lambda c: c.request("POST", MODEL, b"{}"), 405, "takes GET"),
            (lambda c: c.request("POST", MODEL + "/infer", b""), 400, "no JSON object"),
            (lambda c: c.request("POST", MODEL + "/infer", body[:-1], **headers), 400, "left for it"),
            (lambda c: c.request("POST", MODEL + "/infer", body + b" ", **headers), 400, "more than its inputs"),
            (lambda c: c.request("POST", MODEL + "/infer", body), 400, "more text after"),
            (lambda c: c.request("POST", MODEL + "/infer", body, **{LENGTH: "100000"}), 400, "100000"),
            (lambda c: c.request("POST", MODEL + "/infer", body, **{LENGTH: "-1"}), 400, LENGTH),
            (lambda c: c.request("POST", MODEL + "/infer", body, Content_Encoding="gzip", **headers), 415, "gzip"),
            (lambda c: c.request("POST", MODEL + "/infer", b"x" * (LIMIT + 1)), 413, "max_body_bytes"),
        ]
        with SERVER.connect() as client:
            for i, (call, status, words) in enumerate(calls):
                with self.subTest(i=i, words=words):
                    self.refused(call(client), status, words)
                    self.assertEqual(outputs_of(post(client, [rows]))[0]["token_ids"][2], [1])

    def test_allow(self):
        with SERVER.connect() as client:
            self.assertEqual(client.request("GET", MODEL + "/infer").headers["Allow"], "POST")

    def test_elsewhere_errors_are_objects(self):
        with SERVER.connect() as client:
            self.assertIsInstance(client.request("GET", "/v2x").json()["error"], dict)


REGIONS = "/v2/systemsharedmemory"


@unittest.skipUnless(os.path.isdir("/dev/shm"), "no /dev/shm")
class SharedMemory(unittest.TestCase):
    ROW = [1.0, 2.0, 5.0, 3.0]

    def setUp(self):
        self.server = samplerd.Server("--system-shared-memory", "on", "--max-shared-memory-regions", "5")
        self.addCleanup(self.server.__exit__)
        self.key = f"/samplerd-blackbox-{os.getpid()}"
        self.path = "/dev/shm" + self.key
        with open(self.path, "wb") as region:
            region.write(bytes(8) + pack("FP32", self.ROW) + bytes(16))
        self.addCleanup(os.unlink, self.path)
        self.client = self.server.connect()
        self.addCleanup(self.client.__exit__)

    def call(self, action, name=None, body=None, method="POST"):
        path = f"{REGIONS}/region/{name}/{action}" if name else f"{REGIONS}/{action}"
        return self.client.request(method, path, None if body is None else json.dumps(body).encode())

    def register(self, name, **body):
        return self.call("register", name, {"key": self.key, "byte_size": 40, **body})

    def infer(self, outputs=(), region="a", offset=8, client=None):
        entry = {"name": "logits", "shape": [1, 4], "datatype": "FP32", "parameters": {
            "shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": 16}}
        members = {"outputs": list(outputs)} if outputs else {}
        return post(client or self.client, [(entry, b"")], **members)

    def to_region(self, offset, size):
        return {"name": "token_ids", "parameters": {
            "shared_memory_region": "a", "shared_memory_offset": offset, "shared_memory_byte_size": size}}

    def test_input_and_output(self):
        self.assertEqual(self.register("a").sampled(), {})
        self.assertEqual(outputs_of(self.infer())[0]["token_ids"][2], [2])
        answer = self.infer([self.to_region(36, 4)]).sampled()
        self.assertNotIn("data", answer["outputs"][0])
        with open(self.path, "rb") as region:
            self.assertEqual(unpack("INT32", region.read()[36:]), [2])

    def test_key_without_slash(self):
        self.register("a", key=self.key[1:]).sampled()
        self.assertEqual(outputs_of(self.infer())[0]["token_ids"][2], [2])
        self.assertEqual(self.call("status", "a", method="GET").sampled()[0]["key"], self.key[1:])

    def gauges(self):
        seen = Exposition(self.client.request("GET", "/metrics").body.decode())
        return seen.value("samplerd_shared_memory_regions"), seen.value("samplerd_shared_memory_limit_regions")

    def test_most_regions(self):
        for i in range(5):
            self.assertEqual(self.gauges(), (i, 5))
            self.register(f"r{i}").sampled()
        refused = self.register("more")
        self.assertEqual(refused.status, 400)
        self.assertIn("5 shared memory regions, as many as max_shared_memory_regions", refused.json()["error"])
        self.call("unregister", "r0").sampled()
        self.assertEqual(self.gauges(), (4, 5))
        self.register("more").sampled()

    def test_a_thousand_regions(self):
        with samplerd.Server("--system-shared-memory", "on", "--max-shared-memory-regions", "1024",
                             launcher=("sh", "-c", 'ulimit -Sn "$(ulimit -Hn)"; exec "$0" "$@"')) as server, \
                server.connect() as self.client:
            for i in range(1024):
                self.register(f"r{i}", offset=i % 32, byte_size=8).sampled()
            self.assertEqual(self.gauges(), (1024, 1024))
            self.assertEqual(self.register("more").status, 400)

    def test_no_descriptor_left(self):
        """The server's fault, for a while: 503 and not 400."""
        pid = self.server.process.pid
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
        free = next(fd for fd in range(most) if fd not in used)
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, most))
        refused = self.register("a")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        self.assertEqual((refused.status, refused.headers["Retry-After"].isdigit()), (503, True))
        self.assertIn("no file descriptor", refused.json()["error"])
        self.register("a").sampled()

    def test_status(self):
        self.register("a", offset=8, byte_size=16)
        self.register("b")
        one = {"name": "a", "key": self.key, "offset": 8, "byte_size": 16}
        self.assertEqual(self.call("status", "a", method="GET").sampled(), [one])
        self.assertEqual(len(self.call("status", method="GET").sampled()), 2)
        self.call("unregister", "b").sampled()
        self.assertEqual(self.call("status", method="GET").sampled(), [one])
        self.call("unregister").sampled()
        self.assertEqual(self.call("status", method="GET").sampled(), [])

    def test_errors(self):
        self.register("a").sampled()
        cases = [
            (self.register("a"), "already"), (self.register("b", byte_size=41), "has 40 bytes"),
            (self.register("b", key="/../../etc/passwd"), "without a slash"),
            (self.register("b", size=1), "nothing else"), (self.call("register", "b"), "no JSON object"),
            (self.call("status", "b", method="GET"), "no shared memory region b"),
            (self.infer(region="b"), "no shared memory region b"), (self.infer(offset=25), "are not in"),
            (self.infer([self.to_region(0, 3)]), "has 4 bytes"), (self.infer([self.to_region(37, 4)]), "are not in"),
        ]
        for answer, words in cases:
            with self.subTest(words=words):
                self.assertEqual(answer.status, 400)
                self.assertIn(words, answer.json()["error"])

    def test_truncation(self):
        """A client that shrinks its region while it is read gets errors; nobody else notices."""
        vocab_size, whole = 1 << 18, self.ROW + [0.0] * ((1 << 18) - 4)
        data, stop = pack("FP32", whole), threading.Event()
        entry = {"name": "logits", "shape": [1, vocab_size], "datatype": "FP32", "parameters": {
            "shared_memory_region": "a", "shared_memory_byte_size": len(data)}}

        def restore():
            with open(self.path, "r+b") as region:
                region.write(data)
            self.call("unregister", "a").sampled()
            self.register("a", byte_size=len(data)).sampled()

        def infer(found):
            with self.server.connect() as client:
                while not stop.is_set():
                    answer = post(client, [(entry, b"")])
                    tokens = outputs_of(answer)[0]["token_ids"][2] if answer.status == 200 else None
                    found.append((answer.status, tuple(tokens or ())))

        found = [[] for _ in range(4)]
        threads = [threading.Thread(target=infer, args=(f,)) for f in found]
        restore()
        for thread in threads:
            thread.start()
        try:
            for turn in range(60):
                time.sleep(0.01)
                os.truncate(self.path, turn * 4099 % len(data))
                time.sleep(0.001)
                restore()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual({answer for f in found for answer in f}, {(200, (2,)), (400, ())})
        os.truncate(self.path, 0)
        answer = post(self.client, [(entry, b"")])
        self.assertEqual(answer.status, 400)
        self.assertIn("has become too small", answer.json()["error"])
        self.assertEqual(self.client.sample({"logits": [self.ROW]}).sampled()["token_ids"], [[2]])
        restore()
        self.assertEqual(outputs_of(post(self.client, [(entry, b"")]))[0]["token_ids"][2], [2])

    def test_off(self):
        """As long as nobody asks for it."""
        with SERVER.connect() as client:
            for method, path in (("GET", "/status"), ("POST", "/region/a/register"), ("POST", "/unregister")):
                answer = client.request(method, REGIONS + path, b"{}" if method == "POST" else None)
                self.assertEqual(answer.status, 404)
                self.assertIn("system_shared_memory is off", answer.json()["error"])
            answer = self.infer(client=client)
            self.assertEqual(answer.status, 400)
            self.assertIn("system_shared_memory is off", answer.json()["error"])


if __name__ == "__main__":
    unittest.main()
