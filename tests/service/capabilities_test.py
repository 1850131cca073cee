#!/usr/bin/env python3
"""The capability table against a running daemon: each cell of `flyball capabilities` is asked for, and the answer is the
one that the table promises. docs/capabilities.md has the same tables."""

import hashlib
import http.client
import json
import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import Daemon, SmallModelTest, flyball  # noqa: E402

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "Hello"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
TEMPLATE = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m['content'] }}{% endfor %}"
# An engine is used here where the probe finds the device, software or not.
DEVICES = {"cpu": "", "vulkan": "vulkan: {device: llvmpipe}", "opencl": "opencl: {device: pthread}"}
POLICY = """schema: flyball.policy/v1
default: {because: the engine under test, use: [%s]}
"""


def chat(**more):
    return CHAT, dict({"messages": HELLO, "max_tokens": 2}, **more)


def part(kind):
    return chat(messages=[{"role": "user", "content": [{"type": kind, kind: {"url": "x", "data": "x"}}]}])


# Requests for each feature, and for nothing else.
ASKS = {
    "tools": [chat(tools=TOOLS), chat(tools=TOOLS, tool_choice="none")],
    "schema": [chat(response_format={"type": "json_object"}),
               chat(response_format={"type": "json_schema", "json_schema": {"schema": {}}}),
               chat(guided_json={"type": "object"}), (COMPLETION, {"prompt": "a", "grammar": "root ::= [a-z]"})],
    "vision": [part("image_url"), chat(images=["aGk="])],
    "audio": [part("input_audio"), ("/v1/audio/transcriptions", {}), ("/v1/audio/translations", {})],
    "speech_output": [chat(modalities=["text", "audio"]), ("/v1/audio/speech", {"input": "a", "voice": "alloy"})],
    "embeddings": [("/v1/embeddings", {"input": "a"})],
    "rerank": [("/v1/rerank", {"query": "a", "documents": ["b"]})],
    "context": [(COMPLETION, {"prompt": "a b c", "max_tokens": 2})],
    "logprobs": [chat(logprobs=True, top_logprobs=20), (COMPLETION, {"prompt": "a", "logprobs": 20, "max_tokens": 2})],
    "infill": [(COMPLETION, {"prompt": "a", "suffix": "b", "max_tokens": 2}),
               ("/api/generate", {"prompt": "a", "suffix": "b", "stream": False, "options": {"num_predict": 2}})],
    "adapters": [chat(lora=[{"id": 0, "scale": 1}])],
    "draft_model": [chat(draft_model="small"), chat(speculative={"n_max": 4})],
    "fine_tuning": [("/v1/fine_tuning/jobs", {"training_file": "a"})],
    "image_generation": [("/v1/images/generations", {"prompt": "a"}), ("/v1/images/edits", {"prompt": "a"}),
                         ("/v1/images/variations", {})],
}
# A request beyond the limit of a feature, and its error.
BEYOND = {
    "tools": (chat(tools=TOOLS, guided_regex="[a-z]"), "unsupported_feature"),
    "context": ((COMPLETION, {"prompt": "word " * 20_000, "max_tokens": 2}), "context_length_exceeded"),
    "logprobs": (chat(logprobs=True, top_logprobs=21), "invalid_value"),
    "infill": ((COMPLETION, {"prompt": "a", "suffix": "b", "echo": True}), "unsupported_value"),
    "schema": (chat(guided_json={"not": {"unevaluatedProperties": False}}), "unsupported_feature"),
}


class CapabilitiesTest(SmallModelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.table = json.loads(flyball("capabilities", "--json").stdout)
        # Such a model with infill tokens, and with a chat template that has a place for tools, written over the bytes
        # of its own.
        cls.tools_model = os.path.join(cls.dir.name, "tools.gguf")
        made = flyball("make-model", "--out", cls.tools_model, "--shape", "small,context=2048", "--type", "Q8_0",
                       "--quiet", "--infill")
        assert made.returncode == 0, made.stderr
        with open(cls.tools_model, "rb") as file:
            data = file.read()
        at = data.index(b"tokenizer.chat_template") + len("tokenizer.chat_template") + 4  # behind the type
        length = int.from_bytes(data[at:at + 8], "little")
        template = TEMPLATE.encode().ljust(length)
        assert len(template) == length, "the model's own template is shorter"
        cls.families = {}
        for family in cls.table["architectures"]:
            experts = ",experts=8,experts_used=2,expert_ffn=128" if family.endswith("moe") else ""
            cls.families[family] = os.path.join(cls.dir.name, family + ".gguf")
            made = flyball("make-model", "--out", cls.families[family], "--shape", "tiny,arch=" + family + experts,
                           "--type", "Q8_0", "--quiet")
            assert made.returncode == 0, made.stderr
        with open(cls.tools_model, "wb") as file:
            file.write(data[:at + 8] + template + data[at + 8 + length:])

    def daemon(self, engine):
        policy = os.path.join(self.dir.name, engine + ".yaml")
        with open(policy, "w") as out:
            out.write(POLICY % engine)
        more = "policy_path: %s\n%s" % (policy, DEVICES[engine])
        models = {"tools": self.tools_model, "plain": self.model, **self.families}
        return Daemon({name: "path: %s\ncontext: 1024" % path for name, path in models.items()}, more=more,
                      probe_ms=60_000)

    def ask(self, daemon, model, asked):
        path, body = asked
        status, answer = daemon.request("POST", path, dict(body, model=model))
        return status, answer.get("error", {})

    def expect(self, daemon, model, feature, cell):
        """That the daemon answers as the cell says."""
        self.assertIn(feature, ASKS, "a feature of the table without a request for it")
        for asked in ASKS[feature]:
            status, error = self.ask(daemon, model, asked)
            if cell["served"] == "no" and isinstance(error, str):  # Ollama's
                self.assertEqual(status, 400, (feature, asked, error))
                self.assertIn(cell["reason"].rstrip("."), error)
            elif cell["served"] == "no":
                self.assertEqual((status, error.get("code")), (400, "unsupported_feature"), (feature, asked, error))
                self.assertIn(cell["reason"].rstrip("."), error["message"])
                self.assertEqual(error["type"], "invalid_request_error")
            else:
                self.assertEqual(status, 200, (feature, asked, error))
        if cell["served"] == "limit":
            asked, code = BEYOND[feature]
            status, error = self.ask(daemon, model, asked)
            self.assertEqual((status, error.get("code")), (400, code), (feature, error))

    def each_cell(self, engine):
        with self.daemon(engine) as daemon:
            status, error = self.ask(daemon, "tools", chat())
            if error.get("code") == "no_target":
                self.skipTest("SKIPPED: the probe found no device for " + engine)
            self.assertEqual(status, 200, error)
            for feature, cells in self.table["features"].items():
                self.expect(daemon, "tools", feature, cells[engine])
            for lacks in ("models_without_a_place_for_tools", "models_without_infill_tokens"):
                for feature, cells in self.table[lacks].items():
                    self.expect(daemon, "plain", feature, cells[engine])
            for family, cells in self.table["architectures"].items():
                self.assertEqual(cells[engine]["served"], "yes")
                self.assertEqual(self.ask(daemon, family, chat()), (200, {}), family)
            keeps_all = "keeps all experts" in self.table["mixtures"][engine]
            self.assertEqual(any("this engine keeps all experts of a mixture" in line for line in daemon.log), keeps_all)
            checked = flyball("check", "--config", daemon.config).stdout
            self.assertEqual("a mixture of experts: Flyball's %s engine keeps all experts" % engine in checked, keeps_all)

    def test_each_cell_of_cpu(self):
        self.each_cell("cpu")

    def test_each_cell_of_vulkan(self):
        self.each_cell("vulkan")

    def test_each_cell_of_opencl(self):
        self.each_cell("opencl")

    def test_the_list_of_models_has_the_table(self):
        with self.daemon("cpu") as daemon:
            models = {one["id"]: one for one in daemon.request("GET", "/v1/models")[1]["data"]}
            for feature, cells in self.table["features"].items():
                found = models["tools"]["capabilities"][feature]
                self.assertEqual(found.get("reason", ""), cells["cpu"]["reason"])
                self.assertEqual(found["served"], cells["cpu"]["served"])
            self.assertEqual(models["plain"]["capabilities"]["tools"]["served"], "limit")
            self.assertEqual(models["plain"]["capabilities"]["infill"]["served"], "no")
            self.assertEqual(models["plain"]["context_length"], 1024)
            self.assertEqual(daemon.request("GET", "/v1/models/plain")[1]["capabilities"],
                             models["plain"]["capabilities"])
            # An explanation of what is refused is refused alike, and one of an app's needs says what is not served.
            status, answer = daemon.request("POST", "/v1/route/explain", dict(chat(lora=[{"id": 0, "scale": 1}])[1], model="plain"))
            self.assertEqual((status, answer["error"]["code"]), (400, "unsupported_feature"))
            status, receipt = daemon.request("POST", "/v1/route/explain", {"facts": {"workload.class": "embedding"}})
            self.assertEqual(status, 200)
            self.assertIn("Flyball does not serve embeddings", receipt["warnings"])

    def test_weights_that_are_not_read_are_refused(self):
        method = {"awq": "awq", "gptq": "gptq", "fp8": "fp8", "bitsandbytes": "bitsandbytes", "exl2": "exl2",
                  "exl3": "exl3"}
        models = {"gguf": "path: " + self.model}
        for name, cells in self.table["weights"].items():
            if cells["cpu"]["served"] == "yes":
                continue
            path = os.path.join(self.dir.name, name)
            os.mkdir(path)
            with open(os.path.join(path, "config.json"), "w") as out:
                json.dump({"model_type": "llama", "quantization_config": {"quant_method": method.get(name, name)}}, out)
            models[name] = "path: " + path
        self.assertGreater(len(models), 5)
        with Daemon(models, probe_ms=100) as daemon:
            for name in models:
                status, error = self.ask(daemon, name, chat())
                if name == "gguf":
                    self.assertEqual(status, 200, error)
                else:
                    self.assertEqual(status, 503, (name, error))
                    self.assertIn(error["code"], ("model_invalid", "model_unsupported"), name)

    def test_receipts_name_the_engine_and_an_app_sees_no_path(self):
        key = "0123456789abcdef0123456789abcdef"
        app = "schema: flyball.app/v1\napp: keyed\nkey_sha256: %s\n" % hashlib.sha256(key.encode()).hexdigest()
        with Daemon({"small": "path: %s\ncontext: 256" % self.model}, more_apps=[app]) as daemon:
            def receipt(headers):
                connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=180)
                connection.request("POST", COMPLETION, json.dumps({"prompt": "a", "max_tokens": 2, "n": 2}),
                                   dict(headers, **{"content-type": "application/json"}))
                answer = connection.getresponse()
                answer.read()
                request = answer.headers["x-request-id"]
                connection.request("GET", "/v1/route/receipts/" + request, headers=headers)
                told = json.loads(connection.getresponse().read())
                connection.close()
                return request, told["engines"]

            request, engines = receipt({})
            self.assertEqual(len(engines), 1)  # of two answers
            self.assertEqual(engines[0]["model_path"], self.model)
            self.assertEqual((engines[0]["backend"], engines[0]["quantization"], engines[0]["kv_type"],
                              engines[0]["context"]), ("cpu", "Q8_0", "f16", 256))
            self.assertRegex(engines[0]["digest"], "^[0-9a-f]{64}$")
            self.assertIn("threads", engines[0]["device"])
            self.assertIn("flyball", engines[0]["driver"])
            _, hidden = receipt({"authorization": "Bearer " + key})
            self.assertNotIn("model_path", hidden[0])
            self.assertEqual(hidden[0]["digest"], engines[0]["digest"])
            told = flyball("explain", request, "--url", daemon.url)
            self.assertIn("engine cpu: Q8_0, KV as f16, a context of 256 tokens", told.stdout)
            daemon.signal(signal.SIGTERM)
            daemon.wait()
            kept = flyball("explain", request, "--config", daemon.config)
            self.assertEqual(kept.returncode, 0, kept.stderr)
            self.assertIn(self.model, kept.stdout)

    def test_the_page_is_what_the_program_prints(self):
        with open(os.path.join(os.environ["FLYBALL_SOURCE_DIR"], "docs", "capabilities.md")) as page:
            text = page.read()
        printed = flyball("capabilities").stdout
        self.assertGreater(printed.count("\n"), 20)
        self.assertIn(printed, text, "write the output of `flyball capabilities` over that of the page")

    def test_check_warns_of_what_nothing_serves(self):
        app = """schema: flyball.app/v1
app: example
privacy: local_only
workload:
  class: embedding
  modalities: [text, image, audio]
  structured_output: true
  draft_model: true
  prompt_tokens: 2000
slo: {ttft: 1ms, tpot: 1ms}
"""
        large = os.path.join(self.dir.name, "large.gguf")  # no processor reads it in a millisecond
        self.assertEqual(flyball("make-model", "--out", large, "--shape", "small,layers=160", "--quiet").returncode, 0)
        with Daemon({"large": "path: %s\ncontext: 512" % large}, app=app) as daemon:
            checked = flyball("check", "--config", daemon.config)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            for place, warning in (("5:10", "workload.class: embedding: Flyball does not serve embeddings"),
                                   ("6:15", "workload.modalities: image: Flyball does not serve images"),
                                   ("6:15", "workload.modalities: audio: Flyball does not serve speech"),
                                   ("8:16", "workload.draft_model: true: Flyball does not serve draft models"),
                                   ("9:18", "prompt and answer come to 2000 tokens, and no model of the app is served "
                                            "with a context of more than 512"),
                                   ("10:13", "slo.ttft: 1 ms to the first token behind a prompt of 2000 tokens cannot be held "
                                             "on this machine: the fastest, cpu with the model \"large\", takes"),
                                   ("10:24", "slo.tpot: 1 ms for each further token cannot be held")):
                self.assertRegex(checked.stdout, re.escape("example.yaml:%s: warning: " % place) + ".*" +
                                 re.escape(warning))
            with open(os.path.join(daemon.dir.name, "apps.d", "example.yaml"), "w") as out:
                out.write("schema: flyball.app/v1\napp: example\nslo: {ttft: 1h, tpot: 1h}\n")
            quiet = flyball("check", "--config", daemon.config)
            self.assertIn("0 warnings", quiet.stdout)


if __name__ == "__main__":
    unittest.main()
