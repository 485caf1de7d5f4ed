"""Odd but legal models and sizes: each trains, evaluates and predicts on both devices with finite figures, and on the cpu device
one thread and five give the same bits."""
import json
import math
import os
import random
import sys
import tempfile

from support import check, finish, in_parallel, mpc, survives

HEAD = "model m(x: f32[batch, {inputs}], y: i32[batch]) {{\n{body}\n    loss ce = cross_entropy(logits, y)\n" \
       "    metric accuracy = accuracy(logits, y)\n    output p = softmax(logits)\n}}\n"
REST = "data {{\n    train = csv(\"train.csv\")\n    test = csv(\"train.csv\")\n    input x = columns[0:{inputs}]\n    input y = columns[{inputs}]\n}}\n" \
       "train {{\n    precision = {precision}\n    optimizer = {optimizer}\n    batch = {batch}\n    length = {length}\n{more}}}\n"
TEXT = """block attend(x: [b, t, c], heads: int) -> [b, t, c] {{
    q, k, v = split(linear(x, 3 * c), parts = 3, axis = -1)
    s = [b, t, heads, c / heads]
    return linear(reshape(attention(reshape(q, s), reshape(k, s), reshape(v, s), causal = true), [b, t, c]), c) as out
}}
model t(tokens: i32[batch, time], targets: i32[batch, time]) {{
    x = embedding(tokens, vocabulary, 6) as wte
    x = x + attend(layer_norm(x) as norm, {heads})
    logits = linear(x, vocabulary) as head
    loss nll = cross_entropy(logits, targets)
    output logits = logits
}}
data {{
    train = text("train.txt", length = {time})
    input tokens = window
    input targets = next(window)
}}
train {{
    precision = {precision}
    optimizer = adamw(lr = 1e-2)
    batch = 3
    length = 4 steps
}}
"""


def table(rows, inputs, classes):
    rng = random.Random(rows * 31 + inputs)
    return "".join(",".join(f"{rng.gauss(0, 1):.3f}" for _ in range(inputs)) + f",{rng.randrange(classes)}\n" for _ in range(rows))


def case(body, rows=13, inputs=4, classes=3, batch=4, length="2 epochs", optimizer="adamw(lr = 1e-2)", more="", options=()):
    return {"body": body, "rows": rows, "inputs": inputs, "classes": classes, "batch": batch, "length": length,
            "optimizer": optimizer, "more": more, "options": options}


MLP = "    logits = linear(relu(linear(x, 8) as a), 3) as head"
NORMED = "    logits = linear(relu(batch_norm(linear(x, 8) as a) as norm), 3) as head"


def conv(channels, arguments, side=4, image=1, tail=""):
    return (f"    i = reshape(x, [batch, {side}, {side}, {image}])\n    h = conv2d(i, {channels}, {arguments}) as conv\n{tail}"
            "    logits = linear(flatten(h), 3) as head")


CASES = {
    "batch norm, last batch of one row": case(NORMED, rows=9, batch=4),
    "batch norm, batches of one row": case(NORMED, rows=3, batch=1),
    "batch norm on images, one row": case(conv(5, "kernel = 3, pad = 1", tail="    h = relu(batch_norm(h) as norm)\n"), rows=5, inputs=16),
    "batch norm on one pixel, one row": case(conv(5, "kernel = 4", tail="    h = relu(batch_norm(h) as norm)\n"), rows=5, inputs=16),
    "accumulate, more than an epoch holds": case(MLP, more="    accumulate = 50\n"),
    "accumulate with a last batch of one row": case(NORMED, rows=9, more="    accumulate = 2\n"),
    "one row": case(MLP, rows=1),
    "one row, validated on itself": case(MLP, rows=1, more="    monitor = train.loss\n"),
    "batch of one": case(MLP, batch=1),
    "batch larger than the data": case(MLP, batch=500),
    "batch of 500, one row": case(NORMED, rows=1, batch=500),
    "--batch": case(MLP, options=("--batch", "7")),
    "layers of one": case("    logits = linear(relu(linear(x, 1) as a), 3) as head"),
    "one input": case(MLP, inputs=1),
    "one class": case("    logits = linear(relu(linear(x, 1) as a), 1) as head", classes=1),
    "kernel as large as the image": case(conv(3, "kernel = 4"), inputs=16),
    "kernel larger than image, padded": case(conv(3, "kernel = 5, pad = 1"), inputs=16),
    "depthwise": case(conv(6, "kernel = 3, pad = 1, groups = 3", side=2, image=3), inputs=12),
    "depthwise, one filter a channel": case(conv(3, "kernel = 2, groups = 3", side=2, image=3), inputs=12),
    "3, 5, 7 channels": case(conv(5, "kernel = 3, pad = 1", side=2, image=3,
                                  tail="    h = conv2d(relu(h), 7, kernel = 2, stride = 2) as conv2\n"), inputs=12),
    "image of one pixel": case(conv(3, "kernel = 1", side=1, image=1), inputs=1),
    "stride larger than kernel": case(conv(3, "kernel = 1, stride = 3"), inputs=16),
    "pool of the whole image": case(conv(3, "kernel = 3, pad = 1", tail="    h = max_pool(h, 4)\n"), inputs=16),
    "dropout 0": case("    logits = linear(dropout(linear(x, 8) as a, 0.0), 3) as head"),
    "dropout 0.999": case("    logits = linear(dropout(linear(x, 8) as a, 0.999), 3) as head"),
    "loss that is one number": case(MLP + "\n    loss small = 0.01 * mean(x * x) + sum(logits * logits)"),
    "clip_norm, rate 0": case(MLP, more="    clip_norm = 1e-20\n", optimizer="sgd(lr = 0)"),
    "layer norm over one value": case("    logits = linear(layer_norm(linear(x, 1) as a) as norm, 3) as head"),
    "softmax over one value": case("    logits = linear(softmax(linear(x, 1) as a), 3) as head"),
    "width of 129": case("    logits = linear(relu(linear(x, 129) as a), 3) as head", batch=5),
    "zero steps": case(MLP, options=("--steps", "0")),
    "one step": case(MLP, options=("--steps", "1")),
}
TEXTS = {"one head": (4, 1, "to be or not to be, that is the question"), "windows of one": (1, 2, "to be or not to be"),
         "one letter": (4, 2, "a" * 30), "one window": (8, 3, "ninechars")}


def figures(folder, run):
    with open(os.path.join(folder, run, "log.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def checkpoint(folder, run):
    last = os.path.join(folder, run, "checkpoints", "last")
    if not os.path.exists(last):
        return None
    with open(last, encoding="ascii") as f:
        step = f.read().strip()
    files = []
    for name in ("weights.safetensors", "state.safetensors"):
        with open(os.path.join(folder, run, "checkpoints", step, name), "rb") as f:
            files.append(f.read())
    return files


def all_finite(records):
    """Of steps that were applied: the first f16 steps may find the scale too large."""
    records = [r for r in records if not ("nonfinite" in r and r.get("skipped", 0) > 0 and r.get("loss"))]
    return all(math.isfinite(v) for r in records for v in r.values() if isinstance(v, float)) and \
        not any("nonfinite" in r or r.get("loss", 0) is None for r in records)


def try_model(name, text, data, precision, options):
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as folder:
        for file, content in (("m.mpg", text), *data.items()):
            with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
                f.write(content)
        results = {}
        for run, more in (("one", ("--threads", "1")), ("five", ("--threads", "5")), ("ref", ("--device", "ref"))):
            r = mpc("train", "m.mpg", "--out", run, *more, *options, cwd=folder, timeout=200)
            if not survives(r, 0):
                check(False, name, precision, run)
                return
            check(all_finite(figures(folder, run)), name, precision, run, figures(folder, run)[1:4])
            results[run] = checkpoint(folder, run)
        check(results["one"] == results["five"], name, precision, "threads change the checkpoint")
        if results["one"] is None:
            return
        for words in (("eval", "m.mpg", "--from", "one", "--split", "train"),
                      ("predict", "m.mpg", "--from", "one", *(("--input", "train.csv") if "train.csv" in data else ("--length", "5")))):
            if not survives(mpc(*words, cwd=folder), 0):
                check(False, name, precision)


def try_table(item):
    name, c, precision = item
    text = HEAD.format(**c) + REST.format(precision=precision, **c)
    try_model(name, text, {"train.csv": table(c["rows"], c["inputs"], c["classes"])}, precision, c["options"])


def try_text(item):
    name, (time, heads, letters), precision = item
    try_model(name, TEXT.format(time=time, heads=heads, precision=precision), {"train.txt": letters}, precision, ())


# each case in one format, in turn; `all` as second argument: in each
PRECISIONS = ("bf16", "f16", "f32")
every = "all" in sys.argv
in_parallel(try_table, [(n, c, p) for i, (n, c) in enumerate(CASES.items()) for k, p in enumerate(PRECISIONS) if every or i % 3 == k])
in_parallel(try_text, [(n, c, p) for i, (n, c) in enumerate(TEXTS.items()) for k, p in enumerate(PRECISIONS) if every or i % 3 == k])
finish()
