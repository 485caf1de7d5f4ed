"""docs/writing-a-pass.md taken at its word: its files are written, its commands run in order, and what it prints is what comes out. A block's first
line says what it is: a file by name, `sh` to be run, `output` of the command before it."""
import os
import re
import subprocess
import tempfile

from support import MPC, ROOT, check, result

with open(os.path.join(ROOT, "docs", "writing-a-pass.md"), encoding="utf-8") as f:
    page = f.read()
blocks = re.findall(r"^```([^\n]*)\n(.*?)^```", page, re.M | re.S)
check(len(page.splitlines()) < 150, "one page")
check({"sh", "output"} <= {kind for kind, _ in blocks}, "kinds of blocks")

with tempfile.TemporaryDirectory(prefix="mpc-page-") as folder:
    for kind, text in blocks: # a reader has all files before the commands that follow
        words = kind.split()
        if len(words) == 2:
            with open(os.path.join(folder, words[1]), "w", encoding="utf-8") as f:
                f.write(text)
        else:
            check(kind in ("sh", "output"), "a block of kind", kind)
    environment = dict(os.environ, MPC=ROOT, PATH=os.path.dirname(MPC) + os.pathsep + os.environ["PATH"])
    environment.pop("CFLAGS", None)
    printed = ""
    commands = 0
    for kind, text in blocks:
        if kind == "output":
            check(printed == text, "prints", printed, "the page says", text)
        if kind != "sh":
            continue
        for line in text.splitlines():
            r = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
            check(r.returncode == 0, line, r.stdout, r.stderr)
            printed = r.stdout
            commands += 1
            if "dump-ir" in line:
                check("minimum" in printed and re.search(r"%h = exp\(%minimum", printed), "the pass ran in the training's pipeline", printed)
            if "passes" in line and "opt" not in line:
                check("limits what exp reads" in printed, printed)
    check(commands >= 5, commands, "commands")
result()
