"""Field cases of batch norm's state and of batch sizes (class B), of recurrent layers and of random numbers, as a user meets them: `mpc train`
on a model and rows, the values read from the log, the checkpoints and the lowered graph."""
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from support import Folder, check, final_checkpoint, finish, read_safetensors  # noqa: E402

PRECISIONS = ("f32", "bf16", "f16")


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class Case(Folder):
    """Lines of a model of inputs [(name, sizes)], each a run of columns, over given rows of numbers."""

    def __init__(self, inputs, body, rows, train, sections=""):
        super().__init__("", 4, 4)
        self.put("rows.csv", "".join(",".join(repr(v) for v in row) + "\n" for row in rows))
        head = ", ".join(f"{n}: f32[{', '.join(['batch'] + [str(s) for s in sizes])}]" for n, sizes in inputs)
        lines, at = "", 0
        for name, sizes in inputs:
            count = math.prod(sizes)
            field = f"columns[{at}:{at + count}]" if sizes else f"columns[{at}]"
            lines += f"    input {name} = " + (f"reshape({field}, {list(sizes)})" if len(sizes) > 1 else field) + "\n"
            at += count
        text = "".join(f"    {line}\n" for line in body)
        self.text = (f"model case({head}) {{\n{text}}}\ndata {{\n    train = csv(\"rows.csv\", header = false)\n{lines}}}\n{sections}\n"
                     f"train {{\n    nonfinite = keep\n    on_nonfinite = skip\n{train}\n    precision = PRECISION\n}}\n")

    def train(self, precision, *args, out="run", status=0):
        self.put("case.mpg", self.text.replace("PRECISION", precision))
        self.mpc("train", "case.mpg", "--out", out, "--overwrite", *args, status=status)
        return self.steps(out)

    def tensor(self, name, step=None, part="weights", run="run"):
        data = self.get(run, "checkpoints", f"step-{step:08}", part + ".safetensors") if step else final_checkpoint(self, run)[1][part + ".safetensors"]
        kind, _, raw = read_safetensors(data)[0][name]
        check(kind == "F32", name, kind)
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))

    def statistic(self, name, step=None):
        for part in "weights", "state":
            try:
                return self.tensor(name, step, part)
            except KeyError:
                continue
        raise KeyError(name)


# --- class B ---

def fc118_a_skipped_step_leaves_statistics_alone():
    """The statistics are over the three positions of a row. One row overflows, the other has mean 1 and variance 1."""
    body = ["h = linear(x, 1, bias = false, init = constant(10)) as fc", "loss l = mean(batch_norm(h / 10, momentum = 0.1) as norm)"]
    train = "    batch = 1\n    optimizer = sgd(lr = 0)\n    length = 2 steps\n    save_every = 1 steps\n    keep = 5"
    for precision, huge in ("f32", 2e38), ("bf16", 2e38), ("f16", 1e5):
        sections = "policy {\n    linear = PRECISION\n}\n"
        with Case([("x", (3, 1))], body, [[huge, -huge, huge], [0.0, 1.0, 2.0]], train, sections) as c:
            steps = c.train(precision)
            first_is_bad = steps[0]["skipped"] == 1
            check(steps[-1]["skipped"] == 1, precision, steps)
            after_one = (0.0, 1.0) if first_is_bad else (f32(0.1), 1.0)
            check((c.statistic("norm.running_mean", 1)[0], c.statistic("norm.running_var", 1)[0]) == after_one, precision, first_is_bad)
            got = c.statistic("norm.running_mean")[0], c.statistic("norm.running_var")[0]
            check(got == (f32(0.1), 1.0), precision, got)


def fc121_a_last_batch_of_one():
    """What is normalised is then beta, 0, whatever the row; its variance is 0, not 0 / 0."""
    r = random.Random(1)
    rows = [[r.uniform(-3, 3) for _ in range(4)] for _ in range(101)]
    train = "    batch = 10\n    optimizer = sgd(lr = 0)\n    length = 1 epochs"
    body = ["y = batch_norm(x) as norm", "loss l = mean(y * y, axis = 1)"]
    with Case([("x", (4,))], body, rows, train) as c:
        for precision in PRECISIONS:
            steps = c.train(precision)
            check(len(steps) == 11 and all(s["skipped"] == 0 for s in steps), precision, len(steps))
            check(steps[-1]["loss"] == 0 and all(s["loss"] > 0.9 for s in steps[:-1]), precision, steps[-1]["loss"])
            check(all(0 < v < 9 for v in c.statistic("norm.running_var")), precision, c.statistic("norm.running_var"))
            check("last_batch" in c.get("run", "resolved.mpg").decode(), "the run file says what became of the last batch")


# --- class U: eps ---

def fc050_a_constant_row_through_layer_norm():
    for norm, other in ("layer_norm", 0), ("group_norm", 0), ("rms_norm", 0):
        groups = ", groups = 1" if norm == "group_norm" else ""
        body = ["w = param([10], init = zeros)", f"y = {norm}(x + w, eps = 1e-12{groups}) as norm", "loss l = sum(y * x)", "output y = y"]
        with Case([("x", (10,))], body, [[0.0] * 10], "    batch = 1\n    optimizer = sgd(lr = 1)\n    length = 1 steps") as c:
            for precision in PRECISIONS:
                steps = c.train(precision)
                check(steps[0]["skipped"] == 0 and c.tensor("w") == [0] * 10, norm, precision, steps, c.tensor("w"))
    for eps, want in (1e-12, 0.9999500037), (1e-5, 0.0316069770):
        body = ["y = layer_norm(x, eps = " + str(eps) + ") as norm", "loss l = mean(y * y)", "output y = y"]
        row = [1e-4 * (-1) ** i for i in range(10)]
        with Case([("x", (10,))], body, [row], "    batch = 1\n    optimizer = sgd(lr = 0)\n    length = 1 steps") as c:
            for precision in PRECISIONS:
                c.train(precision)
                out = c.mpc("predict", "case.mpg", "--from", "run", "--input", "rows.csv").out.splitlines()[1].split(",")
                tolerance = 1e-6 if precision == "f32" else 5e-3
                check(all(abs(float(v) - want * (-1) ** i) <= tolerance for i, v in enumerate(out)), precision, eps, out)


# --- class C: recurrent layers ---

STEPS = 64


def recurrent(kind):
    r = random.Random(3)
    rows = [[r.gauss(0, 1) for _ in range(STEPS * 3)] for _ in range(8)]
    body = [f"y = {kind}(x, 32) as cell", "loss l = mean(y * y)"]
    return Case([("x", (STEPS, 3))], body, rows, "    batch = 8\n    optimizer = sgd(lr = RATE)\n    length = 1 steps")


def weights_after(c, precision, rate):
    text, c.text = c.text, c.text.replace("RATE", rate)
    c.train(precision)
    c.text = text
    return c.tensor("cell.weight_input") + c.tensor("cell.weight_hidden")


def fc085_weights_are_cast_once_per_step():
    """Each weight matrix has one cast, that of its new master, however many steps there are; its gradient is an f32 sum over all of them."""
    for kind in "lstm", "gru":
        with recurrent(kind) as c:
            c.put("case.mpg", c.text.replace("PRECISION", "bf16").replace("RATE", "1"))
            graph = c.mpc("dump-ir", "case.mpg", "--stage", "lowered").out
            casts = [line for line in graph.splitlines() if " = cast(%cell.weight" in line]
            check(len(casts) == 2 and all("by=master" in line for line in casts), kind, casts)
            start = weights_after(c, "f32", "0")
            moved = {p: [b - a for a, b in zip(start, weights_after(c, p, "1"))] for p in PRECISIONS}
            for precision, bound in ("f16", 1e-3), ("bf16", 4e-3):  # bf16 rounds what is multiplied by 2e-3 at most
                off = math.dist(moved["f32"], moved[precision]) / math.hypot(*moved["f32"])
                check(off < bound, kind, "gradients are off by", off, "in", precision)


# --- class D: random numbers ---

def fc107_the_mask_of_the_gradient_is_that_of_the_value():
    body = ["w = param([8], init = ones)", "y = dropout(w * x, 0.5) as drop", "loss l = sum(y)"]
    with Case([("x", (8,))], body, [[1.0] * 8], "    batch = 1\n    optimizer = sgd(lr = 1)\n    length = 1 steps") as c:
        for precision in PRECISIONS:
            steps = c.train(precision)
            gradient = [1 - w for w in c.tensor("w")]
            check(set(gradient) == {0.0, 2.0} and steps[0]["loss"] == sum(gradient), precision, gradient, steps[0]["loss"])


def fc110_equal_seeds_give_equal_bits():
    """Draws of every kind, and sums whose order shows: 1e8 + 1 - 1e8 in the gradient of an embedding that is read often."""
    r = random.Random(5)
    rows = [[float(r.randrange(8)) for _ in range(64)] + [(1e8, 1.0, -1e8)[i % 3] for i in range(64)] for _ in range(32)]
    body = ["e = embedding(cast(ids, i32), 8, 1)[:, :, 0] as e", "n = random_normal([batch, 64]) * bernoulli([batch, 64], 0.5)",
            "h = drop_path(dropout(e * scale + n, 0.25), 0.25) + random_uniform([batch, 64], low = -1, high = 1)", "loss l = mean(h)"]
    train = "    batch = 8\n    optimizer = sgd(lr = 1e-6)\n    length = 2 epochs"
    with Case([("ids", (64,)), ("scale", (64,))], body, rows, train) as c:
        runs = []
        for threads in "1", "2", "1":
            c.train("f32", "--threads", threads)
            runs.append(final_checkpoint(c, "run")[1]["weights.safetensors"])
        check(runs[0] == runs[1] == runs[2], "three runs, three results")
        c.train("f32", "--set", "seed=1")
        check(final_checkpoint(c, "run")[1]["weights.safetensors"] != runs[0], "the seed has no influence")


def an_evaluation_draws_the_same_every_time():
    body = ["w = param([4], init = ones)", "loss l = mean((w * x + random_normal([batch, 4])) * dropout(x, 0.5))", "metric m = l1(x, random_uniform([batch, 4]))"]
    with Case([("x", (4,))], body, [[1.0, 2.0, 3.0, 4.0]] * 6, "    batch = 4\n    length = 2 steps") as c:
        c.train("f32")
        says = [c.mpc("eval", "case.mpg", "--from", "run", "--split", "train").out for _ in range(2)]
        check(says[0] == says[1] and says[0], says)


if __name__ == "__main__":
    for name, case in sorted(globals().copy().items()):
        if name.startswith("fc") or name.startswith("an_"):
            case()
    finish()
