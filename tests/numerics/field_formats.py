"""Field cases of number formats, as a user meets them: tf32 is what one asks for, never what one gets (FC-106). Only a GPU has
it; other devices compute such products in f32. And casts are to the nearest even, folded or run (FC-099, FC-101)."""
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "precision"))
from field_ranges import Case  # noqa: E402
from support import DEVICE, check, finish  # noqa: E402

# predicts with the parameters as they were; by class, since tf32 gains nothing on a CPU
STILL = ("--set", "optimizer.lr=1e-30", "--solver", "list")


def fc106_the_identity_keeps_values_unless_tf32_is_asked_for():
    body = ["w = param([1, 1], init = constant(1024.5))", "y = matmul(x, w)", "loss l = mean(y)", "output y = y"]
    with Case([("x", "f32", 1)], body, [1]) as c:
        check(c.values("f32", *STILL) == [1024.5])
        check(c.values("tf32", *STILL)[0] in ((1024.0, 1025.0) if DEVICE == "cuda" else (1024.5,)))


def relative(got, want):
    return (sum((g - w) ** 2 for g, w in zip(got, want)) / sum(w * w for w in want)) ** 0.5


def fc106_the_error_of_a_product_is_the_format_s():
    n = 256
    r = random.Random(1)
    x = [r.gauss(0, 1) for _ in range(n)]
    body = [f"w = linear(x, {n}, bias = false) as w", "loss l = mean(w)", "output y = w"]
    with Case([("x", "f32", n)], body, x) as c:
        for precision, least, most in (("f32", 0, 3e-6), ("tf32", 3e-5, 2e-3) if DEVICE == "cuda" else ("tf32", 0, 3e-6)):
            got = c.values(precision, *STILL)
            weights = c.tensor("w.weight")
            exact = [sum(x[i] * weights[i * n + j] for i in range(n)) for j in range(n)]
            check(least <= relative(got, exact) <= most, precision, relative(got, exact))


ROUNDED = {"bf16": [(0.2691408770292272, 0.26953125), (3.14, 3.140625), (1e-8, 1.00117177e-08), (1.00390625, 1.0), (1.01171875, 1.015625)],
           "f16": [(65504, 65504), (65519.996, 65504), (65520, math.inf), (65536, math.inf), (2.0 ** -24, 2.0 ** -24), (2.0 ** -25, 0), (2.98e-8, 0),
                   (3e-8, 2.0 ** -24)]}


def fc099_fc101_folded_casts_are_those_that_run():
    """The first column of each pair is a literal, whose cast is folded, the second comes from the data."""
    for fmt, pairs in ROUNDED.items():
        n = len(pairs)
        literals = ", ".join(f"cast(cast(ones([1]) * {x:.17g}, {fmt}), f32)" for x, _ in pairs)
        body = ["b = param([1], init = zeros)", f"c = concat([{literals}])", f"y = cast(cast(x, {fmt}), f32)", "loss l = mean(b) * mean(x)",
                f"output y = concat([y, where(x == x, expand(reshape(c, [1, {n}]), [batch, {n}]), x)])"]
        with Case([("x", "f32", len(pairs))], body, [repr(x) for x, _ in pairs]) as c:
            got = c.values("f32", *STILL)
            for (x, want), ran, folded in zip(pairs, got, got[len(pairs):]):
                check(ran == folded and (ran == want or abs(ran / want - 1) < 1e-6), fmt, x, want, ran, folded)


if __name__ == "__main__":
    fc099_fc101_folded_casts_are_those_that_run()
    fc106_the_identity_keeps_values_unless_tf32_is_asked_for()
    fc106_the_error_of_a_product_is_the_format_s()
    finish()
