"""examples/digits.mpg learns to at least 97 % in every precision (median of three seeds), and no precision is worth a point more than
another."""
import os
import re
import subprocess
import sys
import tempfile

MPC = os.path.abspath(sys.argv[1])
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits.mpg")


def accuracy(precision, seed, out):
    r = subprocess.run([MPC, "train", MODEL, "--precision", precision, "--seed", str(seed), "--out", out, "--overwrite"],
                       capture_output=True, text=True, timeout=300)
    found = re.search(r"test accuracy ([0-9.]+) %$", r.stdout.strip())
    if r.returncode or not found:
        sys.exit(f"{precision}, seed {seed}: exit status {r.returncode}\n{r.stderr}")
    return float(found[1])


medians = {}
with tempfile.TemporaryDirectory(prefix="mpc-digits-") as folder:
    for precision in ("bf16", "f32", "f16"):
        figures = sorted(accuracy(precision, seed, folder + "/run") for seed in (1, 2, 3))
        medians[precision] = figures[1]
        print(precision, *figures)
low = [p for p, m in medians.items() if m < 97]
far = [p for p, m in medians.items() if abs(m - medians["bf16"]) > 1]
if low or far:
    print(f"below 97 %: {low}; more than a point from bf16: {far}")
sys.exit(1 if low or far else 0)
