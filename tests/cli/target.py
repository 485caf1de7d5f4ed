"""What a target lacks (FC-134): a precision is replaced aloud, by f16 with a loss scale where bf16 isn't there, or refused with --strict; a
format that a line asks for is refused; and what was planned for one target isn't run on another."""
import json
import os

from support import MODEL, Folder, check, device_profile, run_all

WIDE = MODEL.replace("linear(x, 8)", "linear(x, 64)")


class Targets(Folder):
    def __init__(self, model=WIDE):
        super().__init__(model)
        for name, lacks in (("old", ["bf16"]), ("odd", ["f16"]), ("plain", ["bf16", "f16"]), ("new", [])):
            self.put(name + ".profile", device_profile(name, lacks=lacks))

    def train(self, *words, target="old", out="run", status=0):
        # `list` takes f16 however little it gains; mincut would leave it out of so small a model (W157)
        return self.mpc("train", "tiny.mpg", "--cost-target", f"./{target}.profile", "--solver", "list", "--out", out, "--overwrite", "--steps", "12", *words,
                        status=status)

    def run_json(self):
        return json.loads(self.get("run", "run.json"))


def a_precision_is_replaced():
    with Targets() as f:
        r = f.train("--precision", "bf16")
        check("warning[W162]: old has no bf16, it has f32, f16: the training is in f16, with loss scaling\n" in r.err, r.err)
        check(", f16 on " in r.err and all(s["scale"] > 0 for s in f.steps()), r.err)
        run = f.run_json()
        check(run["target"] == "old" and run["settings"]["precision"] == "f16" and "--set precision=f16" in run["overrides"], run["overrides"])
        check("f16" in f.get("run", "assignment.txt").decode() and "bf16" not in f.get("run", "assignment.txt").decode())
        # it is what f16 would have been
        f.train("--precision", "f16", out="f16")
        check([s["loss"] for s in f.steps()] == [s["loss"] for s in f.steps("f16")], "losses")
        # whoever goes on with the run stays in its format, without being told of the target again
        r = f.mpc("eval", "tiny.mpg", "--from", "run")
        check("--set precision=f16" in r.err and r.out == f.mpc("eval", "tiny.mpg", "--from", "f16").out, r.err)
        r = f.train("--precision", "f16", target="odd")
        check("odd has no f16, it has f32, bf16: the training is in bf16\n" in r.err and "scale" not in f.steps()[0], r.err)
        r = f.train("--precision", "bf16", target="plain")
        check("plain has no bf16, it has f32: the training is in f32\n" in r.err, r.err)
        for target, precision in (("new", "bf16"), ("new", "f16"), ("old", "f16"), ("old", "f32"), ("plain", "f32")):
            check("W162" not in f.train("--precision", precision, target=target).err, target, precision)


def auto_takes_what_there_is():
    with Targets() as f:
        for target, precision in (("new", "bf16"), ("old", "f16"), ("odd", "bf16"), ("plain", "f32")):
            for words in ((), ("--strict",)):
                r = f.train("--precision", "auto", *words, target=target)
                check("W162" not in r.err and f", {precision} on " in r.err and f.run_json()["settings"]["precision"] == precision, target, r.err)
            check(("scale" in f.steps()[0]) == (precision == "f16"), target)
        # a format that multiplies no faster than f32 is not chosen for anybody
        f.put("slow.profile", device_profile("slow", low=1e12))
        check(", f32 on " in f.train("--precision", "auto", target="slow").err, "slow")
        check(", bf16 on " in f.train("--precision", "bf16", target="slow").err, "slow")
        f.put("tiny.mpg", WIDE.replace("precision = f32", "precision = auto"))
        check(", f16 on " in f.train().err)
        r = f.mpc("explain", "tiny.mpg", "--cost-target", "./old.profile", "--solver", "list")
        check("f16" in r.out and "bf16" not in r.out, r.out)


def strict_refuses():
    with Targets() as f:
        r = f.train("--precision", "bf16", "--strict", status=1)
        check("error[E378]: old has no bf16; it has f32, f16\n" in r.err and "--precision f16, with loss scaling" in r.err, r.err)
        check(not os.path.exists(f.at("run")), "a folder was made")
        check("W162" not in f.train("--precision", "f16", "--strict").err)
        # at compile time, before there is anything to run on
        for words in (("compile",), ("explain",), ("dump-ir",)):
            r = f.mpc(*words, "tiny.mpg", "--precision", "bf16", "--cost-target", "./old.profile", "--strict", status=1)
            check("E378" in r.err, words, r.err)
        r = f.mpc("compile", "tiny.mpg", "--precision", "bf16", "--cost-target", "./old.profile", device="cpu")
        check("W162" in r.err, r.err)
        r = f.mpc("train", "tiny.mpg", "--strict", "--out", "none", status=1, device="cpu", env={"MPC_CC": "/nowhere/cc"})
        check("E378" in r.err and "/nowhere/cc" in r.err and not os.path.exists(f.at("none")), r.err)


def a_format_of_a_line_is_refused():
    for line in ("@bf16 h = relu(linear(x, 64) as fc1)", "h = cast(cast(relu(linear(x, 64) as fc1), bf16), f32)"):
        with Targets(WIDE.replace("h = relu(linear(x, 64) as fc1)", line)) as f:
            r = f.train("--precision", "f32", status=1)
            check("E378" in r.err and "tiny.mpg:3: %" in r.err and "is bf16, which old hasn't; it has f32, f16" in r.err, line, r.err)
            f.train("--precision", "f32", target="odd")


def a_plan_is_for_its_target():
    with Targets() as f:
        f.train("--precision", "bf16", "--lock", "tiny.lock", target="new")
        r = f.mpc("train", "tiny.mpg", "--resume", "run", "--cost-target", "./old.profile", "--change", "length=14 steps", status=1)
        check("E353" in r.err and "bf16, now f16" in r.err, r.err)
        r = f.train("--precision", "bf16", "--lock", "tiny.lock", status=1, out="other")
        check("E366" in r.err and not os.path.exists(f.at("other")), r.err)
        f.put("bad.profile", device_profile("bad", lacks=["f32"]))
        r = f.train(target="bad", status=1)
        check("E150" in r.err and "bad.profile:4" in r.err, r.err)


run_all([a_precision_is_replaced, auto_takes_what_there_is, strict_refuses, a_format_of_a_line_is_refused, a_plan_is_for_its_target])
