#!/usr/bin/env python3
"""Every `console` block of the given pages of docs/: each command is run, and prints what the page says.

With --write the pages are brought up to date instead.

A line "$ COMMAND" is a command (continued by lines "> "), what follows is its output. The commands of one page share
an empty folder; `flyball` is the program under test, and finds no configuration of this machine. Beside it lie
recorded.db, a past, and old.yaml, the policy it happened by (record_fixture.cpp).
"""
import difflib
import os
import pathlib
import subprocess
import sys
import tempfile


def steps(lines):
    """(first line of the output, line behind it, command) of every command in the page's console blocks."""
    inside, command, start = False, None, 0
    for i, line in enumerate(lines):
        ends = line.startswith("```") or (inside and line.startswith("$ "))
        if ends and command is not None:
            yield start, i, command
            command = None
        if line.startswith("```"):
            inside = not inside and line == "```console"
        elif inside and line.startswith("$ "):
            command, start = line[2:], i + 1
        elif command is not None and line.startswith("> ") and i == start:
            command, start = command + "\n" + line[2:], i + 1


def run(command, folder):
    env = {"PATH": folder + ":" + os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8"}
    ran = subprocess.run(["sh", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=300)
    return ran.stdout.splitlines()


def check(page, program, write):
    lines = page.read_text().splitlines()
    out, at, n, differ = [], 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(program, os.path.join(folder, "flyball"))
        subprocess.run([fixture, folder], check=True)
        for start, end, command in steps(lines):
            got = run(command, folder)
            out += lines[at:start] + got
            at, n = end, n + 1
            if got != lines[start:end]:
                differ += 1
                print(f"{page.name}: $ {command}")
                print("\n".join(difflib.unified_diff(lines[start:end], got, "page", "program", lineterm="")))
    print(f"{page.name}: {n} commands, {differ} differ")
    if write:
        page.write_text("\n".join(out + lines[at:]) + "\n")
    return n > 0 and (write or differ == 0)


arguments = [a for a in sys.argv[1:] if a != "--write"]
root = pathlib.Path(os.environ["FLYBALL_SOURCE_DIR"]) / "docs"
program = os.path.abspath(os.environ["FLYBALL"])
fixture = os.path.join(os.environ["FLYBALL_BINARY_DIR"], "tests/daemon/route/record_fixture")
results = [check(root / name, program, "--write" in sys.argv) for name in arguments]
sys.exit(0 if results and all(results) else 1)
