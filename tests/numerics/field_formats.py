"""Field cases of number formats, as a user meets them: tf32 is what one asks for, never what one gets (FC-106). Only a GPU has
it; other devices compute such products in f32."""
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


if __name__ == "__main__":
    fc106_the_identity_keeps_values_unless_tf32_is_asked_for()
    fc106_the_error_of_a_product_is_the_format_s()
    finish()
