"""Every example ends as well in bf16 and f16 as in f32; those that train in seconds also give the same bits on one and two threads, and go on where
they were stopped to the same bytes.

    examples.py MPC [EXAMPLE...]                        short trainings, tolerances wider
    examples.py MPC --full [--runs FOLDER] [EXAMPLE...]  as docs/results.md has them: the median of three seeds or more, and under `list` as
                                                        well as under `mincut`. FOLDER keeps the runs; finished ones aren't repeated.
"""
import csv
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile

MPC = os.path.abspath(sys.argv[1])
FULL = "--full" in sys.argv[2:]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
POINT, PART = "point", "part"  # one point of accuracy, or a part of the figure
# name: figure of the last evaluation, kind, steps in short, where the figure is the loss (of the GAN the distance)
TABLE = {
    "resnet": ("accuracy", POINT, 60),
    "vit": ("accuracy", POINT, 60),
    "unet": ("wrong", POINT, 40),
    "vae": ("loss", PART, 100),
    "gan": ("distance", POINT, 200),
    "lstm": ("loss", PART, 30),
    "clip": ("loss", PART, 100),
    "moe": ("accuracy", POINT, 40),
    "llama": ("loss", PART, 15),
}
# only with --full: digits.py, gpt_short.py and solvers.py have their short forms
OTHERS = {"linear": ("loss", PART, 0), "mlp": ("accuracy", POINT, 0), "digits": ("accuracy", POINT, 0), "gpt": ("loss", PART, 0)}
SHORTER = {"gpt": ("--steps", "200"), "llama": ("--steps", "150"), "lstm": ("--steps", "500")}
# On a CPU f16 gains nothing, and `mincut` would take the formats of `list`: it assigns them as for a device where they differ.
ARMS = {
    "f32": ("--precision", "f32"),
    "bf16-list": ("--precision", "bf16", "--solver", "list"),
    "bf16-mincut": ("--precision", "bf16", "--solver", "mincut"),
    "f16-list": ("--precision", "f16", "--solver", "list"),
    "f16-mincut": ("--precision", "f16", "--solver", "mincut", "--cost-target", "h100"),
}
LIMIT = {POINT: 0.01, PART: 0.02}
# In short 0.02 of the loss; batch norms of few steps make more of a rounding, and so does a router's choice between experts that are nearly equal.
SHORT_LIMIT = {"resnet": 0.1, "moe": 0.05}
failures = 0


def check(ok, *what):
    global failures
    if not ok:
        failures += 1
        print("failed", *what)


def train(name, out, *words, status=0):
    r = subprocess.run([MPC, "train", os.path.join(EXAMPLES, name + ".mpg"), "--out", out, *words], capture_output=True, text=True, timeout=3600)
    if r.returncode != status:
        sys.exit(f"{name} {words}: exit status {r.returncode}\n{r.stderr}")


def records(out, kind):
    with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as f:
        return [r for r in map(json.loads, f) if r["type"] == kind]


def weights(out):
    with open(os.path.join(out, "checkpoints", "last"), encoding="utf-8") as f:
        step = f.read().strip()
    with open(os.path.join(out, "checkpoints", step, "weights.safetensors"), "rb") as f:
        return f.read()


def rows(path, skip, scale):
    with open(path, encoding="utf-8") as f:
        return [[float(v) / scale for v in row[:64]] for row in list(csv.reader(f))[skip:]]


def distance(name, out):
    """How far generated pictures are from the real ones: sliced Wasserstein, the mean over 32 directions in the space of pixels of the mean distance
    of the quantiles of what the two sets are along it. Pixels are 0 to 1; equal sets have 0, test rows and training rows of the digits 0.017."""
    samples = os.path.join(out, "samples.csv")
    subprocess.run([MPC, "predict", os.path.join(EXAMPLES, name + ".mpg"), "--from", out, "--which", "last", "--split", "train", "--out", samples], check=True, stderr=subprocess.DEVNULL)
    sets = rows(samples, 1, 1), rows(os.path.join(EXAMPLES, "data", "digits-train.csv"), 0, 16)
    numbers, apart = random.Random(1), []
    for _ in range(32):
        direction = [numbers.gauss(0, 1) for _ in range(64)]
        length = math.hypot(*direction)
        a, b = (sorted(sum(map(float.__mul__, row, direction)) / length for row in part) for part in sets)
        apart += [abs(a[(2 * i + 1) * len(a) // 400] - b[(2 * i + 1) * len(b) // 400]) for i in range(200)]
    return statistics.mean(apart)


def finished(out):
    log = os.path.join(out, "log.jsonl")
    return os.path.exists(log) and bool(records(out, "end"))


def figure(name, key, arm, seed, folder, words):
    out = os.path.join(folder, f"{name}-{arm}-{seed}")
    if not finished(out):
        train(name, out, *words, "--seed", str(seed), "--overwrite")
    if key == "distance":
        return distance(name, out)
    return records(out, "eval")[-1][key]


def compare(name, got, a, b, kind, limit):
    off = abs(got[a] - got[b]) / (abs(got[b]) if kind == PART else 1)
    check(off <= limit, name, a, "against", b, f"off by {off:.4f}, allowed {limit}")


def same_quality(name, folder):
    steps, key = TABLE[name][2], "distance" if name == "gan" else "loss"
    got = {p: figure(name, key, p, 1, folder, ("--precision", p, "--steps", str(steps))) for p in ("f32", "bf16", "f16")}
    print(f"{name:8}", *(f"{p} {v:.4f}" for p, v in got.items()), flush=True)
    for precision in ("bf16", "f16"):
        compare(name, got, precision, "f32", POINT if key == "distance" else PART, SHORT_LIMIT.get(name, 0.02))


def same_quality_in_full(name, folder):
    key, kind, _ = {**TABLE, **OTHERS}[name]
    got = {}
    for arm, words in ARMS.items():
        figures = [figure(name, key, arm, seed, folder, (*words, *SHORTER.get(name, ()))) for seed in (1, 2, 3)]
        got[arm] = statistics.median(figures)
        print(f"{name:8} {arm:11} {got[arm]:.4f}  of", *(f"{v:.4f}" for v in figures), flush=True)
    for arm in list(ARMS)[1:]:
        compare(name, got, arm, "f32", kind, LIMIT[kind])
    for precision in ("bf16", "f16"):
        compare(name, got, precision + "-mincut", precision + "-list", kind, LIMIT[kind])


def same_bits(name, folder):
    for threads in ("1", "2"):
        train(name, os.path.join(folder, f"{name}-t{threads}"), "--threads", threads, "--steps", "6")
    whole = weights(os.path.join(folder, f"{name}-t2"))
    check(weights(os.path.join(folder, f"{name}-t1")) == whole, name, "one and two threads")
    half = os.path.join(folder, f"{name}-half")
    train(name, half, "--steps", "6", "--set", "save_every=3 steps", "--set", "keep=9")
    unbroken = weights(half)
    with open(os.path.join(half, "checkpoints", "last"), "w", encoding="utf-8") as f:
        f.write("step-00000003\n")
    r = subprocess.run([MPC, "train", os.path.join(EXAMPLES, name + ".mpg"), "--resume", half], capture_output=True, text=True, timeout=300)
    check(r.returncode == 0, name, r.stderr)
    check(weights(half) == unbroken, name, "resumed")


def main():
    words = sys.argv[2:]
    kept = words[words.index("--runs") + 1] if "--runs" in words else None
    known = {**TABLE, **OTHERS} if FULL else TABLE
    with tempfile.TemporaryDirectory(prefix="mpc-examples-") as scratch:
        for example in [w for w in words if w in known] or known:
            if FULL:
                same_quality_in_full(example, kept or scratch)
            else:
                same_quality(example, scratch)
                same_bits(example, scratch)
    return 1 if failures else 0


sys.exit(main())
