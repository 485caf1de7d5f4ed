"""Field cases about casts, caching and fusion (class C), about speed and memory (class P), and those about losses and ramps (O, I) that
no other file holds: what a user writes, and the value that must come out in every precision."""
import json
import math
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "precision"))
import field_ranges  # noqa: E402
from field_ranges import PRECISIONS, Case as RowCase, near  # noqa: E402
from support import Folder, check, finish  # noqa: E402


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class Case(RowCase):
    def put_model(self, precision, text=None):
        self.put("case.mpg", (text or self.text).replace("PRECISION", precision))

    def values_on(self, device, precision, *more):
        self.put_model(precision)
        self.mpc("train", "case.mpg", "--out", "run", "--overwrite", *more, device=device)
        out = self.mpc("predict", "case.mpg", "--from", "run", "--input", "rows.csv", *more, device=device).out.splitlines()
        return [float(v) for v in out[1].split(",")]

    def graph(self, precision, stage, *more):
        self.put_model(precision)
        return json.loads(self.mpc("dump-ir", "case.mpg", "--stage", stage, "--format", "json", "--verify-each", *more).out)


def node(graph, name):
    return next(n for n in graph["nodes"] if any(r["name"] == name for r in n["results"]))


def stored(graph, name):
    return next(r["stored"] for r in node(graph, name)["results"] if r["name"] == name)


# ---- class O ----

def fc046_infinite_logits_of_a_binary_loss():
    body = ["b = param([2], init = zeros)", "e = bce_with_logits(x + b, t)", "loss l = mean(e)", "output e = e"]
    for row, want in (["-inf", "inf", 0, 1], [0, 0]), (["-inf", 0, 1, 0], [math.inf, math.log(2)]):
        with Case([("x", "f32", 2), ("t", "f32", 2)], body, row) as c:
            for precision in PRECISIONS:
                got = c.values(precision)
                check(got[0] == want[0] and abs(got[1] - want[1]) < 1e-6 and c.tensor("b")[0] == 0, precision, row, got)


def fc047_a_label_beside_an_impossible_class():
    body = ["b = param([2], init = zeros)", "e = cross_entropy(x + b, t)", "loss l = mean(e)", "output e = e"]
    with Case([("x", "f32", 2), ("t", "i32", 0)], body, ["-inf", 0, 1]) as c:
        for precision in PRECISIONS:
            check(c.values(precision) == [0] and c.tensor("b") == [0, 0], precision, c.tensor("b"))
    soft = ["b = param([2], init = zeros)", "p = log_softmax(x + b)", "e = -sum(where(t > 0, t * p, 0), axis = -1, keep = true)",
            "loss l = mean(e)", "output e = e"]
    with Case([("x", "f32", 2), ("t", "f32", 2)], soft, ["-inf", 0, 0, 1]) as c:
        for precision in PRECISIONS:
            check(c.values(precision) == [0] and c.tensor("b")[1] == 0, precision, c.tensor("b"))


def fc046_a_logit_of_zero_pulls_both_ways():
    """The gradient at 0 is a half less the target, not 0: where logits begin at 0, a wrong one would hold every target of 0 there."""
    for loss, want in ("bce_with_logits(x + b, t)", [-0.25, 0.25]), ("softplus(x + b)", [-0.25, -0.25]):
        body = ["b = param([2], init = zeros)", f"e = {loss}", "loss l = mean(e)", "output e = e"]
        with Case([("x", "f32", 2), ("t", "f32", 2)], body, [0, 0, 0, 1]) as c:
            for precision in PRECISIONS:
                c.values(precision)
                check(c.tensor("b") == want, precision, loss, c.tensor("b"))


# ---- class I ----

def fc070_a_ramp_is_made_of_integers():
    for fmt, want in ("f16", {257: 257, 2049: 2048, 3000: 3000, 4095: 4096}), ("bf16", {257: 256, 2049: 2048, 3000: 3008, 4095: 4096}):
        body = ["b = param([1], init = zeros)", f"r = cast(cast(range(4096), {fmt}), f32)", "y = x + r", "loss l = mean(y * b)", "output y = y"]
        with Case([("x", "f32", 4096)], body, [0] * 4096) as c:
            got = c.values("f32")
            check(all(got[k] == v for k, v in want.items()), fmt, {k: got[k] for k in want})


def fc064_lookups_by_ids_past_2048():
    """Row i of the table holds i."""
    at = "a", "c", "d"
    body = ["b = param([1], init = zeros)", "t = expand(reshape(cast(range(50257), f32), [1, 50257]), [batch, 50257])",
            f"y = stack([{', '.join(f'gather(t, {n}, axis = -1)' for n in at)}], axis = 1)", "loss l = mean(y) * mean(b)", "output y = y"]
    with Case([(n, "i32", 0) for n in at], body, [2049, 2101, 50256]) as c:
        for precision in PRECISIONS:
            for solver in "list", "mincut", "O3":
                check(c.values(precision, "--solver", solver) == [2049, 2101, 50256], precision, solver, c.values(precision, "--solver", solver))
    body = ["e = embedding(where(a > 0, a, c), 50257, 1, init = zeros)", "loss l = sum(e)"]
    with Case([(n, "i32", 0) for n in at[:2]], body, [2049, 1]) as c:
        for precision in PRECISIONS:  # the gradient lands in the row that was read
            c.put_model(precision)
            c.mpc("train", "case.mpg", "--out", "run", "--overwrite", *(["--set", "loss_scale=static(scale = 1)"] if precision == "f16" else []))
            moved = [i for i, v in enumerate(c.tensor("e.weight")) if v != 0]
            check(moved == [2049], precision, moved)


# ---- class C ----

def fc083_evaluation_between_steps_costs_no_gradient():
    with Case([("x", "f32", 1)], ["w = param([1], init = constant(1))", "loss l = w * x"], [2]) as c:
        text = c.text.replace("    input x", "    valid = csv(\"rows.csv\", header = false)\n    input x").replace("1 steps", "3 steps\n    eval_every = 1 steps")
        for precision in PRECISIONS:
            c.put_model(precision, text)
            c.mpc("train", "case.mpg", "--out", "run", "--overwrite")
            check(sum(r["type"] == "eval" for r in c.log("run")) >= 2, c.log("run"))
            check(c.tensor("w") == [-5], precision, c.tensor("w"))  # 1 - 3 * 2: a missing gradient would leave it above


def fc085_shared_weights_are_cast_in_the_update_alone():
    steps = 784
    body = ["w = param([8, 8])", "u = param([8, 8])", "b = param([8], init = zeros)", "h0 = tanh(matmul(x, w) + b)"]
    body += [f"h{k} = tanh(matmul(x, w) + matmul(h{k - 1}, u) + b)" for k in range(1, steps)]
    with Case([("x", "f32", 8)], body + [f"loss l = mean(h{steps - 1})"], [0.5] * 8) as c:
        graph = c.graph("bf16", "autocast", "--solver", "list")
        casts = [n["operands"][0] for n in graph["nodes"] if n["op"] == "cast"]
        check(not any(name in ("w", "u", "b") for name in casts), casts[:5])
        square = [n for n in graph["nodes"] if n["op"] == "cast" and n["results"][0]["type"] == "bf16[8,8]"]
        check(len(square) == 2, len(square))
        check(stored(graph, "d.w") == "f32" and stored(graph, "d.u") == "f32", stored(graph, "d.w"))


def fc087_a_written_cast_stays_what_it_says():
    body = ["w = param([2, 2], init = zeros)", "y = cast(x, f32)", "z = matmul(y, w)", "s = sum(y, axis = -1, keep = true) + sum(z, axis = -1, keep = true)",
            "loss l = mean(s)", "output s = s"]
    with Case([("x", "f32", 2)], body, [2049.5, 0.25]) as c:
        for precision in PRECISIONS:
            check(c.values(precision, "--set", "optimizer.lr=1e-30") == [2049.75], precision)
    body[1:3] = ["y = cast(matmul(x, w), f32)", "z = matmul(y, w)"]
    with Case([("x", "f32", 2)], body, [1, 1]) as c:
        graph = c.graph("f16", "decided", "--solver", "list")
        check(stored(graph, "y") == "f32" and stored(graph, "y") == node(graph, "y")["results"][0]["type"][:3], node(graph, "y"))
        graph = c.graph("f16", "autocast", "--solver", "list")
        check(stored(graph, "y") == "f32" and node(graph, "z")["operands"][0] != "y", node(graph, "z"))


def fc089_joined_tensors_take_the_wider_format():
    for order in (["cast(x, f16)", "x"], ["x", "cast(x, f16)"]):
        body = ["b = param([1], init = zeros)", f"y = concat([{', '.join(order)}], axis = -1)", "z = where(x > 0, cast(x, f16), x)",
                "loss l = mean(y * b)", "output y = y"]
        with Case([("x", "f32", 1)], body, [2049]) as c:
            for precision in PRECISIONS:
                want = [2048, 2049] if order[1] == "x" else [2049, 2048]
                check(c.values(precision) == want and stored(c.graph(precision, "decided"), "y") == "f32", precision, order)


def fc091_a_scalar_decides_nothing_and_enters_whole():
    body = ["w = param([2, 2])", "v = param([2, 2])", "m = matmul(x, w)", "y = m * 2.5 + 1e-3", "z = matmul(y, v)", "loss l = mean(z)"]
    with Case([("x", "f32", 2)], body, [1, 1]) as c:
        graph = c.graph("bf16", "decided", "--solver", "list")
        check(stored(graph, "m") == "bf16" and stored(graph, "y") == "bf16", stored(graph, "m"), stored(graph, "y"))
    body = ["b = param([1], init = zeros)", "@bf16 y = x * 0.1", "loss l = mean(y * b)", "output y = y"]
    with Case([("x", "f32", 1)], body, [1.125]) as c:
        check([f32(v) for v in c.values("bf16")] == [0.1123046875], c.values("bf16"))
    body = ["w = param([2, 2])", "y = matmul(x, w) * 1e6", "z = matmul(y, w)", "loss l = mean(z)"]
    with Case([("x", "f32", 2)], body, [1, 1]) as c:
        check("1e+06" in c.lint("f16", "--solver", "list"), c.lint("f16", "--solver", "list"))


def fc092_a_written_narrowing_rounds_fused_or_not():
    body = ["b = param([3], init = zeros)", "y = cast(cast(x, bf16), f32) * sigmoid(b)", "loss l = mean(y)", "output y = y"]
    with Case([("x", "f32", 3)], body, [1.001, 1.003, 257]) as c:
        for precision in PRECISIONS:
            for device in "ref", "cpu":
                check(c.values_on(device, precision, "--set", "optimizer.lr=1e-30") == [0.5, 0.5, 128], precision, device)
    body[1] = "y = cast(cast(x, f16), f32) * sigmoid(b)"
    with Case([("x", "f32", 3)], body, [1.0001, 1.0001, 2049]) as c:
        for device in "ref", "cpu":
            check(c.values_on(device, "f32", "--set", "optimizer.lr=1e-30") == [0.5, 0.5, 1024], device)


def fc095_a_reader_sees_the_rounded_value():
    norm = ["f = cast(r, f32)", "h = f / sqrt(mean(f * f, axis = -1, keep = true))", "b = param([1], init = zeros)", "loss l = mean(h * b)", "output h = h"]
    for stored_as in "r = cast(x + u, bf16)", "@bf16 r = x + u":
        with Case([("x", "f32", 2), ("u", "f32", 2)], [stored_as] + norm, [256, 256, 0.9, 0]) as c:
            for device in "ref", "cpu":
                check(c.values_on(device, "bf16") == [1, 1], stored_as, device, c.values_on(device, "bf16"))


def fc096_a_residual_stays_as_wide_as_it_is():
    for start, branch, count, want in (256, 0.5, 100, 306), (16, 0.03, 96, 18.8828125):
        body = ["b = param([1], init = zeros)", f"k = cast(u, bf16)", "r0 = x + k * 0"]
        body += [f"r{i + 1} = r{i} + k" for i in range(count)] + [f"loss l = mean(r{count} * b)", f"output y = r{count}"]
        with Case([("x", "f32", 1), ("u", "f32", 1)], body, [start, branch]) as c:
            for device in "ref", "cpu":
                check(near(c.values_on(device, "bf16"), [want], 1e-5), device, want)
            graph = c.graph("bf16", "decided", "--solver", "list")
            check(all(stored(graph, f"r{i}") == "f32" for i in range(count)))


def fc098_an_output_is_f32_unless_training_reads_it_low():
    body = ["w = param([2, 3], init = zeros)", "z = matmul(x, w)", "y = softmax(z)", "loss l = cross_entropy(z, t)", "output y = y"]
    for body in body, body[:2] + ["@f32 y = softmax(z)", "loss l = mean(y)", "output y = y"]:
        with Case([("x", "f32", 2), ("t", "i32", 0)], body, [1, 1, 0]) as c:
            for precision in PRECISIONS:
                check([f32(v) for v in c.values(precision, "--set", "optimizer.lr=1e-30")] == [f32(1 / 3)] * 3, precision, body)


# ---- class P ----

def mlp(sizes, batch):
    names = [f"    h = {'relu(' if i + 2 < len(sizes) else ''}linear(h, {n}){')' if i + 2 < len(sizes) else ''}" for i, n in enumerate(sizes[1:])]
    return ("model mlp(x: f32[batch, %d], y: i32[batch]) {\n    h = x\n%s\n    loss ce = cross_entropy(h, y)\n}\ndata {\n"
            "    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:%d]\n    input y = columns[%d]\n}\n"
            "train {\n    batch = %d\n    optimizer = sgd(lr = 1)\n    length = 1 steps\n    precision = PRECISION\n}\n"
            ) % (sizes[0], "\n".join(names).replace("linear(h", "linear(h"), sizes[0], sizes[0], batch)


def fc112_a_small_model_is_not_slower_than_f32():
    with Folder("", 4, 4) as c:
        for sizes, batch in ([64, 64, 64, 10], 32), ([8, 8, 4], 4), ([64, 256, 256, 10], 256):
            c.put("m.mpg", mlp(sizes, batch).replace("PRECISION", "bf16"))
            report = json.loads(c.mpc("explain", "m.mpg", "--compare-solvers", "--json").out)
            rows = {s["solver"]: s for s in report["solvers"]}
            check(rows["mincut"]["seconds"] <= rows["O0"]["seconds"] * (1 + 1e-9), sizes, rows["mincut"], rows["O0"])
            check(rows["mincut"]["casts"] <= rows["list-pytorch"]["casts"], sizes)
        # input, two inner activations' gradients and the logits' gradient; the weights' copies are written by the update
        c.put("m.mpg", mlp([64, 64, 64, 10], 32).replace("PRECISION", "bf16"))
        graph = json.loads(c.mpc("dump-ir", "m.mpg", "--stage", "autocast", "--solver", "list", "--format", "json").out)
        casts = [n for n in graph["nodes"] if n["op"] == "cast"]
        weights = [n for n in casts if n["results"][0]["type"] in ("bf16[64,64]", "bf16[64,10]")]
        check(len(weights) == 3 and sum(n["operands"] == ["x"] for n in casts) == 1 and len(casts) <= 6, [n["operands"] for n in casts])


def fc114_memory_is_told_before_it_is_needed():
    def classes(c, precision, width, batch):
        c.put("m.mpg", mlp([width] * 4, batch).replace("PRECISION", precision))
        lines = c.mpc("explain", "m.mpg", "--memory").out.splitlines()
        table = {}
        for line in lines:
            words = line.split()
            if len(words) >= 3 and words[-1].isdigit() and words[-2] in ("f32", "bf16", "f16", "i32", "i64", "u8", "bool"):
                table[" ".join(words[:-2]), words[-2]] = int(words[-1])
        together = next(int(line.split()[1]) for line in lines if line.startswith("together"))
        return table, together

    with Folder("", 4, 4) as c:
        wide, wide32 = classes(c, "f16", 1024, 32), classes(c, "f32", 1024, 32)  # P = 3 * 2^20 weights
        check(wide[0]["masters", "f32"] >= 4 * 3 * 2 ** 20 and wide[0]["low copies", "f16"] == 2 * 3 * 2 ** 20, wide[0])
        check(("low copies", "f16") not in wide32[0] and wide[1] > wide32[1], wide[1], wide32[1])  # more parameters than activations
        long, long32 = classes(c, "f16", 256, 8192), classes(c, "f32", 256, 8192)
        check(long[1] < 0.85 * long32[1], long[1], long32[1])  # more activations than parameters; the rows themselves stay f32


def fc114_no_update_is_stored_beside_what_it_replaces():
    """Gradients, and unscaled ones in their place: whatever the optimizer, new weights and moments are made where they are stored. With a loss scale one matrix
    is unscaled while the others wait; 6P + 2A bytes against 4P + 4A, and 4P of gradients on both sides."""
    width = 512
    matrix = 4 * width * width
    with Folder("", 4, 4) as c:
        def bytes_of(precision, optimizer, label):
            c.put("m.mpg", mlp([width] * 4, 64).replace("PRECISION", precision).replace("sgd(lr = 1)", optimizer))
            lines = c.mpc("explain", "m.mpg", "--memory", "--solver", "list").out.splitlines()
            return sum(int(line.replace(",", " ").split()[label.count(" ") + 2 if label != "arena" else 2]) for line in lines if line.startswith(label))

        wide = bytes_of("f32", "sgd(lr = 1)", "arena")
        for optimizer in "sgd(lr = 1)", "sgd(lr = 1, momentum = 0.9)", "adamw(lr = 1)", "lion(lr = 1)":
            for precision, more in ("f32", 0), ("bf16", 0), ("f16", 1):
                arena = bytes_of(precision, optimizer, "arena")
                check(arena <= wide + (more + 0.1) * matrix, optimizer, precision, arena, wide)


def fc117_norms_store_no_stream_in_f32():
    """24 blocks in bf16: no activation of full size is f32, and no conversion has a kernel of its own."""
    body = ["h0 = x"] + [f"h{k + 1} = linear(rms_norm(h{k}), 512, bias = false)" for k in range(24)] + ["loss l = mean(h24 * h24)"]
    with Case([("x", "f32", 512)], body, [0] * 512) as c:
        c.put_model("bf16")
        plan = "--batch", "64", "--solver", "list", "--cost-target", "h200"
        lines = [line.split() for line in c.mpc("explain", "case.mpg", "--memory", *plan).out.splitlines()]
        f32 = sum(int(words[2]) for words in lines if words[:2] == ["activations", "f32"])
        check(0 < f32 < 64 * 512 * 4, "bytes of f32 activations:", f32)
        groups = {}
        for line in c.mpc("dump-ir", "case.mpg", "--stage", "final", *plan).out.splitlines():
            if (m := re.match(r"  %\S+(?:, %\S+)* = (\w+)\(.* group\((\d+)\)", line)):
                groups.setdefault(m[2], set()).add(m[1])
        check(len(groups) > 48 and {"cast"} not in groups.values(), len(groups), [g for g, ops in groups.items() if ops == {"cast"}])


def fc115_sizes_that_no_unit_likes():
    body = ["h = x * 0", "z = linear(h, 33708, bias = false)", "e = cross_entropy(z, t)", "loss l = mean(e)"]
    with Case([("x", "f32", 18), ("t", "i32", 0)], body, [1] * 18 + [33707]) as c:
        for precision in PRECISIONS:
            c.put_model(precision)
            c.mpc("train", "case.mpg", "--out", "run", "--overwrite")
            loss = c.steps("run")[0]["loss"]
            check(abs(loss - math.log(33708)) < 2e-6, precision, loss)  # padded to 33712 it would be 10.425609


if __name__ == "__main__":
    wanted = [a for a in sys.argv[3:] if a.startswith("fc")]
    for name, case in sorted(globals().copy().items()):
        if name.startswith("fc") and callable(case) and (not wanted or name[:5] in wanted):
            case()
    finish()
