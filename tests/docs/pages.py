"""README.md and docs/*.md: the model is the example, excerpts are what mpc prints, every mpc command line runs (three steps
where it trains), links lead somewhere. A command line is one in a block, or `mpc ...` in a text without words in capitals."""
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile

MPC, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = checks = 0


def check(condition, *what):
    global failures, checks
    checks += 1
    if not condition:
        failures += 1
        print("failed:", *what, file=sys.stderr)


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as f:
        return f.read()


def blocks(text):
    return re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S)


def run(folder, words):
    words = [MPC] + words[1:]
    if len(words) == 2 and words[1] not in ("help", "ops", "passes", "info"):
        words = [MPC, "help", words[1]]  # only named
    if words[1] in ("train", "sweep"):
        words += ["--steps", "3"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)


def command_lines(text):
    lines = [line for block in blocks(text) for line in block.splitlines()]
    commands = [re.sub(r"\s+#.*", "", line.removeprefix("$ ")) for line in lines if re.match(r"(\$ )?(build/release/)?mpc ", line)]
    spans = re.findall(r"`(mpc [^`\n]*)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    return commands + [s for s in spans if not any(w.isupper() and not re.fullmatch(r"[EW]\d+", w) for w in re.findall(r"[A-Za-z0-9]+", s))
                       and "..." not in s]


def check_links(name, text):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            check(os.path.exists(os.path.join(ROOT, os.path.dirname(name), target)), name, "links to", target)


def check_excerpt(folder, excerpt, words):
    """Each line is one of the output, in order; `...` stands for anything, and places are left out."""
    printed = re.sub(r' loc\("[^"]*":\d+:\d+\)', "", run(folder, words).stdout)
    at = 0
    for line in excerpt.splitlines():
        if line.strip() == "...":
            continue
        pattern = "^ *" + ".*".join(re.escape(part) for part in line.strip().split("...")) + "$"
        found = re.compile(pattern, re.M).search(printed, at)
        check(found, "no such line after the one before:", line)
        at = found.end() if found else at


readme = read("README.md")
with tempfile.TemporaryDirectory(prefix="mpc-docs-") as folder:
    os.symlink(os.path.join(ROOT, "examples"), os.path.join(folder, "examples"))
    os.symlink(os.path.join(ROOT, "tests"), os.path.join(folder, "tests"))
    check(read("examples", "mlp.mpg") in blocks(readme), "the model of README.md is not examples/mlp.mpg")
    graph = next((b for b in blocks(readme) if b.startswith("%head.weight")), "")
    check(len(graph.splitlines()) > 8, "no excerpt of the graph")
    check_excerpt(folder, graph, ["mpc", "dump-ir", "examples/mlp.mpg", "--solver", "list", "--stage", "autocast", "--reasons"])
    bytes_table = next((b for b in blocks(readme) if b.startswith("class ")), "")
    check_excerpt(folder, bytes_table, ["mpc", "explain", "examples/mlp.mpg", "--solver", "list", "--memory"])

    commands = 0
    for path in [os.path.join(ROOT, "README.md")] + sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        name = os.path.relpath(path, ROOT)
        check_links(name, read(name))
        if name == "docs/writing-a-pass.md":
            continue  # tests/plugins runs it, with the files that it writes
        for line in command_lines(read(name)):
            r = run(folder, shlex.split(line))
            check(r.returncode == 0, f"{name}: {line}: exit status {r.returncode}\n{r.stderr[-600:]}")
            commands += 1
    check(commands >= 10, commands, "command lines")

print(f"{checks} checks, {failures} failed", file=sys.stderr)
sys.exit(1 if failures or not checks else 0)
