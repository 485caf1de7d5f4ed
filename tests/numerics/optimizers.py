"""Optimizers, schedules, clipping and the keys of `params` and `train` that say what an update moves, through `mpc train`: every step is
compared with the papers' formulas in doubles."""
import math
import os

from update_case import Case  # first: it finds `support`
from support import check, run_all

STEPS = 40
QUADRATIC = ["    w = param([2], init = uniform(low = 0.5, high = 2))", "    loss l = sum(w * w * 0.5) * x"]


def sgd(w, g, s, lr, d, momentum=0.0, nesterov=False):
    s["m"] = momentum * s.get("m", 0) + g
    return w - lr * d * w - lr * (g + momentum * s["m"] if nesterov else s["m"])


def adam(w, g, s, lr, d, coupled=True, beta1=0.9, beta2=0.999, eps=1e-8):
    g += d * w if coupled else 0
    s["t"] = s.get("t", 0) + 1
    s["m"] = beta1 * s.get("m", 0) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0) + (1 - beta2) * g * g
    step = s["m"] / (1 - beta1 ** s["t"]) / (math.sqrt(s["v"] / (1 - beta2 ** s["t"])) + eps)
    return (w if coupled else w - lr * d * w) - lr * step


def lion(w, g, s, lr, d, beta1=0.9, beta2=0.99):
    mean = beta1 * s.get("m", 0) + (1 - beta1) * g
    s["m"] = beta2 * s.get("m", 0) + (1 - beta2) * g
    return w - lr * d * w - lr * math.copysign(mean != 0, mean)


RULES = {  # text of the optimizer, its formula, its default rate
    "sgd(lr = 0.02, momentum = 0.9)": (lambda w, g, s, lr, d: sgd(w, g, s, lr, d, 0.9), 0.02),
    "nesterov(lr = 0.02, momentum = 0.8)": (lambda w, g, s, lr, d: sgd(w, g, s, lr, d, 0.8, True), 0.02),
    "nesterov(lr = 0.02)": (lambda w, g, s, lr, d: sgd(w, g, s, lr, d, 0.9, True), 0.02),
    "adam(lr = 0.03)": (adam, 0.03),
    "adam(lr = 0.03, betas = [0.5, 0.9], eps = 0.1)": (lambda w, g, s, lr, d: adam(w, g, s, lr, d, True, 0.5, 0.9, 0.1), 0.03),
    "adamw(lr = 0.03)": (lambda w, g, s, lr, d: adam(w, g, s, lr, d, False), 0.03),
    "lion(lr = 0.01)": (lion, 0.01),
    "lion(lr = 0.01, betas = [0.5, 0.6])": (lambda w, g, s, lr, d: lion(w, g, s, lr, d, 0.5, 0.6), 0.01),
}


def cosine(t, warmup, final):
    return final + (1 - final) * (1 + math.cos(math.pi * min(1, (t - warmup) / (STEPS - warmup)))) / 2


SCHEDULES = {  # factor of the rate at update t = 1, 2, ...
    "constant": lambda t: 1,
    "constant(warmup = 10 steps)": lambda t: min(1, t / 10),
    "cosine(warmup = 5 steps, final = 0.1)": lambda t: t / 5 if t <= 5 else cosine(t, 5, 0.1),
    "linear(final = 0.2)": lambda t: 1 - 0.8 * t / STEPS,
    "linear(warmup = 10 steps)": lambda t: t / 10 if t <= 10 else (STEPS - t) / (STEPS - 10),
    "step(every = 8 steps, factor = 0.5)": lambda t: 0.5 ** ((t - 1) // 8),
    "step(every = 8 epochs)": lambda t: 0.1 ** ((t - 1) // 8),
    "step(every = 5 steps, factor = 0.9, warmup = 12 steps)": lambda t: t / 12 if t <= 12 else 0.9 ** ((t - 1) // 5),
}


def train(extra):
    return ["precision = f32", f"length = {STEPS} steps"] + extra


def expected(start, rule, rate, decay, factor, bound=math.inf):
    out = []
    for w in start:
        state = {}
        for t in range(1, STEPS + 1):
            w = rule(w, max(-bound, min(bound, w)), state, rate * factor(t), decay)
        out.append(w)
    return out


def close(got, want):
    return all(abs(g - w) <= 2e-5 * max(1, abs(w)) for g, w in zip(got, want))


def start_of(c):
    c.train("length=1 steps", "optimizer=sgd(lr = 0)", out="start")
    return c.tensor("w", run="start")


def every_optimizer():
    for text, (rule, rate) in RULES.items():
        for decay in (0, 0.3):
            with Case(QUADRATIC, train([f"optimizer = {text}"]), [f"    \"w\" {{ decay = {decay} }}"]) as c:
                start = start_of(c)
                c.train()
                want = expected(start, rule, rate, decay, lambda t: 1)
                check(close(c.tensor("w"), want), text, decay, c.tensor("w"), want)


def every_schedule():
    with Case(QUADRATIC, train(["optimizer = sgd(lr = 0.1)"])) as c:
        start = start_of(c)
        for text, factor in SCHEDULES.items():
            steps = c.train("schedule=" + text)
            rates = [s["lr"] for s in steps]
            check(all(abs(r - 0.1 * factor(t)) < 1e-7 for t, r in enumerate(rates, 1)), text, rates)
            check(close(c.tensor("w"), expected(start, sgd, 0.1, 0, factor)), text)


def schedule_goes_on_where_it_was():
    with Case(QUADRATIC, train(["optimizer = sgd(lr = 0.1)", "schedule = step(every = 8 steps, factor = 0.5)"])) as c:
        c.train(out="whole")
        c.train("length=20 steps", out="parts")
        r = c.mpc("train", "case.mpg", "--resume", "parts", "--change", f"length={STEPS} steps")
        check("learning rate after step 20: 0.025" in r.err, r.err)
        check(c.tensors("whole") == c.tensors("parts"))


def clip_value_bounds_true_gradients():
    for precision in ("f32", "f16"):  # f16: the loss is scaled, gradients are not when they are clipped
        with Case(QUADRATIC, train(["optimizer = sgd(lr = 0.1)", "clip_value = 0.7"])) as c:
            start = start_of(c)
            steps = c.train("precision=" + precision)
            want = expected(start, sgd, 0.1, 0, lambda t: 1, 0.7)
            by = 2e-5 if precision == "f32" else 2e-3
            check(all(abs(g - w) < by for g, w in zip(c.tensor("w"), want)), precision, c.tensor("w"), want)
            check(steps[0]["grad_norm"] > 0.8, "the norm is of what was before")


def train_freezes_by_path():
    body = ["    a = param([1], init = constant(1))", "    b = param([1], init = constant(1))", "    loss l = (mean(a) + mean(b)) * x"]
    with Case(body, train(["optimizer = sgd(lr = 0.01)", "freeze = [\"b*\"]"])) as c:
        c.train()
        check(c.tensor("b") == [1.0] and c.tensor("a") != [1.0])
        c.train('params."b".freeze=false')
        check(c.tensor("b") != [1.0], "a line of params wins")
        r = c.mpc("train", "case.mpg", "--set", "freeze=[\"c\"]", "--out", "none", status=1)
        check("E045" in r.err and "`c` matches no parameter" in r.err, r.err)


def last_batch_is_kept_or_dropped():
    with Case(QUADRATIC, train(["optimizer = sgd(lr = 0.01)"])) as c:
        c.put("rows.csv", "\n".join(["1"] * 7) + "\n")
        for accumulate, kept, dropped in ((1, 4, 3), (2, 2, 2)):
            settings = ["length=2 epochs", "batch=2", f"accumulate={accumulate}"]
            steps = c.train(*settings)
            check(len(steps) == 2 * kept and steps[-1]["samples"] == 14, steps[-1])
            steps = c.train(*settings, "last_batch=drop")
            check(len(steps) == 2 * dropped and steps[-1]["samples"] == 12 and steps[-1]["epoch"] == 2, steps[-1])
        r = c.mpc("train", "case.mpg", "--set", "batch=8", "--set", "last_batch=drop", "--out", "none", status=1)
        check("E369" in r.err and "7 training rows" in r.err, r.err)


def parameters_come_from_a_file():
    body = ["    h = linear(expand(x, [4, 1]), 2) as {0}", "    loss l = mean(h) * mean(x)"]
    names = [b.format("fc") for b in body]
    with Case([n.replace("expand(x, [4, 1])", "reshape(x, [batch, 1])") for n in names], train(["optimizer = sgd(lr = 0.1)"])) as c:
        c.train()
        text = c.get("case.mpg").decode()
        c.put("w.safetensors", c.files()[0])
        want = c.tensor("fc.weight")

        def start(params, change=lambda t: t, status=0):
            c.put("other.mpg", change(text).replace("train {", "params {\n" + params + "\n}\ntrain {"))
            return c.mpc("train", "other.mpg", "--out", "other", "--overwrite", "--set", "optimizer.lr=0", status=status)

        r = start("    \"fc.**\" { load = \"w.safetensors\" }")
        check("2 tensors from w.safetensors" in r.err and c.tensor("fc.weight", run="other") == want, r.err)
        resolved = c.get("other", "resolved.mpg").decode()
        check(os.path.realpath(c.at("w.safetensors")) in os.path.realpath(c.path) + resolved or c.at("w.safetensors") in resolved, resolved)
        inner = text.replace("model case", "block back(x) { return linear(x, 2) as fc }\nmodel case").replace("linear(reshape(x, [batch, 1]), 2) as fc",
                                                                                                          "back(reshape(x, [batch, 1])) as back")
        start("    \"back.**\" { from = \"w.safetensors\" }", lambda t: inner)
        check(c.tensor("back.fc.weight", run="other") == want, "found behind the selector's fixed part")
        r = start("    \"fc.**\" { load = \"w.safetensors\" }", lambda t: t.replace(", 2) as fc", ", 3) as fc"), status=1)
        check("E403" in r.err and "`fc.weight` f32[1,3]" in r.err and "f32[1,2]" in r.err, r.err)
        r = start("    \"gc.**\" { load = \"w.safetensors\" }", lambda t: t.replace("as fc", "as gc"), status=1)
        check("E403" in r.err and "no tensor `gc.weight` or `weight`" in r.err, r.err)
        r = start("    \"fc.**\" { load = \"none.safetensors\" }", status=1)
        check("E410" in r.err and "none.safetensors" in r.err and "--> other.mpg:" in r.err and "load = \"none" in r.err, r.err)


def initialisers_have_their_spread():
    shape = "[64, 100]"
    for text, deviation, most in (("normal(std = 0.5)", 0.5, 3), ("truncated_normal(std = 0.5)", 0.5 * 0.8796, 1),
                                  ("kaiming_normal()", math.sqrt(2 / 64), 1), ("xavier_normal()", math.sqrt(2 / 164), 1),
                                  ("kaiming", math.sqrt(2 / 64), math.sqrt(6 / 64)), ("orthogonal(gain = 2)", 2 / 10, 1)):
        with Case([f"    w = param({shape}, init = {text})", "    loss l = mean(w) * x"], train(["optimizer = sgd(lr = 0)"])) as c:
            c.train("length=1 steps")
            w = c.tensor("w")
            check(abs(math.sqrt(sum(v * v for v in w) / len(w)) / deviation - 1) < 0.04 and max(map(abs, w)) <= most, text, max(map(abs, w)))
            if text[0] == "o":
                rows = [w[100 * i:100 * i + 100] for i in range(64)]
                dots = [sum(a * b for a, b in zip(rows[i], rows[k])) - 4 * (i == k) for i in range(0, 64, 7) for k in range(0, 64, 5)]
                check(max(map(abs, dots)) < 1e-5, "rows are orthogonal")


run_all([every_optimizer, every_schedule, schedule_goes_on_where_it_was, clip_value_bounds_true_gradients, train_freezes_by_path,
         last_batch_is_kept_or_dropped, parameters_come_from_a_file, initialisers_have_their_spread])
