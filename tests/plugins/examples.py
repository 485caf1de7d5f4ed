"""Each example of a plugin does what it says: on graphs as text, and where a model uses it, in a training on both devices."""
import json
import os
import re
import tempfile

from support import MODEL, ROOT, check, mpc, plugin, result

LINEAR = """mpir 1
graph @g(%x: f32[{rows},{inner}]) {{
  %w = state() {{name=w trainable=true}} : f32[{inner},{columns}]
  %h = matmul(%x, %w) : f32[{rows},{columns}]
  %y = {op}(%h) : f32[{rows},{columns}]
  %loss = sum(%y) {{axes=[0,1]}} : f32[]
  next %w, %w
  return("loss": %loss)
}}
"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def ran(r, *what):
    return check(r.returncode == 0, *what, r.stderr)


def lines(text, pattern):
    return [line for line in text.splitlines() if re.search(pattern, line)]


def double_add(folder):
    graph = write(folder, "double.mpir", """mpir 1
graph @g(%x: f32[4]) {
  %two = const() {value=2} : f32[]
  %three = const() {value=3} : f32[]
  %a = mul(%x, %two) : f32[4]
  %b = mul(%two, %a) : f32[4]
  %c = mul(%b, %three) : f32[4]
  return("c": %c)
}
""")
    listed = mpc("passes", *plugin("double_add"))
    check("double-add" in listed.stdout and "most:int=1000000" in listed.stdout, listed.stdout)
    check("double-add" not in mpc("passes").stdout, "a pass without its plugin")
    r = mpc("opt", graph, "--passes", "double-add,dce", "--verify-each", *plugin("double_add"))
    ran(r, "double-add")
    check(lines(r.stdout, r"%a = add\(%x, %x\)") and lines(r.stdout, r"%b = add\(%a, %a\)") and lines(r.stdout, r"%c = mul\(%b, %three\)"), r.stdout)
    check(not lines(r.stdout, "%two"), r.stdout)
    r = mpc("opt", graph, "--passes", "double-add{most=1}", *plugin("double_add"))
    check(len(lines(r.stdout, r" = add\(")) == 1, "most=1", r.stdout)
    r = mpc("opt", graph, "--passes", "double-add{mots=1}", *plugin("double_add"))
    check(r.returncode == 1 and "did you mean `most`" in r.stderr, r.stderr)
    r = mpc("opt", graph, "--passes", "double-ad", *plugin("double_add"))
    check(r.returncode == 1 and "did you mean `double-add`" in r.stderr, r.stderr)


def softsign(folder):
    text = LINEAR.format(rows=4, inner=3, columns=2, op="softsign")
    graph = write(folder, "softsign.mpir", text)
    r = mpc("opt", graph, "--passes", "grad,expand,@clean", "--verify-each", *plugin("softsign"))
    ran(r, "softsign")
    check(lines(r.stdout, r"%y = div\(%h, %y\.add\)"), "the expansion", r.stdout)
    check(lines(r.stdout, r"%d\.h = div\(%d\.y, %d\.y\.mul\)"), "the gradient", r.stdout)
    check("E505" in mpc("opt", graph).stderr, "an op without its plugin")
    check("x / (1 + |x|)" in mpc("ops", "softsign", *plugin("softsign")).stdout, "ops")
    model = write(folder, "softsign.mpg", MODEL.replace("DATA", os.path.join(ROOT, "examples", "data")))
    check("E010" in mpc("dump-ir", model).stderr, "a function without its plugin")
    r = mpc("dump-ir", model, "--set", "precision=bf16", *plugin("softsign"))
    ran(r, "dump-ir")
    check(lines(r.stdout, r"= softsign\(%hidden\) : bf16"), r.stdout)
    losses = {}
    for device in ("ref", "cpu"):
        out = os.path.join(folder, "softsign-" + device)
        r = mpc("train", model, "--out", out, "--device", device, "--set", "eval_every=100 steps", *plugin("softsign"))
        ran(r, "train", device)
        with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as log:
            losses[device] = [record["loss"] for record in map(json.loads, log) if record["type"] == "step"]
    check(losses["cpu"][-1] < 0.98 * losses["cpu"][0], "nothing is learnt:", losses)
    check(all(abs(a - b) < 1e-4 for a, b in zip(losses["ref"], losses["cpu"])), "devices differ:", losses)
    r = mpc("eval", model, "--from", os.path.join(folder, "softsign-cpu"), *plugin("softsign"))
    ran(r, "eval")


def more_ops(folder):
    """Ops of both kinds in a model: with attributes, two results, and a gradient by expansion."""
    text = MODEL.replace("softsign(linear(image, 32) as hidden)", "cube(linear(image, 32) as hidden)")
    text = text.replace("    loss ce", "    [wide, total] = SPREAD\n    loss ce").replace("    metric", "    loss width = wide * 0.01 + total * 0.001\n    metric")
    data = os.path.join(ROOT, "examples", "data")
    losses = {}
    for call in ("spread(logits, axis = 1, by = 0.5)", "spread(logits, axis = 1)"):
        model = write(folder, "more.mpg", text.replace("SPREAD", call).replace("[wide, total]", "wide, total").replace("DATA", data))
        r = mpc("dump-ir", model, "--set", "precision=bf16", *plugin("more_ops"))
        ran(r, call)
        scaled = lines(r.stdout, r"%spread = mul\(%spread\.sub, %spread\.const\)") and lines(r.stdout, r"%spread\.const = const\(\) \{value=0\.5\}")
        check(bool(scaled) == ("by" in call), "by is an attribute with a default", r.stdout)  # `grad` has expanded it
        r = mpc("dump-ir", model, "--stage", "parsed", *plugin("more_ops"))
        check(("by=0.5" in r.stdout) == ("by" in call) and "spread(%head) {axis=1" in r.stdout, r.stdout)
        r = mpc("dump-ir", model, "--set", "precision=bf16", *plugin("more_ops"))
        check(lines(r.stdout, r"= cube\(%hidden\) : bf16"), r.stdout)
        for device in ("ref", "cpu"):
            out = os.path.join(folder, "more-" + device)
            r = mpc("train", model, "--out", out, "--overwrite", "--device", device, "--set", "eval_every=100 steps", *plugin("more_ops"))
            if not ran(r, "train", device):
                return
            with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as log:
                losses[device] = [record["loss"] for record in map(json.loads, log) if record["type"] == "step"]
        check(losses["cpu"][-1] < losses["cpu"][0], "nothing is learnt:", losses)
        check(all(abs(a - b) < 1e-4 for a, b in zip(losses["ref"], losses["cpu"])), "devices differ:", losses)
    for call, code, message in (("spread(logits)", "E012", "spread needs `axis`"), ("spread(logits, axis = 7)", "E021", "axis 7 of rank 2 does not exist"),
                                ("spread(logits, axis = 1, bye = 2)", "E011", "did you mean `by`"), ("cube(logits, 1)", "E013", "")):
        model = write(folder, "more.mpg", text.replace("SPREAD", call).replace("[wide, total]", "wide, total").replace("DATA", data))
        r = mpc("dump-ir", model, *plugin("more_ops"))
        check(r.returncode == 1 and code in r.stderr and message in r.stderr, call, r.stderr)


def all_low(folder):
    """A solver that knows no rule: loss scale, data mapping and total are f32 all the same, and a training moves."""
    model, out = os.path.join(ROOT, "examples", "mlp.mpg"), os.path.join(folder, "low")
    options = ["--precision", "f16", "--solver", "all-low", "--const", "width=16", *plugin("more_ops")]
    r = mpc("dump-ir", model, "--stage", "decided", "--reasons", *options)
    ran(r, "all-low")
    for value in ("image", "loss.ce", "scaler.inverse", "loss.seed.scaled", "head.weight/unscaled", "head.weight.next"):
        found = lines(r.stdout, rf"^  %{re.escape(value)}(,| =)")
        check(len(found) == 1 and "out=f32" in found[0] and "under every solver" in found[0], value, found)
    check(lines(r.stdout, r"^  %logits|^  %head = .*out=f16"), "the model is low", r.stdout)
    moves = []
    for more in ([], ["--solver", "list"]):
        r = mpc("train", model, "--out", out, "--overwrite", "--device", "ref", "--steps", "10", "--set", "eval_every=100 steps", *options, *more)
        if ran(r, "train all-low"):
            moves.append([(s["loss"], s["grad_norm"]) for s in map(json.loads, open(os.path.join(out, "log.jsonl"))) if s["type"] == "step"])
    for got, want in zip(*moves):
        check(abs(got[0] - want[0]) < 0.01 and abs(got[1] - want[1]) < 0.02 * want[1], "as list", got, want)


def wide_small(folder):
    for rows, format in ((4, "f32"), (512, "bf16")):
        graph = write(folder, "wide.mpir", LINEAR.format(rows=rows, inner=16, columns=16, op="tanh"))
        r = mpc("opt", graph, "--passes", "grad,autocast{format=bf16 solver=wide-small},insert-casts", "--verify-each", *plugin("wide_small"))
        ran(r, "wide-small")
        check(lines(r.stdout, r"%h = matmul\(.*: " + format), rows, r.stdout)
        check(("small: fewer than 4096 elements" in r.stdout) == (rows == 4) or rows == 512, r.stdout)
    r = mpc("opt", graph, "--passes", "autocast{solver=wide-smal}", *plugin("wide_small"))
    check(r.returncode == 1 and "wide-small" in r.stderr, "an unknown solver names those there are", r.stderr)


def formats(folder):
    graph = write(folder, "fp12.mpir", LINEAR.format(rows=4, inner=3, columns=2, op="tanh"))
    r = mpc("opt", graph, "--passes", "grad,autocast{format=fp12 solver=list},insert-casts", "--verify-each", *plugin("fp12"))
    ran(r, "fp12")
    check(lines(r.stdout, r"matmul\(%x\.fp12, %w\.fp12\)"), r.stdout)
    again = mpc("opt", write(folder, "again.mpir", r.stdout), *plugin("fp12"))
    check(again.stdout == r.stdout, "text of a user's format is read back", again.stderr)
    check("E508" in mpc("opt", os.path.join(folder, "again.mpir")).stderr, "a format without its plugin")
    # 1 + 1/16 lies between two numbers of fp12 and goes to the even one; e3m4 has it, and saturates.
    for format, given, kept in (("fp12", 1.0625, 1.0), ("fp12", 1.1875, 1.25), ("e3m4", 1.0625, 1.0625), ("e3m4", 1000, 30), ("e3m4", -1000, -30)):
        text = f'mpir 1\ngraph @g() {{\n  %c = const() {{value={given}}} : f32[]\n  %l = cast(%c) {{to={format}}} : {format}[]\n'
        text += '  %y = cast(%l) {to=f32} : f32[]\n  return("y": %y)\n}\n'
        r = mpc("opt", write(folder, "round.mpir", text), "--passes", "fold,dce", *plugin("fp12"))
        found = re.search(rf"%[yl] = const\(\) {{value=([-0-9.e]+)}}", r.stdout)
        check(found and float(found[1]) == kept, given, "in", format, "is", kept, r.stdout, r.stderr)
    model = os.path.join(ROOT, "examples", "mlp.mpg")
    logs = {}
    for device in ("ref", "cpu"):
        out = os.path.join(folder, "fp12-" + device)
        ran(mpc("train", model, "--precision", "fp12", "--out", out, "--device", device, "--steps", "6", *plugin("fp12")), "train", device)
        with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as log:
            logs[device] = [record["loss"] for record in map(json.loads, log) if record["type"] == "step"]
    check(len(logs["ref"]) == 6 and all(abs(a - b) < 2e-3 for a, b in zip(logs["ref"], logs["cpu"])), "devices differ:", logs)
    r = mpc("compile", model, "--precision", "fp12", "--device", "cuda", "--emit", "cu", *plugin("fp12"))
    check(r.returncode == 1 and "simulated on the devices cpu and ref" in r.stderr, r.stderr)


ROUNDING = """model m(x: f32[batch, 1], y: f32[batch]) {
    guess = linear(x, 1)[:, 0] as fit
    loss fit = mse(guess, y)
    a = cast(cast(x, fp12), f32)
    b = cast(cast(x, e3m4), f32)
    output o = concat([a, b, cast(cast(x * x * x, fp12), f32), cast(cast(x * x * x, e3m4), f32)], axis = 1)
}
data {
    train = csv("points.csv")
    predict = csv("points.csv")
    input x = columns[0:1]
    input y = columns[1]
}
train {
    precision = f32
    batch = 16
    length = 1 steps
    nonfinite = keep
    on_nonfinite = skip
}
"""


def kernels_round_as_the_evaluator_does(folder):
    """Numbers, halves between them, subnormals of both formats, overflow and infinity."""
    points = [s * m * 2.0**e for e in (-149, -140, -131, -129, -128, -127, -126, -9, -7, -6, -5, -3, -2, -1, 0, 3, 4, 5, 60, 126, 127)
              for m in (1, 1.03125, 1.0625, 1.09375, 1.1875, 1.25, 1.5, 1.9375, 1.96875) for s in (1, -1)] + [0.0, -0.0]
    write(folder, "points.csv", "".join(f"{x!r},0\n" for x in points))
    model = write(folder, "rounding.mpg", ROUNDING)
    out = os.path.join(folder, "rounding")
    ran(mpc("train", model, "--out", out, *plugin("fp12")), "train")
    texts = {}
    for device in ("ref", "cpu"):
        r = mpc("predict", model, "--from", out, "--device", device, "--out", "-", *plugin("fp12"))
        ran(r, "predict", device)
        texts[device] = r.stdout.splitlines()
    check(len(texts["ref"]) == len(points) + 1, len(texts["ref"]), "lines")
    check(len(set(texts["ref"])) > 150, "they differ")
    for x, a, b in zip([None] + points, texts["ref"], texts["cpu"]):
        check(a == b, "x =", x, "ref", a, "cpu", b)


def toy_npu(folder):
    passes = "grad,autocast{format=bf16 solver=mincut target=toy-npu},insert-casts"
    for rows, low in ((48, False), (64, True)):  # the same through a solver that is a plugin too
        graph = write(folder, "npu.mpir", LINEAR.format(rows=rows, inner=256, columns=256, op="tanh"))
        r = mpc("opt", graph, "--passes", passes.replace("mincut", "by-price"), "--verify-each", *plugin("toy_npu"), *plugin("more_ops"))
        ran(r, "by-price", rows)
        check(("%h = matmul(%x.bf16, %w.bf16)" in r.stdout) == low, rows, r.stdout)
        check(bool(lines(r.stdout, "%h = .*f32 costs less here")) != low, rows, r.stdout)
    # By the profile bf16 costs a third of f32 on either; below 64 rows the model's correction takes three times as much.
    for rows, format in ((48, "f32"), (64, "bf16")):
        graph = write(folder, "npu.mpir", LINEAR.format(rows=rows, inner=256, columns=256, op="tanh"))
        r = mpc("opt", graph, "--passes", passes, "--verify-each", *plugin("toy_npu"))
        ran(r, "toy-npu", rows)
        check(("%h = matmul(%x.bf16, %w.bf16)" in r.stdout) == (format == "bf16"), rows, r.stdout)
    check("toy-npu" in mpc("opt", graph, "--passes", passes).stderr, "a cost model without its plugin")


with tempfile.TemporaryDirectory(prefix="mpc-plugins-") as where:
    for part in (double_add, softsign, more_ops, all_low, wide_small, formats, kernels_round_as_the_evaluator_does, toy_npu):
        part(where)
result()
