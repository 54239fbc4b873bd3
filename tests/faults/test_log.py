"""A log that nobody can write."""

import http.client
import json
import os
import subprocess
import unittest

from support import GOOD, await_true, free_port, samplerd


class UnwritableLog(unittest.TestCase):
    """Neither a full disk nor a closed descriptor where the log goes stops the service."""

    def serve(self, redirection):
        address = f"127.0.0.1:{free_port()}"
        command = f'exec "$0" --listen {address} --log-level debug {redirection}'
        process = subprocess.Popen(["sh", "-c", command, samplerd.BINARY], stdout=subprocess.DEVNULL,
                                   env=samplerd.environment())
        try:
            check = ("--healthcheck", "--listen", address)
            self.assertTrue(await_true(lambda: samplerd.run(*check).returncode == 0), "it did not start")
            client = http.client.HTTPConnection(address, timeout=samplerd.ANSWER_SECONDS)
            for _ in range(1000):
                client.request("POST", "/sample", json.dumps(GOOD), {"Content-Type": samplerd.JSON})
                answer = client.getresponse()
                self.assertEqual((answer.status, json.loads(answer.read())["token_ids"]), (200, [[0]]))
            client.close()
            self.assertIsNone(process.poll())
            process.terminate()
            self.assertEqual(process.wait(samplerd.START_SECONDS), 0)
        finally:
            process.kill()
            process.wait()

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_a_full_disk(self):
        self.serve("2>/dev/full")
        self.serve(">/dev/full 2>&1")

    def test_closed_descriptors(self):
        self.serve("2>&-")
        self.serve("<&- >&- 2>&-")


if __name__ == "__main__":
    unittest.main()
