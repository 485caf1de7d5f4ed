"""--loss-budget as a user has it: predicted against measured deviations on the examples, budgets kept, batches
in which rounding changes a choice set apart, and runs that go on in the formats they began with."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
EXAMPLES = os.path.join(os.path.abspath(sys.argv[2]), "examples")
del sys.argv[2:]
from support import MODEL, Folder, check, finish  # noqa: E402

LOW = MODEL.replace("precision = f32", "precision = bf16")
SMALL = {"linear": [], "mlp": ["--const", "width=32"], "digits": [],
         "gpt": ["--const", "width=16", "--const", "depth=2", "--const", "heads=2", "--batch", "2"]}
# on `ref`, where nothing is compiled
MORE = {"vit": ["--const", "width=24", "--const", "depth=1", "--batch", "4"], "moe": [], "lstm": ["--const", "width=16", "--batch", "2"],
        "llama": ["--const", "width=24", "--const", "depth=1", "--const", "heads=6", "--const", "kv_heads=2", "--batch", "2"],
        "vae": ["--batch", "8"], "gan": ["--batch", "8"], "clip": ["--batch", "16"], "unet": ["--batch", "2"], "resnet": ["--batch", "4"]}
# a loss that reads whole parts of something rounded to bf16: no batch has those of f32
WHOLE = LOW.replace("    loss ce", "    logits = logits + 1e-2 * cast(cast(1024 * logits, i32), f32)\n    loss ce")


def dial(f, model, budget, *args, status=0, device="cpu"):
    """What explain says, as a dictionary."""
    r = f.mpc("explain", model, "--json", "--cost-target", "h200", "--loss-budget", str(budget), *args, status=status, device=device)
    return json.loads(r.out) if status == 0 else r


with Folder(LOW) as f:
    # without a budget that binds, the deviation of 32 batches is what was predicted, within a factor of 3
    for name, consts in SMALL.items():
        for precision in ("bf16", "f16"):
            d = dial(f, f"{EXAMPLES}/{name}.mpg", 1e3, "--precision", precision, "--loss-check", "32", "--sensitivity", name + ".sens", *consts)
            ratio = d["measured"] / d["predicted"] if d["predicted"] > 0 else 0
            print(f"{name} {precision}: predicted {d['predicted']:.3g}, measured {d['measured']:.3g}, ratio {ratio:.2f}")
            check(1 / 3 <= ratio <= 3 and d["batches"] == 32 and d["batches_other_choice"] == 0, name, precision, d)
            check(d["predicted"] == d["predicted_without_budget"] and d["seconds"] <= d["seconds_f32"], d)

    for name, options in MORE.items():
        for precision in ("bf16", "f16"):
            d = dial(f, f"{EXAMPLES}/{name}.mpg", 1e3, "--precision", precision, "--loss-check", "32", "--sensitivity", name + ".sens", *options,
                     device="ref")
            measured = {k: d["measured" + k] / d["predicted"] for k in ("", "_all", "_choices", "_after_update")}
            others = d["batches_other_choice"]
            print(f"{name} {precision}: predicted {d['predicted']:.3g}, of it", {k: round(v, 2) for k, v in measured.items()}, f"{others} choose otherwise")
            check(1 / 3 <= measured[""] <= 3, name, precision, d)
            # an image that goes to another expert is a jump; where leaky relu bends there is none
            check(measured["_choices"] > 3 if name == "moe" else measured["_choices"] < 0.1, name, precision, d)
            check(0 < others < 32 if name == "moe" else others == 0 or name == "gan", name, precision, d)
            if others == 0:
                check(d["measured_all"] == d["measured"] and d["other_choice"] is None and d["other_choice_elements"] == 0, name, precision, d)
            else:
                check(d["other_choice"] == {"moe": "experts.top_k.1", "gan": "gen.gt"}[name] and d["other_choice_elements"] > 0, name, d)
            tight = dial(f, f"{EXAMPLES}/{name}.mpg", 0.3 * d["predicted"], "--precision", precision, "--loss-check", "0", "--sensitivity", name + ".sens",
                         *options, device="ref")
            check(tight["predicted"] <= tight["loss_budget"] and tight["bound"] <= tight["seconds"] <= 1.01 * tight["bound"], name, precision, tight)
            check(d["seconds"] <= tight["seconds"] <= d["seconds_f32"], name, precision, d, tight)
            check(measured["_after_update"] <= 5, name, precision, d)  # resnet: 3 on batches of 4, at its rate of 0.1

    d = dial(f, f"{EXAMPLES}/gpt.mpg", 1e3, "--precision", "f16", "--sensitivity", "gpt.sens", "--loss-check", "0", *SMALL["gpt"])
    # budgets that bind are kept, by the prediction and by a run; a smaller one is never faster
    free, before = d["predicted"], 0
    for part in (0.9, 0.7, 0.5, 0.3, 0.1, 0.01):
        d = dial(f, f"{EXAMPLES}/gpt.mpg", part * free, "--precision", "f16", "--sensitivity", "gpt.sens",
                 "--loss-check", "8" if part == 0.5 else "0", *SMALL["gpt"])
        check(d["predicted"] <= part * free and d["seconds_without_budget"] <= d["seconds"] <= d["seconds_f32"], d)
        check(d["bound"] <= d["seconds"] and d["seconds"] >= before, d, before)
        check(d.get("measured", 0) <= 3 * part * free, d)
        before = d["seconds"]
    check("W188" not in f.mpc("explain", "tiny.mpg", "--loss-budget", "1e-3", "--cost-target", "h200").err)

    # a table that was written is read, whatever it says
    one = dial(f, "tiny.mpg", 1e3, "--sensitivity", "tiny.sens")
    check(f.get("tiny.sens").startswith(b"mpc-sensitivity 1\n"))
    check(dial(f, "tiny.mpg", 1e3, "--sensitivity", "tiny.sens") == one)
    head, names, *lines = f.get("tiny.sens").decode().splitlines()
    louder = [line.split("\t")[0] + "".join("\t" + repr(100 * float(x)) for x in line.split("\t")[1:]) for line in lines]
    f.put("louder.sens", "\n".join([head, names, *louder]) + "\n")
    check(abs(dial(f, "tiny.mpg", 1e3, "--sensitivity", "louder.sens", "--loss-check", "0")["predicted"] / one["predicted"] - 10) < 1e-6)
    r = f.mpc("explain", "tiny.mpg", "--loss-budget", "1e3", "--sensitivity", "louder.sens", "--cost-target", "h200")
    check("W188" in r.err and "measured on 8 batches" in r.out, r.err, r.out)
    f.put("bad.sens", head + "\n" + names + "\nx\tmuch\n")
    check("E156" in dial(f, "tiny.mpg", 1, "--sensitivity", "bad.sens", status=1).err)

    # where no batch chooses as f32 does the prediction is held against f32 with the same choices, and what they do is said apart
    f.put("whole.mpg", WHOLE)
    for device in ("ref", "cpu"):
        d = dial(f, "whole.mpg", 1e3, "--loss-check", "32", device=device)
        print(f"whole on {device}: predicted {d['predicted']:.3g},", {k: v for k, v in d.items() if "choice" in k or "measured" in k})
        check(1 / 3 <= d["measured"] / d["predicted"] <= 3 and d["measured_choices"] > 3 * d["predicted"], d)
        check(d["batches_other_choice"] == d["batches"] == 32 and d["other_choice"] == "cast", d)
        # f32 with choices that are its own is f32, bit by bit
        d = dial(f, f"{EXAMPLES}/moe.mpg", 1e3, "--precision", "f16", "--batch", "16", "--sensitivity", "moe.sens", device=device)
        check(d["batches_other_choice"] == 0 and d["measured_choices"] == 0 and d["measured_all"] == d["measured"] > 0, d)
    r = f.mpc("explain", "whole.mpg", "--loss-budget", "1e3", "--cost-target", "h200")
    check("measured on 8 batches: the loss deviates from f32 with the same choices by" in r.out and "W188" not in r.err, r.out, r.err)
    check("in 8 of them rounding makes a choice fall out otherwise, first of all `cast` (whole.mpg:6) in " in r.out, r.out)
    r = f.mpc("explain", "tiny.mpg", "--loss-budget", "1e3", "--cost-target", "h200")
    check("measured on 8 batches: the loss deviates from f32 by" in r.out and "choice" not in r.out, r.out)
    # the more of what makes a choice is f32, the fewer fall out otherwise; none where all of it is
    moe = open(f"{EXAMPLES}/moe.mpg").read().replace('"data/', f'"{EXAMPLES}/data/')
    wholly = moe.replace("    x = relu(", "    @f32 x = relu(")
    flips = []
    for name, text in (("low", moe.replace("@f32 gates", "gates")), ("router", moe), ("wholly", wholly)):
        f.put(name + ".mpg", text)
        d = dial(f, name + ".mpg", 1e3, "--loss-check", "32", device="ref")
        flips.append((d["batches_other_choice"], d["other_choice_elements"]))
    print("choices with nothing, the router and all before it in f32: batches and elements", flips)
    check(flips[0][0] > 2 * flips[1][0] > 0 and flips[0][1] > 4 * flips[1][1] and flips[2] == (0, 0), flips)

    # watching changes no bit of a step
    for device in ("ref", "cpu"):
        for watch in ((), ("--add-pass", "grad=watch-choices")):
            f.mpc("train", f"{EXAMPLES}/moe.mpg", "--steps", "3", "--batch", "16", "--out", device + "-watched" * bool(watch), "--no-tensorboard", *watch,
                  device=device)
        for parts in (("assignment.txt",), ("checkpoints", "step-00000003", "weights.safetensors")):
            check(f.get(device, *parts) == f.get(device + "-watched", *parts), device, parts)
        check([line.get("loss") for line in f.log(device)] == [line.get("loss") for line in f.log(device + "-watched")], device)

    # what the user has made low can't be bought back
    f.put("policy.mpg", LOW + 'policy { "fc1" = bf16 }\n')
    r = dial(f, "policy.mpg", one["predicted"] / 1e6, "--sensitivity", "tiny.sens", status=1)
    check("E368" in r.err and "1 error" not in r.out, r.err)
    check("above 0" in dial(f, "tiny.mpg", 0, status=1).err)
    check("nothing to decide" in f.mpc("explain", "tiny.mpg", "--precision", "f32", "--loss-budget", "1").out)

    # the run keeps its assignment: it goes on in it, and is evaluated in it, without the option
    def train(*args, status=0):
        return f.mpc("train", "tiny.mpg", "--cost-target", "h200", "--loss-check", "0", *args, status=status)

    budget = ["--loss-budget", str(one["predicted"] / 3), "--sensitivity", "tiny.sens"]
    r = train("--steps", "4", "--out", "one", *budget)
    check("loss budget" in r.err and json.loads(f.get("one", "run.json"))["loss_budget"] > 0, r.err)
    train("--steps", "4", "--out", "free")
    train("--steps", "4", "--out", "cut", "--solver", "mincut")
    check(f.get("one", "assignment.txt") not in (f.get("free", "assignment.txt"), f.get("cut", "assignment.txt")))
    kept = f.get("one", "assignment.txt")
    check(b"the loss budget prices its rounding at" in kept, kept)
    f.mpc("eval", "tiny.mpg", "--from", "one", "--split", "test")
    train("--resume", "one", "--change", "length=6 steps")
    check(f.get("one", "assignment.txt") == kept and json.loads(f.get("one", "run.json"))["loss_budget"] > 0)
    train("--steps", "6", "--out", "two", *budget)
    check(f.get("two", "assignment.txt") == kept)
    f.mpc("train", "tiny.mpg", "--cost-target", "h200", "--loss-check", "2", "--steps", "6", "--out", "three", *budget)
    check(f.get("three", "assignment.txt") == kept)
    check(f.get("two", "checkpoints", "step-00000006", "weights.safetensors") == f.get("three", "checkpoints", "step-00000006", "weights.safetensors"))
    check(f.get("two", "checkpoints", "step-00000006", "weights.safetensors") == f.get("one", "checkpoints", "step-00000006", "weights.safetensors"))

finish()
