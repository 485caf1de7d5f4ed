"""How long a training is, when it evaluates and saves and what it keeps; and data that are smaller than one would think."""
import os

from support import MODEL, Folder, check, rows, run_all

PLAIN = MODEL.replace("    h = dropout(h, 0.1)\n", "")


def steps(folder, run):
    return [r["step"] for r in folder.steps(run)]


def evals(folder, run):
    return [r["step"] for r in folder.log(run) if r["type"] == "eval" and r["split"] == "valid"]


def saved(folder, run):
    return sorted(int(n[5:]) for n in os.listdir(folder.at(run, "checkpoints")) if n.startswith("step-"))


def spared(folder, run):
    """The steps that best and last name."""
    return {int(folder.get(run, "checkpoints", n).decode().strip()[5:]) for n in ("best", "last")}


def by_steps_and_epochs():
    with Folder(PLAIN) as f:  # 104 rows to train on: 7 steps an epoch
        every = ("--set", "keep=100")
        for length, end in (("5 steps", 5), ("1 epochs", 7), ("2.5 epochs", 18), ("0.5 epochs", 4), ("1 steps", 1)):
            f.mpc("train", "tiny.mpg", "--set", f"length={length}", "--out", "run", "--overwrite", *every)
            check(steps(f, "run") == list(range(1, end + 1)) and evals(f, "run")[-1] == end and saved(f, "run")[-1] == end, length, steps(f, "run"))
        for key, when in (("3 steps", [3, 6, 9, 12, 14]), ("1 epochs", [7, 14]), ("0.5 epochs", [4, 7, 11, 14]), ("0 steps", [14]), ("100 steps", [14])):
            f.mpc("train", "tiny.mpg", "--set", "length=2 epochs", "--set", f"eval_every={key}", "--set", "save_every=0 steps", "--out", "run", "--overwrite", *every)
            check(evals(f, "run") == when, "eval_every", key, evals(f, "run"))
            f.mpc("train", "tiny.mpg", "--set", "length=2 epochs", "--set", "eval_every=0 steps", "--set", f"save_every={key}", "--out", "run", "--overwrite", *every)
            check(saved(f, "run") == when, "save_every", key, saved(f, "run"))
        # a training of no length is the initial weights, and their figures
        for length in ("0 steps", "0 epochs", "0 min"):
            r = f.mpc("train", "tiny.mpg", "--set", f"length={length}", "--set", "schedule=constant", "--out", "none", "--overwrite")
            check(steps(f, "none") == [] and saved(f, "none") == [0] and r.out == f.mpc("eval", "tiny.mpg", "--from", "none", "--split", "valid").out
                  + f.mpc("eval", "tiny.mpg", "--from", "none").out, length, r.out, r.err)
        r = f.mpc("train", "tiny.mpg", "--set", "length=-1 steps", "--out", "negative", status=1)
        check("--set length=-1 steps" in r.err and not os.path.exists(f.at("negative")), r.err)


def by_minutes():
    with Folder(PLAIN) as f:
        clock = ("--set", "schedule=constant", "--set", "keep=1000")
        r = f.mpc("train", "tiny.mpg", "--set", "length=0.02 min", "--set", "eval_every=0.005 min", "--set", "save_every=0.004 min", "--out", "run", *clock)
        end = [r for r in f.log("run") if r["type"] == "end"][-1]
        check(end["reason"] == "length" and 1.2 <= end["time_s"] < 6, end)
        check(3 <= len(evals(f, "run")) <= 6 and 3 <= len(saved(f, "run")) <= 12, evals(f, "run"), saved(f, "run"))
        check(evals(f, "run")[-1] == steps(f, "run")[-1] == saved(f, "run")[-1])
        # a schedule with an end needs to know it
        r = f.mpc("train", "tiny.mpg", "--set", "length=0.02 min", "--out", "cosine", status=1)
        check("E357" in r.err and not os.path.exists(f.at("cosine")), r.err)
        # time is that of the process: a resumed training has all of it again
        first = steps(f, "run")[-1]
        f.mpc("train", "tiny.mpg", "--resume", "run")
        check(steps(f, "run")[-1] > first and steps(f, "run") == list(range(1, steps(f, "run")[-1] + 1)))


def what_is_kept():
    with Folder(PLAIN) as f:
        for keep in (0, 1, 2, 5):
            f.mpc("train", "tiny.mpg", "--set", "length=3 epochs", "--set", "save_every=2 steps", "--set", f"keep={keep}", "--out", "run", "--overwrite")
            kept, spare = saved(f, "run"), spared(f, "run")
            check(21 in spare and spare <= set(kept), keep, kept, spare)
            others = [n for n in range(20, 0, -2) if n not in spare]
            check(set(kept) == spare | set(others[:keep]), keep, kept, spare)
            f.mpc("eval", "tiny.mpg", "--from", "run")
            f.mpc("train", "tiny.mpg", "--resume", "run")
        check("keep" in f.mpc("train", "tiny.mpg", "--set", "keep=-1", "--out", "no", status=1).err)


def few_rows():
    with Folder(PLAIN.replace("    valid = split(train, 0.2, seed = 1)\n", "").replace("valid.accuracy", "train.accuracy")) as f:
        # no row at all, with and without a header
        for text in ("", "\n\n", "a,b,c,d,e\n"):
            f.put("train.csv", text)
            r = f.mpc("train", "tiny.mpg", "--out", "run", status=1)
            check("train.csv" in r.err and ("no rows" in r.err or "empty" in r.err or "E2" in r.err), repr(text), r.err)
            check(not os.path.exists(f.at("run")), "a folder was made")
        # one row: a batch of one, an epoch of one step
        f.put("train.csv", rows(1, 1))
        f.mpc("train", "tiny.mpg", "--set", "length=3 epochs", "--out", "one")
        check([(r["step"], r["samples"]) for r in f.steps("one")] == [(1, 1), (2, 2), (3, 3)], f.log("one"))
        f.mpc("eval", "tiny.mpg", "--from", "one", "--split", "train")
        # a batch that is larger than the data is all of them
        f.put("train.csv", rows(10, 1))
        f.mpc("train", "tiny.mpg", "--set", "length=3 epochs", "--batch", "64", "--out", "large")
        check([(r["step"], r["samples"]) for r in f.steps("large")] == [(1, 10), (2, 20), (3, 30)])
        r = f.mpc("train", "tiny.mpg", "--batch", "64", "--set", "last_batch=drop", "--out", "drop", status=1)
        check("E369" in r.err and "10 training rows fill no batch of 64" in r.err and not os.path.exists(f.at("drop")), r.err)
        # an update of an epoch's last micro-batches has those that there are: 10 rows, batches 4 4 2, two and one of them
        f.mpc("train", "tiny.mpg", "--set", "length=2 epochs", "--batch", "4", "--set", "accumulate=2", "--out", "window")
        check([(r["step"], r["samples"]) for r in f.steps("window")] == [(1, 8), (2, 10), (3, 18), (4, 20)], f.log("window"))
        # and one update that takes more micro-batches than an epoch has
        f.mpc("train", "tiny.mpg", "--set", "length=2 epochs", "--batch", "4", "--set", "accumulate=9", "--out", "wide")
        check([(r["step"], r["samples"]) for r in f.steps("wide")] == [(1, 10), (2, 20)], f.log("wide"))


def the_mean_is_that_of_the_rows():
    """One update over micro-batches of 4, 4 and 2 rows is the update of 10 rows."""
    with Folder(PLAIN.replace("    valid = split(train, 0.2, seed = 1)\n", "").replace("valid.accuracy", "train.accuracy")) as f:
        f.put("train.csv", rows(10, 1))
        for name, words in (("all", ("--batch", "10")), ("parts", ("--batch", "4", "--set", "accumulate=3"))):
            f.mpc("train", "tiny.mpg", "--set", "length=4 epochs", "--set", "optimizer=sgd(lr = 0.1)", *words, "--out", name)
        a, b = ([r["loss"] for r in f.steps(n)] for n in ("all", "parts"))
        check(len(a) == len(b) == 4 and all(abs(x - y) < 5e-6 for x, y in zip(a, b)), a, b)


def splits_without_rows():
    with Folder(PLAIN) as f:
        for fraction in ("0", "0.001", "1", "1.5", "-0.1"):
            f.put("few.mpg", PLAIN.replace("split(train, 0.2", f"split(train, {fraction}"))
            r = f.mpc("train", "few.mpg", "--out", "run", status=1)
            check("E205" in r.err or "E214" in r.err and "`valid` has no rows" in r.err, fraction, r.err)
            check("few.mpg:11:" in r.err and not os.path.exists(f.at("run")), fraction, r.err)
        f.put("test.csv", "")
        r = f.mpc("train", "tiny.mpg", "--out", "run", status=1)
        check("E214" in r.err and "test.csv" in r.err and not os.path.exists(f.at("run")), r.err)


run_all([by_steps_and_epochs, by_minutes, what_is_kept, few_rows, the_mean_is_that_of_the_rows, splits_without_rows])
