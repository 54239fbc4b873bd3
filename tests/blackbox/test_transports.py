"""One table: the same rows give the same tokens by every form of every protocol, over TCP and a unix socket."""

import json
import os
import random
import struct
import tempfile
import unittest

import kserve
import server as samplerd
from forms import FORMS, pack, shape_of

KSERVE_DTYPES = {dtype: datatype for datatype, dtype in kserve.DTYPES.items()}


# ---- forms of KServe: fields as tensors where they can be, logits as the form has them ----

def field_tensor(name, value, binary):
    """One of the parameters, each a tensor of its own."""
    values = value if isinstance(value, list) else [value]
    if name in ("seed", "offset"):
        return kserve.tensor(name, "UINT64", [len(values)], [int(v) for v in values], binary)
    return kserve.tensor(name, "FP64", [len(values), 1], values, binary)


def field_tensors(fields, binary):
    return [field_tensor(name, value, binary) for name, value in fields.items()]


def kserve_json(rows, fields, region):
    return [kserve.rows_tensor(rows, binary=False)] + field_tensors(fields, False)


def logits_entry(rows, dtype, parameters):
    return {"name": "logits", "datatype": KSERVE_DTYPES[dtype], "shape": shape_of(rows), "parameters": parameters}


def kserve_binary(dtype):
    def form(rows, fields, region):
        data = pack(rows, dtype)
        return field_tensors(fields, True) + [(logits_entry(rows, dtype, {"binary_data_size": len(data)}), data)]
    return form


def kserve_shared(dtype, offset):
    """Logits in shared memory, at an offset where they may lie unaligned."""
    def form(rows, fields, region):
        data = pack(rows, dtype)
        region.write(offset, data)
        place = {"shared_memory_region": region.name, "shared_memory_offset": offset,
                 "shared_memory_byte_size": len(data)}
        return field_tensors(fields, False) + [(logits_entry(rows, dtype, place), b"")]
    return form


KSERVE_FORMS = {"KServe JSON": kserve_json}
for name in KSERVE_DTYPES:
    KSERVE_FORMS[f"KServe binary {name}"] = kserve_binary(name)
    for at in (0, 4096, 8195):
        KSERVE_FORMS[f"shared memory {name} at {at}"] = kserve_shared(name, at)


class Region:
    """An object of /dev/shm."""
    SIZE = 1 << 20

    def __init__(self):
        self.name = f"samplerd-transports-{os.getpid()}"
        self.path = "/dev/shm/" + self.name
        with open(self.path, "wb") as file:
            file.truncate(self.SIZE)

    def write(self, offset, data):
        with open(self.path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def register(self, client):
        body = json.dumps({"key": "/" + self.name, "offset": 0, "byte_size": self.SIZE})
        client.request("POST", f"/v2/systemsharedmemory/region/{self.name}/register", body.encode()).sampled()


# ---- the table ----

# Numbers that all three dtypes hold.
RANDOM = random.Random(5)
SMALL = [[None if RANDOM.random() < 0.1 else RANDOM.randrange(-40, 41) / 8 for _ in range(37)] for _ in range(3)]
LARGE = [[RANDOM.randrange(-90, 91) / 16 for _ in range(9001)] for _ in range(2)]

REQUESTS = [
    (SMALL, {"seed": 1}),
    (SMALL[:1], {"seed": 7, "temperature": 0.75, "n": 16}),
    (SMALL, {"seed": ["18446744073709551615", 0, "9007199254740993"], "temperature": [0.5, 1, 2], "n": 8}),
    (SMALL, {"seed": 3, "temperature": 1, "top_k": [5, 0, -1], "top_p": [1, 0.5, 0.9], "offset": [0, 1, 2], "n": 4}),
    (LARGE, {"seed": [3, 4], "temperature": [0.8, 1.25], "top_k": 900, "top_p": [0.95, 0.5], "n": 64}),
    (LARGE, {"seed": "12345678901234567890", "temperature": 0.625, "top_p": 0.9375, "n": 64}),
]


@unittest.skipUnless(os.path.isdir("/dev/shm"), "no /dev/shm")
class SameTokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.region = Region()
        cls.addClassCleanup(os.unlink, cls.region.path)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.clients = {}
        for name, listen in (("TCP", "127.0.0.1:0"), ("unix", f"unix:{folder.name}/samplerd.sock")):
            server = samplerd.Server("--system-shared-memory", "on", listen=listen)
            cls.addClassCleanup(server.__exit__)
            cls.clients[name] = server.connect()
            cls.addClassCleanup(cls.clients[name].__exit__)
            cls.region.register(cls.clients[name])

    def forms(self):
        """(name of the form, function of client, rows and fields that gives token ids, row after row)."""
        def sample(form):
            def ask(client, rows, fields):
                query, body, media = form(rows, fields)
                target = "/sample" + ("?" + samplerd.query_text(query) if query else "")
                return kserve.flat(client.request("POST", target, body, media).sampled()["token_ids"])
            return ask

        def infer(form, binary_output):
            def ask(client, rows, fields):
                inputs = form(rows, fields, self.region)
                answer = kserve.post(client, inputs, parameters={"binary_data_output": binary_output})
                return kserve.outputs_of(answer)[0]["token_ids"][2]
            return ask

        def ids(client, rows, fields):
            query, body, media = FORMS["by_raw f32"](rows, fields)
            answer = client.request("POST", "/sample?" + samplerd.query_text(query), body, media, Accept=samplerd.RAW)
            return list(struct.unpack(f"<{len(answer.body) // 4}i", answer.body))

        yield "ids as bytes", ids
        for name, form in FORMS.items():
            yield name, sample(form)
        for name, form in KSERVE_FORMS.items():
            yield name, infer(form, False)
            yield name + ", binary answer", infer(form, True)

    def test_every_form_over_every_transport(self):
        for rows, fields in REQUESTS:
            expected = kserve.flat(self.clients["TCP"].sample({"logits": rows, **fields}).sampled()["token_ids"])
            self.assertEqual(len(expected), len(rows) * fields.get("n", 1))
            for form, ask in self.forms():
                for transport, client in self.clients.items():
                    with self.subTest(form=form, transport=transport, fields=fields):
                        self.assertEqual(ask(client, rows, fields), expected)


if __name__ == "__main__":
    unittest.main()
