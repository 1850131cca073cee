#!/usr/bin/env python3
"""Every error code is raised somewhere and stands in docs/errors.md.

check_error_codes.py [ROOT] exits 1 and names the code where a rule is broken; `--self-test` proves that it can fail.
"""
import pathlib
import re
import sys
import tempfile

FOLDERS = ["config", "policy", "kernels", "backends", "daemon"]
# They list every code and raise none.
TABLES = {"config/error.hpp", "config/error.cpp", "daemon/api/error_table.cpp"}
# A code that is only compared with is not raised.
RAISED = re.compile(r"(?<!case )(?<!== )(?<!!= )ErrorCode::(\w+)\b(?!\s*[!=]=)")


def codes(root):
    enum = re.search(r"enum class ErrorCode[^{]*\{(.*?)\};", (root / "config/error.hpp").read_text(), re.S)
    return re.findall(r"^\s*(\w+),", re.sub(r"//.*", "", enum[1]), re.M)


def raised(root):
    out = set()
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            if path.suffix in {".hpp", ".cpp"} and str(path.relative_to(root)) not in TABLES:
                out |= set(RAISED.findall(re.sub(r"//.*", "", path.read_text(errors="replace"))))
    return out


def problems(root):
    known, found = codes(root), raised(root)
    rows = re.findall(r"^\| `(\w+)` \|", (root / "docs/errors.md").read_text(), re.M)
    for code in known:
        if code not in found:
            yield f"{code}: nothing raises it"
        if code not in rows:
            yield f"{code}: docs/errors.md has no row for it"
    for row in rows:
        if row not in known:
            yield f"{row}: docs/errors.md describes a code that does not exist"


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for folder in FOLDERS + ["docs"]:
            (root / folder).mkdir()
        (root / "config/error.hpp").write_text("enum class ErrorCode : int {\n  // group\n  used,\n  compared,\n  named,\n};\n")
        (root / "daemon/a.cpp").write_text(
            "return fail(ErrorCode::used, x);\ncase ErrorCode::compared:\nif (e == ErrorCode::compared) {}\n"
            "if (ErrorCode::compared != e) {}\nreturn fail(ErrorCode::named, x);  // ErrorCode::compared\n")
        (root / "docs/errors.md").write_text("| `used` | 400 |\n| `compared` | 400 |\n| `gone` | 400 |\n")
        expected = ["compared: nothing raises it", "named: docs/errors.md has no row for it",
                    "gone: docs/errors.md describes a code that does not exist"]
        return [] if list(problems(root)) == expected else [f"self-test: {list(problems(root))}, not {expected}"]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = self_test() if "--self-test" in sys.argv else list(problems(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
