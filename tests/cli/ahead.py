"""Steps that run ahead of the host change nothing that a run leaves behind: the program on a device that finishes every step before the
next (argument 1), and the same program on one that is several steps ahead (argument 3), write the same bytes."""
import os
import re
import signal
import subprocess
import sys
import time

import support
from support import MODEL, Folder, check, final_checkpoint, finish, without_times

AHEAD = os.path.abspath(sys.argv[3])


def said(r, name):
    """What was printed, without times and names of folders."""
    lines = [line for line in (r.out + r.err).replace(name, "RUN").splitlines() if not re.match(r"^step +\d+.*(/s|rows)", line)]
    return [line for line in lines if "samples/s" not in line and "left" not in line]


def files(f, run):
    folder = f.at(run, "checkpoints")
    out = {}
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                out[os.path.relpath(os.path.join(at, name), folder)] = file.read()
    return out


def both(f, name, *args, status=0, log=True):
    results = []
    for which, program in (("one", support.MPC), ("ahead", AHEAD)):
        words = [program, "train", "tiny.mpg", "--device", "ref", "--out", f"{name}-{which}", *args]
        r = subprocess.run(words, cwd=f.path, capture_output=True, timeout=300)
        r.out, r.err = r.stdout.decode(), r.stderr.decode()
        check(r.returncode == status, name, which, r.returncode, r.err)
        results.append(r)
    check(said(results[0], f"{name}-one") == said(results[1], f"{name}-ahead"), name, results[0].err, results[1].err)
    logs = [without_times(f.log(f"{name}-{which}")) for which in ("one", "ahead")]
    check(logs[0] == logs[1], name, "the logs differ")
    ends = [[(e["reason"], e["step"]) for e in f.log(f"{name}-{which}") if e["type"] == "end"] for which in ("one", "ahead")]
    check(ends[0] == ends[1] and len(ends[0]) == 1, name, ends)
    check(files(f, f"{name}-one") == files(f, f"{name}-ahead"), name, "the checkpoints differ")
    return results[1]


WILD = ("--set", "optimizer.lr=1e30", "--set", "schedule=constant", "--set", "clip_norm=0")

with Folder() as f:
    both(f, "plain")
    both(f, "due", "--set", "accumulate=3", "--set", "eval_every=2 steps", "--set", "save_every=3 steps", "--set", "keep=100")
    both(f, "epochs", "--set", "eval_every=0.5 epochs", "--set", "save_every=3 steps", "--batch", "7", "--steps", "41")
    both(f, "short", "--steps", "3")
    both(f, "patience", "--set", "patience=2", "--set", "optimizer.lr=1e-9", "--set", "length=40 epochs")
    both(f, "skips", "--precision", "f16", "--set", "on_nonfinite=skip", *WILD, "--steps", "60")
    r = both(f, "stop", "--set", "on_nonfinite=stop", *WILD, "--steps", "60", status=3)
    check("E360" in r.err and "training stopped at step" in r.err, r.err)
    both(f, "stop_due", "--set", "on_nonfinite=stop", "--set", "eval_every=3 steps", *WILD, "--steps", "60", status=3)
    both(f, "stop_last", "--set", "on_nonfinite=stop", *WILD, "--steps", "3", status=3)
    both(f, "stop3", "--set", "on_nonfinite=stop", "--set", "accumulate=3", *WILD, "--steps", "60", status=3)
    metrics = [f.get(f"plain-{which}", "metrics.json") for which in ("one", "ahead")]
    check(metrics[0] == metrics[1], "metrics.json differs")
    table = [subprocess.run([program, "predict", "tiny.mpg", "--device", "ref", "--from", "plain-one"], cwd=f.path, capture_output=True)
             .stdout for program in (support.MPC, AHEAD)]
    check(table[0] == table[1] and len(table[0]) > 100, "predictions differ")

    # a signal: everything that was begun is accounted for and saved, and going on ends in the same bytes
    long = ("--set", "length=3000 steps", "--set", "eval_every=1000 steps")
    both(f, "whole", *long)
    words = [AHEAD, "train", "tiny.mpg", "--device", "ref", "--out", "cut", *long]
    p = subprocess.Popen(words, cwd=f.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(0.15)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=100)[1].decode()
    if p.returncode == 128 + signal.SIGINT:
        check("stopped by a signal after step" in err, err)
        step = int(re.search(r"after step (\d+)", err).group(1))
        check(f.get("cut", "checkpoints", "last").decode().strip() == f"step-{step:08d}", step)
        check([e["step"] for e in f.steps("cut")] == list(range(1, step + 1)), "steps of the log")
        r = subprocess.run([AHEAD, "train", "tiny.mpg", "--device", "ref", "--resume", "cut", *long], cwd=f.path, capture_output=True)
        check(r.returncode == 0, r.stderr.decode())
    else:
        check(p.returncode in (0, -signal.SIGINT), "exit", p.returncode, err)
    if os.path.exists(f.at("cut", "checkpoints", "last")):
        check(final_checkpoint(f, "cut") == final_checkpoint(f, "whole-ahead"), "a run that was cut differs")

finish()
