#!/usr/bin/env python3
"""Structured output of the whole daemon: documents of 30 schemas from a model of random weights on each engine, judged by
Debian's python3-jsonschema, and a document whose worker is killed at random tokens.
FLYBALL_KILLS: how many kills (default 4)."""

import json
import os
import random
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import Daemon, SmallModelTest, kill_workers  # noqa: E402

try:
    from jsonschema import Draft202012Validator, FormatChecker
except ImportError:
    Draft202012Validator = None

# An engine is used here where the probe finds the device, software or not.
DEVICES = {"cpu": "", "vulkan": "vulkan: {device: llvmpipe}", "opencl": "opencl: {device: pthread}"}
POLICY = """schema: flyball.policy/v1
default: {because: the engine under test, use: [%s]}
"""


def record(properties, **more):
    return dict({"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False},
                **more)


NAME = {"type": "string", "maxLength": 8}
COUNT = {"type": "integer", "minimum": 0, "maximum": 999}
# A model of random weights ends what is bounded within its tokens; people's models end the rest, too.
SCHEMAS = [
    {"type": "boolean"},
    {"type": "null"},
    COUNT,
    {"type": "integer", "minimum": -20, "maximum": 20, "multipleOf": 5},
    {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 1},
    NAME,
    {"type": "string", "minLength": 3, "maxLength": 5},
    {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "ipv4"},
    {"enum": ["red", "green", "blue", None, 3, [1, 2], {"a": 1}]},
    {"const": {"answer": [1, "two", {"three": 3}]}},
    {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "boolean"}, COUNT, {"enum": ["a", "b"]}], "items": False, "minItems": 3},
    {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, "maxItems": 3},
    record({"name": NAME, "age": COUNT}),
    record({"person": record({"name": NAME, "email": {"type": "string", "pattern": "^[a-z]{1,6}@example\\.com$"}})}),
    record({"id": {"type": "integer", "exclusiveMinimum": 99, "exclusiveMaximum": 110}, "ok": {"type": "boolean"}}),
    {"type": "object", "properties": {"a": COUNT, "b": NAME, "c": {"type": "boolean"}}, "required": ["b"],
     "additionalProperties": False},
    {"type": "object", "patternProperties": {"^x[0-9]$": COUNT}, "additionalProperties": False, "maxProperties": 2},
    {"type": "object", "additionalProperties": {"type": "boolean"}, "propertyNames": {"maxLength": 4}, "maxProperties": 2},
    {"anyOf": [COUNT, {"type": "boolean"}, record({"kind": {"const": "none"}})]},
    {"oneOf": [record({"kind": {"const": "circle"}, "radius": COUNT}),
               record({"kind": {"const": "square"}, "side": COUNT})]},
    {"allOf": [{"type": "integer", "minimum": 10}, {"maximum": 30}, {"multipleOf": 3}]},
    {"type": "integer", "minimum": 0, "maximum": 50, "not": {"enum": [7, 13]}},
    {"$defs": {"size": {"enum": ["s", "m", "l"]}}, **record({"first": {"$ref": "#/$defs/size"},
                                                              "second": {"$ref": "#/$defs/size"}})},
    {"$defs": {"tree": record({"value": {"type": "boolean"},
                               "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}]}})}, "$ref": "#/$defs/tree"},
    {"if": {"type": "integer"}, "then": {"minimum": 5, "maximum": 9}, "else": {"const": "none"}},
    record({"tool": {"enum": ["search", "fetch"]}, "arguments": record({"query": {"type": "string", "maxLength": 12}}),
            "confidence": {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "multipleOf": 1}}),
]


class StructuredOutputTest(SmallModelTest):
    def daemon(self, engine):
        policy = os.path.join(self.dir.name, engine + ".yaml")
        with open(policy, "w") as out:
            out.write(POLICY % engine)
        return Daemon({"small": "path: %s\ncontext: 1024" % self.model},
                      more="policy_path: %s\n%s" % (policy, DEVICES[engine]), probe_ms=60_000)

    def ask(self, daemon, **body):
        return daemon.request("POST", "/v1/completions", dict({"model": "small", "prompt": "The document:"}, **body))

    def on(self, engine):
        with self.daemon(engine) as daemon:
            status, answer = self.ask(daemon, max_tokens=1)
            if status != 200 and answer["error"]["code"] == "no_target":
                self.skipTest("SKIPPED: the probe found no device for " + engine)
            self.assertEqual(status, 200, answer)
            self.assertEqual(len(SCHEMAS), 30)
            whole = 0
            for seed, schema in enumerate(SCHEMAS):
                asked = {"type": "json_schema", "json_schema": {"name": "document", "schema": schema}}
                status, answer = self.ask(daemon, response_format=asked, temperature=1, seed=seed, max_tokens=250)
                self.assertEqual(status, 200, (schema, answer))
                choice = answer["choices"][0]
                if choice["finish_reason"] != "stop":
                    continue
                whole += 1
                document = json.loads(choice["text"])
                if Draft202012Validator:
                    Draft202012Validator(schema, format_checker=FormatChecker()).validate(document)
            self.assertGreaterEqual(whole, 25, "most documents end within their tokens")
            for form in ({"guided_regex": "[a-f]{4}-[0-9]{2}"}, {"grammar": 'root ::= [a-f]{4} "-" [0-9] [0-9]'}):
                status, answer = self.ask(daemon, temperature=1, seed=1, max_tokens=40, **form)
                self.assertRegex(answer["choices"][0]["text"], re.compile(r"\A[a-f]{4}-[0-9]{2}\Z"), form)
            status, answer = self.ask(daemon, temperature=1, seed=2, max_tokens=40, guided_choice=["left", "right"])
            self.assertIn(answer["choices"][0]["text"], ("left", "right"))

    def test_documents_of_cpu(self):
        self.on("cpu")

    def test_documents_of_vulkan(self):
        self.on("vulkan")

    def test_documents_of_opencl(self):
        self.on("opencl")

    def test_calls_within_free_text(self):
        call = {"begin": "e<add>", "schema": {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2}, "end": "</add>"}
        tag = {"structures": [call], "triggers": ["e"]}
        one_call = {"format": {"type": "triggered_tags", "triggers": ["e"], "at_least_one": True, "stop_after_first": True,
                               "tags": [{"begin": call["begin"], "end": call["end"],
                                         "content": {"type": "json_schema", "json_schema": call["schema"]}}]}}
        calls = 0
        with self.daemon("cpu") as daemon:
            for seed in range(40):
                status, answer = self.ask(daemon, response_format=dict({"type": "structural_tag"}, **tag), temperature=1,
                                          seed=seed, max_tokens=120)
                self.assertEqual(status, 200, answer)
                calls += self.calls_in(answer["choices"][0])
                if seed >= 5 and calls > 0:
                    break
            self.assertGreater(calls, 0, "the trigger is a letter that random text has")
            status, answer = self.ask(daemon, structured_outputs={"structural_tag": json.dumps(one_call)}, temperature=1,
                                      seed=7, max_tokens=120)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
            self.assertEqual(self.calls_in(answer["choices"][0]), 1)
            self.assertTrue(answer["choices"][0]["text"].startswith("e<add>"))

    def calls_in(self, choice):
        """The number of whole calls in the text. Each letter e outside of them begins one, which may be cut off."""
        free, calls = choice["text"], 0
        while "e" in free:
            rest = free[free.index("e"):]
            if "</add>" not in rest:
                self.assertEqual(choice["finish_reason"], "length", rest)
                self.assertEqual(rest[:6], "e<add>"[:len(rest)])
                self.assertRegex(rest[6:], r"\A[\s\[\d,\]]*(<(/(a(dd?)?)?)?)?\Z")
                break
            self.assertTrue(rest.startswith("e<add>"), rest)
            document, free = rest[6:].split("</add>", 1)
            numbers = json.loads(document)
            self.assertEqual(len(numbers), 2)
            self.assertTrue(all(isinstance(n, int) and 0 <= n <= 999 for n in numbers), numbers)
            calls += 1
        return calls

    def test_a_document_survives_the_death_of_its_worker_byte_for_byte(self):
        schema = {"type": "array", "minItems": 12, "maxItems": 12, "items": record(
            {"id": COUNT, "name": {"type": "string", "minLength": 4, "maxLength": 12}, "tags": {
                "type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 2, "maxItems": 2}})}
        body = {"model": "small", "prompt": "Records:", "temperature": 0, "max_tokens": 900, "guided_json": schema}
        pieces = []
        with self.small() as daemon:
            whole, reason, done = daemon.stream(body, pieces.append)
        self.assertEqual((reason, done), ("stop", True))
        document = json.loads(whole)
        self.assertEqual(len(document), 12)
        if Draft202012Validator:
            Draft202012Validator(schema).validate(document)
        kills, draw = int(os.environ.get("FLYBALL_KILLS", "4")), random.Random(41)
        while kills > 0:
            # Two deaths each: a third one within ten minutes disables the engine.
            with self.small() as daemon:
                for _ in range(min(kills, 2)):
                    kills -= 1
                    at, killed = draw.randrange(1, len(pieces) // 2), []

                    def kill_once(n):
                        if n >= at and not killed:
                            killed.append(n)
                            kill_workers(daemon)

                    self.assertEqual(daemon.stream(body, kill_once), (whole, "stop", True), "killed at event %d" % at)
                    self.assertEqual(len(killed), 1)
                daemon.wait_for_log("killed by signal 9", count=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
