"""mpc explain --compare-solvers on every example and benchmark model, for CPUs and a GPU, whatever this machine is. With bf16, f16 or both in either order: what mincut
finds is never dearer than any solver's assignment that keeps the hard rules, the lower bound is below all that keep them, a second format never makes it dearer, and a loss
scale is paid for where a value is f16 and nowhere else. Where no format multiplies faster than f32 mincut is as `list`, and says so (W155)."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

MPC = os.path.abspath(sys.argv[1])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
EXAMPLES = [(f"examples/{name}.mpg", []) for name in ("clip", "gan", "llama", "lstm", "moe", "resnet", "unet", "vae", "vit")]
SMALL = [("examples/digits.mpg", []), ("examples/mlp.mpg", []), ("examples/linear.mpg", []),
         ("examples/gpt.mpg", ["--const", "width=32", "--const", "depth=2", "--batch", "8"])]
MODELS = [("examples/gpt.mpg", []), ("bench/tiny.mpg", []), ("bench/mlp1024.mpg", []),
          ("bench/resnet20.mpg", []), ("bench/odd.mpg", []), ("bench/odd.mpg", ["--const", "width=257", "--batch", "7"]), ("bench/odd.mpg", ["--const", "width=100", "--batch", "129"]),
          ("bench/odd.mpg", ["--const", "width=1000", "--batch", "7"]), ("bench/gpt2.mpg", [])]
failed = []


def check(ok, text):
    if not ok:
        failed.append(text)
        print("FAILED:", text)


def asked(formats):
    return ["--formats", formats] if "," in formats else ["--precision", formats]


def check_rows(where, formats, solvers, bound):
    mincut = solvers["mincut"]
    for name in ("list", "mincut", "O0"):
        check(not solvers[name]["broken"], f"{where}: {name} breaks {solvers[name]['broken'][:1]}")
    for name, s in solvers.items():
        used = {f for f in s["bytes"] if f in ("bf16", "f16")}
        check(s["loss_scale"] == ("f16" in used), f"{where}: {name} has {used}, a loss scale: {s['loss_scale']}")
        check(used <= set(formats.split(",")), f"{where}: {name} has {used}")
        check(abs(s["seconds"] - s["ops_seconds"] - s["values_seconds"] - s["casts_seconds"]) <= 1e-9 * s["seconds"], f"{where}: parts of {name}")
        if s["broken"]:
            continue
        check(bound <= s["seconds"] * (1 + 1e-9), f"{where}: bound {bound}, {name} {s['seconds']}")
        check(mincut["as_list"] or mincut["seconds"] <= s["seconds"] * (1 + 1e-9), f"{where}: mincut {mincut['seconds']}, {name} {s['seconds']}")


def compare(model, options, formats, target):
    """Seconds of mincut, and whether it is as list."""
    r = subprocess.run([MPC, "explain", os.path.join(ROOT, model), "--compare-solvers", "--json", *asked(formats), "--cost-target", target, *options],
                       capture_output=True, text=True, timeout=120)
    where = " ".join([model, *options, formats, target])
    check(r.returncode == 0, f"{where}: exit status {r.returncode}\n{r.stderr}")
    if r.returncode:
        return math.nan, False
    found = json.loads(r.stdout)
    solvers = {s["solver"]: s for s in found["solvers"]}
    mincut, pytorch = solvers["mincut"], solvers["list-pytorch"]
    check_rows(where, formats, solvers, found["lower_bound_seconds"])
    slow = all(low in SLOW[target] for low in formats.split(","))
    check(mincut["as_list"] == slow, f"{where}: as list: {mincut['as_list']}")
    check(slow or mincut["seconds"] <= 1.02 * pytorch["seconds"], f"{where}: mincut {mincut['seconds']}, list-pytorch {pytorch['seconds']}")
    print(f"{where:75} {mincut['seconds'] * 1e6:11.2f} us, of f32 {mincut['seconds'] / solvers['O0']['seconds']:.2f}, of list-pytorch "
          f"{mincut['seconds'] / pytorch['seconds']:.2f}")
    return mincut["seconds"], mincut["as_list"]


def compare_formats(model, options, target):
    found = {f: compare(model, options, f, target) for f in ("bf16", "f16", "f16,bf16", "bf16,f16")}
    for both in ("f16,bf16", "bf16,f16"):
        for one in ("f16", "bf16"):
            check(found[both][0] <= found[one][0] * (1 + 1e-9), f"{model} {target}: {both} {found[both]}, {one} {found[one]}")


def the_note_has_both_prices():
    """W155: what is taken for its numbers costs more than f32, and the user hears how much."""
    model = os.path.join(ROOT, "examples/mlp.mpg")
    for precision, target in (("f16", "cpu-amx"), ("bf16", "cpu-avx512")):
        words = [MPC, "explain", model, "--precision", precision, "--cost-target", target]
        said = re.search(r"note\[W155\].* list: ([0-9.]+) us a step by the model, ([0-9.]+) % more than f32 \(([0-9.]+) us\)",
                         subprocess.run(words, capture_output=True, text=True, timeout=120).stderr)
        rows = {s["solver"]: s["seconds"] * 1e6 for s in json.loads(subprocess.run([*words, "--compare-solvers", "--json"], capture_output=True, text=True, timeout=120).stdout)["solvers"]}
        check(said and abs(float(said[1]) / rows["list"] - 1) < 0.01 and abs(float(said[3]) / rows["O0"] - 1) < 0.01, f"{precision} {target}: {said and said.groups()}, {rows}")
        check(said and abs(float(said[2]) - 100 * (rows["list"] / rows["O0"] - 1)) < 1, f"{precision} {target}: {said and said[2]}")


def a_run_says_it_once():
    """The step of training is what the prices are of; those of evaluation follow it."""
    with tempfile.TemporaryDirectory() as folder:
        words = [MPC, "train", os.path.join(ROOT, "examples/digits.mpg"), "--precision", "f16", "--cost-target", "cpu-amx", "--device", "ref", "--steps", "1",
                 "--out", os.path.join(folder, "run")]
        said = subprocess.run(words, capture_output=True, text=True, timeout=120).stderr
        check(said.count("note[W155]") == 1, said)


SLOW = {"cpu-amx": ("f16",), "cpu-avx512": ("bf16", "f16"), "h200": ()}  # what multiplies no faster than f32
for model, options in MODELS:
    compare(model, options, "bf16", "cpu-amx")
    compare(model, options, "bf16", "h200")
for model, options in EXAMPLES + SMALL:
    for target in SLOW:
        compare_formats(model, options, target)
the_note_has_both_prices()
a_run_says_it_once()
sys.exit(1 if failed else 0)
