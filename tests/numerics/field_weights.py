"""Field cases of masters, averages and moments (class W), through `mpc train`: parameters that don't move in 16 bits, and the three
ways to store them."""
from update_case import Case, f32  # first: it finds `support`
from support import DEVICE, check, run_all

ONE = ["    w = param([1], init = constant(1))", "    loss l = mean(w) * x"]
SMALL = ["precision = bf16", "optimizer = sgd(lr = 6e-4)", "length = 100 steps"]
ON_GPU = DEVICE == "cuda"  # on the stand-in: fewer steps


def near(got, want, by):
    return abs(got - want) <= by


def fc072_a_bf16_weight_needs_its_master():
    with Case(ONE, SMALL) as c:
        steps = c.train()
        check(near(c.tensor("w")[0], 0.9400020, 2e-7) and c.kind == "F32", c.tensor("w"))
        check("lost" not in steps[0], steps[0])
        steps = c.train("weights=none")
        check(c.tensor("w") == [1.0] and c.kind == "BF16", c.tensor("w"))
        check(all(s["lost"] == 1 for s in steps), steps[0])  # N73: counted,
        check("W172" in c.result.err and "100 %" in c.result.err, c.result.err)  # and said
        c.train("solver=O3")
        check(c.tensor("w") == [1.0] and c.kind == "BF16", c.kind)  # Apex's O3 has no masters


def fc072_per_selector():
    body = ["    w = param([1], init = constant(1))", "    v = param([1], init = constant(1))", "    loss l = (mean(w) + mean(v)) * x"]
    with Case(body, SMALL, ["    \"v\" { weights = none }"]) as c:
        c.train()
        check(near(c.tensor("w")[0], 0.9400020, 2e-7) and c.kind == "F32", c.tensor("w"))
        check(c.tensor("v") == [1.0] and c.kind == "BF16", c.tensor("v"))
        c.train("precision=f32", "weights=none")
        check(near(c.tensor("v")[0], 0.9400020, 2e-7) and c.kind == "F32", "in f32 nothing is rounded")


def memory_and_reasons_know_that_there_is_no_master():
    with Case(ONE, SMALL) as c:
        lines = c.mpc("explain", "case.mpg", "--memory", "--set", "weights=none").out.splitlines()
        check(any(line.split() == ["parameters", "bf16", "2"] for line in lines) and not any("masters" in line for line in lines), lines)
        out = c.mpc("explain", "case.mpg", "w", "--set", "weights=none").out
        check("weights = master" in out and "N73" in out, out)


def fc074_an_average_is_f32_and_moves_on_applied_steps():
    n = 200 if ON_GPU else 10000
    train = ["precision = bf16", "optimizer = sgd(lr = 0.5)", "schedule = step(every = 1 steps, factor = 0)", "ema = 0.9999",
             f"length = {n} steps"]
    body = [ONE[0], "    loss l = -mean(w) * x"]
    with Case(body, train) as c:  # 1.5 after the first step, and still then
        c.train()
        want = 1.5 - 0.5 * 0.9999 ** n
        check(c.tensor("w") == [1.5] and near(c.tensor("w/ema", "state")[0], want, 2e-5), c.tensor("w/ema", "state"), want)
    with Case(body, train, x="inf") as c:  # nothing is applied
        c.train("length=5 steps", "nonfinite=keep", "on_nonfinite=skip")
        check(c.tensor("w") == [1.0] and c.tensor("w/ema", "state") == [1.0], c.tensor("w/ema", "state"))
    with Case(body + ["    output y = mean(w) * x"], train) as c:  # prediction takes the average
        c.train("ema=0.5", "length=1 steps")
        c.mpc("predict", "case.mpg", "--from", "run", "--input", "rows.csv", "--out", "y.csv")
        check(c.get("y.csv").decode().split()[-1] == "1.25", c.get("y.csv"))


def fc075_decay_is_combined_with_the_update_in_f32():
    n = 200 if ON_GPU else 10000
    train = ["precision = bf16", "optimizer = adamw(lr = 1e-3, weight_decay = 0.1)", f"length = {n} steps"]
    with Case(ONE, train, ["    \"w\" { decay = 0.1 }"], x=0) as c:
        c.train()
        check(near(c.tensor("w")[0], 0.9999 ** n, 2e-5), c.tensor("w"))  # 10000: 0.3678610
        c.train("weights=none", "length=20 steps")
        check(c.tensor("w") == [1.0], c.tensor("w"))
        c.train("length=20 steps", 'params."w".decay=0')
        check(c.tensor("w") == [1.0])
    with Case(["    w = param([2, 2], init = constant(1))", "    b = param([2], init = constant(1))", "    loss l = (mean(w) + mean(b)) * x"],
              train, x=0) as c:
        c.train("length=20 steps")
        check(near(c.tensor("w")[0], 0.9999 ** 20, 1e-6) and c.tensor("b") == [1.0, 1.0], "N72: two dims and more")


def fc077_moments_are_f32():
    n = 200 if ON_GPU else 5000
    with Case(ONE, ["precision = bf16", "optimizer = adamw(lr = 1e-6, weight_decay = 0)", f"length = {n} steps"]) as c:
        for how in ("master", "none", "stochastic"):
            c.train(f"weights={how}")
            v = c.tensor("w/v", "state")[0]
            check(c.kind == "F32" and near(v, 1 - 0.999 ** n, 2e-5), how, v)  # 5000: 0.9932789; bf16 stops at 0.25


def fc079_a_resumed_run_has_its_masters():
    body = ["    w = param([1], init = constant(1.001))", "    loss l = mean(w) * 0.37 * x"]
    with Case(body, ["precision = bf16", "optimizer = sgd(lr = 1e-3)", "length = 7 steps"]) as c:
        c.train("save_every=3 steps", "keep=9")
        check(near(c.tensor("w", step=3)[0], 1.001 - 3 * 3.7e-4, 1e-6))
        for how in ("master", "stochastic"):
            settings = ["--set", "weights=" + how]
            c.train("weights=" + how, out="whole")
            c.train("weights=" + how, "length=3 steps", out="parts")
            c.mpc("train", "case.mpg", "--resume", "parts", *settings, "--change", "length=7 steps")
            check(c.tensors("whole") == c.tensors("parts"), how)
        w = f32(1.001)
        for _ in range(7):
            w = f32(w - f32(f32(1e-3) * f32(0.37)))
        check(abs(c.tensor("w")[0] - w) < 2e-7, c.tensor("w"), w)
        c.train("weights=none", "length=3 steps", out="low")
        r = c.mpc("train", "case.mpg", "--resume", "low", "--change", "weights=master", "--change", "length=7 steps")
        check("W173" in r.err, r.err)
        c.tensor("w", run="low")
        check(c.kind == "F32", c.kind)


def fc080_stochastic_rounding_is_unbiased_and_repeats():
    n = 20000 if ON_GPU else 200000
    body = [f"    w = param([{n}], init = constant(1))", "    loss l = -sum(w) * x"]
    train = ["precision = bf16", "weights = stochastic", "optimizer = sgd(lr = 1e-3)", "length = 1 steps"]
    for precision, unit in (("bf16", 2.0 ** -7), ("f16", 2.0 ** -10)):
        with Case(body, train) as c:
            c.train("precision=" + precision)
            w = c.tensor("w")
            share = (f32(1.001) - 1) / unit if precision == "bf16" else f32(1.001) / unit % 1
            low = f32(1.001) // unit * unit
            check(set(w) == {low, low + unit}, precision, set(w))
            sigma = unit * (share * (1 - share) / n) ** 0.5
            check(near(sum(w) / n, f32(1.001), 4 * sigma), sum(w) / n)
            first = c.files()
            c.train("precision=" + precision, "--threads", "2", out="again")
            check(c.files("again") == first, "the same bits again, on two threads")
            c.train("precision=" + precision, "seed=1", out="other")
            check(c.tensor("w", run="other") != w, "another seed, other bits")
            if precision == "bf16" and DEVICE != "ref":
                c.train("precision=" + precision, out="ref", device="ref")
                check(c.tensor("w", run="ref") == w, "the same bits on ref")
    with Case([f"    w = param([10000], init = constant(1))", "    loss l = sum(w) * x"], train) as c:
        steps = c.train("optimizer=sgd(lr = 6e-4)", "length=100 steps")
        check(near(sum(c.tensor("w")) / 10000, 0.94, 0.0006), sum(c.tensor("w")) / 10000)
        check(0.8 < steps[0]["lost"] < 0.95, steps[0]["lost"])


def fc080_what_the_format_holds_stays():
    body = ["    w = param([1000], init = constant(1.0078125))", "    loss l = sum(w) * x"]
    with Case(body, ["precision = bf16", "weights = stochastic", "optimizer = sgd(lr = 1)", "length = 5 steps"], x=0) as c:
        c.train()
        check(c.tensor("w") == [1.0078125] * 1000)


def fc082_small_updates_in_f16():
    n = 200 if ON_GPU else 1000
    with Case(ONE, ["precision = f16", "optimizer = sgd(lr = 1e-4)", f"length = {n} steps"]) as c:
        c.train()
        check(near(c.tensor("w")[0], 1 - n * 1e-4, 2e-5) and (n < 1000 or near(c.tensor("w")[0], 0.8999834, 2e-7)), c.tensor("w"))
        c.train("weights=none")
        check(c.tensor("w") == [1.0] and c.kind == "F16", c.tensor("w"))


CASES = [f for name, f in sorted(globals().items()) if name.startswith("fc")]
run_all(CASES + [memory_and_reasons_know_that_there_is_no_master])
