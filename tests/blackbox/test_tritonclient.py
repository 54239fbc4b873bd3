"""Triton's own clients, sync and aio, as they are; where they and numpy are installed."""

import asyncio
import os
import unittest

import server as samplerd

try:
    import numpy as np
    import tritonclient.http as triton
    import tritonclient.http.aio as triton_aio
    from tritonclient.utils import shared_memory
except ImportError:
    raise unittest.SkipTest("tritonclient[http] or numpy is not installed") from None

MODEL = "sampler"
SEEDS = [1, 2, 2**64 - 1]
RULES = {"temperature": 1.25, "top_k": 50, "top_p": 0.9375}
BINARY = (True, False)


def setUpModule():
    global SERVER, ROWS, EXPECTED
    SERVER = samplerd.Server("--system-shared-memory", "on")
    unittest.addModuleCleanup(SERVER.__exit__)
    ROWS = np.random.RandomState(1).randn(3, 1000).astype(np.float32)
    fields = {"seed": list(map(str, SEEDS)), "n": 4, **RULES}
    EXPECTED = SERVER.sample_raw(ROWS.tolist(), **fields).sampled()["token_ids"]


def address():
    return f"{SERVER.host}:{SERVER.port}"


def tensor(name, datatype, values, binary):
    entry = triton.InferInput(name, values.shape, datatype)
    entry.set_data_from_numpy(values, binary_data=binary)
    return entry


def parameters(binary):
    return [tensor("seed", "UINT64", np.array(SEEDS, dtype=np.uint64), binary),
            tensor("n", "INT32", np.array([4], dtype=np.int32), binary)]


def inputs(binary):
    return [tensor("logits", "FP32", ROWS, binary), *parameters(binary)]


def token_ids(answer):
    return answer.as_numpy("token_ids").tolist()


class Sync(unittest.TestCase):
    def setUp(self):
        self.client = triton.InferenceServerClient(address())
        self.addCleanup(self.client.close)

    def test_metadata(self):
        self.assertTrue(self.client.is_server_live() and self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready(MODEL) and self.client.is_model_ready(MODEL, "1"))
        self.assertEqual(self.client.get_server_metadata()["name"], "samplerd")
        self.assertEqual(self.client.get_model_metadata(MODEL)["inputs"][0]["name"], "logits")
        self.assertEqual(self.client.get_model_config(MODEL)["name"], MODEL)

    def test_infer(self):
        for binary in BINARY:
            with self.subTest(binary=binary):
                answer = self.client.infer(MODEL, inputs(binary), parameters=RULES, request_id="a b")
                self.assertEqual(token_ids(answer), EXPECTED)
                self.assertEqual(answer.get_response()["id"], "a b")

    def test_outputs(self):
        outputs = [triton.InferRequestedOutput(name, binary_data=binary)
                   for name, binary in (("logprobs", True), ("token_ids", False), ("top_probs", True))]
        asked = [*inputs(True), tensor("top_candidates", "INT64", np.array([5]), True)]
        answer = self.client.infer(MODEL, asked, outputs=outputs, parameters=RULES)
        self.assertEqual(token_ids(answer), EXPECTED)
        self.assertEqual(answer.as_numpy("logprobs").shape, (3, 4))
        self.assertEqual(answer.as_numpy("top_probs").shape, (3, 5))

    def test_async_infer(self):
        asked = [self.client.async_infer(MODEL, inputs(True), parameters=RULES) for _ in range(5)]
        self.assertEqual([token_ids(request.get_result()) for request in asked], [EXPECTED] * 5)

    def test_errors(self):
        with self.assertRaisesRegex(triton.InferenceServerException, "top_p is 1.5"):
            self.client.infer(MODEL, inputs(True), parameters={"top_p": 1.5})


class Aio(unittest.IsolatedAsyncioTestCase):
    async def test_all(self):
        async with triton_aio.InferenceServerClient(address()) as client:
            self.assertTrue(await client.is_server_live() and await client.is_server_ready())
            self.assertEqual((await client.get_model_metadata(MODEL))["name"], MODEL)
            answers = await asyncio.gather(*(client.infer(MODEL, inputs(binary), parameters=RULES)
                                             for binary in BINARY * 5))
            self.assertEqual([token_ids(answer) for answer in answers], [EXPECTED] * 10)


@unittest.skipUnless(os.path.isdir("/dev/shm"), "no /dev/shm")
class SharedMemory(unittest.IsolatedAsyncioTestCase):
    OUTPUT_BYTES = 3 * 4 * 4

    def region(self, name, size):
        key = f"/samplerd-triton-{name}-{os.getpid()}"
        handle = shared_memory.create_shared_memory_region(name, key, size)
        self.addCleanup(shared_memory.destroy_shared_memory_region, handle)
        return handle, key, size

    def setUp(self):
        self.regions = {"input": self.region("input", ROWS.nbytes), "output": self.region("output", self.OUTPUT_BYTES)}
        shared_memory.set_shared_memory_region(self.regions["input"][0], [ROWS])
        self.logits = triton.InferInput("logits", ROWS.shape, "FP32")
        self.logits.set_shared_memory("input", ROWS.nbytes)
        self.output = triton.InferRequestedOutput("token_ids")
        self.output.set_shared_memory("output", self.OUTPUT_BYTES)

    def check(self, answer):
        place = answer.get_output("token_ids")
        self.assertEqual(place["parameters"]["shared_memory_region"], "output")
        got = shared_memory.get_contents_as_numpy(self.regions["output"][0], np.int32, place["shape"])
        self.assertEqual(got.tolist(), EXPECTED)

    def test_sync(self):
        with triton.InferenceServerClient(address()) as client:
            for name, (_, key, size) in self.regions.items():
                client.register_system_shared_memory(name, key, size)
            self.assertEqual({r["name"] for r in client.get_system_shared_memory_status()}, set(self.regions))
            self.check(client.infer(MODEL, [self.logits, *parameters(True)], outputs=[self.output], parameters=RULES))
            client.unregister_system_shared_memory("input")
            with self.assertRaisesRegex(triton.InferenceServerException, "no shared memory region input"):
                client.infer(MODEL, [self.logits, *parameters(True)], parameters=RULES)
            client.unregister_system_shared_memory()
            self.assertEqual(client.get_system_shared_memory_status(), [])

    async def test_aio(self):
        async with triton_aio.InferenceServerClient(address()) as client:
            for name, (_, key, size) in self.regions.items():
                await client.register_system_shared_memory(name, key, size)
            self.check(await client.infer(MODEL, [self.logits, *parameters(True)], outputs=[self.output],
                                          parameters=RULES))
            await client.unregister_system_shared_memory()
            self.assertEqual(await client.get_system_shared_memory_status(), [])


if __name__ == "__main__":
    unittest.main()
