#!/usr/bin/env python3
"""Words of the grammars of the folder schemas, judged by Debian's python3-jsonschema: schema_oracle.py SCHEMA_WORDS.

Exit 77 (SKIPPED) where that package is missing. It judges the formats whose checkers are installed, but for
relative-json-pointer, of which it refuses "1"; the C++ tests have documents for all of them. multipleOf is judged in
decimals here, because the package divides doubles, by which 0.07 is no multiple of 0.01. Debian's version errs on the
schemas marked "misjudged": it resolves a reference of an embedded resource by the document's root if a pointer led
there; it overlooks additionalProperties, nested unevaluatedProperties and $dynamicRef where it looks for evaluated
properties; and its patterns are Python's, where \\s and \\w have other characters than in ECMA-262.
"""
import fractions
import itertools
import json
import pathlib
import subprocess
import sys

WORDS = 40
SEEDS = (1, 2)
MISJUDGED = "relative-json-pointer"

try:
    from jsonschema import Draft202012Validator, FormatChecker, ValidationError
    from jsonschema.validators import extend
except ImportError:
    print("SKIPPED: no python3-jsonschema")
    sys.exit(77)


def multiple_of(validator, step, instance, schema):
    if validator.is_type(instance, "number") and fractions.Fraction(str(instance)) % fractions.Fraction(str(step)):
        yield ValidationError(f"{instance} is no multiple of {step}")


def format_checker():
    checker = FormatChecker(formats=())
    known = Draft202012Validator.FORMAT_CHECKER.checkers
    checker.checkers = {name: check for name, check in known.items() if name != MISJUDGED}
    return checker


def main():
    paths = sorted(pathlib.Path(__file__).with_name("schemas").glob("*.json"))
    judged = failures = schemas = 0
    checker = format_checker()
    validator_class = extend(Draft202012Validator, {"multipleOf": multiple_of})
    for path, seed in itertools.product(paths, SEEDS):
        cases = json.loads(path.read_text())
        schemas += len(cases)
        run = subprocess.run([sys.argv[1], path, str(WORDS), str(seed)], capture_output=True, check=True, text=True)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        assert len(lines) == len(cases), (path, len(lines), len(cases))
        for case, line in zip(cases, lines):
            if case.get("misjudged"):
                continue
            assert "words" in line, (case["schema"], line)
            validator = validator_class(case["schema"], format_checker=checker)
            for word in line["words"]:
                judged += 1
                error = next(validator.iter_errors(json.loads(word)), None)
                if error:
                    failures += 1
                    print(f"not valid: {word!r}\n  schema {case['schema']}\n  {error.message}")
    print(f"{judged} words of {schemas // len(SEEDS)} schemas judged, {failures} not valid")
    return 1 if failures or judged < 1000 else 0


sys.exit(main())
