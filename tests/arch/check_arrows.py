#!/usr/bin/env python3
"""The walls of the house: include arrows run downward only, each op stands in every engine's column, nothing else at the top.

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
# Rooms that are neighbours: what two of them need lies in a room below both (backends/device, backends/graph).
APART = [{"backends/opencl", "backends/vulkan"}, {"kernels/opencl", "kernels/vulkan"}]
# Headers of our own that the build writes: embedded files, which belong to the folder that embeds them.
GENERATED = {"embedded"}
# Rooms that decide: no sockets, no files, no clocks, no threads (docs/architecture.md).
PURE = {
    "policy": r'#include\s*<(boost/asio|boost/beast|fstream|filesystem|thread|sys/|unistd|mutex)|std::chrono::\w*_clock::now|std::this_thread',
    "kernels": r'#include\s*<(boost/|fstream|filesystem|thread|mutex|sys/(?!auxv)|unistd|iostream|spdlog/)|\bmalloc\(|\bnew\s+\w',
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


def arrows(root):
    for folder, allowed in MAY_INCLUDE.items():
        for path in sources(root, folder):
            for n, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                m = INCLUDE.match(line)
                if m and m[1].split("/")[0] not in allowed | GENERATED:
                    yield f"{path.relative_to(root)}:{n}: {folder} may not include \"{m[1]}\""


def neighbours(root):
    for rooms in APART:
        for room in sorted(rooms):
            for path in sources(root, room):
                for n, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                    m = INCLUDE.match(line)
                    if m and "/".join(m[1].split("/")[:2]) in rooms - {room}:
                        yield f"{path.relative_to(root)}:{n}: {room} may not include its neighbour's \"{m[1]}\""


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
    return [*arrows(root), *neighbours(root), *purity(root), *columns(root), *top(root)]


def self_test():
    """A small house with one broken wall of each kind: every one must be found."""
    with tempfile.TemporaryDirectory() as d:
        root = pathlib.Path(d)
        for folder in MAY_INCLUDE:
            (root / folder).mkdir()
        for column in COLUMNS:
            (root / "kernels" / column).mkdir()
            for op in OPS:
                (root / "kernels" / column / f"{ALSO.get((column, op), op)}.cpp").touch()
        assert findings(root) == [], findings(root)
        (root / "config/a.hpp").write_text('#include "policy/tree.hpp"\n')
        (root / "kernels/b.cpp").write_text('#include "config/error.hpp"\n')
        (root / "backends/vulkan").mkdir()
        (root / "backends/vulkan/e.cpp").write_text('#include "backends/opencl/choice.hpp"\n')
        (root / "policy/c.cpp").write_text("auto t = std::chrono::steady_clock::now();\n")
        (root / "kernels/cpu/rope.cpp").unlink()
        (root / "stray").mkdir()
        found = findings(root)
        assert len(found) == 6, found
    print("self-test: 6 broken walls found")


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
        sys.exit(0)
    where = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    house = where if where.is_dir() else where.parents[2]
    bad = findings(house)
    print("\n".join(bad) if bad else "the walls stand")
    sys.exit(1 if bad else 0)
