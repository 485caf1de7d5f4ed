"""On every example: mincut is never dearer than a solver that keeps the hard rules, nor than all-f32, its price is the lower
bound, and the groups that its costs stand on are those of the step that runs. Arguments: mpc, the repository."""
import json
import re
import subprocess
import sys

MPC, ROOT = sys.argv[1:3]
FAILED = []


def run(*args):
    r = subprocess.run([MPC, *args], capture_output=True, text=True, cwd=ROOT)
    if r.returncode:
        sys.exit(f"{args}: {r.stderr}")
    return r.stdout


def check(holds, *what):
    if not holds:
        FAILED.append(what)
        print("failed:", *what, file=sys.stderr)


def compare(model, target):
    found = json.loads(run("explain", model, "--compare-solvers", "--json", "--precision", "bf16", "--cost-target", target))
    price = {s["solver"]: s["seconds"] for s in found["solvers"]}
    keeps = [s["solver"] for s in found["solvers"] if not s["broken"]]
    check("list" in keeps and "O0" in keeps and "mincut" in keeps, model, keeps)
    for name in keeps:
        check(price["mincut"] <= price[name] * (1 + 1e-9), model, target, "dearer than", name, price)
    bound = found["lower_bound_seconds"]
    check(abs(price["mincut"] - bound) <= 1e-9 * bound, model, target, "is not the bound", price["mincut"], bound)
    return price


def groups(model, *options):
    """Value -> group, without what formats add: casts, and reshapes made for one reader."""
    out = {}
    for line in run("dump-ir", model, "--stage", "fused", *options).splitlines():
        m = re.match(r"  (%\S+?)(?:, %\S+)* = (\w+)\(.* group\((\d+)\)", line)
        if m and m[2] not in ("cast", "reshape"):
            out[m[1]] = m[3]
    return out


def grouped_alike(model):
    """The partition of the f32 step's values is that of the bf16 step's, for all but few of the values that have one name in both."""
    wide, low = groups(model, "--precision", "f32"), groups(model, "--precision", "bf16", "--solver", "mincut")
    common = [v for v in wide if v in low]
    partner, apart = {}, 0
    for v in common:
        apart += partner.setdefault(wide[v], low[v]) != low[v]
    check(len(common) > 20 and apart <= 0.03 * len(common), model, "grouped otherwise:", apart, "of", len(common))
    return apart, len(common)


OLD = ("digits", "mlp", "gpt")
for name in OLD + ("clip", "gan", "llama", "lstm", "moe", "resnet", "unet", "vae", "vit"):
    path = f"examples/{name}.mpg"
    for device in ("cpu-amx", "cpu-avx512bf16", "h200") if name in OLD else ("cpu-avx512bf16", "a100"):
        prices = compare(path, device)
        print(f"{name} on {device}: mincut {prices['mincut'] * 1e6:.1f} us, list {prices['list'] * 1e6:.1f}, f32 {prices['O0'] * 1e6:.1f}")
    print(name, "values apart, of:", *grouped_alike(path))
sys.exit(bool(FAILED))
