"""A few hundred seeded changes of bytes, cuts and lost words of good files: a graph, a table (plain and gzipped), a text, a checkpoint.
The files still mean something or are refused with a code; nothing crashes. (The language has its own such test, in one process.)"""
import gzip
import os
import random
import shutil
import tempfile

from support import CORPUS, finish, in_parallel, mpc, survives

ROUNDS = 40


def read(*names):
    with open(os.path.join(CORPUS, *names), "rb") as f:
        return f.read()


def damaged(good, rng):
    data = bytearray(good)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(data[:rng.randrange(len(data))])
    if kind == 1:
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)
    if kind == 2:
        words = good.split(b" ")
        del words[rng.randrange(len(words))]
        return b" ".join(words)
    begin = rng.randrange(len(data))
    length = rng.randrange(1, 20)
    return bytes(data[:begin] + data[begin + length:] if rng.randrange(2) else data[:begin] + data[begin:begin + length] * 3 + data[begin:])


def put(path, data):
    with open(path, "wb") as f:
        f.write(data)


def on_data(model, given, good, name, seed):
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as folder:
        put(os.path.join(folder, name), damaged(good, random.Random(seed)))
        put(os.path.join(folder, "m.mpg"), read(model).replace(given, name.encode()))
        survives(mpc("train", "m.mpg", "--device", "ref", "--steps", "2", "--out", "run", cwd=folder))


def on_graph(good, seed):
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as folder:
        put(os.path.join(folder, "g.mpir"), damaged(good, random.Random(seed)))
        for pipeline in ("@train,@lower", "fuse,schedule,memory", "schedule,memory", "memory"):
            survives(mpc("opt", "g.mpir", "--passes", pipeline, cwd=folder))


def on_checkpoint(trained, part, seed):
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as folder:
        run = os.path.join(folder, "run")
        shutil.copytree(trained, run)
        with open(os.path.join(run, "checkpoints", "last"), encoding="ascii") as f:
            path = os.path.join(run, "checkpoints", f.read().strip(), part) if part != "last" else f.name
        with open(path, "rb") as f:
            good = f.read()
        put(path, damaged(good, random.Random(seed)))
        model = os.path.join(CORPUS, "good.mpg")
        survives(mpc("eval", model, "--device", "ref", "--from", run, "--split", "train"))
        survives(mpc("train", model, "--device", "ref", "--resume", run, "--change", "length=4 steps"))


with tempfile.TemporaryDirectory(prefix="mpc-robust-") as place:
    first = os.path.join(place, "run")
    survives(mpc("train", os.path.join(CORPUS, "good.mpg"), "--device", "ref", "--out", first), 0)
    fused = mpc("dump-ir", os.path.join(CORPUS, "good.mpg"), "--stage", "final")
    parsed = mpc("dump-ir", os.path.join(CORPUS, "good.mpg"), "--stage", "parsed")
    survives(fused, 0)
    table, text = read("good.csv"), read("good.txt")
    seeds = range(ROUNDS)
    in_parallel(lambda seed: on_graph((fused if seed % 2 else parsed).out.encode(), seed), seeds)
    in_parallel(lambda seed: on_data("good.mpg", b"good.csv", table, "t.csv", seed), seeds)
    in_parallel(lambda seed: on_data("good.mpg", b"good.csv", gzip.compress(table * 9, mtime=0), "t.csv.gz", seed), seeds)
    in_parallel(lambda seed: on_data("text.mpg", b"FILE", text, "t.txt", seed), seeds)
    for file in ("weights.safetensors", "state.safetensors", "last"):
        in_parallel(lambda seed: on_checkpoint(first, file, seed), seeds)
finish()
