"""Field cases about reductions and accumulators (class R) and about slopes that are infinite or undefined (class G): one step of training by
sgd with rate 1, so that a parameter that begins at 0 ends as its gradient with the sign turned, and the values that `mpc predict` gives, in
every precision. The loss scale is 1 throughout."""
import math
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from support import Folder, check, final_checkpoint, finish, read_safetensors  # noqa: E402

PRECISIONS = ("f32", "bf16", "f16")
INF = math.inf


def near(got, want, tolerance=1e-6):
    return len(got) == len(want) and all(g == w or abs(g - w) <= tolerance * max(1, abs(w)) for g, w in zip(got, want))


def same(case, precision, want, tolerance=1e-7):
    got = case.values(precision)
    check(near(got, want, tolerance), precision, got, want)


def f16(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


class Case(Folder):
    """Lines of a model of one input x, `width` numbers (0: one), and a row for each step."""

    def __init__(self, width, body, rows, train="    length = 1 steps"):
        super().__init__("", 4, 4)
        self.put("rows.csv", "".join(",".join(str(v) for v in row) + "\n" for row in rows))
        self.put("first.csv", ",".join(str(v) for v in rows[0]) + "\n")
        kind = f"f32[batch, {width}]" if width else "f32[batch]"
        field = f"columns[0:{width}]" if width else "columns[0]"
        lines = "".join(f"    {line}\n" for line in body)
        self.text = (f"model case(x: {kind}) {{\n{lines}}}\ndata {{\n    train = csv(\"rows.csv\", header = false)\n    input x = {field}\n}}\n"
                     "train {\n    batch = 1\n    optimizer = sgd(lr = 1)\n    nonfinite = keep\n    on_nonfinite = skip\n"
                     f"    loss_scale = static(scale = 1)\n{train}\n    precision = PRECISION\n}}\n")

    def train(self, precision):
        text = self.text.replace("PRECISION", precision)
        self.put("case.mpg", text if precision == "f16" else text.replace("    loss_scale = static(scale = 1)\n", ""))
        self.mpc("train", "case.mpg", "--out", "run", "--overwrite")
        return self.steps("run")

    def values(self, precision):
        """Output columns of the first row."""
        self.train(precision)
        out = self.mpc("predict", "case.mpg", "--from", "run", "--input", "first.csv").out.splitlines()
        return [float(v) for v in out[1].split(",")]

    def tensor(self, name):
        _, _, data = read_safetensors(final_checkpoint(self, "run")[1]["weights.safetensors"])[0][name]
        return list(struct.unpack(f"<{len(data) // 4}f", data))

    def gradient(self, precision, name="w"):
        self.train(precision)
        return [-v for v in self.tensor(name)]


UNUSED = ["w = param([1], init = zeros)", "loss l = mean(w * x)"]


def fc020_a_mean_has_an_f32_accumulator():
    body = ["h = cast(expand(x, [batch, 100000]), f16)", "@f16 m = mean(h, axis = 1)", "@f16 s = sum(h[:, 0:65519], axis = 1)",
            "@f16 t = sum(h[:, 0:65520], axis = 1)", "@f32 u = sum(h[:, 0:65520], axis = 1)", "output y = stack([m, s, t, u], axis = 1)"]
    with Case(1, UNUSED + body, [[1]]) as c:
        for precision in PRECISIONS:
            same(c, precision, [1, 65504, INF, 65520])


def fc022_a_divisor_beyond_f16():
    body = ["w = param([1], init = zeros)", "p = param([70000], init = zeros)", "v = expand(x, [batch, 70000])",
            "a = expand(x, [batch, 35000])", "loss l = mean(w * v + p)",
            "output y = stack([mean(v, axis = 1), var(stack([a, -a], axis = 2), axis = [1, 2])], axis = 1)"]
    with Case(1, body, [[1]]) as c:
        for precision in PRECISIONS:
            same(c, precision, [1, 1])
            check(near(c.tensor("w"), [-1], 1e-3), precision, c.tensor("w"))
            check(all(abs(v * -70000 - 1) < 4e-3 for v in c.tensor("p")), precision, c.tensor("p")[0])


def fc024_squares_are_f32():
    body = ["h = cast(x, f16)", "g = group_norm(h, groups = 1)", "loss l = 0 * sum(g)", "@f32 v = var(h, axis = 1)",
            "@f32 n = norm(h, axis = 1)", "output y = concat([g, stack([v, n], axis = 1)])"]
    with Case(2, body, [[300, -300]]) as c:
        for precision in PRECISIONS:
            same(c, precision, [1, -1, 90000, 300 * math.sqrt(2)], 1e-6)


def fc026_statistics_of_a_large_image():
    body = ["a = expand(reshape(x, [batch, 1, 1]), [batch, 257, 128])", "image = cast(reshape(stack([a, -a], axis = 3), [batch, 257, 256]), f16)",
            "@f32 m = mean(image, axis = [1, 2], keep = true)",
            "@f32 v = var(image, axis = [1, 2], keep = true)", "@f32 z = (image - m) * rsqrt(v + 1e-5)", "output y = stack([v[:, 0, 0], z[:, 0, 0], z[:, 256, 255]], axis = 1)"]
    with Case(1, UNUSED + body, [[1]]) as c:
        for precision in PRECISIONS:
            same(c, precision, [1, 0.9999950, -0.9999950])


def fc029_gradients_of_a_window_add_up_in_f32():
    train = "    length = 1 steps\n    accumulate = 64"
    for gradient in 2048, 2.0 ** -20:
        with Case(0, ["w = param([1], init = zeros)", f"loss l = w * x * {gradient:.17g}"], [[1]] * 64, train) as c:
            for precision in PRECISIONS:
                check(c.gradient(precision) == [gradient], precision, c.tensor("w"))


def fc030_an_embedding_that_is_read_often():
    body = ["ids = expand(reshape(range(8), [1, 8]), [12500, 8])", "e = embedding(ids, 8, 1, init = zeros)", "loss l = sum(e * 0.01) * x"]
    with Case(0, body, [[1]]) as c:
        for precision in PRECISIONS:
            got = c.gradient(precision, "e.weight")
            step = {"f32": 0.01, "bf16": 0.010009765625, "f16": f16(0.01)}[precision]
            check(near([g / 12500 for g in got], [step] * 8, 1e-5) or near([g / 12500 for g in got], [0.01] * 8, 1e-8), precision, got)


def fc032_denominators_are_f32():
    body = ["z = cast(expand(x - x, [batch, 4096]), f16)", "@f16 p = softmax(z)", "@bf16 q = softmax(cast(z[:, 0:512], bf16))",
            "ones = cast(expand(x, [batch, 5120]), bf16)", "@f32 n = sum(abs(ones), axis = 1)", "@f32 s = sum(q, axis = 1)",
            "output y = stack([p[:, 7], q[:, 7], s, n], axis = 1)"]
    body = [line.replace("ones", "unit") for line in body]
    with Case(1, UNUSED + body, [[1]]) as c:
        for precision in PRECISIONS:
            same(c, precision, [2.0 ** -12, 2.0 ** -9, 1, 5120])


def fc033_running_sums_are_f32():
    at = (0, 2047, 4095, 4096, 4100, 8191, 9999)
    body = ["h = cast(expand(x, [batch, 10000]), f16)", "@f16 s = cumsum(h)", "@f16 r = cumsum(h, reverse = true)",
            "output y = stack([" + ", ".join(f"s[:, {i}], r[:, {9999 - i}]" for i in at) + "], axis = 1)"]
    want = [f16((i + 1) * 0.5) for i in at for _ in range(2)]
    with Case(1, UNUSED + body, [[0.5]]) as c:
        for precision in PRECISIONS:
            same(c, precision, want)


def fc042_log_sum_exp_is_shifted():
    body = ["w = param([32], init = zeros)", "y = logsumexp(x + w, axis = 1)", "loss l = mean(y)", "output y = y"]
    for value, want in ((8, 11.465736), (1000, 1003.465736), (-1000, -996.534264)):
        with Case(32, body, [[value] * 32]) as c:
            for precision in PRECISIONS:
                check(near(c.gradient(precision), [1 / 32] * 32, 1e-3), precision, c.tensor("w"))
        with Case(32, [line.replace("zeros", "constant(0)").replace("mean(y)", "0 * mean(y)") for line in body], [[value] * 32]) as c:
            for precision in PRECISIONS:
                same(c, precision, [want], 5e-4)


def fc054_a_clamp_keeps_its_bound():
    body = ["w = param([1], init = constant(1))", "y = log1p(-clamp(w * x, max = 0.999999))", "loss l = 0 * mean(y)", "output y = y"]
    with Case(1, body, [[1]]) as c:
        for precision in PRECISIONS:  # the bound as f32 is 1 - 17 * 2^-24
            check(near(c.values(precision), [math.log(17 * 2.0 ** -24)]) and c.tensor("w") == [1], precision, c.tensor("w"))


def fc057_a_norm_of_nothing():
    for spelling in "norm(z, axis = 2)", "sqrt(sum(z * z, axis = 2))":
        body = ["w = param([2, 3], init = zeros)", "z = reshape(x, [batch, 2, 3]) + w", f"loss l = sum({spelling})"]
        with Case(6, body, [[0, 0, 0, 1, 2, 2]]) as c:
            for precision in PRECISIONS:
                tolerance = 1e-6 if precision == "f32" else 4e-3
                check(near(c.gradient(precision), [0, 0, 0, 1 / 3, 2 / 3, 2 / 3], tolerance), spelling, precision, c.tensor("w"))
    body = ["w = param([2, 2], init = zeros)", "z = reshape(x, [batch, 2, 2]) + w", "loss l = sum(norm(z, axis = 2))"]
    with Case(4, body, [[3e-19, 4e-19, 3e30, 4e30]]) as c:  # squares of these are neither 0 nor infinite to it
        check(near(c.gradient("f32"), [0.6, 0.8, 0.6, 0.8]), c.tensor("w"))


def fc059_the_branch_not_taken():
    for lines, row, value, want in ((["where(z > 0, sqrt(z), z)"], [-1, -4, -9], -14, [1, 1, 1]),
                                    (["where(z <= 10, exp(z), 1)"], [1, "nan", 1e10], math.e + 2, [math.e, 0, 0])):
        body = ["w = param([3], init = zeros)", "z = x + w", f"y = sum({lines[0]})", "loss l = y", "output y = expand(y, [batch])"]
        with Case(3, body, [row]) as c:
            for precision in PRECISIONS:
                tolerance = 1e-6 if precision == "f32" else 4e-3
                steps = c.train(precision)
                check(near([-v for v in c.tensor("w")], want, tolerance), lines, precision, c.tensor("w"))
                check(abs(steps[0]["loss"] - value) <= 4e-3 * abs(value), precision, steps[0])


def fc061_powers_of_zero():
    body = ["a = param([2], init = zeros)", "b = param([2], init = zeros)", "loss l = sum((x + a) ** (x * 0 + 1 + b))"]
    with Case(2, body, [[0, 2]]) as c:
        for precision in PRECISIONS:
            check(near(c.gradient(precision, "b"), [0, 2 * math.log(2)], 4e-3), precision, c.tensor("b"))
            check(near(c.gradient(precision, "a"), [1, 1], 0), precision, c.tensor("a"))
    # exponents 2, 1, 0, and 0.5 with nothing coming from above: as numbers, and as a tensor
    for power in (["stack([w[0] ** 2, w[1] ** 1, w[2] ** 0, 0 * w[3] ** 0.5])"], ["(w ** x) * (x != 0.5)"]):
        with Case(4, ["w = param([4], init = zeros)", f"loss l = sum({power[0]} + 0 * x)"], [[2, 1, 0, 0.5]]) as c:
            for precision in PRECISIONS:
                check(c.gradient(precision) == [0, 1, 0, 0], power, precision, c.tensor("w"))
    # and with something coming from above it is infinite: the step is skipped
    with Case(1, ["w = param([1], init = zeros)", "loss l = sum(w ** 0.5 * x)"], [[1]]) as c:
        for precision in PRECISIONS:
            check(c.train(precision)[0]["skipped"] == 1 and c.tensor("w") == [0], precision)


def fc063_a_guard_of_the_value_guards_the_slope():
    for eps, tolerance in ((1e-3, 4e-3), (1e-12, 4e-3)):
        body = ["w = param([3], init = zeros)", "z = x + w", f"loss l = sum(z * minimum(rsqrt(sum(z * z)), {1 / eps:.17g}))"]
        with Case(3, body, [[0, 0, 0]]) as c:
            for precision in PRECISIONS:
                steps = c.train(precision)
                skipped = precision == "f16" and steps[0]["skipped"] == 1 and eps < 1e-6  # 1e12 has no place in an f16 gradient
                want = [0, 0, 0] if skipped else [-1 / eps] * 3
                check(near(c.tensor("w"), want, tolerance), eps, precision, c.tensor("w"))


if __name__ == "__main__":
    for name, case in sorted(globals().copy().items()):
        if name.startswith("fc0"):
            case()
    finish()
