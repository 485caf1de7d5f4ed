"""Twenty steps of every example in every precision: one and two threads, a second run, and a run that was resumed in the middle end in
the same checkpoint, byte for byte, and write the same log but for its times."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from support import Folder, check, final_checkpoint, finish, without_times  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
STEPS = ["--set", "length=20 steps", "--set", "save_every=7 steps", "--set", "eval_every=15 steps", "--set", "keep=9"]
SMALL = {"gpt": ["--const", "width=32", "--const", "depth=2"]}


def resumed(f, run, step):
    """The run as it was when this step's checkpoint was its last one."""
    shutil.copytree(f.at(run), f.at("resumed"))
    folder = f.at("resumed", "checkpoints")
    for name in os.listdir(folder):
        if name.startswith("step-") and int(name[5:]) > step:
            shutil.rmtree(os.path.join(folder, name))
    f.put("resumed/checkpoints/last", f"step-{step:08}\n")
    best = os.path.join(folder, "best")
    if os.path.exists(best) and int(f.get("resumed/checkpoints/best").decode().strip()[5:]) > step:
        os.remove(best)


with Folder() as f:
    shutil.copytree(EXAMPLES, f.at("examples"))
    for name in ("linear", "mlp", "digits", "gpt"):
        for precision in ("f32", "bf16", "f16"):
            words = ["train", f"examples/{name}.mpg", "--precision", precision, *STEPS, *SMALL.get(name, [])]
            for run in ("two", "one", "again", "resumed"):
                shutil.rmtree(f.at(run), ignore_errors=True)
            f.mpc(*words, "--threads", "2", "--out", "two")
            f.mpc(*words, "--threads", "1", "--out", "one")
            f.mpc(*words, "--threads", "2", "--out", "again")
            resumed(f, "two", 7)
            f.mpc(*words, "--threads", "2", "--resume", "resumed")
            want, log = final_checkpoint(f, "two"), without_times(f.log("two"))
            for run in ("one", "again", "resumed"):
                check(final_checkpoint(f, run) == want, name, precision, run, "checkpoint")
                check(without_times(f.log(run)) == log, name, precision, run, "log")
finish()
