"""mpc explain --compare-solvers on every example and benchmark model, for a CPU and a GPU, whatever this machine is: the default is never dearer than any solver's assignment
that keeps the hard rules, nor than f32, nor than PyTorch's lists; `list`, `mincut` and O0 keep the rules; the lower bound is below all that keep them."""
import json
import os
import subprocess
import sys

MPC = os.path.abspath(sys.argv[1])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
EXAMPLES = [(f"examples/{name}.mpg", []) for name in ("clip", "gan", "llama", "lstm", "moe", "resnet", "unet", "vae", "vit")]
MODELS = EXAMPLES + [("examples/digits.mpg", []), ("examples/mlp.mpg", []), ("examples/linear.mpg", []), ("examples/gpt.mpg", []),
          ("examples/gpt.mpg", ["--const", "width=32", "--const", "depth=2", "--batch", "8"]), ("bench/tiny.mpg", []), ("bench/mlp1024.mpg", []),
          ("bench/resnet20.mpg", []), ("bench/odd.mpg", []), ("bench/odd.mpg", ["--const", "width=257", "--batch", "7"]), ("bench/odd.mpg", ["--const", "width=100", "--batch", "129"]),
          ("bench/odd.mpg", ["--const", "width=1000", "--batch", "7"]), ("bench/gpt2.mpg", [])]
failed = []


def check(ok, text):
    if not ok:
        failed.append(text)
        print("FAILED:", text)


def compare(model, options, precision, target):
    r = subprocess.run([MPC, "explain", os.path.join(ROOT, model), "--compare-solvers", "--json", "--precision", precision, "--cost-target", target, *options],
                       capture_output=True, text=True, timeout=120)
    where = " ".join([model, *options, precision, target])
    check(r.returncode == 0, f"{where}: exit status {r.returncode}\n{r.stderr}")
    if r.returncode:
        return
    found = json.loads(r.stdout)
    solvers = {s["solver"]: s for s in found["solvers"]}
    default, bound = solvers["mincut"]["seconds"], found["lower_bound_seconds"]
    for name in ("list", "mincut", "O0"):
        check(not solvers[name]["broken"], f"{where}: {name} breaks {solvers[name]['broken'][:1]}")
    check(default <= solvers["O0"]["seconds"] * (1 + 1e-9), f"{where}: mincut {default}, f32 {solvers['O0']['seconds']}")
    check(default <= 1.02 * solvers["list-pytorch"]["seconds"], f"{where}: mincut {default}, list-pytorch {solvers['list-pytorch']['seconds']}")
    for name, s in solvers.items():
        if not s["broken"]:
            check(default <= s["seconds"] * (1 + 1e-9), f"{where}: mincut {default}, {name} {s['seconds']}")
            check(bound is None or bound <= s["seconds"] * (1 + 1e-9), f"{where}: bound {bound}, {name} {s['seconds']}")
        check(abs(s["seconds"] - s["ops_seconds"] - s["values_seconds"] - s["casts_seconds"]) <= 1e-9 * s["seconds"], f"{where}: parts of {name}")
    print(f"{where:75} {default * 1e6:11.2f} us, of f32 {default / solvers['O0']['seconds']:.2f}, of list-pytorch "
          f"{default / solvers['list-pytorch']['seconds']:.2f}")


for model, options in MODELS:
    compare(model, options, "bf16", "cpu-amx")
    compare(model, options, "bf16", "h200")
for model, options in [("examples/digits.mpg", [])] + EXAMPLES:
    compare(model, options, "f16", "h200")
sys.exit(1 if failed else 0)
