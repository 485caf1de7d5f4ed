"""Event files for TensorBoard: they say what log.jsonl says, also after a resume, and can be left out."""
import os
import signal
import subprocess
import time

from event_records import curves, files
from support import Folder, check, run_all


def close(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-30)


def check_equals_log(f, run):
    log, seen = f.log(run), curves(f.at(run))
    steps = [r for r in log if r["type"] == "step"]
    for key in ("loss", "loss.ce", "lr", "grad_norm"):
        points = seen.get(f"train/{key}", [])
        check([p[0] for p in points] == [r["step"] for r in steps], key, len(points), len(steps))
        check(all(close(p[1], r[key]) for p, r in zip(points, steps)), key)
    for split in ("valid", "test"):
        records = [r for r in log if r["type"] == "eval" and r["split"] == split]
        for key in ("loss", "accuracy"):
            points = seen.get(f"{split}/{key}", [])
            check(records and [p[0] for p in points] == [r["step"] for r in records], split, key, points)
            check(all(close(p[1], r[key]) for p, r in zip(points, records)), split, key)
    return seen


def says_what_the_log_says():
    with Folder() as f:
        begin = time.time()
        f.mpc("train", "tiny.mpg", "--out", "run", "--precision", "f16")
        seen = check_equals_log(f, "run")
        check("train/scale" in seen, seen.keys())
        times = [p[2] for p in seen["train/loss"]]
        check(times == sorted(times) and begin - 1 <= times[0] <= time.time(), times[:3])
        check(len(files(f.at("run"))) == 1)


def newest_checkpoint(f):
    folder = f.at("run", "checkpoints")
    names = [n for n in os.listdir(folder) if n.startswith("step-")] if os.path.isdir(folder) else []
    return max((int(n[5:]) for n in names), default=0)


def last_step(f):
    return max((p[-1][0] for p in curves(f.at("run")).values()), default=0) if files(f.at("run")) else 0


def no_step_comes_twice_after_a_kill():
    with Folder() as f:
        args = ("train", "tiny.mpg", "--set", "length=400000 steps", "--set", "save_every=700 steps", "--set", "eval_every=100000 steps")
        p = subprocess.Popen(f.command(*args, "--out", "run"), cwd=f.path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while p.poll() is None:
            p.send_signal(signal.SIGSTOP)
            if 0 < newest_checkpoint(f) < last_step(f):
                break
            p.send_signal(signal.SIGCONT)
            time.sleep(0.1)
        p.kill()
        p.wait()
        kept, end = newest_checkpoint(f), last_step(f) + 100
        check(0 < kept < last_step(f), kept, "nothing comes again")
        f.mpc("train", "tiny.mpg", "--resume", "run", "--change", f"length={end} steps")
        check(f.log("run")[-1]["step"] == end)
        check_equals_log(f, "run")
        check(len(files(f.at("run"))) == 2)


def a_finished_run_goes_on():
    with Folder() as f:
        f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "10")
        f.mpc("train", "tiny.mpg", "--resume", "run", "--change", "length=20 steps")
        seen = curves(f.at("run"))
        check([p[0] for p in seen["train/loss"]] == list(range(1, 21)), seen["train/loss"])


def overwriting_removes_old_files():
    with Folder() as f:
        f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "3")
        old = files(f.at("run"))
        f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "3", "--overwrite")
        new = files(f.at("run"))
        check(len(new) == 1 and len(old) == 1, old, new)
        check(len(curves(f.at("run"))["train/loss"]) == 3)
        f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "3", "--overwrite", "--no-tensorboard")
        check(files(f.at("run")) == [])


run_all((says_what_the_log_says, no_step_comes_twice_after_a_kill, a_finished_run_goes_on, overwriting_removes_old_files))
