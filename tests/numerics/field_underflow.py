"""Field cases of underflow and epsilons (class U), through `mpc train`."""
from update_case import Case  # first: it finds `support`
from support import check, run_all


def fc050_layer_norm_of_a_constant_row():
    body = ["    w = param([1], init = constant(1))", "    zero = zeros([1, 10]) * w", "    y = layer_norm(zero, eps = 1e-12) as norm",
            "    loss l = mean(y * y) * x", "    output y = mean(y) + 0 * x"]
    with Case(body, ["precision = f16", "optimizer = sgd(lr = 1)", "length = 2 steps"]) as c:
        steps = c.train()
        check(all(s["loss"] == 0 and s["grad_norm"] == 0 for s in steps), steps)
    row = ", ".join(["1", "-1"] * 5)
    for eps, want in (("1e-12", 0.99995), ("1e-5", 0.0316070)):
        body = [f"    signs = where(range(10) < 5, 1.0, -1.0)", "    w = param([1], init = constant(1e-4))",
                f"    y = layer_norm(expand(signs * w, [1, 10]), eps = {eps}) as norm", "    loss l = mean(abs(y)) * x"]
        with Case(body, ["precision = f16", "optimizer = sgd(lr = 0)", "length = 1 steps"]) as c:
            loss = c.train()[0]["loss"]
            check(abs(loss - want) < 2e-3 * want, row, eps, loss)


def fc052_adam_with_eps_in_half():
    body = ["    w = param([1], init = constant(-2))", "    loss l = 0 * sum(w) * x"]
    for precision in ("f32", "bf16", "f16"):
        for weights in ("master", "none", "stochastic"):
            for optimizer in ("adam(lr = 1e-3)", "adamw(lr = 1e-3)", "lion(lr = 1e-3)"):
                train = [f"precision = {precision}", f"weights = {weights}", f"optimizer = {optimizer}", "length = 3 steps"]
                if weights != "master" and optimizer[:5] != "adam(":
                    continue
                with Case(body, train) as c:
                    steps = c.train()
                    check(c.tensor("w") == [-2.0] and steps[-1]["applied"] == 3, precision, weights, optimizer, c.tensor("w"))


def fc054_a_clamp_that_does_nothing():
    body = ["    w = param([1], init = constant(1))", "    y = log1p(-minimum(w, 0.999999))", "    loss l = 0 * mean(y) + 0 * x"]
    for precision in ("f32", "bf16", "f16"):
        with Case(body, [f"precision = {precision}", "optimizer = sgd(lr = 1)", "length = 1 steps"]) as c:
            step = c.train()[0]
            check(step["loss"] == 0 and step["grad_norm"] == 0 and c.tensor("w") == [1.0], precision, step)
    body[2] = "    loss l = mean(y) + 0 * x"
    with Case(body, ["precision = f16", "optimizer = sgd(lr = 1)", "length = 1 steps"]) as c:
        check(abs(c.train()[0]["loss"] + 13.815511) < 0.06, "the bound kept its value")


def fc055_gradients_that_f16_flushes():
    body = ["    w = param([1], init = constant(1))", "    @f16 y = w * 1.0", "    @f16 z = y * 1.0",
            "    loss l = mean(z) * 0.0000000298023223876953125 * x"]
    for scale, want in ((1, 0), (65536, 2.0 ** -25)):
        train = ["precision = f16", f"loss_scale = static(scale = {scale})", "optimizer = sgd(lr = 1)", "length = 1 steps"]
        with Case(body, train) as c:
            check(abs(c.train()[0]["grad_norm"] - want) < 1e-6 * want + 1e-30, scale)  # the log has 7 digits
    seen = {}  # `mpc profile` counts what became 0, by value
    for scale in (1, 65536):
        train = ["precision = f16", f"loss_scale = static(scale = {scale})", "optimizer = sgd(lr = 1)", "length = 1 steps"]
        with Case(body, train) as c:
            c.mpc("profile", "case.mpg", "--precision", "f16", "--solver", "list", "--steps", "1", "-o", "seen.txt")
            rows = [line.split("\t") for line in c.get("seen.txt").decode().splitlines()]
            at = {name: i for i, name in enumerate(rows[1])}
            seen[scale] = {r[0]: int(r[at["zeros"]]) for r in rows[2:]}
    check(seen[1]["d.w"] == 1 and seen[65536]["d.w"] == 0, {k: v for k, v in seen[1].items() if k[:2] == "d."}, seen[65536])
    with Case(body, ["precision = f16", "optimizer = sgd(lr = 1)", "length = 1 steps"]) as c:  # the default has a scale
        step = c.train()[0]
        check(step["scale"] == 65536 and abs(step["grad_norm"] * 2 ** 25 - 1) < 1e-6, step)


run_all([f for name, f in sorted(globals().items()) if name.startswith("fc")])
