#!/usr/bin/env python3
"""Every path that a page names exists, and so does every link's file and heading. Pages are README.md and docs/*.md.

check_pages.py [ROOT] exits 1 and names page, line and path where a rule is broken; `--self-test` proves that it can fail.

A path begins with a folder of the top, wherever it stands in a page. In backquotes it may begin with any folder of the
tree (`kv/chain_key`). A name without extension means a folder or any file with that stem, `*` and `<name>` match any
part of a name, every alternative of `{a,b}` must exist. `build/<preset>/DIR/PROGRAM` is a name in DIR/CMakeLists.txt.
"""
import itertools
import os
import pathlib
import re
import sys
import tempfile

TOP = ["config", "daemon", "policy", "backends", "kernels", "tests", "docs", "packaging"]
SOURCE = re.compile(r"[\w*]+\.(cpp|hpp|h|inl|comp|cl|glsl|py|mjs)$")
PATH = r"[\w.*<>{},/-]*[\w*>}/]"
ANY_PATH = re.compile(rf"[a-z_0-9]+/({PATH})?")
TOP_PATH = re.compile(rf"(?<![\w/.~$-])((?:{'|'.join(TOP)})/{PATH})")
BUILT_PATH = re.compile(rf"(?<![\w/.~$-])build/([\w<>-]+)/({PATH})")
SPAN = re.compile(r"(?<!`)`((?:[^`\n]|\n(?!\n))+)`(?!`)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*$")
# Words in backquotes that only look like paths.
NO_PATHS = {"application/json"}
# Files that the build makes and no CMakeLists.txt names.
BUILT = {"node_modules"}
# Names in backquotes that are no files, in the places where names are files: architecture.md's rooms (of the room's
# own) and life-of-a-request.md (of any room).
NOT_FILES = {
    "docs/architecture.md": {"expected_ttft"},
    "docs/life-of-a-request.md": {"device_lost", "io_context", "max_sequences", "shutting_down"},
}


class Tree:
    """The names of all files and folders below a root, but for what git or the build put there."""

    def __init__(self, root):
        self.root, paths = root, []
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(f for f in folders if not re.match(r"\.git$|build(-|$)|node_modules$|__pycache__$", f))
            where = pathlib.Path(folder).relative_to(root)
            paths += [(where / name).as_posix() for name in [*folders, *files]]
        self.text = "\n".join(paths)

    def has(self, path, below=""):
        """Whether each path that `path` means is there; `below` is a pattern for what may stand before it."""
        for one in alternatives(path.strip("/")):
            pattern = re.sub(r"<\w+>|\*+", "*", one)
            pattern = "".join("[^/\n]*" if c == "*" else re.escape(c) for c in pattern)
            if not re.search(rf"^{below}{pattern}(\.[^/\n]*)?$", self.text, re.M):
                return False
        return True

    def built(self, path):
        folder, _, name = path.rpartition("/")
        lists = [self.root / folder / "CMakeLists.txt"] if folder else self.root.rglob("CMakeLists.txt")
        return name in BUILT or any(re.search(rf"\b{re.escape(name)}\b", p.read_text()) for p in lists if p.exists())


def alternatives(path):
    parts = [part.split(",") if n % 2 else [part] for n, part in enumerate(re.split(r"\{([^{}]*)\}", path))]
    return ["".join(parts) for parts in itertools.product(*parts)]


def pages(root):
    return [*sorted((root / "docs").glob("*.md")), root / "README.md"]


def prose(text):
    """The text with its code blocks blanked out, so that offsets stay."""
    blank = lambda m: re.sub(r"[^\n]", " ", m[0])
    return re.sub(r"(?<=\n\n)( {4}.*\n)+", blank, re.sub(r"^```.*?^```$", blank, text, flags=re.M | re.S))


def spans(text):
    """(offset, span) of what stands in backquotes outside of code blocks."""
    return [(m.start(), m[1]) for m in SPAN.finditer(prose(text))]


def paths(tree, text):
    """(offset, finding) for each path that does not exist."""
    for m in TOP_PATH.finditer(text):
        if not tree.has(m[1]):
            yield m.start(), f"{m[1]} does not exist"
    for m in BUILT_PATH.finditer(text):
        if not tree.built(m[2]):
            yield m.start(), f"{m[0]}: no CMakeLists.txt names this program"
    for at, span in spans(text):
        for word in span.split():
            if word.split("/")[0] in [*TOP, "build"] or word in NO_PATHS:
                continue
            if (SOURCE.fullmatch(word) or ANY_PATH.fullmatch(word)) and not tree.has(word, below="(?:.*/)?"):
                yield at, f"{word} does not exist in any folder"


def anchors(text):
    """The anchors of a page's headings, made as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page, text):
    for m in LINK.finditer(prose(text)):
        file, _, anchor = m[1].partition("#")
        if re.match(r"[a-z]+:", m[1]):
            continue
        target = page.parent / file if file else page
        if not target.exists():
            yield m.start(), f"the link's file {file} does not exist"
        elif anchor and anchor not in anchors(target.read_text()):
            yield m.start(), f"{target.name} has no heading #{anchor}"


def entries(text):
    """(offset, text) of each bullet of the section "Rooms" and each row of the table of folders."""
    section = re.search(r"^## Rooms\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if section:
        for m in re.finditer(r"^- .*\n(?:(?:  .*)?\n)*", section[1] + "\n", re.M):
            yield section.start(1) + m.start(), m[0]
    for m in re.finditer(r"^\| `\w+` \|.*$", text.split("## Rooms")[0], re.M):
        yield m.start(), m[0]


def names_of_rooms(tree, text, allowed):
    """A name in the entry of a room is a file or folder below it, or below another one that the entry names in full."""
    for start, entry in entries(text):
        named = [span for _, span in spans(entry)]
        rooms = {s if (tree.root / s).is_dir() else s.rpartition("/")[0] for s in named if s.split("/")[0] in TOP}
        below = f"(?:{'|'.join(sorted(map(re.escape, rooms)))})/(?:.*/)?"
        for at, span in spans(entry):
            if NAME.match(span) and span not in TOP and span not in allowed and not tree.has(span, below):
                yield start + at, f"`{span}` is no file or folder of {', '.join(sorted(rooms))}"


def names_of_steps(tree, text, allowed):
    for at, span in spans(text):
        if NAME.match(span) and span not in allowed and not tree.has(span, f"(?:{'|'.join(TOP[:5])})/(?:.*/)?"):
            yield at, f"`{span}` is no file or folder of any room"


def findings(root):
    tree = Tree(root)
    for page in pages(root):
        name, text = page.relative_to(root).as_posix(), page.read_text()
        found = [*paths(tree, text), *links(page, text)]
        if name in NOT_FILES:
            names = names_of_rooms if name == "docs/architecture.md" else names_of_steps
            found += names(tree, text, NOT_FILES[name])
        for at, what in sorted(set(found)):
            yield f"{name}:{text.count(chr(10), 0, at) + 1}: {what}"


SOUND = {
    "README.md": "See docs/architecture.md, [the page](docs/architecture.md#rooms-and-a_name) and [this](#top).\n\n# Top\n",
    "docs/architecture.md":
        "| `policy` | `parse` and `Tree` |\n\n## Rooms and `a_name`\n\n[up](../README.md#top) [out](https://a.org/docs/b#c)\n\n"
        "## Rooms\n\n- `backends/kv`: the `pool`, `chain_key` (read by\n  `policy/parse`) and `expected_ttft`.\n\n"
        "  Its `index/radix` is `_private`.\n- `kernels`: `cpu`, `add`.\n\n## Decisions\n\n`no_file` stands here.\n",
    "docs/contributing.md":
        "`kernels/*/add*` `kernels/<isa>/add.{hpp,cpp}` `kv/pool` `pool.hpp` `build/<preset>/policy/policy_tests` `GET /v1/a`\n"
        "`application/json` /etc/config/none ~/docs/none\n\n    python3 policy/parse.cpp --all\n    echo `none/none`\n",
    "docs/life-of-a-request.md": "The `pool` of `kv` answers `device_lost`.\n",
    "policy/CMakeLists.txt": "flyball_test(policy_tests SOURCES a.cpp)\n",
} | {path: "" for path in ["policy/parse.cpp", "backends/kv/pool.hpp", "backends/kv/chain_key.hpp",
                           "backends/kv/index/radix.cpp", "kernels/cpu/add.hpp", "kernels/cpu/add.cpp"]}
# Sentences that break a rule, each with the page that gets it as its last line and what its finding says.
BROKEN = [
    ("README.md", "docs/gone.md", "README.md:5: docs/gone.md does not exist"),
    ("README.md", "    policy/gone --all", "policy/gone does not exist"),
    ("README.md", "`pool.cpp`", "pool.cpp does not exist in any folder"),
    ("README.md", "`engine/pool`", "engine/pool does not exist in any folder"),
    ("README.md", "`kv/pol`", "kv/pol does not exist in any folder"),
    ("README.md", "`kernels/*/mul*`", "kernels/*/mul* does not exist"),
    ("README.md", "`kernels/cpu/add.{hpp,inl}`", "kernels/cpu/add.{hpp,inl} does not exist"),
    ("README.md", "`build/dev/policy/parse_tests`", "no CMakeLists.txt names this program"),
    ("README.md", "`build/dev/backends/policy_tests`", "no CMakeLists.txt names this program"),
    ("README.md", "[a](gone.md)", "the link's file gone.md does not exist"),
    ("README.md", "[a](docs/architecture.md#room)", "architecture.md has no heading #room"),
    ("README.md", "[a](#bottom)", "README.md has no heading #bottom"),
    ("docs/architecture.md", "## Rooms\n- `policy`: the `pool`.", "`pool` is no file or folder of policy"),
    ("docs/architecture.md", "## Rooms\n- `kernels`: `cpu`.\n\n  It has `mul`.", "`mul` is no file or folder of kernels"),
    ("docs/architecture.md", "| `policy` | `lint` |", "`lint` is no file or folder of policy"),
    ("docs/life-of-a-request.md", "`turns`", "`turns` is no file or folder of any room"),
]


def self_test():
    """Sound pages, to which one wrong sentence after the other is added: each is found, and nothing else."""
    for page, sentence, expected in BROKEN:
        with tempfile.TemporaryDirectory() as d:
            root = pathlib.Path(d)
            for path, text in SOUND.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            assert not list(findings(root)), list(findings(root))
            text = (root / page).read_text()
            before = sentence.startswith(("|", "## Rooms"))  # the first section "Rooms" is the one that counts
            (root / page).write_text(f"{sentence}\n\n{text}" if before else f"{text}\n{sentence}\n")
            found = list(findings(root))
            assert len(found) == 1 and expected in found[0], (sentence, found)
    print(f"self-test: {len(BROKEN)} wrong sentences found")


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
        sys.exit(0)
    house = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    bad = list(findings(house if house.is_dir() else house.parents[2]))
    print("\n".join(bad) if bad else "the pages name what is there")
    sys.exit(1 if bad else 0)
