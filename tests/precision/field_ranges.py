"""Field cases about ranges (class O) and about integers (class I): one row, one step, and the values that `mpc predict` gives in every
precision."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from support import Folder, check, final_checkpoint, finish, read_safetensors  # noqa: E402

PRECISIONS = ("f32", "bf16", "f16")


class Case(Folder):
    def __init__(self, inputs, body, row, params=""):
        super().__init__("", 4, 4)
        names, columns, at = [], [], 0
        for name, kind, width in inputs:
            names.append(f"{name}: {kind}[batch{f', {width}' if width else ''}]")
            columns.append(f"    input {name} = columns[{at}:{at + width}]" if width else f"    input {name} = columns[{at}]")
            at += max(width, 1)
        self.put("rows.csv", ",".join(str(v) for v in row) + "\n")
        body = "".join(f"    {line}\n" for line in body)
        self.text = (f"model case({', '.join(names)}) {{\n{body}}}\ndata {{\n    train = csv(\"rows.csv\", header = false)\n"
                     + "\n".join(columns) + f"\n}}\n{params}train {{\n    batch = 1\n    optimizer = sgd(lr = 1)\n    length = 1 steps\n"
                     "    nonfinite = keep\n    on_nonfinite = skip\n    precision = PRECISION\n}\n")

    def lint(self, precision, *more):
        self.put("case.mpg", self.text.replace("PRECISION", precision))
        return self.mpc("lint", "case.mpg", *more, status=None).out

    def values(self, precision, *more):
        """Output columns of the only row, by the header's names."""
        self.put("case.mpg", self.text.replace("PRECISION", precision))
        self.mpc("train", "case.mpg", "--out", "run", "--overwrite", *more)
        out = self.mpc("predict", "case.mpg", "--from", "run", "--input", "rows.csv", *more).out.splitlines()
        return [float(v) for v in out[1].split(",")]

    def tensor(self, name):
        _, _, data = read_safetensors(final_checkpoint(self, "run")[1]["weights.safetensors"])[0][name]
        return list(struct.unpack(f"<{len(data) // 4}f", data))


def near(got, want, tolerance=1e-6):
    return len(got) == len(want) and all(abs(g - w) <= tolerance * max(1, abs(w)) for g, w in zip(got, want))


def fc036_masks_of_any_size_hide():
    for literal in ("-1e8", "-1e9", "-1e10", "-2.38e38"):
        body = ["b = param([2], init = zeros)", f"p = softmax(where(m > 0, {literal}, x + b))", "loss l = mean(p)", "output p = p"]
        with Case([("x", "f32", 2), ("m", "f32", 2)], body, [0, 0, 0, 1]) as c:
            for precision in PRECISIONS:
                check(near(c.values(precision), [1, 0], 0) and c.tensor("b") == [0, 0], literal, precision)
    body = ["q = linear(where(m > 0, -1e9, linear(x, 2)), 2)", "loss l = mean(q)"]
    with Case([("x", "f32", 2), ("m", "f32", 2)], body, [0, 0, 0, 1]) as c:
        check("W180" in c.lint("f16") and "the literal -1e+09" in c.lint("f16") and "case.mpg:2" in c.lint("f16"))
        check("0 findings" in c.lint("bf16"))


def fc038_an_additive_mask_leaves_no_nan():
    body = ["b = param([2], init = zeros)", "p = softmax(x + m + b)", "loss l = mean(p)", "output p = p"]
    for masks, want in (((-65504, -65504), [.5, .5]), ((0, -65504), [1, 0])):
        with Case([("x", "f32", 2), ("m", "f32", 2)], body, [-20, -20, *masks]) as c:
            for precision in PRECISIONS:
                check(near(c.values(precision), want, 0), masks, precision)


def fc040_a_profile_keeps_the_product():
    body = ["w = param([2, 1], init = constant(129.3864))", "h = matmul(x, w)", "k = param([1, 1], init = constant(1))", "y = matmul(h, k)",
            "loss l = mean(y)", "output y = y"]
    with Case([("x", "f32", 2)], body, [256, 256]) as c:
        c.put("case.mpg", c.text.replace("PRECISION", "f16"))
        c.mpc("profile", "case.mpg", "--steps", "1", "-o", "seen.txt")
        check("stores       f32" in c.mpc("explain", "case.mpg", "h", "--solver", "list", "--profile-data", "seen.txt").out)
        check("stores       f16" in c.mpc("explain", "case.mpg", "h", "--solver", "list").out)
        check("6.625e+04" in c.lint("f16", "--profile-data", "seen.txt"))


def fc042_log_sum_exp_by_hand():
    body = ["b = param([1], init = zeros)", "z = x + b", "y = log(sum(exp(z), axis = -1, keep = true))", "loss l = mean(y)", "output y = y"]
    with Case([("x", "f32", 32)], body, [8] * 32) as c:
        for precision in PRECISIONS:
            check(near(c.values(precision, "--set", "optimizer.lr=1e-12"), [11.465736], 1e-4), precision)
        check("W184" in c.lint("f16") and "(N10)" in c.lint("f16"))


def fc044_exp_in_losses_is_f32():
    body = ["b = param([1], init = zeros)", "z = x + b", "y = exp(z) - z - 1", "loss l = mean(y)", "output y = y"]
    with Case([("x", "f32", 1)], body, [12]) as c:
        for precision in PRECISIONS:
            check(near(c.values(precision, "--set", "optimizer.lr=1e-30"), [162741.79], 1e-6), precision)


def fc045_a_sigmoid_before_a_logarithm_is_found():
    body = ["b = param([2], init = zeros)", "p = sigmoid(x + b)", "loss l = -t * log(p) - (1 - t) * log(1 - p)", "output y = p"]
    with Case([("x", "f32", 2), ("t", "f32", 2)], body, [12, 12, 0, 1]) as c:
        for precision in PRECISIONS:
            check(c.lint(precision).count("W186") >= 1, precision)
    body[1:] = ["e = bce_with_logits(x + b, t)", "loss l = mean(e)", "output e = e"]
    with Case([("x", "f32", 2), ("t", "f32", 2)], body, [12, 12, 0, 1]) as c:
        for precision in PRECISIONS:
            check("0 findings" in c.lint(precision), precision)
            check(near(c.values(precision, "--set", "optimizer.lr=1e-30"), [12.0000061, 6.1442e-06]), precision)


def fc066_angles_are_f32():
    body = ["b = param([1], init = zeros)", "a = cast(i, f32) * 0.56234133", "y = cos(a)", "loss l = mean(y * b)", "output y = y"]
    with Case([("i", "i32", 0)], body, [1857]) as c:
        for precision in PRECISIONS:
            check(near(c.values(precision), [0.3066928], 1e-4), precision)


def fc068_positions_past_4096():
    body = ["b = param([1], init = zeros)", "y = cos(cast(i, f32))", "loss l = mean(y * b)", "output y = y"]
    with Case([("i", "i32", 0)], body, [4097]) as c:
        for precision in PRECISIONS:
            check(near(c.values(precision), [0.9347720], 1e-5), precision)


def fc064_integers_are_converted_by_the_user_alone():
    for fmt, want in (("f16", {2049: 2048, 2101: 2100, 50257: 50272, 3000: 3000, 4095: 4096}), ("bf16", {257: 256, 3000: 3008})):
        for number, rounded in want.items():
            body = ["b = param([1], init = zeros)", f"y = cast(cast(i, {fmt}), f32)", "loss l = mean(y * b)", "output y = y"]
            with Case([("i", "i32", 0)], body, [number]) as c:
                check(near(c.values("f32"), [rounded], 0), fmt, number)


def fc071_buffers_keep_their_format():
    body = ["f = param([1])", "w = param([1], init = constant(1))", "y = f * x * w", "loss l = mean(y)", "output y = y"]
    params = 'params {\n    "f" { init = constant(0.5623413) }\n    "f" { freeze = true }\n}\n'
    with Case([("x", "f32", 1)], body, [1], params) as c:
        for precision in PRECISIONS:
            c.values(precision)
            check(c.tensor("f") == [struct.unpack("<f", struct.pack("<f", 0.5623413))[0]], precision, c.tensor("f"))


def fc039_a_product_beyond_f16_before_its_scale():
    by_hand = ["b = param([2], init = zeros)", "s = matmul(reshape(q, [batch, 1, 64]), transpose(reshape(k, [batch, 2, 64])))",
               "p = softmax(reshape(s / 8, [batch, 2]) + b)", "loss l = mean(p)", "output p = p"]
    inputs, row = [("q", "f32", 64), ("k", "f32", 128)], [40] * 128 + [39.5] * 64
    with Case(inputs, by_hand, row) as c:
        for precision in PRECISIONS:
            check(near(c.values(precision), [1, 0], 0), precision)
        c.lint("f16")
        told = c.mpc("explain", "case.mpg", "s", "--solver", "list").out  # the cut takes f32 where so little gains nothing
        check("(N22)" in told and "stores       f32" in told, told)
    by_hand[2] = "p = softmax(reshape(s, [batch, 2]) + b)"
    row = [40] * 64 + [40] * 64 + [39.5] * 64
    with Case(inputs, by_hand, row) as c:
        c.lint("f16")
        c.mpc("profile", "case.mpg", "--steps", "1", "-o", "seen.txt")
        check(near(c.values("f16", "--profile-data", "seen.txt"), [1, 0], 0))


if __name__ == "__main__":
    for name, case in sorted(globals().copy().items()):
        if name.startswith("fc0"):
            case()
    finish()
