"""Field cases of class X: bad and odd data files, with their right values."""
import math
import os

from data_files import idx, npy, npz
from support import Folder, check, final_checkpoint, finish, read_safetensors

HEAD = """
model m(x: f32[batch, 2], y: i32[batch]) {
    loss ce = cross_entropy(linear(x, 2) as head, y)
}
params {
    "**" { init = zeros }
}
"""
TRAIN = """
train {
    precision = f32
    optimizer = sgd(lr = 0)
    batch     = 4
    length    = 1 epochs
}
"""


def losses(f, run):
    return [r["loss"] for r in f.steps(run)]


def sources(f, labels):
    """The same rows by every reader: source, mapping, how a message names the last row."""
    n = len(labels)
    x = [0.5 * i for i in range(2 * n)]
    f.put("d.csv", "".join(f"{x[2 * i]},{x[2 * i + 1]},{labels[i]}\n" for i in range(n)))
    f.put("x.npy", npy("<f4", (n, 2), x))
    f.put("y.npy", npy("<i8", (n,), labels))
    f.put("y.csv", "label\n" + "".join(f"{v}\n" for v in labels))
    npz(f.at("d.npz"), x=npy("<f4", (n, 2), x), y=npy("|u1", (n,), labels))
    f.put("images", idx((n, 2), [round(2 * v) for v in x]))
    f.put("labels", idx((n,), labels))
    return [
        ('csv("d.csv")', "columns[0:2]", "columns[2]", "d.csv, row {line}, column 3: `{value}`"),
        ('zip(npy("x.npy"), npy("y.npy"))', 'field["x"]', 'field["y"]', "y.npy, row {row} (byte "),
        ('zip(a = npy("x.npy"), csv("y.csv"))', 'field["a"]', 'column["label"]', "y.csv, row {after}, column 1: `{value}`"),
        ('npz("d.npz")', 'field["x"]', 'field["y"]', "d.npz (y.npy), row {row}: `{value}`"),
        ('idx("images", "labels")', "images / 2", "labels", "labels, row {row} (byte "),
    ]


def put_model(f, source, x, y, name="m.mpg"):
    f.put(name, f"{HEAD}data {{\n    train = {source}\n    input x = {x}\n    input y = {y}\n}}\n{TRAIN}")


def label_out_of_range():
    """FC-123: the same error on every device, with row and value, before the first step; the neighbours give ln 2."""
    with Folder() as f:
        for source, x, y, place in sources(f, [1, 0, 2]):
            put_model(f, source, x, y)
            texts = set()
            for device in ("ref", "cpu"):
                r = f.mpc("train", "m.mpg", "--out", "run", "--overwrite", device=device, status=1)
                where = place.format(line=3, row=2, after=4, value=2)
                check("error[E201]: class 2 in the data, but the model has classes 0 to 1" in r.err and where in r.err, source, r.err)
                check("step " not in r.out, r.out)
                texts.add(r.err)
            check(len(texts) == 1, texts)
        for source, x, y, _ in sources(f, [1, 0]):
            put_model(f, source, x, y)
            f.mpc("train", "m.mpg", "--out", "run", "--overwrite")
            check(abs(losses(f, "run")[0] - math.log(2)) < 1e-7, source, losses(f, "run"))


def every_label_ignored():
    """FC-125: no step and no overflow: the scale and the weights stay as they are, and no loss is made up."""
    with Folder() as f:
        f.put("d.csv", "1,2,-100\n3,4,-100\n")
        f.put("m.mpg", HEAD.replace(", y)\n", ", y) where y >= 0\n", 1) +
              'data {\n    train = csv("d.csv")\n    input x = columns[0:2]\n    input y = columns[2]\n}\n' +
              TRAIN.replace("f32", "f16").replace("sgd(lr = 0)", "sgd(lr = 1)"))
        f.mpc("train", "m.mpg", "--out", "run")
        step = f.steps("run")[0]
        check(not step["loss"] and step["scale"] == 65536 and step["applied"] == 0 and step["skipped"] == 0, step)
        _, parts = final_checkpoint(f, "run")
        for name, (_, _, raw) in read_safetensors(parts["weights.safetensors"])[0].items():
            check(not any(raw), name)


def last_batch_is_smaller():
    """FC-127: 10 rows in batches of 4. The mean is over rows, and the gradient of the last two is divided by 2."""
    model = """
model m(x: f32[batch]) {
    w = param([], init = constant(1)) as w
    loss l = x * w
}
data {
    train = csv("d.csv")
    input x = columns[0]
}
""" + TRAIN
    with Folder() as f:
        f.put("d.csv", "1\n" * 4 + "2\n" * 4 + "6\n" * 2)
        f.put("m.mpg", model)
        f.mpc("train", "m.mpg", "--out", "run")
        means = [r["loss"] for r in f.log("run") if r["type"] == "eval"]
        check(len(means) == 1 and abs(means[0] - 2.4) < 1e-6, f.log("run"))
        f.put("d.csv", "6\n" * 10)
        f.mpc("train", "m.mpg", "--set", "optimizer=sgd(lr = 1)", "--out", "steps")
        _, parts = final_checkpoint(f, "steps")
        (_, _, raw), = read_safetensors(parts["weights.safetensors"])[0].values()
        check(raw == b"\x00\x00\x88\xc1", raw)  # 1 - 3 * 6 = -17


def line_endings():
    """FC-129: LF, CR LF, no last newline and a byte order mark give the same graph, and names without CR."""
    with Folder() as f:
        put_model(f, 'csv("d.csv")', 'columns[0:2]', 'column["label"]')
        text = f.get("m.mpg").decode()
        graphs = set()
        for form in (text, text.replace("\n", "\r\n"), text.rstrip("\n"), "\ufeff" + text):
            for ending in ("\n", "\r\n"):
                for mark in ("", "\ufeff"):
                    f.put("m.mpg", form)
                    f.put("d.csv", mark + ending.join(["a,b,label", "1,2,0", "3,4,1"]))
                    r = f.mpc("dump-ir", "m.mpg", "--stage", "final", device="cpu")
                    graphs.add(r.out)
        check(len(graphs) == 1, len(graphs))
        f.put("d.csv", "a,b,label\r\n1,2,0\r\n3,4,x\r\n")
        r = f.mpc("train", "m.mpg", "--out", "run", status=1)
        check("d.csv, row 3, column 3: `x`" in r.err and "\r" not in r.err, r.err)


def names_outside_ascii():
    """FC-131: names are bytes that are UTF-8, whatever the locale; two spellings of one letter are two names."""
    locale = {"LC_ALL": "C"}
    with Folder() as f:
        os.mkdir(f.at("модель"))
        f.put("модель/дані.csv", "довжина,重み,label\n1,2,0\n3,4,1\n")
        put_model(f, 'csv("дані.csv")', 'stack([column["довжина"], column["重み"]])', 'column["label"]', "модель/м.mpg")
        f.mpc("train", "модель/м.mpg", "--out", "бег", env=locale)
        check(os.path.exists(f.at("бег", "checkpoints", "last")), "no run folder")
        composed, decomposed = "poids_\u00e9", "poids_e\u0301"
        npz(f.at("d.npz"), **{composed: npy("<f4", (2, 2), [1, 2, 3, 4]), decomposed: npy("<f4", (2, 2), [5, 6, 7, 8]),
                              "y": npy("<i4", (2,), [0, 1])})
        put_model(f, 'npz("d.npz")', f'field["{decomposed}"]', 'field["y"]')
        f.put("m.mpg", f.get("m.mpg").decode().replace("}\nparams", "    output same = x\n}\nparams"))
        f.mpc("train", "m.mpg", "--out", "run", env=locale)
        r = f.mpc("predict", "m.mpg", "--from", "run", "--input", "d.npz", env=locale)
        check([float(v) for v in r.out.split("\n")[1].split(",")] == [5, 6], r.out)
        f.put("bad.csv", b"a,b,l\xe9\n1,2,0\n")
        put_model(f, 'csv("bad.csv")', "columns[0:2]", "columns[2]")
        r = f.mpc("train", "m.mpg", "--out", "other", status=1)
        check("E215" in r.err and "byte 1 of this name (0xE9) is not UTF-8" in r.err, r.err)


def types_a_device_lacks():
    """FC-134: what a target can't do is said before anything is compiled."""
    with Folder() as f:
        r = f.mpc("compile", "tiny.mpg", "--device", "cuda", "--emit", "ptx", "--arch", "sm_70", "-o", "out", device=None, status=None)
        check(r.returncode == 2 and "sm_80 or later" in r.err, r.returncode, r.err)


label_out_of_range()
every_label_ignored()
last_batch_is_smaller()
line_endings()
names_outside_ascii()
types_a_device_lacks()
finish()
