"""The figures of `mpc summary` are those that one gets by hand: parameters and multiply-adds of an MLP, a convolution, an
attention and a recurrent layer, and what holds for each parameter with the line that says so."""
import json

from support import Folder, check, run_all

DATA = """
data {
    train = csv("train.csv")
    test  = csv("test.csv")
    input x = columns[0:4]
    input y = columns[4]
}
train {
    precision = bf16
    optimizer = adamw(lr = 1e-2, weight_decay = 0.25)
    batch     = 16
    length    = 1 epochs
}
"""
MLP = """
block layer(x: [n, c], out: int) {
    return relu(linear(x, out) as fc)
}
model mlp(x: f32[batch, 4], y: i32[batch]) {
    h = layer(x, 8) as first
    scale = param([8], init = ones)
    logits = linear(h * scale, 3, bias = false) as head
    loss ce = cross_entropy(logits, y)
}
params {
    "first.**" { init = normal(std = 0.5) }
    "**.bias" { decay = 0.125 }
    "head.weight" { freeze = true }
    "scale" { lr = 10 x
        ema = 0.5 }
}
""" + DATA
CONV = """
model conv(x: f32[batch, 4], y: i32[batch]) {
    image = reshape(stack([x, x, x, x], axis = 2), [batch, 4, 4, 1])
    h = relu(conv2d(image, 6, kernel = 3, stride = 2, pad = 1) as stem)
    h = conv2d(h, 6, kernel = 1, groups = 3, bias = false) as mix
    h = conv2d_transpose(h, 2, kernel = 2, stride = 2) as up
    loss ce = cross_entropy(linear(flatten(h), 3) as head, y)
}
""" + DATA
ATTENTION = """
model att(x: f32[batch, 4], y: i32[batch]) {
    ids = embedding(y, 3, 8) as table
    s = reshape(linear(x, 4 * 8) as spread, [batch, 4, 8])
    qkv = linear(s, 24) as qkv
    q, k, v = split(qkv, parts = 3, axis = -1)
    shape4 = [batch, 4, 2, 4]
    a = attention(reshape(q, shape4), reshape(k, shape4), reshape(v, shape4)) as look
    r = lstm(reshape(a, [batch, 4, 8]), 5) as memory
    loss ce = cross_entropy(linear(reshape(r, [batch, 20]), 3) as head, y)
    loss extra = mean(ids * ids)
}
""" + DATA


NUMBERED = """
block two(x: [n, c]) { return linear(linear(x, c), c) }
model numbered(x: f32[batch, 4], y: i32[batch]) {
    h = two(x) as a
    repeat 2 { h = linear(h, 4) }
    twice = linear(_, 4)
    h = twice(relu(twice(h)))
    w = param([4, 3], init = kaiming)
    logits = matmul(linear(linear(h, 4), 4), w)
    loss ce = cross_entropy(logits, y)
}
""" + DATA


def summary(model, *args):
    with Folder(model) as f:
        f.mpc("summary", "tiny.mpg", *args)
        return json.loads(f.mpc("summary", "tiny.mpg", "--json", *args).out), f.mpc("summary", "tiny.mpg", *args).out


def row(report, path):
    return next(r for r in report["blocks"] if r["block"] == path)


def a_layer_has_one_row_whatever_its_values_are_called():
    report, text = summary(NUMBERED)
    for path in ("a.linear.0", "a.linear.1", "linear.0.0", "linear.0.1", "linear.1", "linear.2"):
        r = row(report, path)
        check(r["parameters"] == 20 and r["multiply_adds"] == 16 * 4 * 4 and r["op"] == "linear" and r["output"] == [16, 4], r)
    check(row(report, "twice")["parameters"] == 20 and row(report, "twice")["multiply_adds"] == 2 * 16 * 4 * 4, text)
    check(row(report, "logits")["multiply_adds"] == 16 * 4 * 3, text)
    check(not any(r["block"].startswith("h") for r in report["blocks"]), text)
    # calls that only a number tells apart are marked, turns of a repeat and labels aren't
    marked = {r["block"]: r["numbered"] for r in report["blocks"] if r["numbered"]}
    check(marked == {"a.linear.0": 2, "a.linear.1": 2, "linear.0": 3, "linear.1": 3, "linear.2": 3}, marked)
    check("\n    0 of 2" in text and "\n  0 of 3" in text and "\n    1  " in text, text)


def an_mlp_counts_as_by_hand():
    report, text = summary(MLP)
    first, fc, head, scale = (row(report, p) for p in ("first", "first.fc", "head", "scale"))
    check(fc["parameters"] == 4 * 8 + 8 and first["parameters"] == fc["parameters"] and first["op"] is None, fc)
    check(fc["multiply_adds"] == 16 * 4 * 8 and head["multiply_adds"] == 16 * 8 * 3, fc, head)
    check(head["parameters"] == 24 and head["trainable"] == 0, head)
    check(scale["parameters"] == 8 and scale["op"] == "mul", scale)
    check(fc["output"] == [16, 8] and first["output"] == [16, 8] and head["output"] == [16, 3])
    check(fc["depth"] == 1 and first["depth"] == 0)
    t = report["totals"]
    check(t["parameters"] == 72 and t["trainable"] == 48, t)
    check(t["multiply_adds_forward"] == 512 + 384, t)
    # Back: the input of head (its weight is frozen) and the weight of fc; x needs no gradient.
    check(t["multiply_adds_step"] == (512 + 384) + 384 + 512, t)
    check(t["optimizer_bytes"] >= 2 * 4 * 48 and t["weight_bytes"] >= 4 * 72 and t["arena_bytes"] > 0, t)
    check("72, of which 48 are trained" in text and "896 forward, 1,792 a step of 16 rows" in text, text)


def the_batch_and_constants_of_the_command_line_count():
    report, _ = summary(MLP, "--batch", "32", "--precision", "f32")
    check(row(report, "head")["multiply_adds"] == 32 * 8 * 3 and report["batch"] == 32)
    check(row(report, "head")["reads"] == "f32" and report["precision"] == "f32", row(report, "head"))


def a_convolution_counts_as_by_hand():
    report, _ = summary(CONV)
    stem, mix, head = (row(report, p) for p in ("stem", "mix", "head"))
    check(stem["parameters"] == 9 * 6 + 6 and stem["output"] == [16, 2, 2, 6], stem)
    check(stem["multiply_adds"] == 16 * 2 * 2 * 6 * 9, stem)
    check(mix["parameters"] == 2 * 6 and mix["multiply_adds"] == 16 * 2 * 2 * 6 * 2, mix)
    up = row(report, "up")
    check(up["parameters"] == 2 * 2 * 6 * 2 + 2 and up["multiply_adds"] == 16 * 2 * 2 * 6 * 2 * 4, up)
    check(up["output"] == [16, 4, 4, 2] and up["op"] == "conv2d_grad_input", up)
    forward = sum(r["multiply_adds"] for r in (stem, mix, up, head))
    check(report["totals"]["multiply_adds_forward"] == forward)
    check(report["totals"]["multiply_adds_step"] == 3 * forward - stem["multiply_adds"], report["totals"])


def attention_and_a_recurrent_layer_count_as_by_hand():
    report, _ = summary(ATTENTION)
    look, memory, table = (row(report, p) for p in ("look", "memory", "table"))
    products = 16 * 2 * 4 * 4 * 4
    check(look["multiply_adds"] == 2 * products and look["parameters"] == 0, look)
    check(memory["multiply_adds"] == 16 * 4 * (8 + 5) * 20, memory)
    check(memory["parameters"] == (8 + 5) * 20 + 20 and memory["op"] == "lstm", memory)
    check(table["parameters"] == 3 * 8 and table["op"] == "embedding" and table["multiply_adds"] == 0, table)
    rest = sum(row(report, p)["multiply_adds"] for p in ("spread", "qkv", "head"))
    step = 3 * rest - row(report, "spread")["multiply_adds"] + 7 * products + 3 * memory["multiply_adds"]
    check(report["totals"]["multiply_adds_step"] == step, report["totals"], step)


def parameters_come_with_the_line_that_decided():
    report, text = summary(MLP, "--params")
    params = {p["name"]: p for p in report["parameters"]}
    weight, bias, scale, head = (params[n] for n in ("first.fc.weight", "first.fc.bias", "scale", "head.weight"))
    lines = MLP.split("\n")
    at = lambda word: f"tiny.mpg:{next(i for i, line in enumerate(lines, 1) if word in line)}"
    check(weight["init"] == "normal(0, 0.5)" and weight["decay"] == 0.25 and weight["shape"] == [4, 8], weight)
    check(weight["decided_by"] == {"init": at("init = normal")}, weight)
    check(weight["made_at"] == at("linear(x, out)"), weight)
    check(bias["decay"] == 0.125 and bias["decided_by"]["decay"] == at("decay = 0.125"), bias)
    check(scale["lr"] == 10 and scale["ema"] == 0.5 and scale["decay"] == 0, scale)
    check(scale["decided_by"] == {"lr": at("lr = 10 x"), "ema": at("ema = 0.5")}, scale)
    check(head["frozen"] and not scale["frozen"] and head["decided_by"] == {"freeze": at("freeze = true")}, head)
    check("init " + at("init = normal") in text, text)
    stochastic, _ = summary(MLP.replace('"head.weight" {', '"first.*.weight" { weights = stochastic }\n    "head.weight" {'), "--params")
    check(stochastic["parameters"][0]["weights"] == "stochastic", stochastic["parameters"][0])


def a_model_that_is_wrong_is_an_error():
    with Folder(MLP.replace("relu(linear", "relu(linaer")) as f:
        check("linear" in f.mpc("summary", "tiny.mpg", status=1).err)
        f.mpc("summary", "none.mpg", status=1)


run_all([a_layer_has_one_row_whatever_its_values_are_called, an_mlp_counts_as_by_hand, the_batch_and_constants_of_the_command_line_count, a_convolution_counts_as_by_hand,
         attention_and_a_recurrent_layer_count_as_by_hand, parameters_come_with_the_line_that_decided,
         a_model_that_is_wrong_is_an_error])
