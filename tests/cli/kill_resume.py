"""kill -9 at any moment, resume, until the run ends: the final checkpoint is byte for byte that of a run that was never killed,
and so is the log but for its times. Likewise after a signal that ends it in order."""
import os
import random
import shutil
import signal
import subprocess
import time

from support import DEVICE, MODEL, Folder, check, final_checkpoint, finish, without_times

MOMENTS = 20
model = MODEL.replace("length    = 4 epochs", "length    = 6 epochs\n    save_every = 3 steps\n    eval_every = 5 steps")
if DEVICE == "cpu":  # with a scaler that grows, low copies, and windows that the end of an epoch cuts short
    model = model.replace("precision = f32", "precision = f16\n    accumulate = 3\n    loss_scale = dynamic(init = 256, interval = 4)")

with Folder(model) as f:
    straight = f.mpc("train", "tiny.mpg", "--out", "straight")
    begin = time.monotonic()
    f.mpc("train", "tiny.mpg", "--out", "again")  # compiled already
    seconds = time.monotonic() - begin
    want = final_checkpoint(f, "straight")
    want_log = without_times(f.log("straight"))
    rng = random.Random(11)
    kills = 0
    for _ in range(3 * MOMENTS):
        if kills >= MOMENTS:
            break
        shutil.rmtree(f.at("run"), ignore_errors=True)
        first = True
        for _ in range(40):
            where = ("--out", "run", "--overwrite") if first else ("--resume", "run")
            begin = time.monotonic()
            p = subprocess.Popen(f.command("train", "tiny.mpg", *where), cwd=f.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                out, err = p.communicate(timeout=rng.uniform(0.1, 1.0) * seconds if kills < MOMENTS else None)
                check(p.returncode == 0, err.decode())
                seconds = min(seconds, time.monotonic() - begin)  # the first measurement may have met a busy machine
                break
            except subprocess.TimeoutExpired:
                p.kill()
                p.communicate()
                kills += 1
            has = os.path.isdir(f.at("run/checkpoints")) and any(n.startswith("step-") for n in os.listdir(f.at("run/checkpoints")))
            first = not has
        check(final_checkpoint(f, "run") == want, "checkpoint differs", kills)
        check(without_times(f.log("run")) == want_log, "log differs", kills)
        check(out.decode() == straight.out, out.decode(), straight.out)
        check(not [n for n in os.listdir(f.at("run/checkpoints")) if n.startswith("tmp-")])

    print(kills, "kills")
    check(kills >= MOMENTS // 2, kills)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        shutil.rmtree(f.at("run"), ignore_errors=True)
        p = subprocess.Popen(f.command("train", "tiny.mpg", "--out", "run"), cwd=f.path, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        while not os.path.exists(f.at("run/checkpoints/last")) and p.poll() is None:
            time.sleep(0.002)
        p.send_signal(number)
        _, err = p.communicate(timeout=60)
        check(p.returncode in (128 + number, 0), p.returncode, err.decode())
        if p.returncode:
            check(f.log("run")[-1]["reason"] == "signal" and "--resume run" in err.decode())
        f.mpc("train", "tiny.mpg", "--resume", "run")
        check(final_checkpoint(f, "run") == want, "differs after a signal", number)
        check(without_times(f.log("run")) == want_log, "log differs after a signal", number)

finish()
