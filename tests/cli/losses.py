"""Several losses, each with its own rows that count: neither figures nor gradients depend on how the rows are split into batches (N61)."""
import math
import random
import struct

from support import DEVICE, Folder, check, final_checkpoint, read_safetensors, run_all

HEAD = """
model m(x: f32[batch, 3], y: i32[batch]) {
    a = param([3, 3], init = normal(std = 0.5))
    b = param([3, 3], init = normal(std = 0.5))
    logits = matmul(x, a)
    value = matmul(x, b)
"""
TAIL = """}
data {
    train = csv("rows.csv")
    input x = columns[0:3]
    input y = columns[3]
}
train {
    precision = f32
    batch = 12
    length = 2 steps
    optimizer = sgd(lr = 0.5, momentum = 0)
}
"""
# losses, and whether some of them count differently
MODELS = {
    "one mask": ("loss ce = cross_entropy(logits, y) where y > 0\nloss sq = value ** 2  weight 0.3", True),
    "two masks": ("loss ce = cross_entropy(logits, y) where y > 0\nloss k = value[:, 0] where y == 0  weight 0.5\nloss n = abs(value - logits)", True),
    "a rare one": ("loss k = value[:, 0] where y == 2  weight 2\nloss ce = cross_entropy(logits, y)", True),
    "one that never counts": ("loss k = value[:, 0] ** 2 where y > 7\nloss ce = cross_entropy(logits, y)\nloss v = huber(value, x) where value > 0", True),
    "groups": ('loss d = cross_entropy(matmul(logits, b), y) where y > 0  weight 2  trains "a"\nloss g = matmul(logits, b) ** 2  trains "b"\n'
               'loss h = abs(value)[:, 0] where y == 0  trains "b"', True),
    "a mask of elements": ("loss e = (value - x) ** 2 where x > 0\nloss f = abs(logits) where x > 0  weight 0.1\nloss g = value[:, 1] ** 2 where y == 1", True),
    "the same mask": ("loss ce = cross_entropy(logits, y) where y > 0\nloss k = value[:, 0] ** 2 where y > 0  weight 0.5", False),
    "no mask": ("loss ce = cross_entropy(logits, y)\nloss sq = value ** 2  weight 0.3", False),
    "one loss": ("loss ce = cross_entropy(logits + value, y) where y > 0  weight 0.5", False),
}
SPLITS = ((12, 1), (6, 2), (5, 3), (2, 6), (1, 12))


def make_rows(seed):
    rng = random.Random(seed)
    labels = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2]
    rng.shuffle(labels)
    return "".join(",".join(f"{rng.gauss(0, 1):.4f}" for _ in range(3)) + f",{label}\n" for label in labels)


def close(a, b, tolerance=2e-5):
    return (a is None and b is None) or (a is not None and b is not None and math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance))


def floats(folder, run):
    tensors, _, _ = read_safetensors(final_checkpoint(folder, run)[1]["weights.safetensors"])
    return {k: struct.unpack(f"<{len(v[2]) // 4}f", v[2]) for k, v in tensors.items()}


def same(a, b):
    return a.keys() == b.keys() and all(close(x, y) for k in a for x, y in zip(a[k], b[k]))


def weights_of(losses):
    """Of each loss, by name."""
    return {line.split()[1]: float(line.split(" weight ")[1].split()[0]) if " weight " in line else 1 for line in losses.splitlines()}


def has_shares(folder, run):
    tensors, _, _ = read_safetensors(final_checkpoint(folder, run)[1]["state.safetensors"])
    return any(name.endswith("/acc.2") for name in tensors)


def model(losses):
    return HEAD + "".join(f"    {line}\n" for line in losses.splitlines()) + TAIL


def check_totals(name, record, losses):
    """The reported total is that of the reported parts; one that never counted has none."""
    parts = {k: record.get(f"loss.{k}", record["loss"]) for k in losses} if len(losses) > 1 else None
    if parts:
        total = sum(w * parts[k] for k, w in losses.items() if parts[k] is not None)
        check(close(record["loss"], total, 1e-6), name, record["loss"], total)


def training():
    for name in MODELS if DEVICE == "ref" else ("groups",):
        losses, shares = MODELS[name]
        with Folder(model(losses)) as f:
            f.put("rows.csv", make_rows(2))
            first = None
            for batch, accumulate in SPLITS if DEVICE == "ref" else ((12, 1), (5, 3)):
                f.mpc("train", "tiny.mpg", "--set", f"batch={batch}", "--set", f"accumulate={accumulate}", "--out", "run", "--overwrite", "--no-tensorboard")
                weights, log = floats(f, "run"), f.steps("run")
                first = first or (weights, log)
                check(len(log) == 2 and same(weights, first[0]), name, batch, accumulate, weights, first[0])
                for r, s in zip(log, first[1]):
                    check(close(r["loss"], s["loss"]) and close(r["grad_norm"], s["grad_norm"]), name, batch, accumulate, r, s)
                    check_totals(name, r, weights_of(losses))
                check(accumulate == 1 or has_shares(f, "run") == shares, name, accumulate, "shares")


def evaluation():
    for name in MODELS if DEVICE == "ref" else ("two masks",):
        losses, _ = MODELS[name]
        with Folder(model(losses)) as f:
            f.put("rows.csv", make_rows(4))
            f.mpc("train", "tiny.mpg", "--out", "run", "--overwrite", "--no-tensorboard")
            results = [f.mpc("eval", "tiny.mpg", "--from", "run", "--split", "train", "--batch", str(batch)).out for batch in ((12, 7, 3, 1) if DEVICE == "ref" else (12, 5))]
            check(results[0] and all(r == results[0] for r in results), name, *results)


def scaled():
    """In f16 a static loss scale is taken out of every share."""
    losses, _ = MODELS["two masks"]
    with Folder(model(losses)) as f:
        f.put("rows.csv", make_rows(2))
        seen = []
        for settings in (("precision=f32", "batch=12"), ("precision=f16", "loss_scale=static(scale = 64)", "batch=2", "accumulate=6"), ("precision=bf16", "batch=2", "accumulate=6")):
            f.mpc("train", "tiny.mpg", *[w for s in settings for w in ("--set", s)], "--out", "run", "--overwrite", "--no-tensorboard")
            seen.append(f.steps("run")[0])
        for r in seen[1:]:
            check(close(r["loss"], seen[0]["loss"], 0.02) and close(r["grad_norm"], seen[0]["grad_norm"], 0.02), r, seen[0])


def one_number():
    """A loss that is one number counts once for each batch: in figures and gradients alike. Where every batch is full, it needs no sum of its own."""
    losses = "loss ce = cross_entropy(logits, y) where y >= 0\nloss size = mean(value ** 2)  weight 0.5\nloss sq = logits ** 2"
    with Folder(model(losses)) as f:
        f.put("rows.csv", make_rows(2))
        for batch, accumulate, shares in ((12, 1, False), (4, 3, True), (5, 3, True)):
            f.mpc("train", "tiny.mpg", "--set", f"batch={batch}", "--set", f"accumulate={accumulate}", "--out", "run", "--overwrite", "--no-tensorboard")
            for r in f.steps("run"):
                check_totals("one number", r, weights_of(losses))
            check(has_shares(f, "run") == shares, batch, accumulate)
        plain = losses.replace(" where y >= 0", "")
        f.put("tiny.mpg", model(plain))
        f.mpc("train", "tiny.mpg", "--set", "batch=4", "--set", "accumulate=3", "--set", "last_batch=drop", "--out", "run", "--overwrite", "--no-tensorboard")
        check(not has_shares(f, "run"))


run_all((training, evaluation, scaled, one_number))
