"""Field cases of losses: what a user writes, and the value and the gradient that must come out in every precision. A parameter `b` of zeros is
added to what the row gives; after one step with a rate of 2^-100 it is the negative gradient times that, and the values are as they were."""
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "precision"))
from field_ranges import Case  # noqa: E402
from support import DEVICE, check, finish  # noqa: E402

PRECISIONS = ("f32", "bf16", "f16") if DEVICE == "ref" else ("f16",)  # kernels are compiled for each
RATE = ("--set", f"optimizer.lr={2 ** -100}")
# of a gradient, which may be stored low on its way
BOUND = {"f32": 2e-6, "bf16": 8e-3, "f16": 1e-3}


def close(got, want, bound):
    return len(got) == len(want) and all(g == w or abs(g - w) <= bound * abs(w) + 1e-30 for g, w in zip(got, want))


def gradient_of(case, name):
    return [-v * 2 ** 100 for v in case.tensor(name)]


def both(inputs, body, row, values, gradient=None, name="b", bound=1e-6, precisions=PRECISIONS, slopes_within=0):
    with Case(inputs, body, row) as c:
        for precision in precisions:
            got = c.values(precision, *RATE)
            check(close(got, values, bound), precision, body, got, values)
            if gradient is not None:
                slopes = gradient_of(c, name)
                check(close(slopes, gradient, max(BOUND[precision], slopes_within)), precision, body, slopes, gradient)


X2, T2 = ("x", "f32", 2), ("t", "f32", 2)


def fc027_smoothing_over_a_large_vocabulary():
    classes = 50000
    body = [f"z = linear(x, {classes}, bias = false, init = zeros) as fc", "e = cross_entropy(z, t, smooth = 0.1)", "loss l = mean(e)", "output e = e"]
    with Case([("x", "f32", 1), ("t", "i32", 0)], body, [1, 7]) as c:
        for precision in PRECISIONS:
            check(close(c.values(precision, *RATE), [10.819778], 1e-6), precision)
            slopes = gradient_of(c, "fc.weight")
            check(close(slopes[7:9], [0.9 / classes - 0.9, 0.9 / classes], BOUND[precision]), precision, slopes[:9])


def fc042_the_row_op_shifts_first():
    body = ["b = param([32], init = zeros)", "y = logsumexp(x + b, axis = 1)", "loss l = mean(y)", "output y = y"]
    both([("x", "f32", 32)], body, [8] * 32, [11.465736], [1 / 32] * 32)
    both([("x", "f32", 32)], body, [1000] * 32, [1003.4657], [1 / 32] * 32)


def fc044_variational_terms_by_hand():
    body = ["b = param([2], init = zeros)", "logvar = x + b", "kl = -0.5 * sum(1 + logvar - m ** 2 - exp(logvar), axis = 1)", "loss kl = kl", "output y = kl"]
    value = -0.5 * sum(1 + v - m * m - math.exp(v) for v, m in ((11.5, 2), (-3, 0)))
    both([X2, ("m", "f32", 2)], body, [11.5, -3, 2, 0], [value], [-0.5 * (1 - math.exp(11.5)), -0.5 * (1 - math.exp(-3))])
    body = ["b = param([1], init = zeros)", "r = (x + b) / s", "kl = 0.5 * (r ** 2 - 1 - log(r ** 2))", "loss l = kl", "output y = kl"]
    with Case([("x", "f32", 1), ("s", "f32", 1)], body, [300, 1]) as c:
        for precision in PRECISIONS:
            check(close(c.values(precision, *RATE), [44993.796], 1e-6), precision)


def fc044_reconstruction_and_kl_of_distributions():
    body = ["b = param([2], init = zeros)", "e = sum(bce_with_logits(x + b, t, reduce = none), axis = 1)", "loss recon = e", "output e = e"]
    both([X2, T2], body, [0, 0, 0, 1], [2 * math.log(2)], [0.5, -0.5])
    body = ["b = param([2], init = zeros)", "e = sum(kl(log_softmax(x + b), t), axis = 1)", "loss l = e", "output e = e"]
    both([X2, T2], body, [0, 0, 0, 1], [math.log(2)], [0.5, -0.5])  # t log t at 0 is 0
    both([X2, T2], body, [0, 0, 0.25, 0.75], [math.log(2) - 0.5623351446188083], [0.25, -0.25])


def fc045_large_logits_of_a_binary_loss():
    cost, small = math.log1p(math.exp(-12)), 1 / (1 + math.exp(12))
    body = ["b = param([2], init = zeros)", "e = bce_with_logits(x + b, t)", "loss l = sum(e)", "output e = e"]
    both([X2, T2], body, [12, 12, 0, 1], [12 + cost, cost], [1 - small, -small])


def fc045_a_sigmoid_and_the_loss_by_hand():
    """A logit of 12 is exact in 16 bits; the probability isn't, so it and its logarithms stay f32, whose step below 1 is a hundredth of 1 - p."""
    cost, small = math.log1p(math.exp(-12)), 1 / (1 + math.exp(12))
    body = ["b = param([2], init = zeros)", "z = linear(x, 2, bias = false, init = constant(6)) as fc", "p = sigmoid(z + b)",
            "e = -t * log(p) - (1 - t) * log(1 - p)", "loss l = mean(e)", "output e = e"]
    both([X2, T2], body, [1, 1, 0, 1], [12 + cost, cost], [(1 - small) / 2, -small / 2], bound=1e-2, slopes_within=1e-2)


def fc045_probabilities_in_16_bits_are_found():
    body = ["b = param([2], init = zeros)", "p = cast(x, FORMAT)", "q = cast(p, f32) + b * 0", "e = -t * log(p) - (1 - t) * log(1 - p)",
            "loss l = mean(e) + mean(q)"]
    for fmt, precision in (("f16", "f16"), ("bf16", "bf16")):
        with Case([X2, T2], [line.replace("FORMAT", fmt) for line in body], [0.5, 0.25, 0, 1]) as c:
            check(c.lint(precision).count("W186") == 1 and f"in {fmt}" in c.lint(precision), c.lint(precision))
        with Case([X2, T2], [line.replace("cast(x, FORMAT)", "x + 0") for line in body], [0.5, 0.25, 0, 1]) as c:
            check("0 findings" in c.lint(precision), c.lint(precision))


def fc046_infinite_logits_with_their_targets():
    body = ["b = param([2], init = zeros)", "e = bce_with_logits(x + b, t)", "loss l = mean(e)", "output e = e"]
    both([X2, T2], body, ["-inf", "inf", 0, 1], [0, 0], [0, 0])
    both([X2, T2], body, ["-inf", 0, 1, 0], [math.inf, math.log(2)])


def fc047_no_weight_on_an_impossible_class():
    body = ["b = param([2], init = zeros)", "e = cross_entropy(x + b, t)", "loss l = mean(e)", "output e = e"]
    both([X2, T2], body, ["-inf", 0, 0, 1], [0], [0, 0])
    both([X2, T2], body, ["-inf", 0, 0.5, 0.5], [math.inf])
    body[1] = "e = cross_entropy(x + b, t, smooth = 0.1)"
    both([X2, T2], body, ["-inf", 0, 0, 1], [math.inf])
    both([X2, ("t", "i32", 0)], body, ["-inf", 0, 1], [math.inf])
    body[1] = "e = kl(x + b, t)"
    both([X2, T2], body, ["-inf", 0, 0, 1], [0, 0], [0, -0.5])


def soft_labels_and_distances():
    body = ["b = param([2], init = zeros)", "e = cross_entropy(x + b, t)", "loss l = mean(e)", "output e = e"]
    both([X2, T2], body, [0, 0, 0.25, 0.75], [math.log(2)], [0.25, -0.25])
    body[1:3] = ["y = x + b", "e = concat([huber(y, t, delta = 0.5), l1(y, t), mse(y, t)])", "loss l = sum(e)"]
    both([X2, T2], body, [1.25, 3, 1, 1], [0.03125, 0.875, 0.25, 2, 0.0625, 4], [0.25 + 1 + 0.5, 0.5 + 1 + 4])


def focal_by_hand():
    body = ["b = param([3], init = zeros)", "lp = gather(log_softmax(x + b), t, axis = -1)", "e = -(1 - exp(lp)) ** 2 * lp", "loss f = e", "output e = e"]
    p = [math.exp(v) / (math.exp(1) + math.exp(2) + math.exp(-1)) for v in (1, 2, -1)]
    slope = 2 * (1 - p[1]) * p[1] * math.log(p[1]) - (1 - p[1]) ** 2  # of the loss by log p
    both([("x", "f32", 3), ("t", "i32", 0)], body, [1, 2, -1, 1], [-(1 - p[1]) ** 2 * math.log(p[1])],
         [slope * ((j == 1) - p[j]) for j in range(3)])


def fc123_a_label_out_of_range():
    body = ["b = param([2], init = zeros)", "e = cross_entropy(x + b, t)", "loss l = mean(e)", "output e = e"]
    with Case([X2, ("t", "i32", 0)], body, []) as c:
        c.put("rows.csv", "0,0,1\n0,0,2\n0,0,0\n")
        for precision in PRECISIONS:
            for device in {"ref", "cpu", DEVICE}:
                c.put("case.mpg", c.text.replace("PRECISION", precision))
                r = c.mpc("train", "case.mpg", "--out", "run", "--overwrite", status=1, device=device)
                check("E201" in r.err and "class 2 in the data" in r.err and "rows.csv, row 2, column 3: `2`" in r.err, r.err)
    for label in 0, 1:
        both([X2, ("t", "i32", 0)], body, [0, 0, label], [0.6931472], [0.5 - (label == j) for j in range(2)])


def fc125_every_label_ignored():
    body = ["b = param([2, 1], init = ones)", "z = matmul(x, b)", "s = x + transpose(b)", "loss l = cross_entropy(s, t) where t >= 0", "output z = z"]
    with Case([X2, ("t", "i32", 0)], body, []) as c:
        c.put("rows.csv", "1,2,-100\n3,1,-100\n")
        for precision in PRECISIONS:
            c.put("case.mpg", c.text.replace("PRECISION", precision).replace("batch = 1", "batch = 2"))
            c.mpc("train", "case.mpg", "--out", "run", "--overwrite", "--set", "optimizer=adamw(lr = 0.1, weight_decay = 0.5)")
            step = c.steps("run")[0]
            check(c.tensor("b") == [1, 1] and not step.get("loss"), precision, c.tensor("b"), step)
            check(step.get("scale", 65536) == 65536, step)


if __name__ == "__main__":
    wanted = [a for a in sys.argv[3:] if "/" not in a]
    for name, case in sorted(globals().copy().items()):
        if getattr(case, "__module__", None) == "__main__" and case not in (close, both, gradient_of) and callable(case):
            if not wanted or name.split("_")[0] in wanted:
                case()
    finish()
