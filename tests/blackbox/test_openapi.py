"""What the OpenAPI document says, the server does: each path, method, form of request and refusal in it."""

import gzip
import json
import os
import re
import struct
import tempfile
import unittest

import server as samplerd
from kserve import MODEL, outputs_of, post, unpack
from test_wire import NPY, SAFETENSORS, npy, safetensors

DOCUMENT = json.loads((samplerd.ROOT / "proto" / "openapi" / "openapi.json").read_text())
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
HEALTH = ("/livez", "/readyz", "/healthz", "/v2/health/live", "/v2/health/ready")
ROWS = [[10.0, 8.0, 6.0, 3.0], [0.5, 0.25, 1.0, -2.0]]
FLOATS = samplerd.pack_rows(ROWS)
REGIONS = "/v2/systemsharedmemory"
REGION = REGIONS + "/region/{name}"
KEY = f"/samplerd-openapi-{os.getpid()}"
OBJECT = FLOATS + bytes(8)  # in shared memory: logits, and room for their tokens


def setUpModule():
    global SERVER
    SERVER = samplerd.Server("--system-shared-memory", "on")
    unittest.addModuleCleanup(SERVER.__exit__)
    with open("/dev/shm" + KEY, "wb") as file:
        file.write(OBJECT)
    unittest.addModuleCleanup(os.unlink, "/dev/shm" + KEY)
    with SERVER.connect() as client:
        client.request("POST", target(REGION + "/register"), region_body()).sampled()


# ---- the document ----

def resolved(node):
    """What a $ref points at."""
    while "$ref" in node:
        target = DOCUMENT
        for key in node["$ref"].removeprefix("#/").split("/"):
            target = target[key.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def operations():
    """(path, method, operation) of each."""
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def with_refusal(code):
    """(path, operation) of what is posted and can be refused so."""
    return [(path, operation) for path, method, operation in operations()
            if method == "post" and code in operation["responses"]]


def target(path):
    """The path with a name where it takes one: that of the region that SERVER has."""
    return path.replace("{name}", "a")


def region_body(**members):
    """What registers the whole object, or another part."""
    return json.dumps({"key": KEY, "byte_size": len(OBJECT), **members}).encode()


def sample_operation():
    return DOCUMENT["paths"]["/sample"]["post"]


def infer_operation():
    return DOCUMENT["paths"][MODEL + "/infer"]["post"]


def fields_of(place):
    return [field for field in map(resolved, sample_operation()["parameters"]) if field["in"] == place]


def request_fields():
    return resolved(sample_operation()["requestBody"]["content"][samplerd.JSON]["schema"])["properties"]


# ---- JSON Schema, as far as the document goes ----

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
NOTES = {"description", "contentEncoding", "format"}


def is_type(value, name):
    if name in ("integer", "number"):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return not isinstance(value, bool) and (whole or (name == "number" and isinstance(value, float)))
    return isinstance(value, TYPES[name])


def as_list(value):
    return value if isinstance(value, list) else [value]


RULES = {
    "type": lambda value, names: any(is_type(value, name) for name in as_list(names)),
    "enum": lambda value, words: value in words,
    "anyOf": lambda value, choices: any(fits(value, choice) for choice in choices),
    "oneOf": lambda value, choices: sum(fits(value, choice) for choice in choices) == 1,
    "minimum": lambda value, least: not is_type(value, "number") or value >= least,
    "exclusiveMinimum": lambda value, least: not is_type(value, "number") or value > least,
    "propertyNames": lambda value, schema: not isinstance(value, dict) or all(fits(name, schema) for name in value),
    "maximum": lambda value, most: not is_type(value, "number") or value <= most,
    "maxLength": lambda value, most: not isinstance(value, str) or len(value) <= most,
    "pattern": lambda value, pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
    "items": lambda value, item: not isinstance(value, list) or all(fits(v, item) for v in value),
    "contains": lambda value, item: not isinstance(value, list) or any(fits(v, item) for v in value),
    "minItems": lambda value, least: not isinstance(value, list) or len(value) >= least,
    "maxItems": lambda value, most: not isinstance(value, list) or len(value) <= most,
    "uniqueItems": lambda value, _: not isinstance(value, list) or len(set(map(str, value))) == len(value),
    "required": lambda value, names: not isinstance(value, dict) or all(name in value for name in names),
    "dependentRequired": lambda value, rules: not isinstance(value, dict) or all(
        other in value for name, others in rules.items() if name in value for other in others),
    "properties": lambda value, fields: not isinstance(value, dict) or all(
        fits(value[name], schema) for name, schema in fields.items() if name in value),
}


def fits(value, schema):
    """Whether a value is what a schema describes."""
    schema = resolved(schema)
    for name, rule in schema.items():
        if name == "additionalProperties":
            others = value.keys() - schema.get("properties", {}).keys() if isinstance(value, dict) else ()
            if not all(rule and fits(value[other], rule) for other in others):
                return False
        elif name not in NOTES and not RULES[name](value, rule):
            return False
    return True


def fits_named(value, name):
    return fits(value, {"$ref": "#/components/schemas/" + name})


def some_value(schema):
    """A small value that a schema allows; token ids are 0."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return some_value(next(choice for choice in schema["anyOf"] if not is_packed(choice)))
    if "enum" in schema:
        return schema["enum"][-1]
    name = as_list(schema["type"])[0]
    if name == "array":
        return [some_value(schema["items"])] * schema.get("minItems", 1)
    is_id = schema.get("maximum") == 2**31 - 1
    return {"integer": schema["minimum"] if is_id else max(1, schema.get("minimum", 1)),
            "number": max(0.5, schema.get("minimum", 0.5)), "boolean": True, "string": "7", "null": None,
            "object": {"0": 0.5}}[name]


def is_packed(schema):
    """Bytes in base64, which an example shows."""
    return "b64" in resolved(schema).get("properties", ())


class Answers(unittest.TestCase):
    def check(self, operation, answer, status=None):
        """An answer's status, content type, headers and body are documented; its status may be told."""
        if status is not None:
            self.assertEqual(answer.status, status, answer.body)
        self.assertIn(str(answer.status), operation["responses"], answer.body)
        response = resolved(operation["responses"][str(answer.status)])
        media = answer.headers["Content-Type"].split(";")[0]
        self.assertIn(media, response["content"])
        schema = response["content"][media]["schema"]
        if media == samplerd.JSON:
            self.assertTrue(fits(answer.json(), schema), answer.body)
        elif media == "text/plain":
            self.assertTrue(fits(answer.body.decode(), schema))
        if answer.status != 200:
            for name, header in response.get("headers", {}).items():
                text = answer.headers[name]
                self.assertIsNotNone(text, name)
                self.assertTrue(fits(int(text) if header["schema"]["type"] == "integer" else text,
                                     header["schema"]), (name, text))

    def sample(self, body, media, query="", server=None, **headers):
        with (server or SERVER).connect() as client:
            return client.request("POST", "/sample" + query, body, media, **headers)


class Document(unittest.TestCase):
    def test_bodies_that_are_bytes(self):
        """Generators of clients know them by this schema."""
        for path, _, operation in operations():
            bodies = [operation.get("requestBody", {}), *map(resolved, operation["responses"].values())]
            for media, form in ((m, f) for body in bodies for m, f in body.get("content", {}).items()):
                if media not in (samplerd.JSON, "text/plain"):
                    with self.subTest(path=path, media=media):
                        schema = resolved(form["schema"])
                        self.assertEqual((schema["type"], schema["format"]), ("string", "binary"))

    def test_null_is_a_value_of_optional_fields(self):
        required = resolved(sample_operation()["requestBody"]["content"][samplerd.JSON]["schema"])["required"]
        for name, schema in request_fields().items():
            with self.subTest(name=name):
                self.assertEqual(fits(None, schema), name not in required)

    def test_it_is_what_is_served(self):
        with SERVER.connect() as client:
            self.assertEqual(client.request("GET", "/openapi.json").sampled(), DOCUMENT)

    def test_its_version(self):
        self.assertEqual(DOCUMENT["openapi"], "3.1.0")
        self.assertEqual(DOCUMENT["info"]["version"], (samplerd.ROOT / "VERSION").read_text().strip())

    def test_names_are_unique(self):
        names = [operation["operationId"] for _, _, operation in operations()]
        self.assertEqual(len(set(names)), len(names))

    def test_references_lead_somewhere(self):
        def walk(node):
            if isinstance(node, dict):
                if "$ref" in node:
                    self.assertIsInstance(resolved(node), dict)
                for value in node.values():
                    walk(value)
            elif isinstance(node, list):
                for value in node:
                    walk(value)
        walk(DOCUMENT)

    def test_names_in_paths(self):
        """Each is told of, and no other."""
        for path, _, operation in operations():
            fields = [field for field in map(resolved, operation.get("parameters", [])) if field["in"] == "path"]
            self.assertEqual([field["name"] for field in fields], re.findall(r"{(\w+)}", path))
            for field in fields:
                self.assertIs(field["required"], True)
                self.assertTrue(fits(target("{name}"), field["schema"]))

    def test_schemes_are_defined(self):
        schemes = DOCUMENT["components"]["securitySchemes"]
        for choice in DOCUMENT["security"]:
            for name in choice:
                self.assertIn(name, schemes)


class Operations(Answers):
    def test_every_page(self):
        for path, method, operation in operations():
            if method == "get":
                with self.subTest(path=path), SERVER.connect() as client:
                    self.check(operation, client.request("GET", target(path)), 200)

    def test_every_example(self):
        for path, method, operation in operations():
            for media, form in operation.get("requestBody", {}).get("content", {}).items():
                examples = {name: example["value"] for name, example in form.get("examples", {}).items()}
                if "example" in form:
                    examples["example"] = form["example"]
                for name, value in examples.items():
                    with self.subTest(path=path, example=name), SERVER.connect() as client:
                        self.assertTrue(fits(value, form["schema"]))
                        body = json.dumps(value).encode()
                        self.check(operation, client.request(method.upper(), path, body, media), 200)

    def test_other_methods(self):
        for path, item in DOCUMENT["paths"].items():
            for method in METHODS:
                if method in item or method == "head":
                    continue
                with self.subTest(path=path, method=method), SERVER.connect() as client:
                    answer = client.request(method.upper(), target(path))
                    self.assertEqual(answer.status, 405)
                    allowed = re.split(r",\s*", answer.headers["Allow"])
                    self.assertLessEqual({name.upper() for name in METHODS if name in item}, set(allowed))

    def test_a_token(self):
        """Pages are open or not as the document says."""
        with open_with_token() as server:
            for path, method, operation in operations():
                with self.subTest(path=path), server.connect() as client:
                    is_open = operation.get("security", DOCUMENT["security"]) == []
                    self.assertEqual(is_open, path in HEALTH)
                    self.check(operation, client.request(method.upper(), target(path)), 200 if is_open else 401)


def open_with_token():
    """A server that asks for a token."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("sesame-and-more-than-that\n")
        file.flush()
        return samplerd.Server("--token-file", file.name)


class Sample(Answers):
    def test_every_form_of_body(self):
        """Each media type of the document, with the same rows, gives the same answer."""
        bodies = {
            samplerd.JSON: (json.dumps({"logits": ROWS, "temperature": 1, "seed": 7}).encode(), ""),
            samplerd.RAW: (FLOATS, "?vocab_size=4&temperature=1&seed=7"),
            NPY: (npy(FLOATS, [2, 4], "f32"), "?temperature=1&seed=7"),
            SAFETENSORS: (safetensors({"logits": ("F32", [2, 4], FLOATS)}, {"temperature": "1", "seed": "7"}), ""),
        }
        self.assertEqual(sample_operation()["requestBody"]["content"].keys(), bodies.keys())
        answers = set()
        for media, (body, query) in bodies.items():
            with self.subTest(media=media):
                answer = self.sample(body, media, query)
                self.check(sample_operation(), answer, 200)
                answers.add(answer.body)
        self.assertEqual(len(answers), 1)

    def test_every_form_of_answer(self):
        for media in resolved(sample_operation()["responses"]["200"])["content"]:
            with self.subTest(media=media):
                answer = self.sample(json.dumps({"logits": ROWS, "seed": 7}).encode(), samplerd.JSON, Accept=media)
                self.check(sample_operation(), answer, 200)
                self.assertEqual(answer.headers["Content-Type"], media)
                if media == samplerd.RAW:
                    self.assertEqual(struct.unpack("<2i", answer.body), (0, 2))
                    self.assertEqual(answer.headers["X-Samplerd-Seed"], "7")

    def test_every_field_of_json(self):
        for name, schema in request_fields().items():
            for choice in resolved(schema).get("anyOf", [schema]):
                if is_packed(choice):
                    continue
                row = [0.5] if name in ("bias", "candidate_ids") else [0.5, 0.25]
                request = {"logits": row, "history": [0], name: some_value(choice)}
                if request["logits"] == [[[0.5]]]:
                    request["mix"] = [1]
                with self.subTest(name=name, request=request):
                    self.assertTrue(fits(request[name], schema))
                    self.check(sample_operation(), self.sample(json.dumps(request).encode(), samplerd.JSON), 200)

    def test_every_field_of_a_query(self):
        for field in fields_of("query"):
            with self.subTest(name=field["name"]):
                value = some_value(field["schema"])
                query = {"vocab_size": 2, "history": 0, field["name"]: value}
                width = {"f16": 2, "bf16": 2, "f64": 8}.get(query.get("dtype"), 4)
                answer = self.sample(bytes(query["vocab_size"] * width), samplerd.RAW,
                                     "?" + samplerd.query_text(query))
                self.check(sample_operation(), answer, 200)

    def test_every_header(self):
        for field in fields_of("header"):
            with self.subTest(name=field["name"]):
                answer = self.sample(FLOATS, samplerd.RAW, "?vocab_size=4", **{field["name"]: "60000"})
                self.check(sample_operation(), answer, 200)

    def test_what_no_schema_allows_is_refused(self):
        for name, value in (("n", 0), ("n", 1025), ("top_p", 1.5), ("top_p", -0.5), ("seed", -1), ("seed", "x"),
                            ("mix", []), ("mix", [3.5e38]), ("id", 7), ("id", "a\0"), ("logprobs", 1),
                            ("logprobs_mode", "no"), ("candidate_ids", [-1]), ("candidate_ids", [[2**31]]),
                            ("bias", "no"), ("logits", [[[[1]]]]), ("logits", []), ("logits", [None]),
                            ("logits", {"b64": "AAAAAA==", "dtype": "f8", "shape": [1]}), ("junk", 1)):
            with self.subTest(name=name, value=value):
                request = {"logits": [0.5], name: value}
                self.assertFalse(fits_named(request, "SampleRequest"))
                self.check(sample_operation(), self.sample(json.dumps(request).encode(), samplerd.JSON),
                           422 if value == [None] else 400)


class Infer(Answers):
    LOGITS = {"name": "logits", "datatype": "FP32", "shape": [2, 4]}
    REGION = {"shared_memory_region": "a", "shared_memory_byte_size": len(FLOATS)}
    ROOM = {"shared_memory_region": "a", "shared_memory_offset": len(FLOATS), "shared_memory_byte_size": 8}

    def infer(self, members, wanted, status, allowed, data=b""):
        """Logits with these members for tokens where they are wanted, which the schema allows or not."""
        entry, outputs = {**self.LOGITS, **members}, [{"name": "token_ids", "parameters": wanted}]
        self.assertEqual(fits_named({"inputs": [entry], "outputs": outputs}, "InferRequest"), allowed)
        with SERVER.connect() as client:
            answer = post(client, [(entry, data)], outputs=outputs)
        self.check(infer_operation(), answer, status)
        return answer

    def tokens_of(self, answer):
        """They are in the answer, or in the region, where none are left."""
        found, root = outputs_of(answer)
        self.assertTrue(fits_named(root, "InferAnswer"))
        if root["outputs"][0].get("parameters") != self.ROOM:
            return found["token_ids"][2]
        self.assertNotIn("data", root["outputs"][0])
        with open("/dev/shm" + KEY, "r+b") as file:
            file.seek(len(FLOATS))
            tokens = unpack("INT32", file.read())
            file.seek(len(FLOATS))
            file.write(bytes(8))
        return tokens

    def test_every_place(self):
        """Logits and tokens in the JSON, behind it and in a region."""
        for members, data in (({"data": ROWS}, b""), ({"parameters": {"binary_data_size": len(FLOATS)}}, FLOATS),
                              ({"parameters": self.REGION}, b"")):
            for wanted in ({"binary_data": False}, {"binary_data": True}, self.ROOM):
                with self.subTest(members=members, wanted=wanted):
                    self.assertEqual(self.tokens_of(self.infer(members, wanted, 200, True, data)), [0, 2])

    def check_refused(self, change, allowed):
        """A place that is changed so is none for logits, nor for tokens."""
        with self.subTest(change=change):
            self.infer({"parameters": {**self.REGION, **change}}, {}, 400, allowed)
            self.infer({"data": ROWS}, {**self.ROOM, **change}, 400, allowed)

    def test_what_no_schema_allows_is_refused(self):
        for member, value in (("byte_size", None), ("byte_size", 0), ("byte_size", 8.5), ("offset", -1),
                              ("offset", "0"), ("offset", None), ("region", 7)):
            self.check_refused({"shared_memory_" + member: value}, False)
        self.infer({}, {}, 400, False)
        self.infer({"parameters": {"shared_memory_region": "a"}}, {}, 400, False)
        self.infer({"data": ROWS}, {"shared_memory_region": "a"}, 400, False)

    def test_what_is_in_no_region_is_refused(self):
        self.check_refused({"shared_memory_region": "b"}, True)
        self.check_refused({"shared_memory_offset": len(OBJECT)}, True)


class Regions(Answers):
    """The operations of shared memory, each time with a server that has no region yet."""

    def setUp(self):
        self.server = samplerd.Server("--system-shared-memory", "on")
        self.addCleanup(self.server.__exit__)

    def call(self, path, body=None, status=200, **headers):
        """The operation of a path, whose answer is as documented."""
        [(method, operation)] = DOCUMENT["paths"][path].items()
        with self.server.connect() as client:
            answer = client.request(method.upper(), target(path), body, **headers)
        self.check(operation, answer, status)
        return answer.json()

    def test_each(self):
        listed = [{"name": "a", "key": KEY, "offset": 8, "byte_size": 16}]
        for unregister in (REGION + "/unregister", REGIONS + "/unregister"):
            self.assertEqual(self.call(REGION + "/register", region_body(offset=8, byte_size=16)), {})
            self.assertEqual(self.call(REGION + "/status"), listed)
            self.assertEqual(self.call(REGIONS + "/status"), listed)
            self.assertEqual(self.call(unregister), {})
            self.assertEqual(self.call(unregister), {})
            self.assertEqual(self.call(REGIONS + "/status"), [])

    def test_what_no_schema_allows_is_refused(self):
        bodies = [region_body(**{member: value}) for member, value in (
            ("key", 7), ("key", "/"), ("key", ""), ("key", "a/"), ("key", "/a/b"), ("key", "/a\0"), ("offset", -1),
            ("offset", None), ("byte_size", 0), ("byte_size", "1"), ("name", "a"))]
        for body in (*bodies, b"{}", b"[]", json.dumps({"key": KEY}).encode(), b'{"byte_size":1}'):
            with self.subTest(body=body):
                self.assertFalse(fits_named(json.loads(body), "RegisterRequest"))
                self.call(REGION + "/register", body, 400)

    def test_what_cannot_be_registered_is_refused(self):
        for members in ({"key": KEY + "-no"}, {"key": KEY[1:] + "-no"}, {"offset": 1}, {"byte_size": len(OBJECT) + 1}):
            with self.subTest(members=members):
                self.assertTrue(fits_named(json.loads(region_body(**members)), "RegisterRequest"))
                self.call(REGION + "/register", region_body(**members), 400)
        self.call(REGION + "/status", status=400)
        self.call(REGION + "/register", region_body(), 415, Content_Encoding="gzip")
        self.call(REGION + "/register", region_body())
        self.call(REGION + "/register", region_body(), 400)

    def test_off(self):
        with samplerd.Server() as server, server.connect() as client:
            for path, method, operation in operations():
                if path.startswith(REGIONS):
                    with self.subTest(path=path):
                        self.check(operation, client.request(method.upper(), target(path)), 404)


class Refusals(Answers):
    """Each refusal that can be had at will; 500 and 504 cannot."""

    def test_each(self):
        good = json.dumps({"logits": [1, 2]}).encode()
        for status, body, media, headers in (
                (400, b"{", samplerd.JSON, {}),
                (400, good, samplerd.JSON, {"X-Request-Timeout-Ms": "0"}),
                (406, good, samplerd.JSON, {"Accept": "text/html"}),
                (415, good, "text/plain", {}),
                (415, good, None, {}),
                (415, good, samplerd.JSON, {"Content-Encoding": "gzip"}),
                (422, b'{"logits":[null,null]}', samplerd.JSON, {})):
            with self.subTest(status=status):
                self.check(sample_operation(), self.sample(body, media, **headers), status)

    def test_compressed_logits(self):
        """Whose length could be that of raw logits."""
        data = gzip.compress(FLOATS)
        data += bytes(-len(data) % 4)
        for coding, status in (("gzip", 415), ("identity", 200), ("", 200)):
            answer = self.sample(data if status != 200 else FLOATS, samplerd.RAW, "?vocab_size=1",
                                 **{"Content-Encoding": coding})
            self.check(sample_operation(), answer, status)

    def test_infer(self):
        for status, body, headers in (
                (400, b"{", {}),
                (400, b"{}", {"Inference-Header-Content-Length": "3"}),
                (415, b"{}", {"Content-Encoding": "gzip"})):
            with self.subTest(status=status), SERVER.connect() as client:
                answer = client.request("POST", MODEL + "/infer", body, samplerd.JSON, **headers)
                self.check(infer_operation(), answer, status)

    def test_too_large(self):
        with samplerd.Server("--max-body-bytes", "1000") as server:
            for path, operation in with_refusal("413"):
                with self.subTest(path=path), server.connect() as client:
                    self.check(operation, client.request("POST", target(path), bytes(1001), samplerd.JSON), 413)

    def test_too_slow(self):
        with samplerd.Server("--body-timeout-ms", "100") as server:
            for path, operation in with_refusal("408"):
                with self.subTest(path=path), server.connect() as client:
                    client.http.putrequest("POST", target(path))
                    client.http.putheader("Content-Type", samplerd.JSON)
                    client.http.putheader("Content-Length", "10")
                    client.http.endheaders(b"{")
                    self.check(operation, samplerd.Answer(client.http.getresponse()), 408)

    def test_full(self):
        size = 1 << 20
        with samplerd.Server("--max-body-bytes", str(size), "--max-inflight-bytes", str(size)) as server:
            with server.connect() as first:
                first.http.putrequest("POST", "/sample")
                for name, value in (("Content-Type", samplerd.JSON), ("Content-Length", str(size)),
                                    ("Expect", "100-continue")):
                    first.http.putheader(name, value)
                first.http.endheaders()
                self.assertIn(b"100 Continue", first.http.sock.recv(100))  # all the room is its own
                for path, operation in with_refusal("503"):
                    with self.subTest(path=path), server.connect() as client:
                        answer = client.request("POST", target(path), b"{}", samplerd.JSON)
                        self.check(operation, answer, 503)

    def test_metrics_elsewhere(self):
        with samplerd.Server("--admin-listen", "127.0.0.1:0") as server, server.connect() as client:
            self.check(DOCUMENT["paths"]["/metrics"]["get"], client.request("GET", "/metrics"), 404)


if __name__ == "__main__":
    unittest.main()
