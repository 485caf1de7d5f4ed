"""NaN and infinity in the data: refused with their place, or let through; then the run stops with status 3 and names the first
value that was not finite, or leaves such steps out and ends with finite parameters. In every format, on both devices."""
import json
import os
import struct
import tempfile

from support import check, fails, finish, in_parallel, mpc, survives

MODEL = """model m(x: f32[batch, 4], y: f32[batch]) {
    h = relu(linear(x, 8) as first)
    loss fit = mse(linear(h, 1)[:, 0] as last, y)
}
data {
    train = csv("train.csv")
    input x = columns[0:4]
    input y = columns[4]
}
train {
    precision = %s
    optimizer = adamw(lr = 1e-2)
    batch = 2
    length = 2 epochs
    seed = 3
}
"""
ROWS = ["0.5,0.25,-0.5,1,1"] * 12


def weights(folder):
    with open(os.path.join(folder, "checkpoints", "last"), encoding="ascii") as f:
        path = os.path.join(folder, "checkpoints", f.read().strip(), "weights.safetensors")
    with open(path, "rb") as f:
        data = f.read()
    n, = struct.unpack("<Q", data[:8])
    return [v for v, in struct.iter_unpack("<f", data[8 + n:])]


def run(item):
    precision, device, bad = item
    rows = list(ROWS)
    rows[7] = f"0.5,{bad},-0.5,1,1"
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as folder:
        for name, text in (("m.mpg", MODEL % precision), ("train.csv", "\n".join(rows) + "\n")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)

        def train(*options):
            return mpc("train", "m.mpg", "--device", device, *options, cwd=folder)

        r = train("--out", "refused")
        fails(r, "E213")
        check("row 8" in r.err and "column 2" in r.err and bad in r.err and not os.path.exists(os.path.join(folder, "refused")), r.err)
        r = train("--out", "stopped", "--set", "nonfinite=keep")
        check(r.status == 3 and "E360" in r.codes and f"input x holds {bad} at element 1" in r.err, item, r.status, r.err)
        r = train("--out", "skipped", "--set", "nonfinite=keep", "--set", "on_nonfinite=skip")
        if survives(r, 0):
            with open(os.path.join(folder, "skipped", "log.jsonl"), encoding="utf-8") as f:
                steps = [s for s in map(json.loads, f) if s["type"] == "step"]
            check(steps[-1]["skipped"] == 2 and steps[-1]["applied"] == 10, item, steps[-1])
            check(all(abs(v) < 10 for v in weights(os.path.join(folder, "skipped"))), item)


in_parallel(run, [(p, d, b) for p in ("f32", "bf16", "f16") for d in ("ref", "cpu") for b in ("nan", "inf", "-inf")])
finish()
