"""What the tests of plugins share: running mpc, counting checks."""
import os
import subprocess
import sys

MPC, ROOT, BUILT = (os.path.abspath(a) for a in sys.argv[1:4])
counts = {"checks": 0, "failed": 0}


def check(condition, *what):
    counts["checks"] += 1
    if not condition:
        counts["failed"] += 1
        print("failed:", *what, file=sys.stderr)
    return condition


def mpc(*words, cwd=None):
    return subprocess.run([MPC, *words], cwd=cwd, capture_output=True, text=True, timeout=250)


def plugin(name):
    return ["--load-plugin", os.path.join(BUILT, "examples", name + ".so")]


def result():
    print(f"{counts['checks']} checks, {counts['failed']} failed", file=sys.stderr)
    sys.exit(1 if counts["failed"] or not counts["checks"] else 0)
