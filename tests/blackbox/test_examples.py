"""What the documents show is what happens: curl and Python blocks, and the programs in docs/examples/."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import server as samplerd

DOCUMENTS = sorted({samplerd.ROOT / "README.md", samplerd.ROOT / "clients" / "python" / "README.md",
                    *(samplerd.ROOT / "docs").glob("**/*.md")})
EXAMPLES = samplerd.ROOT / "docs" / "examples"
ADDRESS = re.compile(r"\b(127\.0\.0\.1|localhost):8090\b")
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```\n(?:\s*```(?:json|text)\n(.*?)^ *```)?", re.M | re.S)
COMPILE_SECONDS = 300


def setUpModule():
    global SERVER
    SERVER = samplerd.Server()
    unittest.addModuleCleanup(SERVER.__exit__)


def blocks(document, language):
    """(code, what is shown right behind it or "") of each block in this language."""
    for _, name, code, shown in BLOCK.findall(document.read_text()):
        if name == language:
            yield textwrap.dedent(code), textwrap.dedent(shown)


def split_answer(code, shown):
    """An answer may be in the block itself, as lines that begin with a brace."""
    lines = code.splitlines(keepends=True)
    inside = next((i for i, line in enumerate(lines) if line.startswith("{")), len(lines))
    return "".join(lines[:inside]), "".join(lines[inside:]) or shown


def at(text, server):
    """The text with the address of this server."""
    return ADDRESS.sub(rf"\1:{server.port}", text)


def shell(command, folder):
    return subprocess.run(["sh", "-ec", command], capture_output=True, text=True, check=False, cwd=folder,
                          timeout=samplerd.ANSWER_SECONDS)


class CurlBlocks(unittest.TestCase):
    """Each `sh` block with curl.  A block before it that starts samplerd says which server it talks to."""

    def test_each(self):
        number = 0
        for document in DOCUMENTS:
            start = ""
            for block, shown in blocks(document, "sh"):
                if re.search(r"^samplerd ", block, re.M):
                    start = block
                elif "curl" in block and ADDRESS.search(block):
                    number += 1
                    with self.subTest(document=document.name, block=block):
                        self.run_block(*split_answer(block, shown), start)
                    start = ""
        self.assertGreater(number, 0)

    def run_block(self, command, shown, start):
        if not start:
            self.ask(command, shown, SERVER, samplerd.ROOT)
            return
        flags = shlex.split(re.search(r"^samplerd (.*)$", start, re.M)[1])
        if "--listen" in flags:
            at_flag = flags.index("--listen")
            del flags[at_flag:at_flag + 2]
        with tempfile.TemporaryDirectory() as folder:
            done = shell(re.sub(r"^samplerd .*$", "", start, flags=re.M), folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            paths = [os.path.join(folder, flag) if os.path.exists(os.path.join(folder, flag)) else flag
                     for flag in flags]
            with samplerd.Server(*paths) as server:
                self.ask(command, shown, server, folder)

    def ask(self, command, shown, server, folder):
        if not shown:  # then any success will do
            command = 'curl() { command curl -f "$@"; }\n' + command
        done = shell(at(command, server), folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        if shown:
            self.assertEqual(json.loads(done.stdout), json.loads(shown), done.stderr)


def is_installed(name):
    return name == "samplerd" or importlib.util.find_spec(name) is not None


def run_python(block):
    return subprocess.run([sys.executable, "-c", at(block, SERVER)], capture_output=True, text=True, check=False,
                          timeout=samplerd.ANSWER_SECONDS,
                          env=samplerd.environment(PYTHONPATH=str(samplerd.ROOT / "clients" / "python")))


class PythonBlocks(unittest.TestCase):
    """Each `python` block of which all that it imports is installed; those that need no more than the client are."""

    def test_each(self):
        number = 0
        for document in DOCUMENTS:
            for block, shown in blocks(document, "python"):
                if not all(map(is_installed, re.findall(r"^(?:from|import) (\w+)", block, re.M))):
                    continue
                number += 1
                with self.subTest(document=document.name, block=block):
                    done = run_python(block)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    if shown:
                        self.assertEqual(done.stdout, shown)
        self.assertGreater(number, 0)

    @unittest.skipUnless(is_installed("safetensors") and is_installed("numpy"), "safetensors or numpy is not installed")
    def test_the_order_in_memory_is_no_matter(self):
        block, shown = next((block, shown) for block, shown in blocks(samplerd.ROOT / "README.md", "python")
                            if "safetensors" in block)
        other = block.replace("dtype=np.float32)", 'dtype=np.float32, order="F")')
        self.assertNotEqual(other, block)
        self.assertEqual(run_python(other).stdout, shown)


class Serialisers(unittest.TestCase):
    """What writes NaN and the infinities as null, as README says."""

    def check(self, written):
        self.assertEqual(json.loads(written), [[None, 1, None]])
        answer = SERVER.sample({"logits": json.loads(written)}).sampled()
        self.assertEqual(answer["token_ids"], [[1]])

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_javascript(self):
        self.check(subprocess.run(["node", "-p", "JSON.stringify([[NaN, 1, Infinity]])"], capture_output=True,
                                  timeout=samplerd.ANSWER_SECONDS, check=True).stdout)

    @unittest.skipUnless(is_installed("orjson"), "orjson is not installed")
    def test_orjson(self):
        import orjson
        self.check(orjson.dumps([[float("nan"), 1, float("inf")]]))


class Programs(unittest.TestCase):
    """Every program draws the same tokens, and says why when it gets none."""

    ROWS = [[token * step % 11 * 0.5 for token in range(8)] for step in (7, 5)]
    RULES = {"temperature": [0.7, 1.0], "top_k": 40, "top_p": 0.95, "seed": [11, 12], "offset": 3, "n": 4}

    def check(self, *command):
        def run(address):
            return subprocess.run([*command, address], capture_output=True, text=True, check=False,
                                  timeout=COMPILE_SECONDS, env=samplerd.environment(GOTOOLCHAIN="local"))

        expected = SERVER.sample_raw(self.ROWS, **self.RULES).sampled()["token_ids"]
        done = run(f"http://127.0.0.1:{SERVER.port}")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([[int(word) for word in line.split(" ")] for line in done.stdout.splitlines()], expected)

        with samplerd.Server("--max-body-bytes", "63") as small:
            done = run(f"http://127.0.0.1:{small.port}")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertIn("413: ", done.stderr)
        self.assertIn("max_body_bytes is 63", done.stderr)

    def need(self, program):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")

    def test_python(self):
        self.check(sys.executable, str(EXAMPLES / "sample.py"))

    def test_javascript(self):
        self.need("node")
        has_fetch = subprocess.run(["node", "-e", "fetch"], capture_output=True, check=False)
        if has_fetch.returncode != 0:
            self.skipTest("this node has no fetch; 18 and later have")
        self.check("node", str(EXAMPLES / "sample.mjs"))

    def test_go(self):
        self.need("go")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "sample")
            self.compile("go", "build", "-o", program, str(EXAMPLES / "sample.go"))
            self.check(program)

    def test_c(self):
        self.need("cc")
        header = subprocess.run(["cc", "-E", "-include", "curl/curl.h", "-x", "c", os.devnull],
                                capture_output=True, check=False)
        if header.returncode != 0:
            self.skipTest("libcurl's headers are not installed (libcurl4-openssl-dev)")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "sample")
            self.compile("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, str(EXAMPLES / "sample.c"),
                         "-lcurl")
            self.check(program)

    def compile(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS,
                              cwd=EXAMPLES, env=samplerd.environment(CGO_ENABLED="0", GOTOOLCHAIN="local",
                                                                     GOFLAGS="", GO111MODULE="off"))
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
