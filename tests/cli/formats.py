"""Two low formats beside f32 (--formats f16,bf16): the solver takes for each value what its numbers allow, is cheaper than with either alone,
states how far above the bound it is, and trains alike on both devices."""
import json
import math
import re

from support import Folder, check, run_all

# Whole numbers to 511 are exact in f16 and not in bf16; 1e5 is beyond f16 and not beyond bf16.
MODEL = """
model m(x: f32[batch, 4], y: i32[batch]) {
    h = linear(x, 512) as fc
    whole = where(h > 0, cast(range(512), f32), 0)
    large = where(h > 0, 1e5, 2e5)
    a = linear(whole, 256, init = normal(std = 1e-4)) as of_whole
    b = linear(large, 256, init = normal(std = 1e-6)) as of_large
    logits = linear(relu(a + b + linear(h, 256) as both), 3) as head
    loss ce = cross_entropy(logits, y)
    output p = softmax(logits)
}
data {
    train = csv("train.csv")
    test  = csv("test.csv")
    input x = columns[0:4]
    input y = columns[4]
}
train {
    batch     = 128
    length    = 4 steps
    optimizer = sgd(lr = 0.01)
    freeze    = ["of_*.**"]
}
"""
GPU = ("--cost-target", "h200")
THREE = ("--formats", "f16,bf16", *GPU)


def explained(f, *words):
    r = f.mpc("explain", "m.mpg", *words, "--json")
    return {row["value"]: row for row in map(json.loads, r.out.splitlines())}, r.err


def each_value_has_what_it_can():
    with Folder(train=300) as f:
        f.put("m.mpg", MODEL)
        rows, err = explained(f, *THREE)
        check(rows["of_whole"]["reads"] == "f16" and rows["of_large"]["reads"] == "bf16", rows["of_whole"], rows["of_large"])
        check("can't be bf16 (N44)" in rows["of_whole"]["why"] and "can't be f16 (N45)" in rows["of_large"]["why"], rows["of_whole"]["why"])
        said = re.search(r"f32, f16 and bf16: (\S+) us a step by the model, lower bound (\S+) us: (.*)", err)
        check(said and float(said[2]) <= float(said[1]) * 1.001, err)
        # with one of them alone, one of the two products is f32
        for low, wide in (("f16", "of_large"), ("bf16", "of_whole")):
            alone, _ = explained(f, "--precision", low, *GPU)
            check(alone[wide]["reads"] == "f32" and {alone["of_whole"]["reads"], alone["of_large"]["reads"]} == {low, "f32"}, low)
        # the order in which they are named doesn't matter to what is found
        other, _ = explained(f, "--formats", "bf16,f16", *GPU)
        check(all(other[v]["reads"] == rows[v]["reads"] for v in ("of_whole", "of_large")))


def it_is_cheaper_and_the_gap_is_stated():
    with Folder(train=300) as f:
        f.put("m.mpg", MODEL)
        found = {}
        for name, words in (("f16", ("--precision", "f16")), ("bf16", ("--precision", "bf16")), ("three", ("--formats", "f16,bf16"))):
            found[name] = json.loads(f.mpc("explain", "m.mpg", *words, *GPU, "--compare-solvers", "--json").out)
        mincut = {k: [s for s in v["solvers"] if s["solver"] == "mincut"][0] for k, v in found.items()}
        seconds = {k: s["seconds"] for k, s in mincut.items()}
        check(seconds["three"] < 0.99 * min(seconds["f16"], seconds["bf16"]), seconds)
        check(mincut["three"]["broken"] == [] and mincut["three"]["bytes"]["f16"] > 0 and mincut["three"]["bytes"]["bf16"] > 0, mincut["three"])
        three = found["three"]
        check(three["also"] == "bf16" and three["lower_bound_seconds"] <= seconds["three"] * (1 + 1e-9), three["lower_bound_seconds"], seconds)
        check(math.isclose(three["gap"], seconds["three"] / three["lower_bound_seconds"] - 1, abs_tol=1e-9) and three["gap"] < 0.05, three["gap"])
        text = f.mpc("explain", "m.mpg", *THREE, "--compare-solvers").out
        check(text.startswith("f16 and bf16, batch 128, for h200") and re.search(r"lower bound .*mincut is (at most|the best)", text), text)


def devices_agree_and_a_run_remembers():
    with Folder(train=300) as f:
        f.put("m.mpg", MODEL)
        losses = {}
        for device in ("ref", "cpu"):
            r = f.mpc("train", "m.mpg", *THREE, "--out", device, device=device)
            check("note[W156]" in r.err and f", f16 and bf16 on {device}, " in r.err, r.err)
            losses[device] = [s["loss"] for s in f.steps(device)]
            assignment = f.get(device, "assignment.txt").decode()
            check(" f16" in assignment and "bf16" in assignment)
        check(all(s.get("scale") for s in f.steps("ref")), "f16 has a loss scale")
        f.mpc("train", "m.mpg", "--precision", "f32", "--out", "f32", device="ref")
        wide = [s["loss"] for s in f.steps("f32")]
        check(len(wide) == 4 and all(math.isclose(a, b, rel_tol=2e-3) for a, b in zip(losses["ref"], losses["cpu"])), losses)
        check(all(math.isclose(a, b, rel_tol=2e-2) for a, b in zip(losses["ref"], wide)), losses, wide)
        # eval and resume know
        r = f.mpc("eval", "m.mpg", "--from", "cpu", device="cpu")
        check("--set precision=f16 --set also=bf16" in r.err, r.err)
        r = f.mpc("train", "m.mpg", "--resume", "cpu", *GPU, device="cpu")
        check("E3" not in r.err, r.err)


SMALL = MODEL.replace(MODEL[MODEL.index("    h ="):MODEL.index("    loss ")], "    logits = linear(relu(linear(x, 64) as both), 3) as head\n").replace('\n    freeze    = ["of_*.**"]', "")


def without_f16_there_is_no_loss_scale():
    with Folder(train=300) as f:
        f.put("m.mpg", SMALL)
        # nothing is f16, or what is doesn't pay for the scale: neither is there, and the run says so and remembers
        for words, taken in (("f16,bf16", "bf16"), ("bf16,f16", "bf16")):
            r = f.mpc("train", "m.mpg", "--formats", words, *GPU, "--out", "run", "--overwrite", device="ref")
            check("note[W157]" in r.err and f"the training is in {taken}" in r.err and f", {taken} on ref, " in r.err, r.err)
            check(not any("scale" in s for s in f.steps("run")), words)
            run = json.loads(f.get("run", "run.json"))
            check(run["settings"]["precision"] == taken and run["settings"]["also"] == "none" and run["formats_asked"] == words, run["settings"])
            check("f16 " not in f.get("run", "assignment.txt").decode().replace("bf16", ""))
            f.mpc("train", "m.mpg", "--precision", taken, *GPU, "--out", "alone", "--overwrite", device="ref")
            check([s["loss"] for s in f.steps("run")] == [s["loss"] for s in f.steps("alone")], "losses")
            # repeating what was asked for changes nothing, on whatever target
            r = f.mpc("train", "m.mpg", "--resume", "run", "--formats", words, "--change", "length=6 steps", device="ref")
            check("E3" not in r.err and json.loads(f.get("run", "run.json"))["settings"]["precision"] == taken, r.err)
        # no solver pays for a scale without f16
        r = f.mpc("explain", "m.mpg", "--precision", "f16", "--solver", "O0", *GPU)
        check("no value is f16 by solver O0" in r.err and "without a loss scale" in r.err, r.err)
        # a region in f16 keeps the scale
        f.put("m.mpg", SMALL.replace("logits =", "@f16 logits ="))
        r = f.mpc("train", "m.mpg", "--formats", "f16,bf16", *GPU, "--out", "region", device="ref")
        check("W157" not in r.err and all(s["scale"] > 0 for s in f.steps("region")), r.err)


def what_does_not_go_together():
    with Folder(train=300) as f:
        f.put("m.mpg", MODEL)
        r = f.mpc("explain", "m.mpg", *THREE, "--solver", "list", status=1)
        check("E105" in r.err and "mincut" in r.err, r.err)
        r = f.mpc("explain", "m.mpg", *THREE, "--loss-budget", "1e-3", status=1)
        check("E105" in r.err and "also = bf16" in r.err, r.err)
        for words in ("f16", "f16,", ",bf16", "f16,bf16,f32"):
            check("two formats" in f.mpc("explain", "m.mpg", "--formats", words, status=2).err, words)
        check("E303" in f.mpc("explain", "m.mpg", "--formats", "f16,f8", status=1).err)
        # the same twice is a mistake, wherever it comes from; with f32 there is no low format
        for words in (("--formats", "bf16,bf16"), ("--precision", "f16", "--set", "also=f16")):
            r = f.mpc("explain", "m.mpg", *words, *GPU, status=1)
            check("error[E105]: `also = " in r.err and "is the precision already" in r.err and "--set also=none" in r.err, r.err)
        f.put("g.mpir", "mpir 1\ngraph @g(%x: f32[4]) {\n  %a = relu(%x) : f32[4]\n  return(\"y\": %a)\n}\n")
        r = f.mpc("opt", "g.mpir", "--passes", "autocast{format=bf16 also=bf16 solver=mincut}", status=1)
        check("error[E105]: autocast: `also = bf16` is the format already" in r.err, r.err)
        check("W156" not in f.mpc("explain", "m.mpg", "--precision", "f32", "--set", "also=bf16", *GPU).err)
        r = f.mpc("train", "m.mpg", "--precision", "f32", "--set", "also=f16", "--steps", "1", "--out", "wide")
        check(" f32 on " in r.err and not any("scale" in e for e in f.log("wide")), r.err)
        # in the file
        f.put("m.mpg", MODEL.replace("    batch ", "    precision = f16\n    also = bf16\n    batch "))
        rows, _ = explained(f, *GPU)
        check(rows["of_large"]["reads"] == "bf16", rows["of_large"])


run_all([each_value_has_what_it_can, it_is_cheaper_and_the_gap_is_stated, devices_agree_and_a_run_remembers, without_f16_there_is_no_loss_scale, what_does_not_go_together])
