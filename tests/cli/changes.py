"""--resume with --change: what becomes of the learning rate is said, and is so; what isn't allowed, or can't change within a run, is
refused before anything of the run is touched."""
import json
import os
import re
import shutil

from support import MODEL, Folder, check, run_all


def copy(folder, name):
    shutil.rmtree(folder.at(name), ignore_errors=True)
    shutil.copytree(folder.at("run"), folder.at(name))


def rates(folder, run):
    return {r["step"]: r["lr"] for r in folder.steps(run)}


def said(err, pattern):
    found = re.search(pattern, err)
    check(found, pattern, err)
    return [float(v) for v in found.groups()] if found else None


def files(folder, run):
    """Name -> bytes of everything in a run."""
    return {os.path.relpath(os.path.join(d, n), folder.path): folder.get(os.path.join(d, n)) for d, _, names in os.walk(folder.at(run)) for n in names}


def the_rate_is_said_and_is_so():
    with Folder() as f:  # 104 training rows, 7 steps an epoch, 28 in all; cosine with 5 steps of warm-up
        f.mpc("train", "tiny.mpg", "--out", "whole")
        whole = rates(f, "whole")
        text = MODEL.replace("length    = 4 epochs", "length    = 2 epochs")
        f.put("tiny.mpg", text)
        f.mpc("train", "tiny.mpg", "--out", "run")
        # a longer training: the cosine is another curve from here
        copy(f, "longer")
        r = f.mpc("train", "tiny.mpg", "--resume", "longer", "--change", "length=4 epochs")
        new, old = said(r.err, r"learning rate after step 14: (\S+), before the change (\S+)\n")
        check(old == 0 and abs(new / rates(f, "longer")[15] - 1) < 1e-3 and rates(f, "longer")[15] == whole[15], new, old, whole[15])
        check("  from here it falls to 0 at step 28 (cosine)\n  before the change: stays at 0\n" in r.err, r.err)
        # another rate, within what is left; the schedule's form stays
        f.mpc("train", "tiny.mpg", "--out", "short", "--set", "length=28 steps", "--steps", "28")
        f.mpc("train", "tiny.mpg", "--out", "part", "--set", "schedule=constant", "--steps", "3")
        r = f.mpc("train", "tiny.mpg", "--resume", "part", "--change", "length=10 steps", "--change", "schedule=step(every = 4 steps, factor = 0.5)")
        check("learning rate after step 3: 0.01, before the change 0.01\n" in r.err, r.err)
        check("  from here it is multiplied by 0.5 every 4 steps, next after step 4\n  before the change: stays at 0.01\n" in r.err, r.err)
        lr = rates(f, "part")
        check([round(lr[i], 9) for i in range(4, 11)] == [0.01] + [0.005] * 4 + [0.0025] * 2, lr)
        # in the warm-up, and linear
        f.mpc("train", "tiny.mpg", "--out", "warm", "--set", "schedule=cosine(warmup = 5 steps)", "--steps", "2")
        r = f.mpc("train", "tiny.mpg", "--resume", "warm", "--change", "schedule=linear(warmup = 8 steps, final = 0.1)", "--change", "length=20 steps",
                  "--change", "optimizer.lr=4e-2")
        check("learning rate after step 2: 0.015, before the change 0.006\n" in r.err, r.err)
        check("from here it rises to 0.04 at step 8, then falls to 0.004 at step 20 (linear)\n" in r.err, r.err)
        lr = rates(f, "warm")
        check(abs(lr[3] - 0.015) < 1e-8 and abs(lr[8] - 0.04) < 1e-8 and abs(lr[20] - 0.004) < 1e-8, lr)
        # epochs are those of the batch as it was, and as it is
        copy(f, "batch")
        r = f.mpc("train", "tiny.mpg", "--resume", "batch", "--change", "batch=8", "--change", "length=3 epochs")
        check("falls to 0 at step 39 (cosine)" in r.err and "batch                    16, now 8" in r.err, r.err)
        # nothing changed, nothing said; a change that changes nothing neither
        copy(f, "same")
        for words in ((), ("--change", "batch=16")):
            r = f.mpc("train", "tiny.mpg", "--resume", "same", *words)
            check("learning rate" not in r.err and "changed" not in r.err, r.err)


def what_is_refused():
    with Folder() as f:
        f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "9")
        before = files(f, "run")
        for change, word in (("seed=3", "every random draw"), ("optimizer=sgd(lr = 0.1)", "moments"), ("optimizer=sgd(lr = 0.1, momentum = 0.9)", "moments"),
                             ("optimizer=lion(lr = 1e-3)", "moments"), ("ema=0.99", "averages"), ("accumulate=2", "sums of gradients"),
                             ("precision=f16", "loss scale")):
            r = f.mpc("train", "tiny.mpg", "--resume", "run", "--change", change, status=1)
            key = change.split("=")[0]
            check("E376" in r.err and f"--change {key}:" in r.err and word in r.err and f"--init run --set {key}=" in r.err, r.err)
        # not allowed: each that differs is named, with both values, and there is no way round by --set
        r = f.mpc("train", "tiny.mpg", "--resume", "run", "--set", "optimizer.lr=5e-2", "--set", "batch=8", status=1)
        check("E353" in r.err and "2 settings differ" in r.err and "0.01, now 0.05" in r.err and "--change KEY=VALUE" in r.err, r.err)
        r = f.mpc("train", "tiny.mpg", "--resume", "run", "--set", "batch=8", "--change", "optimizer.lr=5e-2", status=1)
        check("E353" in r.err and "1 setting differs" in r.err and "optimizer.lr" not in r.err, r.err)
        check("E301" in f.mpc("train", "tiny.mpg", "--resume", "run", "--change", "wdith=3", status=1).err)
        # messages name the option that was given
        for change, help in (("steps=24", "--change length='24 steps'"), ("lr=0.1", "--change optimizer.lr=0.1"), ("bacth=4", "--change batch=4"),
                             ("optimizer.lrr=1", "--change optimizer.lr=1"), ("batch=", None)):
            r = f.mpc("train", "tiny.mpg", "--resume", "run", "--change", change, status=1)
            check(f"--> --change {change}" in r.err and "--set" not in r.err.split("with --set length=9")[0] and (help is None or help in r.err), change, r.err)
        check("--change is for --resume" in f.mpc("train", "tiny.mpg", "--change", "batch=8", status=2).err)
        check(files(f, "run") == before, "a refused resume has changed the run")
        # a run.json that says nothing of settings is no leave to change them; one of before a setting came up is
        whole = f.get("run", "run.json")
        for text, word in (("{", "run.json:"), ("{}", "no `settings`"), ('{"settings": 3}', "no `settings`")):
            f.put("run/run.json", text)
            r = f.mpc("train", "tiny.mpg", "--resume", "run", status=1)
            check("E352" in r.err and word in r.err, r.err)
        older = json.loads(whole)
        del older["settings"]["also"], older["plugins"], older["added_passes"]
        f.put("run/run.json", json.dumps(older))
        f.mpc("train", "tiny.mpg", "--resume", "run")
        f.put("run/run.json", whole)
        # what the same moments serve
        r = f.mpc("train", "tiny.mpg", "--resume", "run", "--change", "optimizer=adam(lr = 0.02)", "--change", "length=12 steps")
        check("optimizer                adamw, now adam" in r.err and len(rates(f, "run")) == 12, r.err)


run_all([the_rate_is_said_and_is_so, what_is_refused])
