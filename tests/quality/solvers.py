"""Every example is worth the same in bf16 and f16 whichever of `list` and `mincut` assigns the formats.

    solvers.py MPC [EXAMPLE...]

Short trainings; examples.py --full has the examples as they are."""
import json
import os
import subprocess
import sys
import tempfile

MPC = os.path.abspath(sys.argv[1])
ONLY = sys.argv[2:]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
GPT = ["--const", "width=32", "--const", "depth=2", "--batch", "8", "--set", "length=60 steps", "--set", "schedule=cosine(warmup = 10 steps)",
       "--set", "optimizer.lr=5e-3", "--set", "data.train=text(\"{text}\", length = 32)", "--set", "eval_every=60 steps"]
# example, options of the short form, bound: points of accuracy, or relative difference of the loss
CASES = [("digits", ["--set", "length=8 epochs"], 1.0), ("mlp", ["--set", "length=3 epochs"], 1.0), ("linear", [], 0.02), ("gpt", GPT, 0.02)]


def last_evaluation(folder):
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as f:
        return [r for r in map(json.loads, f) if r["type"] == "eval"][-1]


def train(example, precision, solver, options, folder):
    """Accuracy in per cent where there is one, else the loss, of the last evaluation."""
    out = os.path.join(folder, f"{example}-{precision}-{solver}")
    text = os.path.join(folder, "text.txt")
    words = [w.replace("{text}", text) for w in options]
    r = subprocess.run([MPC, "train", os.path.join(EXAMPLES, example + ".mpg"), "--precision", precision, "--solver", solver, "--seed", "1", "--out", out, *words],
                       capture_output=True, text=True, timeout=600)
    if r.returncode:
        sys.exit(f"{example}, {precision}, {solver}: exit status {r.returncode}\n{r.stderr}")
    record = last_evaluation(out)
    accuracy = next((v for k, v in record.items() if "accuracy" in k), None)
    return 100 * accuracy if accuracy is not None else record["loss"]


failed = []
with tempfile.TemporaryDirectory(prefix="mpc-solvers-") as folder:
    with open(os.path.join(EXAMPLES, "data", "persuasion.txt"), encoding="utf-8") as f:
        part = f.read(40000)
    with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as f:
        f.write(part)
    for example, options, bound in CASES:
        if ONLY and example not in ONLY:
            continue
        for precision in ("bf16", "f16"):
            a, b = (train(example, precision, s, options, folder) for s in ("list", "mincut"))
            off = abs(a - b) if bound >= 1 else abs(a - b) / max(abs(a), 1e-9)
            print(f"{example:8} {precision:5} list {a:9.5f}  mincut {b:9.5f}{'' if off <= bound else '  DIFFERS'}", flush=True)
            failed += [(example, precision)] if off > bound else []
sys.exit(1 if failed else 0)
