"""The models that people train (convolutions, attention, recurrence, experts, two losses) take their first steps on the device cuda, on the
stand-in of its libraries (folder: argument 3), as the evaluator takes them: loss and gradient norm of each step, and what the evaluations
say, in f32, bf16 and f16. Both run one and the same plan, so only the order of sums and the last bits of functions may differ.

    models.py MPC REPOSITORY STANDIN [MODEL...]
"""
import concurrent.futures
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import zipfile

MPC, ROOT, SIM = (os.path.abspath(a) for a in sys.argv[1:4])
STEPS = 3
SMALL = ("--batch", "4")
MODELS = {
    "resnet": ("--const", "width=4", *SMALL),
    "vit": ("--const", "depth=1", "--const", "width=24", *SMALL),
    "unet": ("--batch", "2"),
    "vae": SMALL,
    "gan": SMALL,
    "lstm": ("--const", "width=32", *SMALL),
    "clip": SMALL,
    "moe": SMALL,
    "llama": ("--const", "depth=1", "--const", "width=48", *SMALL),
}
# Relative; the gradient's norm, a sum over all roundings of a step, is allowed ten times as much.
TOLERANCE = {"f32": 1e-5, "bf16": 2e-3, "f16": 1e-3}
failures = checks = 0

if not os.path.exists(os.path.join(SIM, "libcuda.so.1")):
    print("skipped: the stand-in for the CUDA libraries is not built", file=sys.stderr)
    sys.exit(77)


def check(condition, *what):
    global failures, checks
    checks += 1
    failures += not condition
    if not condition:
        print("failed:", *what, file=sys.stderr, flush=True)


def first_rows(npy, rows):
    """The bytes of an array file of version 1, cut to its first rows."""
    end = 10 + int.from_bytes(npy[8:10], "little")
    header = npy[10:end].decode("latin-1")
    count = int(re.search(r"'shape': \((\d+),", header)[1])
    cut = header.replace(f"({count},", f"({rows},").rstrip().ljust(len(header) - 1) + "\n"
    return npy[:10] + cut.encode("latin-1") + npy[end:end + (len(npy) - end) // count * rows]


def few_pictures(source, target, rows):
    with zipfile.ZipFile(source) as full, zipfile.ZipFile(target, "w") as part:
        for name in full.namelist():
            part.writestr(name, first_rows(full.read(name), rows))


def copy_examples(folder):
    """The models, on few data: what a stand-in runs in a second."""
    examples, data = os.path.join(ROOT, "examples"), os.path.join(folder, "data")
    os.makedirs(data)
    for name in MODELS:
        with open(os.path.join(examples, name + ".mpg"), encoding="utf-8") as source, open(os.path.join(folder, name + ".mpg"), "w", encoding="utf-8") as f:
            f.write(source.read().replace("length = 64)", "length = 16)"))
    for name, rows in (("digits-train.csv", 60), ("digits-test.csv", 8), ("persuasion.txt", 20)):
        with open(os.path.join(examples, "data", name), encoding="utf-8") as source, open(os.path.join(data, name), "w", encoding="utf-8") as f:
            f.writelines(source.readlines()[:rows])
    for name, rows in (("shapes-train.npz", 30), ("shapes-test.npz", 4)):
        few_pictures(os.path.join(examples, "data", name), os.path.join(data, name), rows)


def train(folder, name, precision, device):
    out = os.path.join(folder, f"{name}-{precision}-{device}")
    environment = dict(os.environ, LD_LIBRARY_PATH=SIM, MPC_CUDASIM_ONCE="1") if device == "cuda" else None
    # by lists: the default would decide for each device apart
    command = [MPC, "train", name + ".mpg", "--device", device, "--precision", precision, "--solver", "list", "--steps", str(STEPS), "--out", out, *MODELS[name]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        return done.stderr[-1500:]
    with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as f:
        return [r for r in map(json.loads, f) if r["type"] in ("step", "eval")]


def compare(a, b, tolerance, *where):
    check((a["type"], a["step"], a.get("split")) == (b["type"], b["step"], b.get("split")), *where, a, b)
    for key in ("loss", "grad_norm"):
        if key in a or key in b:
            allowed = tolerance * (10 if key == "grad_norm" else 1)
            # null on both: a first step of f16 that overflows, and is left out
            close = a[key] == b[key] or None not in (a[key], b[key]) and math.isclose(a[key], b[key], rel_tol=allowed)
            check(close, *where, "step", a["step"], a["type"], key, a[key], b[key])


def as_on_ref(folder, name, precision):
    a, b = (train(folder, name, precision, device) for device in ("cuda", "ref"))
    if isinstance(a, str) or isinstance(b, str):
        check(False, name, precision, a if isinstance(a, str) else b)
        return
    check(len(a) == len(b) > STEPS, name, precision, len(a), len(b), "records")
    for x, y in zip(a, b):
        compare(x, y, TOLERANCE[precision], name, precision)


def main():
    names = sys.argv[4:] or MODELS
    with tempfile.TemporaryDirectory(prefix="mpc-models-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        copy_examples(folder)
        for run in [pool.submit(as_on_ref, folder, name, precision) for name in names for precision in TOLERANCE]:
            run.result()
    print(f"{checks} checks, {failures} failed", file=sys.stderr)
    return failures != 0 or not checks


sys.exit(main())
