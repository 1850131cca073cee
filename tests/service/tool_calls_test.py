#!/usr/bin/env python3
"""Calls of tools from models of random weights, in each family's own words: those that a client requires always parse, have
the name and arguments that its tools allow, and are the same in every API, streamed and whole. Debian's
python3-jsonschema judges the arguments."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import Daemon, flyball, kill_workers  # noqa: E402

try:
    from jsonschema import Draft202012Validator
except ImportError:
    Draft202012Validator = None

POLICY = """schema: flyball.policy/v1
default: {because: the engine under test, use: [%s]}
"""
DEVICES = {"cpu": "", "vulkan": "vulkan: {device: llvmpipe}", "opencl": "opencl: {device: pthread}"}
# The markers by which each family's template is known. A template without a place for tools has none.
MARKERS = {
    "json": "",
    "hermes": "<tool_call>",
    "llama3": "<|python_tag|>",
    "mistral": "[TOOL_CALLS]",
    "mistral_v11": "[TOOL_CALLS] [ARGS]",
    "qwen3_coder": "<tool_call> <function= <parameter=",
    "deepseek_v3": "<｜tool▁call▁begin｜> ```json",
    "deepseek_v31": "<｜tool▁call▁begin｜>",
    "harmony": "<|channel|> <|message|>",
    "granite": "<|tool_call|>",
    "command_r7b": "<|START_ACTION|>",
    "functionary_v31": "<function=",
    "functionary_v32": ">>>all",
    "phi4": "functools[",
    "glm4": "<|observation|>",
    "glm45": "<tool_call> <arg_key>",
    "kimi_k2": "<|tool_calls_section_begin|>",
    "minimax_m2": "<minimax:tool_call>",
}
TEMPLATE = """{%% for m in messages %%}<|im_start|>{{ m.role }}
{{ m.content }}{%% if m.tool_calls %%}{{ m.tool_calls | tojson }}{%% endif %%}<|im_end|>
{%% endfor %%}%s<|im_start|>assistant
%s{# %s #}"""


def tool(name, properties, required=None):
    parameters = {"type": "object", "properties": properties, "required": list(properties) if required is None else required,
                  "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": "The tool %s." % name, "parameters": parameters}}


# A model of random weights ends what is bounded.
TOOLS = [
    tool("get_weather", {"city": {"enum": ["Oslo", "Lima", "Zürich"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}),
    tool("set_lamp", {"on": {"type": "boolean"}, "color": {"enum": ["red", "green \"neon\""]}}, required=["on"]),
    tool("now", {}),
]


def markers(family):
    return MARKERS[family], ("{{ tools | tojson if tools }}" if family != "json" else "")


class ToolCallsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="flyball-tools-")

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def make_model(self, name, marks, tools, opening=""):
        path = os.path.join(self.dir.name, name + ".gguf")
        source = os.path.join(self.dir.name, name + ".jinja")
        with open(source, "w") as out:
            out.write(TEMPLATE % (tools, opening, marks))
        made = flyball("make-model", "--out", path, "--shape", "tiny,context=4096", "--type", "Q8_0", "--quiet",
                       "--chat-template", source)
        self.assertEqual(made.returncode, 0, made.stderr)
        return "path: %s\ncontext: 4096" % path

    def daemon(self, engine, models):
        policy = os.path.join(self.dir.name, engine + ".yaml")
        with open(policy, "w") as out:
            out.write(POLICY % engine)
        return Daemon(models, more="policy_path: %s\n%s" % (policy, DEVICES[engine]), probe_ms=60_000)

    def families(self, names):
        return {name.replace("_", "-"): self.make_model(name, *markers(name)) for name in names}

    def judge(self, calls, names=None):
        schemas = {t["function"]["name"]: t["function"]["parameters"] for t in TOOLS}
        for name, arguments in calls:
            self.assertIn(name, names or schemas)
            self.assertIsInstance(arguments, dict)
            if Draft202012Validator:
                Draft202012Validator(schemas[name]).validate(arguments)

    def chat(self, daemon, model, **body):
        return daemon.request("POST", "/v1/chat/completions", dict(
            {"model": model, "messages": [{"role": "user", "content": "Do it."}], "tools": TOOLS, "temperature": 1,
             "max_tokens": 300, "parallel_tool_calls": False}, **body))

    def calls_of(self, answer):
        message = answer["choices"][0]["message"]
        return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls") or []]

    def on(self, engine, names, seeds):
        with self.daemon(engine, self.families(names)) as daemon:
            status, answer = self.chat(daemon, names[0].replace("_", "-"), tools=[], max_tokens=1)
            if status != 200 and answer["error"]["code"] == "no_target":
                self.skipTest("SKIPPED: the probe found no device for " + engine)
            for name in names:
                model, whole = name.replace("_", "-"), 0
                for seed in range(seeds):
                    choice = "required" if seed % 2 == 0 else {"type": "function", "function": {"name": "set_lamp"}}
                    status, answer = self.chat(daemon, model, seed=seed, tool_choice=choice)
                    self.assertEqual(status, 200, (name, answer))
                    if answer["choices"][0]["finish_reason"] == "length":
                        continue
                    whole += 1
                    self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls", (name, answer))
                    self.assertIsNone(answer["choices"][0]["message"]["content"], (name, answer))
                    calls = self.calls_of(answer)
                    self.assertEqual(len(calls), 1, (name, answer))
                    self.judge(calls, None if seed % 2 == 0 else ["set_lamp"])
                self.assertGreater(whole, 0, "all answers of %s were cut" % name)

    def test_every_family_on_cpu(self):
        self.on("cpu", list(MARKERS), 10)

    def test_some_families_on_vulkan(self):
        self.on("vulkan", ["hermes", "mistral"], 2)

    def test_some_families_on_opencl(self):
        self.on("opencl", ["hermes", "glm45"], 2)

    def test_all_apis_have_the_same_call(self):
        # The prompt is the same, to the letter.
        anthropic = [{"name": f["name"], "description": f["description"], "input_schema": f["parameters"]}
                     for f in (t["function"] for t in TOOLS)]
        with self.daemon("cpu", self.families(["hermes"])) as daemon:
            status, answer = self.chat(daemon, "hermes", tool_choice="required", temperature=0)
            self.assertEqual(status, 200, answer)
            (expected,) = self.calls_of(answer)
            status, answer = daemon.request("POST", "/v1/messages", {
                "model": "hermes", "max_tokens": 300, "temperature": 0, "tools": anthropic,
                "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
                "messages": [{"role": "user", "content": "Do it."}]})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["stop_reason"], "tool_use", answer)
            self.assertEqual([(b["type"], b["name"], b["input"]) for b in answer["content"]], [("tool_use",) + expected])

    def test_a_streamed_call_is_the_whole_one(self):
        with self.daemon("cpu", self.families(["hermes", "glm45"])) as daemon:
            for model in ("hermes", "glm45"):
                status, answer = self.chat(daemon, model, tool_choice="required", temperature=0)
                self.assertEqual(status, 200, answer)
                (expected,) = self.calls_of(answer)
                self.assertEqual(self.streamed(daemon, model)[0], expected)

    def streamed(self, daemon, model, on_event=lambda n: None):
        """Name and arguments of the one call, and the number of pieces of its arguments."""
        name, arguments, pieces, reason = "", "", 0, None
        for n, event in enumerate(daemon.events("/v1/chat/completions", {
                "model": model, "messages": [{"role": "user", "content": "Do it."}], "tools": TOOLS, "temperature": 0,
                "max_tokens": 300, "parallel_tool_calls": False, "tool_choice": "required", "stream": True})):
            on_event(n)
            for choice in (event or {}).get("choices", []):
                reason = choice["finish_reason"] or reason
                self.assertFalse(choice["delta"].get("content"), event)
                for call in choice["delta"].get("tool_calls", []):
                    self.assertEqual(call["index"], 0)
                    name += call["function"].get("name", "")
                    pieces += 1 if call["function"].get("arguments") else 0
                    arguments += call["function"].get("arguments", "")
        self.assertEqual(reason, "tool_calls")
        return (name, json.loads(arguments)), pieces

    def test_a_worker_killed_within_a_call_leaves_one_whole_call(self):
        with self.daemon("cpu", self.families(["qwen3_coder"])) as daemon:
            expected, pieces = self.streamed(daemon, "qwen3-coder")
            killed = []

            def kill_once(n):
                if n >= 3 and not killed:
                    killed.append(n)
                    kill_workers(daemon)

            self.assertEqual(self.streamed(daemon, "qwen3-coder", kill_once)[0], expected)
            self.assertEqual(len(killed), 1)

    def test_a_prompt_that_opens_reasoning(self):
        reasoner = self.make_model("reasoner", "<tool_call> </think>", "{{ tools | tojson if tools }}", "<think>\n")
        with self.daemon("cpu", {"reasoner": reasoner}) as daemon:
            status, answer = self.chat(daemon, "reasoner", tools=[], max_tokens=12, ignore_eos=True, seed=3)
            self.assertEqual(status, 200, answer)
            message = answer["choices"][0]["message"]
            self.assertTrue(message["reasoning_content"], answer)
            self.assertFalse(message["content"], "no </think> came")
            self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 12)
            status, answer = self.chat(daemon, "reasoner", tool_choice="required", max_tokens=1000, seed=3)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls", "required calls do not reason")
            self.judge(self.calls_of(answer))

    def test_strict_tools_of_a_choice_that_is_the_models(self):
        strict = [dict(t, function=dict(t["function"], strict=True)) for t in TOOLS]
        with self.daemon("cpu", self.families(["hermes"])) as daemon:
            for seed in range(10):
                status, answer = self.chat(daemon, "hermes", tools=strict, max_tokens=100, seed=seed)
                self.assertEqual(status, 200, answer)
                if answer["choices"][0]["finish_reason"] == "tool_calls":
                    self.judge(self.calls_of(answer))


if __name__ == "__main__":
    unittest.main(verbosity=2)
