#!/usr/bin/env python3
"""A section banner is one line, `// ---- text ----...`, filled with dashes to the formatter's column limit.

A longer one is broken by clang-format, which leaves a line of only dashes below it.
check_banners.py [ROOT] exits 1 and names file and line where a rule is broken; `--self-test` proves that it can fail.
"""
import pathlib
import re
import sys
import tempfile

FOLDERS = ["config", "policy", "kernels", "backends", "daemon", "tests"]
SOURCES = {".cpp", ".hpp", ".inl", ".h", ".comp", ".cl", ".glsl"}
COLUMNS = 110  # ColumnLimit in .clang-format
BANNER = re.compile(r"\s*// ---- \S(.*\S)? -{4,}$")


def findings(root):
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in SOURCES):
        for n, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            where = f"{path.relative_to(root)}:{n}"
            if re.fullmatch(r"\s*//\s*-{3,}\s*", line):
                yield f"{where}: a comment of only dashes"
            elif re.match(r"\s*//\s*-{3,}", line) and (not BANNER.match(line) or len(line) != COLUMNS):
                yield f"{where}: a banner is `// ---- text ----...` of {COLUMNS} columns"


def self_test():
    banner = "// ---- a part "
    lines = {
        banner.ljust(COLUMNS, "-"): None,
        "  " + banner.ljust(COLUMNS - 2, "-"): None,
        "// -1: none; a -- b": None,
        banner.ljust(COLUMNS + 1, "-"): "a banner is",
        "  " + banner.ljust(COLUMNS, "-"): "a banner is",
        banner.rstrip(): "a banner is",
        f"{banner.rstrip()}. With a sentence": "a banner is",
        "//----- a part " + "-" * (COLUMNS - 15): "a banner is",
        f"  // {'-' * 40}": "a comment of only dashes",
    }
    for line, expected in lines.items():
        with tempfile.TemporaryDirectory() as d:
            root = pathlib.Path(d)
            (root / "policy").mkdir()
            (root / "policy/a.hpp").write_text(f"#pragma once\n{line}\nint a;\n")
            found = list(findings(root))
            sound = not found if expected is None else len(found) == 1 and f"policy/a.hpp:2: {expected}" in found[0]
            assert sound, (line, found)
    print(f"self-test: {len(lines)} lines judged")


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
        sys.exit(0)
    house = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    bad = list(findings(house if house.is_dir() else house.parents[2]))
    print("\n".join(bad) if bad else "the banners are whole")
    sys.exit(1 if bad else 0)
