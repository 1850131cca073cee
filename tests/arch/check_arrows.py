#!/usr/bin/env python3
"""The walls of the house: includes run downward only, between folders and between the rooms of a folder; each op stands in
every engine's column; engine names stand in one table; nothing else stands at the top.

check_arrows.py [ROOT] exits 1 and names file, line and arrow where a rule is broken; `--self-test` proves that it can fail.
"""
import pathlib
import re
import sys
import tempfile

MAY_INCLUDE = {
    "config": {"config"},
    "kernels": {"kernels"},
    "policy": {"policy", "config"},
    "backends": {"backends", "kernels", "config"},
    "daemon": {"daemon", "backends", "policy", "config"},
}
# The rooms of each folder, lowest first. A room includes itself, the rooms of the lines above its own and the folder's own
# headers, which include no room. Rooms on one line are neighbours, and include each other never. "" is a folder without
# rooms. A room that is missing here is a finding, so a new one is given its place on purpose.
ROOMS = {
    "config": [[""]],
    "policy": [[""]],
    "kernels": [["formats"], ["reference", "cpu", "opencl", "vulkan"], ["vulkan/software"]],
    "backends": [["model", "text/jinja", "grammar"], ["text", "constrain"], ["graph"], ["decode", "kv"], ["device"], ["spill"],
                 ["cpu", "opencl", "vulkan"], ["engine"], ["local"], ["worker"]],
    "daemon": [["store", "http", "apps", "systemd", "metrics", "predict/statistics"], ["fleet"], ["usage", "measure"], ["predict"],
               ["probe"], ["settings", "route"],
               ["api"], ["api/calls"], ["api/openai", "api/ollama", "api/anthropic"], ["api/native"], ["api/table"], ["calibrate"], ["serve"], ["hub", "discover"],
               ["cli"]],
}
# The one table of engine kinds. Elsewhere in NAMELESS an engine's name is data that a table, a file or a message brought.
ENGINE_TABLE = {"config/engine_kinds.hpp"}
NAMELESS = ["config", "policy", "backends", "daemon"]
ENGINE_LITERAL = re.compile(r'"(cpu|opencl|vulkan)"')
# Headers of our own that the build writes: embedded files, which belong to the folder that embeds them.
GENERATED = {"embedded"}
# Rooms that decide: no sockets, no files, no clocks, no threads (docs/architecture.md).
PURE = {
    "policy": r'#include\s*<(boost/asio|boost/beast|fstream|filesystem|thread|sys/|unistd|mutex)|std::chrono::\w*_clock::now|std::this_thread',
    "daemon/predict": r'#include\s*<(boost/asio|boost/beast|fstream|filesystem|thread|sys/|unistd|mutex)|std::chrono::\w*_clock::now|std::this_thread',
    "daemon/hub/url": r'#include\s*<(boost/|fstream|thread|sys/|unistd|mutex)|std::chrono::\w*_clock::now|std::this_thread',
    "daemon/hub/listing": r'#include\s*<(boost/|fstream|thread|sys/|unistd|mutex)|std::chrono::\w*_clock::now|std::this_thread',
    "daemon/hub/choice": r'#include\s*<(boost/|fstream|thread|sys/|unistd|mutex)|std::chrono::\w*_clock::now|std::this_thread',
    "kernels": r'#include\s*<(boost/|fstream|filesystem|thread|mutex|sys/(?!auxv)|unistd|iostream|spdlog/)|\bmalloc\(|\bnew\s+\w',
    "backends/grammar": r'#include\s*<(boost/asio|boost/beast|fstream|filesystem|thread|sys/|unistd)|std::chrono::\w*_clock::now|std::this_thread',
    "backends/constrain": r'#include\s*<(boost/asio|boost/beast|fstream|filesystem|thread|mutex|sys/|unistd)|std::chrono::\w*_clock::now|std::this_thread',
    "backends/decode": r'#include\s*<(boost/asio|boost/beast|fstream|filesystem|thread|sys/|unistd)|std::chrono::\w*_clock::now|std::this_thread',
    "backends/kv": r'#include\s*<(boost/asio|boost/beast|fstream|filesystem|thread|sys/|unistd)|std::chrono::\w*_clock::now|std::this_thread',
    "backends/engine/scheduler": r'#include\s*<(boost/asio|boost/beast|fstream|filesystem|thread|sys/|unistd|mutex)|std::chrono::\w*_clock::now|std::this_thread',
}
# top_k is not among them: only devices whose logits the host cannot read in place have it.
OPS = ["embed", "rms_norm", "matmul", "rope", "store_f16", "store_q8_0", "attend", "glu", "softcap", "add", "moe_route"]
COLUMNS = ["reference", "cpu", "opencl", "vulkan"]
# Where a column has an op under another name: GPUs rotate, round and store into the paged cache in one kernel.
ALSO = {(column, op): "rope_kv_store" for column in ("opencl", "vulkan") for op in ("rope", "store_f16", "store_q8_0")}
TOP = {"CMakeLists.txt", "CMakePresets.json", "daemon", "backends", "policy", "kernels", "config", "tests", "packaging", "docs",
       "README.md", "LICENSE"}
SOURCES = {".hpp", ".cpp", ".h", ".inl"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def sources(root, folder):
    return sorted(p for p in (root / folder).rglob("*") if p.suffix in SOURCES)


def lines(root, folder):
    """(path, its number, line) of every line of a folder's sources, paths relative to the root."""
    for path in sources(root, folder):
        for n, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            yield path.relative_to(root), n, line


def room_of(path):
    """The room of a path as written after the folder: "text/jinja" of "backends/text/jinja/lexer.hpp"; "" is the folder itself."""
    return "/".join(pathlib.PurePosixPath(path).parts[1:-1])


def arrows(root):
    for folder, allowed in MAY_INCLUDE.items():
        for path, n, line in lines(root, folder):
            m = INCLUDE.match(line)
            if m and m[1].split("/")[0] not in allowed | GENERATED:
                yield f"{path}:{n}: {folder} may not include \"{m[1]}\""


def rooms(root):
    """Includes between rooms of one folder that do not run downward, rooms without a place in ROOMS, and cycles of rooms."""
    for folder, order in ROOMS.items():
        height = {room: n for n, row in enumerate(order, 1) for room in row}
        height.setdefault("", 0)
        there = {room_of(path.relative_to(root)) for path in sources(root, folder)}
        for room in sorted(there - set(height)):
            yield f"{folder}/{room}: this room has no place in ROOMS (tests/arch/check_arrows.py)"
        edges = {}
        for path, n, line in lines(root, folder):
            room, m = room_of(path), INCLUDE.match(line)
            other = room_of(m[1]) if m and m[1].startswith(folder + "/") else room
            if other == room or room not in height or other not in height:
                continue
            edges.setdefault(room, {}).setdefault(other, f"{path}:{n}")
            if height[other] >= height[room]:
                why = "above it" if height[other] > height[room] else "its neighbour"
                yield f"{path}:{n}: {folder}/{room} may not include \"{m[1]}\", whose room is {why}"
        for cycle in cycles(edges):
            steps = [f"{a} -> {b} ({edges[a][b]})" for a, b in zip(cycle, [*cycle[1:], cycle[0]])]
            yield f"{folder}: rooms in a cycle: " + ", ".join(steps)


def cycles(edges):
    """One shortest cycle through each set of rooms that include each other, whatever ROOMS says of them."""
    seen = set()
    for start in sorted(edges):
        paths, reached = [[start]], {start}
        while paths:
            path = paths.pop(0)
            if start in edges.get(path[-1], {}):
                if not seen & set(path):
                    yield path
                seen |= set(path)
                break
            for room in sorted(edges.get(path[-1], {})):
                if room not in reached:
                    reached.add(room)
                    paths.append([*path, room])


def engine_names(root):
    for folder in NAMELESS:
        for path, n, line in lines(root, folder):
            if str(path) in ENGINE_TABLE:
                continue
            for m in ENGINE_LITERAL.finditer(line.split("//")[0]):
                yield f"{path}:{n}: {m[0]} names an engine outside its table ({', '.join(sorted(ENGINE_TABLE))})"


def purity(root):
    for place, pattern in PURE.items():
        forbidden = re.compile(pattern)
        for path in sources(root, place.split("/")[0]):
            relative = str(path.relative_to(root))
            if not relative.startswith(place):
                continue
            for n, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if forbidden.search(line.split("//")[0]):
                    yield f"{relative}:{n}: {place} decides, so it may not say: {line.strip()}"


def columns(root):
    for op in OPS:
        for column in COLUMNS:
            if not any((root / "kernels" / column).glob(f"{ALSO.get((column, op), op)}*")):
                yield f"kernels/{column}: no file for op {op}"


def top(root):
    for path in sorted(root.iterdir()):
        if path.name not in TOP and not path.name.startswith(".") and not re.match(r"build(-|$)|node_modules$", path.name):
            yield f"{path.name}: does not belong at the top"


def findings(root):
    return [*arrows(root), *rooms(root), *engine_names(root), *purity(root), *columns(root), *top(root)]


# Broken walls, each with what its finding says. A cycle between two rooms has an upward arrow, which is a finding, too.
BROKEN = [
    ("config/a.hpp", '#include "policy/tree.hpp"', ['config may not include "policy/tree.hpp"']),
    ("kernels/cpu/b.cpp", '#include "config/error.hpp"', ['kernels may not include "config/error.hpp"']),
    ("backends/vulkan/e.cpp", '#include "backends/opencl/device.hpp"', ["whose room is its neighbour"]),
    ("policy/c.cpp", "auto t = std::chrono::steady_clock::now();", ["policy decides, so it may not say"]),
    ("kernels/cpu/rope.cpp", None, ["kernels/cpu: no file for op rope"]),
    ("stray/README", "", ["stray: does not belong at the top"]),
    ("backends/graph/f.cpp", '#include "backends/engine/scheduler.hpp"', ["whose room is above it"]),
    ("backends/backend.hpp", '#include "backends/model/gguf.hpp"', ["whose room is above it"]),
    ("backends/kv/pool.hpp", '#include "backends/spill/store.hpp"',
     ["whose room is above it", "rooms in a cycle: kv -> spill (backends/kv/pool.hpp:1), spill -> kv (backends/spill/store.hpp:1)"]),
    ("daemon/fleet/g.cpp", 'if (backend == "vulkan") return;', ['"vulkan" names an engine outside its table']),
    ("daemon/attic/h.cpp", "", ["daemon/attic: this room has no place in ROOMS"]),
]


def self_test():
    """A small house in which one wall after the other is broken: each is found, and nothing else."""
    for name, text, expected in BROKEN:
        with tempfile.TemporaryDirectory() as d:
            root = pathlib.Path(d)
            sound = {f"kernels/{column}/{ALSO.get((column, op), op)}.cpp": "" for column in COLUMNS for op in OPS}
            sound |= {table: 'constexpr const char* kNames[] = {"cpu", "opencl", "vulkan"};' for table in ENGINE_TABLE}
            sound["backends/spill/store.hpp"] = '#include "backends/kv/pool.hpp"\n#include "backends/backend.hpp"'
            sound["daemon/cli/main.cpp"] = '#include "daemon/serve/daemon.hpp"\n#include "embedded/config.hpp"\n// "cpu"'
            for path, lines_of in sound.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(lines_of)
            assert findings(root) == [], findings(root)
            if text is None:
                (root / name).unlink()
            else:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            found = findings(root)
            assert len(found) == len(expected) and all(e in f for e, f in zip(expected, found)), (name, found)
    print(f"self-test: {len(BROKEN)} broken walls found")


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
        sys.exit(0)
    where = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    house = where if where.is_dir() else where.parents[2]
    bad = findings(house)
    print("\n".join(bad) if bad else "the walls stand")
    sys.exit(1 if bad else 0)
