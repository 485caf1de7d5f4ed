"""Every solver trains: what a step computes beside the model (data mapping, losses' scalars, loss scale, update) is f32 whoever decides, so a short
training on `ref` moves, its scale may grow past what f16 holds, data far from 0 are standardized and the total loss is exact. Arguments: mpc, "ref",
the repository."""
import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from support import Folder, check, finish  # noqa: E402

ROOT = sys.argv[3]
SOLVERS = ("list", "mincut", "list-pytorch", "list-pytorch-cpu", "list-tf", "list-tvm", "list-relax", "O0", "O1", "O2", "O3")
# Options that make an example small, steps, and how far rounding may move the first loss.
EXAMPLES = {"linear": ([], 8, 0.02), "mlp": (["--const", "width=16", "--batch", "16"], 10, 0.01),
            "vae": (["--batch", "4"], 8, 0.02)}


def train(folder, model, solver, precision, *more):
    folder.mpc("train", model, "--out", "run", "--overwrite", "--device", "ref", "--solver", solver, "--precision", precision, *more)
    return folder.steps("run")


def solvers_are_all(folder):
    """A solver that is missing above would go untested."""
    found = json.loads(folder.mpc("explain", "far.mpg", "--compare-solvers", "--json").out)
    check({s["solver"] for s in found["solvers"]} == set(SOLVERS), [s["solver"] for s in found["solvers"]])


def examples_move(folder):
    for name, (options, count, near) in EXAMPLES.items():
        model = os.path.join(ROOT, "examples", f"{name}.mpg")
        options = [*options, "--steps", str(count)]
        first = train(folder, model, "list", "f32", *options)[0]["loss"]
        for solver in SOLVERS:
            for precision in ("bf16", "f16"):
                steps = train(folder, model, solver, precision, *options)
                losses, what = [s["loss"] for s in steps], (name, solver, precision)
                norms = [s["grad_norm"] for s in steps if s["grad_norm"] is not None]  # a step that overflows has none
                check(len(losses) == count and 2 * len(norms) >= count and min(norms) > 0, *what, [s["grad_norm"] for s in steps])
                check(abs(losses[0] - first) <= near * abs(first), *what, "begins with", losses[0], "f32 with", first)
                check(sum(losses[-3:]) < sum(losses[:3]), *what, "doesn't fall:", losses)


# Two columns around 1e5, told apart by less than a bf16 step there; the total of its losses is beyond f16.
FAR = """
model far(x: f32[batch, 2], z: f32[batch, 2], big: f32[batch], y: i32[batch]) {
    h = relu(linear(x + z, 16) as fc1)
    v = linear(h, 1)[:, 0] as fc2
    logits = linear(h, 2) as head
    loss ce  = cross_entropy(logits, y)
    loss fit = mse(v, big)
    loss sum = mean(big) * 10000
    metric accuracy = accuracy(logits, y)
}
data {
    train = csv("far.csv", header = false)
    input x   = standardize(columns[0:2])
    input z   = (columns[0:2] - 100000) / 8
    input big = columns[2]
    input y   = columns[3]
}
train {
    precision = f16
    optimizer = adamw(lr = 2e-2)
    batch     = 32
    length    = 20 steps
    seed      = 3
}
"""


def rows_of_far():
    rng = random.Random(5)
    lines = []
    for _ in range(64):
        y = rng.randrange(2)
        lines.append(f"{100000 + rng.gauss(8 * y, 2):.2f},{100000 - rng.gauss(8 * y, 2):.2f},{rng.uniform(9, 11):.3f},{y},"
                     f"{y + rng.gauss(0, 0.2):.3f},{rng.gauss(0, 0.2):.3f}")
    return "\n".join(lines) + "\n"


def far_data_are_mapped_in_f32(folder):
    for precision in ("bf16", "f16"):
        scale = ["--set", "loss_scale=dynamic(init = 64)"] if precision == "f16" else []
        want = [s["loss.ce"] for s in train(folder, "far.mpg", "list", precision, *scale)]
        check(want[-1] < 0.5 * want[0], precision, want)
        for solver in SOLVERS:
            steps = train(folder, "far.mpg", solver, precision, *scale)
            got = [s["loss.ce"] for s in steps]
            near = len(got) == len(want) and all(abs(g - w) <= 0.05 * want[0] for g, w in zip(got, want))
            check(near, solver, precision, "not as list:", got, want)
            for s in steps if near else []:
                total = s["loss.ce"] + s["loss.fit"] + s["loss.sum"]
                check(abs(s["loss"] - total) <= 1e-6 * total, solver, precision, s["loss"], "is not the sum", total)


def small_gradients():
    """One loss of a hundredth: its gradients leave room for a scale that f16 doesn't hold."""
    lines = [line for line in FAR.splitlines() if "loss fit" not in line and "loss sum" not in line and "v = linear" not in line]
    text = "\n".join(lines).replace("cross_entropy", "0.01 * cross_entropy").replace("20 steps", "10 steps")
    return text.replace("standardize(columns[0:2])", "columns[4:6]").replace("(columns[0:2] - 100000) / 8", "columns[4:6]") + "\n"


def the_scale_grows_past_f16(folder):
    for solver in [s for s in SOLVERS if s != "O0"]:
        steps = train(folder, "small.mpg", solver, "f16", "--set", "loss_scale=dynamic(init = 32768, interval = 2)")
        scales, norms = [s["scale"] for s in steps], [s["grad_norm"] or 0 for s in steps]
        check(len(steps) == 10 and max(scales) > 65536 and steps[-1]["skipped"] == 0 and min(norms) > 0, solver, scales, norms)


def stored_formats(folder, solver, precision):
    """Value -> format in the lowered step, and its outputs."""
    text = folder.mpc("dump-ir", "far.mpg", "--stage", "autocast", "--solver", solver, "--precision", precision).out
    formats = {}
    for line in text.splitlines():
        m = re.match(r"  ((?:%\S+?(?:, )?)+) = .* : ([a-z0-9, \[\]]+?)(?: |$)", line)
        if m:
            formats.update(zip(m[1].split(", "), re.findall(r"([a-z0-9]+)\[", line[m.start(2):])))
    return formats, dict(re.findall(r'"([^"]+)": (%[^,)]+)', text[text.index("return("):])), text


def what_is_held_is_stored_f32(folder):
    for solver in SOLVERS:
        for precision in ("bf16", "f16"):
            formats, outputs, text = stored_formats(folder, solver, precision)
            held = [outputs[name] for name in ("loss", "loss.ce", "loss.sum", "count.ce", "metric.accuracy.num")]
            held += ["%x", "%z", "%x.sub", "%z.sub", "%x.expand"]
            held += ["%scaler.inverse", "%loss.seed.scaled"] if "%scaler.scale" in formats else []
            for value in held:
                check(formats.get(value) == "f32", solver, precision, value, formats.get(value))
            for value in set(held) - {"%x", "%z"}:
                check(f"cast({value})" not in text, solver, precision, value, "is read low")


with Folder("", 4, 4) as folder:
    folder.put("far.csv", rows_of_far())
    folder.put("far.mpg", FAR)
    folder.put("small.mpg", small_gradients())
    solvers_are_all(folder)
    what_is_held_is_stored_f32(folder)
    far_data_are_mapped_in_f32(folder)
    the_scale_grows_past_f16(folder)
    examples_move(folder)
finish()
