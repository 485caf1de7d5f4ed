"""Field cases of the scaler and the step's state machine (class S) as a user meets them: `mpc train` on a model and rows, the values
read from the log and from the checkpoints. Rows come in the order of the seed; where order matters the log says which row it was."""
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from support import DEVICE, Folder, check, final_checkpoint, read_safetensors, run_all, without_times  # noqa: E402


def model(body, columns, train, params=""):
    names = ", ".join(f"{n}: {t}" for n, (t, _) in columns.items())
    inputs = "\n".join(f"    input {n} = {c}" for n, (_, c) in columns.items())
    params = f"params {{\n{params}\n}}\n" if params else ""
    return (f"model case({names}) {{\n{body}\n}}\ndata {{\n    train = csv(\"rows.csv\", header = false)\n{inputs}\n}}\n{params}"
            f"train {{\n    batch = 1\n    loss_scale = dynamic(init = 1024)\n    nonfinite = keep\n    on_nonfinite = skip\n{train}\n}}\n")


X = {"x": ("f32[batch]", "columns[0]")}
PRODUCT = "    w = param([1], init = constant(1))\n    loss l = w * x"


class Case(Folder):
    """A folder with case.mpg and rows.csv."""

    def __init__(self, text, rows):
        super().__init__(text, 4, 4)
        self.put("case.mpg", text)
        self.put("rows.csv", "\n".join(rows) + "\n")

    def train(self, *args, out="run", status=0):
        settings = [w for a in args if "=" in a for w in ("--set", a)]
        self.result = self.mpc("train", "case.mpg", "--out", out, "--overwrite", *settings, *(a for a in args if "=" not in a), status=status)
        self.records = self.log(out)
        return [r for r in self.records if r["type"] == "step"]

    def tensor(self, name, step=None, part="weights", run="run"):
        folder = f"step-{step:08}" if step else self.get(run, "checkpoints", "last").decode().strip()
        tensors, _, _ = read_safetensors(self.get(run, "checkpoints", folder, part + ".safetensors"))
        kind, _, data = tensors[name]
        code = {"F32": "f", "I32": "i", "BOOL": "?"}[kind]
        return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def fc001():
    body = "    w = param([1], init = constant(1))\n    y = w * 1e30 * 1e30 as huge\n    loss l = y + 0 * x"
    body = body.replace(" as huge", "")
    text = model(body, X, "    precision = f16\n    optimizer = sgd(lr = 1)\n    length = 2000 steps\n    save_every = 1 steps\n    loss_scale = dynamic(init = 65536)")
    text = text.replace("    loss_scale = dynamic(init = 1024)\n", "")
    with Case(text, ["1"]) as c:
        steps = c.train(status=3)
        check([s["scale"] for s in steps[:17]] == [2.0 ** (15 - i) for i in range(17)], steps[15])
        check(len(steps) == 31 and abs(steps[-1]["scale"] * 2.0 ** 15 - 1) < 1e-6 and steps[-1]["skipped"] == 31, steps[-1])
        check(c.records[-1]["reason"] == "diverged" and c.records[-1]["step"] == 31, c.records[-1])
        err = c.result.err
        check("E360" in err and "step 31" in err and "inf" in err, err)
        check(("case.mpg:3" if DEVICE == "ref" else "case.mpg:") in err, err)  # a fused kernel is named by where its result comes from
        check(c.tensor("w") == [1.0] and c.tensor("step.applied", part="state") == [0])


def fc003():
    body = "    w = param([1], init = constant(1))\n    @f16 y = w * 1\n    @f32 l = 100000.0 * y\n    loss l = l + 0 * x"
    body = body.replace("@f32 l =", "@f32 z =").replace("loss l = l", "loss l = z")
    text = model(body, X, "    precision = f16\n    optimizer = sgd(lr = 1e-9)\n    length = 5 steps").replace("init = 1024", "init = 4")
    with Case(text, ["1"]) as c:
        steps = c.train()
        check([s["scale"] for s in steps] == [2, 1, 0.5, 0.5, 0.5], [s["scale"] for s in steps])
        check([s["applied"] for s in steps] == [0, 0, 0, 1, 2] and steps[3]["grad_norm"] == 99968, steps[3])
        w = f32(1 - f32(f32(1e-9) * 99968))
        check(c.tensor("w")[0] == f32(w - f32(f32(1e-9) * 99968)), c.tensor("w"))


def fc005():
    text = model(PRODUCT, X, "    precision = f16\n    optimizer = sgd(lr = 1)\n    length = 2 steps\n    clip_norm = 10\n    loss_scale = static(scale = 1024)")
    with Case(text.replace("    loss_scale = dynamic(init = 1024)\n", ""), ["1", "inf"]) as c:
        for seed in "0", "2":  # the skip after the step, and before it
            steps = c.train("--seed", seed)
            check(steps[-1]["skipped"] == 1 and steps[-1]["applied"] == 1, steps)
            good = [s for s in steps if s["loss"] is not None]
            check(len(good) == 1 and good[0]["grad_norm"] == 1 and c.tensor("w") == [0.0], good, c.tensor("w"))


def fc006():
    body = "    w = param([2], init = zeros)\n    loss l = 3 * w[0] + 4 * w[1] + 0 * x"
    text = model(body, X, "    precision = f16\n    optimizer = sgd(lr = 1)\n    length = 1 steps\n    clip_norm = 1")
    with Case(text, ["1"]) as c:
        for scale in (1, 1024, 8192):
            steps = c.train(f"loss_scale=static(scale = {scale})")
            w = c.tensor("w")
            check(abs(w[0] + 0.6) <= 2 ** -24 and abs(w[1] + 0.8) <= 2 ** -24 and steps[0]["grad_norm"] == 5, scale, w)


def fc008():
    body = "    w = param([1], init = constant(10))\n    loss l = w * x"
    # the sum-reduction of the case: rate 3, since a window's gradient is the mean over its micro-batches
    text = model(body, X, "    precision = f16\n    optimizer = sgd(lr = 3)\n    length = 2 steps\n    accumulate = 3\n    save_every = 1 steps")
    with Case(text, ["1", "inf", "4", "1", "2", "4"]) as c:
        steps = c.train("--seed", "28")  # rows 0 to 2 first
        check(steps[0]["loss"] is None and abs(steps[1]["loss"] - 70 / 3) < 1e-4, steps)
        check([s["scale"] for s in steps] == [512, 512] and [s["skipped"] for s in steps] == [1, 1], steps)
        check(c.tensor("w", 1) == [10.0] and c.tensor("w", 2) == [3.0], c.tensor("w", 2))
        check(c.tensor("w/acc", 1, "state") == [0.0] and c.tensor("window.bad", 1, "state") == [False])


def fc010():
    body = "    a = param([1], init = constant(1))\n    b = param([1], init = constant(0.3))\n    loss l = a ** 2 + 0 * b + 0 * x"
    train = "    precision = f16\n    optimizer = adamw(lr = 0.1, weight_decay = 0)\n    length = 3 steps"
    with Case(model(body, X, train, "    \"b\" { freeze = true }"), ["1"]) as c:
        steps = c.train()
        check([s["applied"] for s in steps] == [1, 2, 3] and steps[-1]["skipped"] == 0 and steps[-1]["scale"] == 1024, steps)
        check(c.tensor("b") == [f32(0.3)] and c.tensor("a")[0] < 0.8, c.tensor("a"))
    # with no gradient at all a step is a no-op, neither good nor bad, and a warning says so
    with Case(model(body, X, train, "    \"*\" { freeze = true }"), ["1"]) as c:
        steps = c.train()
        check([s["applied"] for s in steps] == [0, 0, 0] and steps[-1]["skipped"] == 0 and "scale" not in steps[-1], steps)
        check(c.tensor("a") == [1.0] and c.tensor("b") == [f32(0.3)], c.tensor("a"))


def fc011():
    text = model(PRODUCT, X, "    precision = f16\n    optimizer = adamw(lr = 0.1, weight_decay = 0)\n    length = 2 steps\n    save_every = 1 steps")
    with Case(text, ["inf", "0.1"]) as c:
        steps = c.train("--seed", "0")
        check(steps[0]["loss"] is None and steps[1]["applied"] == 1 and steps[1]["skipped"] == 1, steps)
        check(abs(c.tensor("w")[0] - 0.9) < 1e-6, c.tensor("w"))  # t = 2 would give 0.92558633
    text = text.replace("length = 2 steps", "length = 4 steps\n    schedule = constant(warmup = 10 steps)")
    with Case(text, ["inf", "inf", "inf", "0.1"]) as c:
        for seed in range(40):
            steps = c.train("--seed", str(seed))
            if steps[3]["loss"] is not None:
                break
        check(steps[3]["skipped"] == 3 and steps[3]["applied"] == 1 and abs(steps[3]["lr"] - 0.01) < 1e-8, steps[3])
        check(c.tensor("w", 3) == [1.0] and abs(c.tensor("w")[0] - 0.99) < 1e-6, c.tensor("w"))


def resume_at(c, step):
    """The run as it was when the checkpoint of that step was the last, and then on to its end."""
    shutil.rmtree(c.at("resumed"), ignore_errors=True)
    shutil.copytree(c.at("run"), c.at("resumed"), symlinks=True)
    for name in os.listdir(c.at("resumed", "checkpoints")):
        if name.startswith("step-") and int(name[5:]) > step:
            shutil.rmtree(c.at("resumed", "checkpoints", name))
    c.put(os.path.join("resumed", "checkpoints", "last"), f"step-{step:08}\n")
    best = c.at("resumed", "checkpoints", "best")
    if os.path.exists(best) and int(c.get("resumed", "checkpoints", "best").decode().strip()[5:]) > step:
        os.remove(best)
    c.mpc("train", "case.mpg", "--resume", "resumed")


def fc013():
    body = "    h = relu(linear(x, 8) as fc1)\n    h = dropout(h, 0.1)\n    p = linear(h, 1)[:, 0] as fc2\n    loss l = mse(p, y)"
    columns = {"x": ("f32[batch, 2]", "columns[0:2]"), "y": ("f32[batch]", "columns[2]")}
    train = "    precision = f16\n    optimizer = adamw(lr = 0.01)\n    batch = 2\n    length = 30 steps\n    save_every = 7 steps\n    eval_every = 100 steps\n    keep = 20"
    text = model(body, columns, train).replace("    batch = 1\n", "").replace("init = 1024", "init = 256, interval = 10")
    with Case(text, ["0,1,1", "1,0,2", "1,1,3", "0,0,0", "0.5,0.5,1.5"]) as c:
        steps = c.train()
        check([s["scale"] for s in steps][8:11] == [256, 512, 512] and steps[29]["scale"] == 2048, steps[29])
        resume_at(c, 7)
        check(final_checkpoint(c, "resumed") == final_checkpoint(c, "run"))
        check(without_times(c.log("resumed")) == without_times(c.log("run")))
    train = "    precision = f16\n    optimizer = sgd(lr = 0)\n    length = 2001 steps\n    save_every = 1500 steps\n    eval_every = 5000 steps\n    keep = 20"
    with Case(model(PRODUCT, X, train).replace("init = 1024", "init = 65536"), ["1"]) as c:
        c.train()
        resume_at(c, 1500)
        steps = c.steps("resumed")
        check(len(steps) == 2001 and steps[1998]["scale"] == 65536 and steps[1999]["scale"] == 131072, steps[1999])
        check(c.tensor("scaler.clean", 1500, "state", "resumed") == [1500])


def fc016():
    with Case(model("    w = param([1], init = constant(1))\n    loss l = x + 0 * w", X, "    precision = f16\n    optimizer = sgd(lr = 1)\n    length = 1 steps"), ["2.5"]) as c:
        for scale in ("static(scale = 128)", "dynamic(init = 65536)"):
            steps = c.train(f"loss_scale={scale}")
            check(steps[0]["loss"] == 2.5 and steps[0]["loss.l"] == 2.5, steps[0])
    with Case(model("    w = param([1], init = constant(1))\n    loss l = w + 0 * x", X, "    precision = f16\n    optimizer = sgd(lr = 0)\n    length = 1 steps"), ["1"]) as c:
        check(c.train("loss_scale=static(scale = 128)")[0]["grad_norm"] == 1)
    text = model(PRODUCT, X, "    precision = f16\n    optimizer = sgd(lr = 0)\n    length = 1 steps\n    accumulate = 4")
    with Case(text, ["1", "2", "3", "6"]) as c:
        for scale in ("static(scale = 128)", "dynamic(init = 65536)"):
            steps = c.train(f"loss_scale={scale}")
            check(steps[0]["loss"] == 3 and steps[0]["grad_norm"] == 3, steps[0])


def fc017():
    for precision in ("bf16", "f32"):
        text = model(PRODUCT, X, f"    precision = {precision}\n    optimizer = sgd(lr = 0.1)\n    length = 3 steps\n    save_every = 1 steps\n    keep = 9")
        with Case(text.replace("    loss_scale = dynamic(init = 1024)\n", ""), ["1", "nan", "1"]) as c:
            steps = c.train()
            w = f32(f32(1 - f32(0.1)) - f32(0.1))
            check(c.tensor("w") == [w] and steps[-1]["skipped"] == 1 and steps[-1]["applied"] == 2, c.tensor("w"), steps)
            check("scale" not in steps[-1] or steps[-1]["scale"] == 1)
            bad = next(s["step"] for s in steps if s["loss"] is None)
            before = c.tensor("w", bad - 1) if bad > 1 else [1.0]
            check(c.tensor("w", bad) == before, bad)


def fc019():
    body = "    w = param([1], init = constant(0.5))\n    loss l = square(w * x - 1)"
    train = "    precision = f16\n    optimizer = sgd(lr = 0.01)\n    length = 3 epochs"
    rows = ["1"] * 5 + ["nan"] + ["1"] * 2
    with Case(model(body, X, train), rows) as c:
        steps = c.train()
        per_epoch = [steps[7]["skipped"], steps[15]["skipped"] - steps[7]["skipped"], steps[23]["skipped"] - steps[15]["skipped"]]
        check(per_epoch == [1, 1, 1] and steps[-1]["applied"] == 21, per_epoch)
        check(steps[-1]["scale"] == 1024, steps[-1])  # a scale can't repair a NaN, so it stays
        events = [r for r in c.records if r["type"] == "event"]
        check(len(events) == 3 and all(e["what"] == "nonfinite loss" for e in events), events)
        r = c.mpc("train", "case.mpg", "--set", "nonfinite=reject", "--out", "none", status=1)
        check("E213" in r.err and "row 6" in r.err and "rows.csv" in r.err, r.err)
        r = c.mpc("train", "case.mpg", "--set", "on_nonfinite=stop", "--out", "none", status=3)
        check("E360" in r.err, r.err)


run_all([fc001, fc003, fc005, fc006, fc008, fc010, fc011, fc013, fc016, fc017, fc019])
