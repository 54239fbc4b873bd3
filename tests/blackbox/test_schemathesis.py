"""The OpenAPI document against the server, by requests that schemathesis makes of it; where that is installed."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import server as samplerd

# A header that no document names is no error in HTTP.
SETTINGS = "[generation]\nallow-extra-parameters = false\n"
# A schema cannot say that lists are equally long, or that bytes are as many as a query says.
LEFT_OUT = "positive_data_acceptance"
SECONDS = 600


class Schemathesis(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("schemathesis") is None, "schemathesis is not installed")
    def test_every_operation(self):
        with samplerd.Server("--system-shared-memory", "on") as server, tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "schemathesis.toml").write_text(SETTINGS)
            done = subprocess.run(
                [sys.executable, "-m", "schemathesis.cli", "run", f"http://{server.host}:{server.port}/openapi.json",
                 "--exclude-checks", LEFT_OUT, "--max-examples", "25", "--seed", "1"],
                capture_output=True, text=True, check=False, cwd=folder, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout[-5000:] + done.stderr[-1000:])
        self.assertRegex(done.stdout, r"\d+ generated, \d+ passed")


if __name__ == "__main__":
    unittest.main()
