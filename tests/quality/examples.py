"""The examples that train in seconds end as well in bf16 and f16 as in f32, give the same bits on one and two threads, and go on where they were stopped to
the same bytes.

    examples.py MPC [--full] [EXAMPLE...]

Short trainings (a few percent of the files' own, tolerances wider); --full: as the files say, median of three seeds."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

MPC = os.path.abspath(sys.argv[1])
FULL = "--full" in sys.argv[2:]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
POINT, PART = "point", "part"  # one point of accuracy, or a part of the figure
# name: figure of the last evaluation (or of training), tolerance, steps in short
TABLE = {
    "resnet": ("accuracy", POINT, 40),
    "vit": ("accuracy", POINT, 40),
    "unet": ("loss", PART, 40),
    "vae": ("loss", PART, 100),
    "gan": ("loss", PART, 100),
    "lstm": ("loss", PART, 30),
    "clip": ("loss", PART, 100),
    "moe": ("accuracy", POINT, 100),
    "llama": ("loss", PART, 15),
}
LIMIT = {POINT: (0.01, 0.1), PART: (0.02, 0.05)}  # full, short
failures = 0


def check(ok, *what):
    global failures
    if not ok:
        failures += 1
        print("failed", *what)


def train(name, out, *words, status=0):
    r = subprocess.run([MPC, "train", os.path.join(EXAMPLES, name + ".mpg"), "--out", out, *words], capture_output=True, text=True, timeout=900)
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


def figure(name, precision, seed, folder):
    key, _, steps = TABLE[name]
    out = os.path.join(folder, f"{name}-{precision}-{seed}")
    train(name, out, "--precision", precision, "--seed", str(seed), *(() if FULL else ("--steps", str(steps))))
    evals = [r for r in records(out, "eval") if r.get("split") != "train"]
    if evals:
        return evals[-1][key]
    return statistics.mean(r[key] for r in records(out, "step")[-20:])


def same_quality(name, folder):
    _, kind, _ = TABLE[name]
    limit = LIMIT[kind][0 if FULL else 1]
    seeds = (1, 2, 3) if FULL else (1,)
    got = {p: statistics.median(figure(name, p, s, folder) for s in seeds) for p in ("f32", "bf16", "f16")}
    print(f"{name:8}", *(f"{p} {v:.4f}" for p, v in got.items()), flush=True)
    for precision in ("bf16", "f16"):
        off = abs(got[precision] - got["f32"]) / (1 if kind == POINT else abs(got["f32"]))
        check(off <= limit, name, precision, got, f"off by {off:.3f}, allowed {limit}")


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


with tempfile.TemporaryDirectory(prefix="mpc-examples-") as scratch:
    for example in [a for a in sys.argv[2:] if a in TABLE] or TABLE:
        same_quality(example, scratch)
        same_bits(example, scratch)
sys.exit(1 if failures else 0)
