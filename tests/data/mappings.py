"""What a mapping learns of the data and what it draws: standardize is measured once on the training rows and kept in the
checkpoint; flips and crops move rows in training only, the same way for the same seed."""
import math
import os
import random
import shutil
import struct

from data_files import npy, npz
from support import Folder, check, final_checkpoint, finish, read_safetensors

ROWS, SIZE = 96, 4

MODEL = """
model m(x: f32[batch, 3], one: f32[batch], image: f32[batch, 4, 4, 1], y: i32[batch]) {
    h = concat([x, reshape(one, [batch, 1]), flatten(image)])
    loss ce = cross_entropy(linear(h, 2) as head, y)
    output x   = x
    output one = one
    output image = image
}
data {
    train = npz("d.npz")
    valid = split(train, 0.25, seed = 3)
    input x     = standardize(columns_of_x)
    input one   = standardize(field["one"] + 5)
    input image = random_crop(random_flip(reshape(field["image"], [4, 4, 1])), [4, 4], pad = 1)
    input y     = field["y"]
}
train {
    precision = f32
    optimizer = sgd(lr = 0.1)
    batch     = 16
    length    = 4 epochs
}
""".replace("columns_of_x", 'field["x"]')


def make_rows(f):
    rng = random.Random(5)
    x = [[round(rng.gauss(1e4, 1), 2), rng.gauss(-3, 50), 7.0] for _ in range(ROWS)]
    one = [rng.random() for _ in range(ROWS)]
    npz(f.at("d.npz"), x=npy("<f4", (ROWS, 3), [v for row in x for v in row]), one=npy("<f4", (ROWS,), one),
        image=npy("<f4", (ROWS, SIZE, SIZE), [rng.random() for _ in range(ROWS * SIZE * SIZE)]),
        y=npy("<i4", (ROWS,), [i % 2 for i in range(ROWS)]))


def states(f, run):
    name, parts = final_checkpoint(f, run)
    tensors = {}
    for data in parts.values():
        tensors.update(read_safetensors(data)[0])
    return tensors


def predicted(f, run, *words):
    lines = f.mpc("predict", "m.mpg", "--from", run, "--input", "d.npz", *words).out.strip().split("\n")[1:]
    return [[float(v) for v in line.split(",")] for line in lines]


def statistics_are_those_of_the_training_rows(f):
    """The rows of `train` alone have mean 0 and deviation 1; the constant feature becomes 0."""
    f.put("train.mpg", MODEL.replace('    valid = split(train, 0.25, seed = 3)\n', ""))
    f.mpc("train", "train.mpg", "--out", "all")
    rows = predicted(f, "all")
    for column in (0, 1, 3):
        values = [row[column] for row in rows]
        mean = sum(values) / ROWS
        deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / ROWS)
        check(abs(mean) < 2e-3 and abs(deviation - 1) < 2e-3, column, mean, deviation)
    check(all(row[2] == 0 for row in rows), "a constant feature")
    whole, part = states(f, "all"), states(f, "run")
    check(whole["x.standardize.mean"][1] == [3] and whole["one.standardize.mean"][1] == [1], whole.keys())
    check(whole["x.standardize.mean"][2] != part["x.standardize.mean"][2], "the valid rows were measured too")


def devices_and_steps_leave_them_alone(f):
    first = states(f, "run")
    f.mpc("train", "m.mpg", "--out", "cpu", "--set", "precision=bf16", device="cpu")
    f.mpc("train", "m.mpg", "--out", "short", "--steps", "1")
    for run in ("cpu", "short"):
        other = states(f, run)
        for name in [n for n in first if ".standardize." in n]:
            check(other[name] == first[name], run, name)


def stored_ones_are_used(f):
    """Other rows, another file: predict and eval scale them by what training measured."""
    before = predicted(f, "run")
    npz(f.at("other.npz"), x=npy("<f4", (2, 3), [0, 0, 0, 1e4, -3, 7]), one=npy("<f4", (2,), [0, 1]),
        image=npy("<f4", (2, SIZE, SIZE), [0.5] * (2 * SIZE * SIZE)))
    lines = f.mpc("predict", "m.mpg", "--from", "run", "--input", "other.npz").out.strip().split("\n")[1:]
    check(abs(float(lines[0].split(",")[0])) > 1000 and abs(float(lines[1].split(",")[0])) < 2, lines)
    check(predicted(f, "run") == before)


def augmentation_is_of_training_only(f):
    """Predicted images are those of the file, and training saw others: without flips and crops it ends elsewhere."""
    rows = predicted(f, "run")
    plain = MODEL.replace('random_crop(random_flip(reshape(field["image"], [4, 4, 1])), [4, 4], pad = 1)',
                          'reshape(field["image"], [4, 4, 1])')
    f.put("plain.mpg", plain)
    f.mpc("train", "plain.mpg", "--out", "plain")
    lines = f.mpc("predict", "plain.mpg", "--from", "plain", "--input", "d.npz").out.strip().split("\n")[1:]
    check([row[4:] for row in rows] == [[float(v) for v in line.split(",")][4:] for line in lines], "predicted images")
    check(states(f, "plain")["head.weight"] != states(f, "run")["head.weight"])


def same_seed_same_bits(f):
    f.mpc("train", "m.mpg", "--out", "again")
    f.mpc("train", "m.mpg", "--out", "seed", "--seed", "1")
    check(states(f, "again") == states(f, "run"))
    check(states(f, "seed")["head.weight"] != states(f, "run")["head.weight"])


def resuming_goes_on_to_the_same_end(f):
    """A run that is cut back to its first checkpoint measures nothing anew and draws what it drew."""
    f.mpc("train", "m.mpg", "--out", "cut", "--set", "keep=9")
    folder = f.at("cut", "checkpoints")
    names = sorted(n for n in os.listdir(folder) if n.startswith("step-"))
    for name in names[1:]:
        shutil.rmtree(os.path.join(folder, name))
    for pointer in ("last", "best"):
        with open(os.path.join(folder, pointer), "w") as file:
            file.write(names[0] + "\n")
    f.mpc("train", "m.mpg", "--resume", "cut")
    check(states(f, "cut") == states(f, "run"))


def what_augmentation_makes(f):
    """Each picture that training sees is a window of the padded picture, mirrored or not; both kinds and many windows occur."""
    model = """
model m(image: f32[batch, 3, 4]) {
    w = param([3, 4], init = zeros) as w
    loss l = sum(image * w, axis = -1)
}
data {
    train = npz("one.npz")
    input image = random_crop(random_flip(field["image"]), [3, 4], pad = 1)
}
train {
    precision = f32
    optimizer = sgd(lr = 1)
    batch = 1
    length = 1 steps
}
"""
    picture = [[1 + 4 * i + j for j in range(4)] for i in range(3)]
    npz(f.at("one.npz"), image=npy("<f4", (1, 3, 4), [v for row in picture for v in row]))
    f.put("one.mpg", model)
    padded = {}
    for flip in (0, 1):
        rows = [[0] * 6] + [[0] + (row[::-1] if flip else row) + [0] for row in picture] + [[0] * 6]
        for top in range(3):
            for left in range(3):
                window = tuple(v for row in rows[top:top + 3] for v in row[left:left + 4])
                padded[window] = (flip, top, left)
    seen = set()
    for seed in range(24):
        f.mpc("train", "one.mpg", "--out", "one", "--overwrite", "--seed", str(seed))
        raw = states(f, "one")["w"][2]
        window = tuple(round(-3 * v) for v in struct.unpack("<12f", raw))  # minus the mean gradient of three rows
        check(window in padded, seed, window)
        seen.add(padded.get(window))
    check({s[0] for s in seen if s} == {0, 1} and len({s[1:] for s in seen if s}) > 5, seen)


def each_standardize_has_its_own(f):
    """Two in one mapping, and two inputs of one field; one inside another is refused."""
    model = MODEL.replace('standardize(field["one"] + 5)', 'standardize(field["one"]) + standardize(field["one"] * 100 + 3)') \
        .replace('input x     = standardize(field["x"])', 'input x     = standardize(field["x"])\n    input z     = standardize(field["x"])') \
        .replace("(x: f32[batch, 3],", "(x: f32[batch, 3], z: f32[batch, 3],").replace("concat([x,", "concat([x, z,")
    f.put("two.mpg", model)
    f.mpc("train", "two.mpg", "--out", "two")
    s = {name: struct.unpack(f"<{len(raw) // 4}f", raw) for name, (_, _, raw) in states(f, "two").items() if ".standardize" in name}
    check(s["z.standardize.mean"] == s["x.standardize.mean"] and s["z.standardize.deviation"] == s["x.standardize.deviation"], s)
    check(abs(s["one.standardize2.mean"][0] - (100 * s["one.standardize.mean"][0] + 3)) < 1e-3, s)
    check(abs(s["one.standardize2.deviation"][0] - 100 * s["one.standardize.deviation"][0]) < 1e-3, s)
    f.put("nested.mpg", MODEL.replace('standardize(field["one"] + 5)', 'standardize(2 * standardize(field["one"]))'))
    r = f.mpc("train", "nested.mpg", "--out", "nested", status=1)
    check("E203" in r.err and "already" in r.err, r.err)


with Folder() as f:
    f.put("m.mpg", MODEL)
    make_rows(f)
    f.mpc("train", "m.mpg", "--out", "run")
    statistics_are_those_of_the_training_rows(f)
    devices_and_steps_leave_them_alone(f)
    stored_ones_are_used(f)
    augmentation_is_of_training_only(f)
    same_seed_same_bits(f)
    resuming_goes_on_to_the_same_end(f)
    what_augmentation_makes(f)
    each_standardize_has_its_own(f)
finish()
