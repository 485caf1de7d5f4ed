"""Files that numpy wrote: every type, both byte orders, plain and compressed archives, and archives with bytes changed at random.
What mpc predicts of them is what numpy holds."""
import io
import os
import random
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
sys.path.append(os.path.join(HERE, "..", "..", "build", "py"))
from support import Folder, check, finish  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("skipped: Python has no numpy", file=sys.stderr)
    sys.exit(77)

MODEL = """
model m(x: f32[batch, 6], y: i32[batch]) {
    loss ce = cross_entropy(linear(x, 3) as head, y)
    output same = x
}
data {
    train = npz("train.npz")
    input x = flatten(field["x"])
    input y = field["y"]
}
train {
    precision = f32
    batch = 4
    length = 1 epochs
}
"""
TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


def archive(save=np.savez, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def arrays(kind, order, rng):
    x = rng.integers(0, 100, (7, 2, 3))
    x = x > 50 if kind == "?" else x.astype("i8")
    return x.astype(np.dtype(kind).newbyteorder(order)), rng.integers(0, 3, 7).astype("u1")


def predicted(f, name):
    r = f.mpc("predict", "m.mpg", "--from", "run", "--input", name, "--out", "p.npy")
    return np.load(f.at("p.npy")) if r.returncode == 0 else None


def types_and_orders(f, rng):
    for kind in TYPES:
        for order in "<>":
            x, y = arrays(kind, order, rng)
            for save in (np.savez, np.savez_compressed):
                f.put("p.npz", archive(save, x=x, y=y, other=np.arange(3)))
                got = predicted(f, "p.npz")
                check(got is not None and np.array_equal(got, x.reshape(7, 6).astype("f4")), kind, order, save.__name__)


def other_arrays_may_hold_anything(f, rng):
    """What no mapping takes is passed over by its name: text, objects, numbers without rows, what is empty, damaged or packed oddly."""
    x, y = arrays("f4", "<", rng)
    rest = {"text": np.array(["a", "bc"]), "things": np.array([{"a": 1}, None], dtype=object), "waves": np.ones(3, "c16"), "version": np.array(3),
            "nothing": np.zeros((0, 4)), "wide": np.ones((2, 3), "f4").T, "when": np.array(["2020-01-01"], "M8[D]"),
            "records": np.zeros(2, [("a", "f4"), ("b", "i8")]), "axes": np.zeros((1,) * 9), "first": np.float32(1)}
    for save in (np.savez, np.savez_compressed):
        f.put("p.npz", archive(save, **rest, x=x, y=y))
        check(np.array_equal(predicted(f, "p.npz"), x.reshape(7, 6)))
    with io.BytesIO() as out:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as z:
            z.writestr("odd.npy", b"abc")
        with zipfile.ZipFile(out, "a") as z:
            z.writestr("short.npy", b"abc")
            for name, value in (("x.npy", x), ("y.npy", y)):
                member = io.BytesIO()
                np.save(member, value)
                z.writestr(name, member.getvalue())
        f.put("train.npz", out.getvalue())
    f.mpc("train", "m.mpg", "--out", "odd")
    f.put("p.npz", archive(things=rest["things"], x=x.astype("c8")))
    r = f.mpc("predict", "m.mpg", "--from", "run", "--input", "p.npz", status=1)
    check("complex numbers are not read" in r.err, r.err)


def columns_first(f, rng):
    """What was transposed is saved column by column; the numbers are the same."""
    x = np.asfortranarray(arrays("f4", "<", rng)[0])
    y = rng.integers(0, 3, 7)
    for save in (np.savez, np.savez_compressed):
        for kind in ("<f8", ">i2", "u1"):
            f.put("p.npz", archive(save, x=np.asfortranarray(x.astype(kind)), y=y))
            check(np.array_equal(predicted(f, "p.npz"), x.reshape(7, 6)), save, kind)


def labels_may_be_missing_when_predicting(f, rng):
    x, _ = arrays("f4", "<", rng)
    f.put("p.npz", archive(x=x))
    check(np.array_equal(predicted(f, "p.npz"), x.reshape(7, 6)))
    f.put("p.npz", archive(y=np.arange(7)))
    r = f.mpc("predict", "m.mpg", "--from", "run", "--input", "p.npz", status=1)
    check("E203" in r.err and "field" in r.err, r.err)


def row_counts_differ(f, rng):
    x, y = arrays("f4", "<", rng)
    f.put("train.npz", archive(x=x, y=y[:5]))
    r = f.mpc("train", "m.mpg", "--out", "other", status=1)
    check("E220" in r.err and "`x` has 7 rows, `y` has 5" in r.err, r.err)


def archives_that_lie(f, rng):
    """Members that are no arrays, are packed in another way, or promise more than they hold."""
    x, y = arrays("f4", "<", rng)
    good = archive(np.savez_compressed, x=x, y=y)

    def refused(data, *parts):
        f.put("train.npz", data)
        r = f.mpc("train", "m.mpg", "--out", "other", "--overwrite", status=1)
        check("error[E2" in r.err and "train.npz" in r.err and all(p in r.err for p in parts), r.err)

    with io.BytesIO() as out:
        with zipfile.ZipFile(out, "w") as z:
            z.writestr("readme.txt", "hello")
        refused(out.getvalue(), "readme.txt", "is no array")
    with io.BytesIO() as out:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as z:
            z.writestr("x.npy", b"abc")
        refused(out.getvalue(), "packed by method 14")
    with io.BytesIO() as out:
        with zipfile.ZipFile(out, "w") as z:
            z.writestr("x.npy", b"abcdefghijklmnop")
        refused(out.getvalue(), "x.npy", "is no NPY")
    refused(good[:len(good) // 2], "no NPZ")
    refused(b"", "no NPZ")
    refused(np.zeros(3).tobytes(), "no NPZ")
    refused(archive())
    bomb = bytearray(good)
    at = bomb.rindex(b"PK\1\2")
    bomb[at + 24:at + 28] = (1 << 31).to_bytes(4, "little")  # the size after inflating, in the directory
    refused(bytes(bomb), "npy")
    stored = bytearray(archive(x=x, y=y))
    where = stored.index(np.ascontiguousarray(x).tobytes())
    stored[where] ^= 1
    refused(bytes(stored), "x.npy")  # the check sum doesn't fit


def damaged_archives(f, rng):
    x, y = arrays("f4", "<", rng)
    draw = random.Random(3)
    for i in range(60):
        data = bytearray(archive(np.savez if i % 2 else np.savez_compressed, x=x, y=y))
        for _ in range(draw.randrange(1, 6)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if i % 3 == 0:
            del data[draw.randrange(len(data)):]
        f.put("p.npz", bytes(data))
        r = f.mpc("predict", "m.mpg", "--from", "run", "--input", "p.npz", "--out", "p.npy", status=None)
        check(r.returncode in (0, 1) and "Sanitizer" not in r.err, f"archive {i}: status {r.returncode}\n{r.err}")
        check(r.returncode == 0 or "error[E" in r.err, r.err)


with Folder(MODEL) as f:
    rng = np.random.default_rng(1)
    f.put("m.mpg", MODEL)
    x, y = arrays("f4", "<", rng)
    f.put("train.npz", archive(x=x, y=y))
    f.mpc("train", "m.mpg", "--out", "run")
    types_and_orders(f, rng)
    other_arrays_may_hold_anything(f, rng)
    columns_first(f, rng)
    labels_may_be_missing_when_predicting(f, rng)
    damaged_archives(f, rng)
    row_counts_differ(f, rng)
    archives_that_lie(f, rng)
finish()
