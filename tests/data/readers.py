"""Every kind of data source, trained a few steps on a device as on ref: the same rows come, so the losses are the same. Argument 2 is the
device; on cuda, argument 3 is the folder of the stand-in."""
import gzip
import math
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from data_files import idx, npy, npz  # noqa: E402
from support import DEVICE, Folder, check, run_all  # noqa: E402

N = 30
ARRAYS = """
model m(x: f32[batch, 6], y: i32[batch]) {
    h = relu(linear(x, 5) as fc)
    logits = linear(h, 3) as head
    loss ce = cross_entropy(logits, y)
    metric accuracy = accuracy(logits, y)
}
data {
    train   = SOURCE
    valid   = split(train, 0.2, seed = 3)
    input x = X
    input y = Y
}
train {
    precision = f32
    batch     = 8
    length    = 7 steps
    optimizer = sgd(lr = 0.1)
}
"""
TOKENS = """
const time = 8
model m(t: i32[batch, time], u: i32[batch, time]) {
    loss ce = cross_entropy(linear(embedding(t, 20, 6) as table, 20) as head, u)
}
data {
    train   = SOURCE
    input t = window
    input u = next(window)
}
train {
    precision = f32
    batch     = 4
    length    = 7 steps
    optimizer = sgd(lr = 0.5)
}
"""
rng = random.Random(5)
PIXELS = [rng.randrange(256) for _ in range(N * 6)]
NUMBERS = [rng.gauss(0, 1) for _ in range(N * 6)]
LABELS = [rng.randrange(3) for _ in range(N)]


def same_losses(f, name, text):
    f.put("m.mpg", text)
    logs = {}
    for device in ("ref", DEVICE):
        f.mpc("train", "m.mpg", "--out", device, "--overwrite", device=device)
        logs[device] = [(r["type"], r["step"], r["loss"]) for r in f.log(device) if r["type"] in ("step", "eval")]
    a, b = logs["ref"], logs[DEVICE]
    steps = [r[2] for r in a if r[0] == "step"]
    check(len(steps) == 7 and len(set(steps)) == 7, name, a)
    check(len(a) == len(b) and all(x[:2] == y[:2] and math.isclose(x[2], y[2], rel_tol=2e-5) for x, y in zip(a, b)), name, a, b)
    return steps


def arrays(f, name, source, x, y):
    return same_losses(f, name, ARRAYS.replace("SOURCE", source).replace("= X", "= " + x).replace("= Y", "= " + y))


def what_a_line_names_is_shown_with_it():
    """A file that isn't there, or is no such file: the error shows the line of the model; a row's place stays, and so does a path of the command line."""
    with Folder() as f:
        f.put("x.npy", npy("<f4", (N, 6), NUMBERS))
        f.put("text.npy", b"1,2,3\n4,5,6\n" * 4)
        f.put("words.csv", "1,0,3,4,5,6\n" * 9 + "4,five,6,7,8,9\n")
        for source, code in (('csv("none.csv")', "E210"), ('zip(x = npy("x.npy"), y = npy("none.npy"))', "E210"), ('npz("x.npy")', "E219"),
                             ('zip(x = npy("text.npy"), y = npy("x.npy"))', "E219"), ('idx(images = "x.npy", labels = "none")', "E2")):
            f.put("m.mpg", ARRAYS.replace("SOURCE", source).replace("= X", '= field["x"]').replace("= Y", '= field["y"]'))
            r = f.mpc("train", "m.mpg", "--out", "no", "--device", "ref", device=None, status=1)
            check(code in r.err and "--> m.mpg:9:" in r.err and "this file" in r.err, source, r.err)
        f.put("m.mpg", ARRAYS.replace("SOURCE", 'csv("words.csv")').replace("= X", "= columns[0:6]").replace("= Y", "= columns[1]"))
        r = f.mpc("train", "m.mpg", "--out", "no", "--device", "ref", device=None, status=1)
        check("--> words.csv, row 10, column 2" in r.err, r.err)
        f.put("good.csv", "".join(",".join(str(v) for v in PIXELS[i:i + 6]) + ",1\n" for i in range(0, 60, 6)))
        f.put("m.mpg", ARRAYS.replace("SOURCE", 'csv("good.csv")').replace("= X", "= columns[0:6]").replace("= Y", "= columns[6]").replace(
            "    loss", "    output logits = logits\n    loss"))
        f.mpc("train", "m.mpg", "--out", "run", "--device", "ref", device=None)
        r = f.mpc("predict", "m.mpg", "--from", "run", "--input", "none.csv", "--device", "ref", device=None, status=1)
        check("E210" in r.err and "m.mpg" not in r.err, r.err)


def npy_npz_zip_and_csv():
    with Folder() as f:
        f.put("x.npy", npy("<f4", (N, 6), NUMBERS))
        f.put("y.npy", npy("<i8", (N,), LABELS))
        f.put("half.npy", npy("<f2", (N, 2, 3), NUMBERS))
        f.put("pixels.npy", npy("|u1", (N, 2, 3), PIXELS))
        npz(f.at("both.npz"), x=npy("<f4", (N, 6), NUMBERS), y=npy("<i4", (N,), LABELS))
        f.put("labels.csv", "other,label\n" + "".join(f"{i},{v}\n" for i, v in enumerate(LABELS)))
        single = [struct.unpack("<f", struct.pack("<f", v))[0] for v in NUMBERS]
        f.put("all.csv", "".join(",".join(repr(v) for v in single[6 * i:6 * i + 6]) + f",{LABELS[i]}\n" for i in range(N)))
        # one and the same data, however it is kept: one and the same training
        kept = [
            arrays(f, "npz", 'npz("both.npz")', 'field["x"]', 'field["y"]'),
            arrays(f, "zip of NPYs", 'zip(x = npy("x.npy"), y = npy("y.npy"))', 'field["x"]', 'field["y"]'),
            arrays(f, "zip of NPY and CSV", 'zip(npy("x.npy"), csv("labels.csv"))', 'field["x"]', 'column["label"]'),
            arrays(f, "csv", 'csv("all.csv")', "columns[0:6]", "columns[6]"),
        ]
        check(all(k == kept[0] for k in kept), kept)
        arrays(f, "f16", 'zip(npy("half.npy"), npy("y.npy"))', 'flatten(field["half"])', 'field["y"]')
        arrays(f, "u8", 'zip(npy("pixels.npy"), npy("y.npy"))', 'flatten(field["pixels"]) / 255', 'field["y"]')


def idx_files():
    with Folder() as f:
        f.put("images", idx((N, 2, 3), PIXELS))
        f.put("labels", idx((N,), LABELS))
        f.put("images.gz", gzip.compress(f.get("images")))
        f.put("labels.gz", gzip.compress(f.get("labels")))
        plain = arrays(f, "idx", 'idx(images = "images", labels = "labels")', "flatten(images) / 255", "labels")
        packed = arrays(f, "idx, gzip", 'idx(images = "images.gz", labels = "labels.gz")', "flatten(images) / 255", "labels")
        check(plain == packed, plain, packed)


def token_files():
    with Folder() as f:
        tokens = [rng.randrange(20) for _ in range(400)]
        f.put("short.bin", struct.pack("<400H", *tokens))
        f.put("long.bin", struct.pack("<400I", *tokens))
        short = same_losses(f, "u16", TOKENS.replace("SOURCE", 'tokens("short.bin", length = time, format = u16)'))
        long = same_losses(f, "u32", TOKENS.replace("SOURCE", 'tokens("long.bin", length = time, format = u32)'))
        check(short == long, short, long)
        # text: characters are tokens
        f.put("t.txt", "".join(chr(97 + t) for t in tokens))
        text = same_losses(f, "text", TOKENS.replace("SOURCE", 'text("t.txt", length = time)'))
        check(len(text) == 7)


run_all([what_a_line_names_is_shown_with_it, npy_npz_zip_and_csv, idx_files, token_files])
