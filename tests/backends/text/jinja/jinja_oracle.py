#!/usr/bin/python3
"""Renders templates with Jinja2, as Hugging Face transformers sets it up, and with Flyball, and compares.

usage: jinja_oracle.py RENDER_TEMPLATE (npm | folder | fixtures | snippets) [--verbose]
  npm       real templates: @huggingface/ollama-utils under $FLYBALL_NODE_MODULES or <binary dir>/node_modules
  folder    real templates: every *.jinja under $FLYBALL_TEMPLATE_DIR
  fixtures  our own templates, in the manner of families that no small package carries
  snippets  one construct at a time
Both must give the same text, or both must fail. Exit 77 (SKIPPED): no jinja2, no package, no folder.
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

os.environ["TZ"] = "UTC"
try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox
except ImportError:
    print("SKIPPED: python3-jinja2 is not installed")
    sys.exit(77)

from message_shapes import SHAPES

HERE = pathlib.Path(__file__).resolve().parent
NOW = 1_750_000_000  # a fixed instant, so that both sides print one date


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}, which transformers uses to mark the assistant's text."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime.fromtimestamp(NOW).strftime(f)
    return env


def render_with_jinja(env, cache, source, shape):
    """The text, or None and why not."""
    try:
        if source not in cache:
            cache[source] = env.from_string(source)
        return cache[source].render(**{
            "messages": shape["messages"], "tools": shape.get("tools"), "documents": None,
            "add_generation_prompt": shape.get("add_generation_prompt", True),
            "bos_token": "<s>", "eos_token": "</s>", **shape.get("args", {})}), ""
    except Exception as e:  # whatever a template does wrong
        return None, f"{type(e).__name__}: {e}"


def job(source, shape):
    tools = shape.get("tools")
    return json.dumps({
        "source": source, "messages": json.dumps(shape["messages"]),
        "tools": "" if tools is None else json.dumps(tools), "args": json.dumps(shape.get("args", {})),
        "bos_token": "<s>", "eos_token": "</s>",
        "add_generation_prompt": shape.get("add_generation_prompt", True), "now": NOW})


def javascript_string(text, at):
    """The JavaScript string literal at text[at], decoded; TypeScript sources are all we read this way."""
    quote = text[at]
    simple = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
    out, at = [], at + 1
    while text[at] != quote:
        if text[at] != "\\":
            out.append(text[at])
            at += 1
            continue
        escape = text[at + 1]
        at += 2
        if escape == "u" and text[at] == "{":
            end = text.index("}", at)
            out.append(chr(int(text[at + 1:end], 16)))
            at = end + 1
        elif escape in "ux":
            width = 4 if escape == "u" else 2
            out.append(chr(int(text[at:at + width], 16)))
            at += width
        else:
            out.append(simple.get(escape, escape))
    # Surrogate pairs were written as two escapes.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16")


def npm_templates():
    binary_dir = os.environ.get("FLYBALL_BINARY_DIR", ".")
    modules = pathlib.Path(os.environ.get("FLYBALL_NODE_MODULES") or os.path.join(binary_dir, "node_modules"))
    source = modules / "@huggingface" / "ollama-utils" / "src" / "chat-template-automap.ts"
    if not source.exists():
        print("SKIPPED: no @huggingface/ollama-utils in", modules)
        sys.exit(77)
    text = source.read_text(encoding="utf-8")
    found = {}
    for entry in re.finditer(r'\bmodel:\s*"([^"]+)",\s*gguf:\s*(?=["\'`])', text):
        template = javascript_string(text, entry.end())
        if template not in found.values():
            name = entry.group(1)
            while name in found:
                name += "'"
            found[name] = template
    return found


def folder_templates():
    folder = os.environ.get("FLYBALL_TEMPLATE_DIR")
    if not folder or not pathlib.Path(folder).is_dir():
        print("SKIPPED: FLYBALL_TEMPLATE_DIR names no folder")
        sys.exit(77)
    return read_folder(pathlib.Path(folder))


def read_folder(folder):
    files = sorted(folder.rglob("*.jinja"))
    return {str(f.relative_to(folder)): f.read_bytes().decode("utf-8") for f in files}


def snippet_cases():
    """(name, source, shape) of each snippet; they are separated by lines of '===='."""
    shape = json.loads((HERE / "snippets_context.json").read_text(encoding="utf-8"))
    blocks = (HERE / "snippets.jinja").read_text(encoding="utf-8").split("\n====\n")
    return [(f"snippet {i + 1}", block, shape) for i, block in enumerate(blocks)]


def main():
    helper, mode = sys.argv[1], sys.argv[2]
    verbose = "--verbose" in sys.argv
    if mode == "snippets":
        cases, least = snippet_cases(), (130, 0)
        names = {"snippets"}
    else:
        templates, least = {
            "npm": (npm_templates, (20, 12)),
            "folder": (folder_templates, (1, 12)),
            "fixtures": (lambda: read_folder(HERE / "fixtures"), (3, 12)),
        }[mode]
        templates = templates()
        names = set(templates)
        cases = [(f"{name} x {label}", source, shape)
                 for name, source in templates.items() for label, shape in SHAPES.items()]
        if len(templates) < least[0] or len(SHAPES) < least[1]:
            print(f"FAILED: {len(templates)} templates and {len(SHAPES)} shapes are too few")
            return 1

    jobs = "".join(job(source, shape) + "\n" for _, source, shape in cases)
    answers = subprocess.run([helper], input=jobs, capture_output=True, encoding="utf-8", check=True)
    answers = [json.loads(line) for line in answers.stdout.split("\n") if line]
    if len(answers) != len(cases):
        print(f"FAILED: {len(cases)} jobs, {len(answers)} answers")
        return 1

    env, cache = environment(), {}
    equal, both_fail, rendered, wrong = 0, 0, {}, []
    for (name, source, shape), answer in zip(cases, answers):
        expected, reason = render_with_jinja(env, cache, source, shape)
        if expected is None and "error" in answer:
            both_fail += 1
            if verbose:
                print(f"both fail: {name}\n  jinja2:  {reason}\n  flyball: {answer['where']}: {answer['error']}")
        elif expected is not None and answer.get("text") == expected:
            equal += 1
            rendered[name.split(" x ")[0]] = rendered.get(name.split(" x ")[0], 0) + 1
        else:
            wrong.append(name)
            print(f"DIFFERENT: {name}")
            if mode == "snippets":
                print(f"  source:  {source!r}")
            print(f"  jinja2:  {expected!r} {reason}")
            print(f"  flyball: {answer.get('text')!r} {answer.get('where', '')} {answer.get('error', '')}")
    print(f"{len(names)} templates, {len(cases)} renders: {equal} texts equal, {both_fail} fail in both, "
          f"{len(wrong)} different")
    if mode != "snippets":
        idle = [name for name in names if rendered.get(name, 0) < 3]
        if idle:
            print("templates that rendered fewer than 3 shapes:", ", ".join(sorted(idle)))
        if len(names) - len(idle) < least[0]:
            print("FAILED: too few templates render at all")
            return 1
    elif equal < least[0]:
        print("FAILED: too few snippets render")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
