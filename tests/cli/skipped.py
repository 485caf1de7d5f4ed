"""Figures that are not numbers, steps that were skipped, evaluations in which nothing counts."""
import json

from support import MODEL, Folder, check, finish

with Folder() as f:
    wild = ("--precision", "f16", "--set", "optimizer.lr=1e30", "--set", "on_nonfinite=skip", "--set", "schedule=constant",
            "--set", "clip_norm=0")
    r = f.mpc("train", "tiny.mpg", *wild, "--steps", "150", "--out", "run")
    check("nan  best" not in r.err and "nan" in r.err and "-nan" not in r.err + r.out, r.err, r.out)
    first, last = [line for line in r.err.splitlines() if "W170" in line]
    check("99 of the last 100 steps were skipped" in first and "100 of the last 100" in last and "the loss scale is" in last, r.err)
    check("clip_norm" in r.err and "bf16" in r.err)
    check(not any(e.get("best") and e["loss"] is None for e in f.log("run")), [e for e in f.log("run") if e["type"] == "eval"])
    check("W170" not in f.mpc("train", "tiny.mpg", "--precision", "f16", "--out", "tame").err)
    # few steps: at the end only
    r = f.mpc("train", "tiny.mpg", *wild, "--steps", "20", "--out", "short")
    check(r.err.count("W170") == 1 and "of the last 20 steps" in r.err, r.err)

with Folder(model=MODEL.replace("cross_entropy(logits, y)", "cross_entropy(logits, y) where y > 5")
            .replace("accuracy(logits, y)", "accuracy(logits, y) where y > 5").replace("monitor   = valid.accuracy", "")) as f:
    r = f.mpc("train", "tiny.mpg", "--steps", "2", "--out", "run", status=None)
    check("loss undefined: no targets count" in r.err and "accuracy undefined: no targets count" in r.err, r.err)
    check("nan" not in r.err + r.out and "  best" not in r.err, r.err, r.out)
    r = f.mpc("eval", "tiny.mpg", "--from", "run")
    check(r.out == "test loss undefined: no targets count\ntest accuracy undefined: no targets count\n", r.out)
    check(json.loads(f.mpc("eval", "tiny.mpg", "--from", "run", "--json").out)["loss"] is None)

finish()
