"""A client that openapi-python-client makes of the OpenAPI document, against the server; where that is installed."""

import importlib
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

import server as samplerd

DOCUMENT = samplerd.ROOT / "proto" / "openapi" / "openapi.json"
GENERATOR = "openapi_python_client"
PACKAGE = "generated_samplerd"
ROWS = [[10.0, 8.0, 6.0, 3.0], [0.5, 0.25, 1.0, -2.0]]
SECONDS = 120


def generate(folder):
    """Write the package into a folder.  It warns of media types that it does not know: npy and safetensors."""
    done = subprocess.run([sys.executable, "-m", GENERATOR, "generate", "--path", str(DOCUMENT), "--meta", "none",
                           "--output-path", str(pathlib.Path(folder, PACKAGE))],
                          capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def part(name):
    """A module of the package."""
    return importlib.import_module(f"{PACKAGE}.{name}")


@unittest.skipIf(importlib.util.find_spec(GENERATOR) is None, f"{GENERATOR} is not installed")
class GeneratedClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        generate(folder.name)
        sys.path.insert(0, folder.name)
        cls.addClassCleanup(sys.path.remove, folder.name)
        cls.server = samplerd.Server()
        cls.addClassCleanup(cls.server.__exit__)
        cls.client = part("client").Client(base_url=f"http://{cls.server.host}:{cls.server.port}")
        cls.addClassCleanup(cls.client.__exit__)
        cls.client.__enter__()

    def sample(self, **arguments):
        return part("api.default.sample").sync_detailed(client=self.client, **arguments)

    def request(self, fields):
        return part("models.sample_request").SampleRequest.from_dict(fields)

    def test_bytes(self):
        """A binary body is sent as it is, and the query with it."""
        body = part("types").File(payload=io.BytesIO(samplerd.pack_rows(ROWS)))
        answer = self.sample(body=body, vocab_size=4, temperature=[0.5], seed=[7], n=3, logprobs=True)
        self.assertEqual(answer.status_code, 200, answer.content)
        expected = self.server.sample({"logits": ROWS, "temperature": 0.5, "seed": 7, "n": 3, "logprobs": True})
        self.assertEqual(answer.content, expected.body)
        self.assertEqual(answer.parsed.token_ids, expected.sampled()["token_ids"])

    def test_json(self):
        fields = {"logits": ROWS, "temperature": [0.5, 1], "seed": 7, "n": 2, "id": "a"}
        answer = self.sample(body=self.request(fields))
        self.assertEqual(answer.content, self.server.sample(fields).body)
        self.assertEqual(answer.parsed.token_ids, answer.parsed.to_dict()["token_ids"])

    def test_null(self):
        """None is a value of every optional field, which the server reads as no value."""
        absent = ("temperature", "top_k", "top_p", "offset", "n", "top_candidates", "logprobs", "logprobs_mode", "mix",
                  "bias", "candidate_ids", "id")
        request = self.request({"logits": ROWS, "seed": 7, **dict.fromkeys(absent)})
        self.assertEqual(request.to_dict()["n"], None)
        answer = self.sample(body=request)
        self.assertEqual((answer.status_code, answer.content),
                         (200, self.server.sample({"logits": ROWS, "seed": 7}).body))

    def test_a_refusal(self):
        answer = self.sample(body=self.request({"logits": ROWS, "top_p": 1.7}))
        self.assertEqual(answer.status_code, 400)
        self.assertEqual(answer.parsed.error.param, "top_p")


if __name__ == "__main__":
    unittest.main()
