"""`mpc sweep`: a run for every combination, each equal to the byte to a single training; mistakes are found before anything
runs, runs that fail are named and don't stop the others, and a sweep that was stopped goes on."""
import json
import os
import signal
import subprocess
import time

from support import DEVICE, MODEL, Folder, check, final_checkpoint, run_all

WIDE = MODEL.replace("model tiny", "const widths = [8]\nconst depth = 1\nmodel tiny").replace(
    "linear(x, 8) as fc1", "linear(x, widths[0]) as fc1").replace("length    = 4 epochs", "length    = 2 epochs")


def lines(f, folder):
    return [json.loads(line) for line in f.get(folder, "sweep.jsonl").decode().splitlines()]


def by_run(f, folder):
    return {r["run"]: r for r in lines(f, folder)}


def four_runs_by_two_equal_four_single_ones():
    with Folder() as f:
        r = f.mpc("sweep", "tiny.mpg", "--over", "optimizer.lr=1e-2, 3e-4", "--over", "seed=1,2", "--jobs", "2", "--out", "s",
                  "--set", "length=2 epochs")
        records = by_run(f, "s")
        values = [("1e-2", "1"), ("1e-2", "2"), ("3e-4", "1"), ("3e-4", "2")]
        check(sorted(records) == ["001", "002", "003", "004"], records)
        for name, (lr, seed) in zip(sorted(records), values):
            check(records[name]["overrides"] == {"optimizer.lr": lr, "seed": seed}, records[name])
            f.mpc("train", "tiny.mpg", "--set", f"optimizer.lr={lr}", "--seed", seed, "--set", "length=2 epochs", "--out", "one" + name)
            check(final_checkpoint(f, "one" + name) == final_checkpoint(f, f"s/{name}"), name)
            metrics = json.loads(f.get("one" + name, "metrics.json"))
            check(records[name]["best"] == metrics["best"] and records[name]["test"] == metrics["test"], records[name])
            check(records[name]["monitor"] == "valid.accuracy" and records[name]["final"]["step"] == 14, records[name])
            check("valid accuracy" in f.get("s", name + ".txt").decode())
        table = [line.split() for line in r.out.splitlines()]
        check(table[0][:4] == ["run", "optimizer.lr", "seed", "valid.accuracy"], table[0])
        best = [records[row[0]]["best"] for row in table[1:]]
        check(len(best) == 4 and best == sorted(best, reverse=True), table)
        check("[4/4]" in r.err and "2 at a time" in r.err, r.err)


def only_commas_outside_brackets_separate():
    with Folder(WIDE) as f:
        f.mpc("sweep", "tiny.mpg", "--over", "widths=[4,4],[8,2]", "--over", "precision=f32,bf16", "--over",
              "optimizer=sgd(lr = 0.1, momentum = 0.5)", "--jobs", "2", "--out", "s")
        records = by_run(f, "s")
        check([r["overrides"]["widths"] for _, r in sorted(records.items())] == ["[4,4]", "[4,4]", "[8,2]", "[8,2]"], records)
        check(all(r["status"] == 0 for r in records.values()), records)
        check("bf16 on" in f.get("s", "002.txt").decode() and "f32 on" in f.get("s", "001.txt").decode())


def mistakes_are_found_before_anything_runs():
    with Folder(WIDE) as f:
        def refused(*args, status, word):
            r = f.mpc("sweep", "tiny.mpg", *args, status=status)
            check(word in r.err, args, word, r.err)
            check(not os.path.exists(f.at("runs")) and not os.path.exists(f.at("s")), os.listdir(f.path))

        refused(status=2, word="--over")
        refused("--over", "optimizer.rl=1,2", status=1, word="lr, betas")
        refused("--over", "lerning=1,2", status=1, word="lerning")
        refused("--over", "optimizer.lr=1e-2,fast", status=1, word="optimizer.lr=fast")
        refused("--over", "precision=f32,f17", status=1, word="f17")
        refused("--over", "optimizer.lr=1,,2", status=2, word="empty")
        refused("--over", "seed=1,1", status=2, word="twice")
        refused("--over", "seed=1,2", "--over", "seed=3", status=2, word="twice")
        refused("--over", "seed=1,2", "--seed", "3", status=2, word="seed")
        refused("--over", "steps=1,2", "--over", "length=3 steps", status=2, word="twice")
        refused("--over", "seed", status=2, word="KEY=V1")
        refused("--over", "seed=1,2", "--jobs", "0", status=2, word="--jobs")
        refused("--over", "seed=1,2", "--resume", "s", status=2, word="--resume")
        refused("--over", "seed=" + ",".join(map(str, range(200))), "--over", "depth=" + ",".join(map(str, range(200))), status=2,
                word="--random")


def a_run_that_fails_is_named_and_the_others_go_on():
    with Folder(WIDE) as f:
        r = f.mpc("sweep", "tiny.mpg", "--over", "widths=[0],[8]", "--out", "s", status=1)
        records = by_run(f, "s")
        check(records["001"]["status"] == 1 and records["001"]["reason"] == "failed", records)
        check(records["002"]["status"] == 0, records)
        check("s/001.txt" in r.out and "1 of 2 runs failed" in r.err, r.out, r.err)
        check("error" in f.get("s", "001.txt").decode())
        check(r.out.splitlines()[1].startswith("002") and r.out.splitlines()[2].startswith("001"), r.out)
        f.mpc("sweep", "tiny.mpg", "--over", "optimizer.lr=1e-2,1e38", "--set", "optimizer=sgd(lr = 1, momentum = 0.9)", "--out", "d")
        records = by_run(f, "d")
        check(records["002"]["status"] == 3 and records["002"]["reason"] == "diverged" and records["001"]["status"] == 0, records)


def a_run_that_is_killed_is_named():
    with Folder() as f:
        p = subprocess.Popen(f.command("sweep", "tiny.mpg", "--over", "seed=1,2", "--steps", "100000", "--out", "s"), cwd=f.path,
                             stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        children = f"/proc/{p.pid}/task/{p.pid}/children"
        deadline = time.time() + 60
        for n in range(2):
            pids = []
            while time.time() < deadline and not (pids and pids != killed if n else pids):
                time.sleep(0.05)
                pids = open(children).read().split()
            killed = pids
            os.kill(int(pids[0]), signal.SIGKILL)
        out = p.communicate(timeout=60)[0].decode()
        check(p.returncode == 1 and out.count("killed by signal 9") == 2, p.returncode, out)
        check(all(r["status"] == 137 for r in lines(f, "s")), lines(f, "s"))


def random_combinations_are_distinct_and_repeatable():
    with Folder(WIDE) as f:
        over = ("--over", "depth=1,2,3", "--over", "widths=[4],[8],[16]", "--random", "3", "--steps", "1", "--jobs", "2")
        chosen = []
        for folder, seed in (("a", "5"), ("b", "5"), ("c", "6")):
            r = f.mpc("sweep", "tiny.mpg", *over, "--seed", seed, "--out", folder, "--json")
            check(len(r.out.splitlines()) == 3 and all(json.loads(line)["status"] == 0 for line in r.out.splitlines()), r.out)
            chosen.append([tuple(v["overrides"].values()) for _, v in sorted(by_run(f, folder).items())])
        r = f.mpc("sweep", "tiny.mpg", "--over", "seed=1,2,3,4", "--random", "2", "--seed", "9", "--steps", "1", "--out", "e")
        check(sorted(by_run(f, "e")) == ["001", "002"] and "seed 9" not in f.get("e", "001.txt").decode(), r.err)
        check(chosen[0] == chosen[1] != chosen[2] and len(set(chosen[0])) == 3, chosen)


def start_and_stop(f, folder, args):
    """SIGINT once the first run is under way."""
    p = subprocess.Popen(f.command("sweep", "tiny.mpg", *args, "--out", folder), cwd=f.path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    log = f.at(folder, "001", "log.jsonl")
    deadline = time.time() + 60
    while time.time() < deadline and not (os.path.exists(log) and b'"step"' in open(log, "rb").read()):
        time.sleep(0.05)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=60)[1].decode()
    check(p.returncode == 130, p.returncode, err)
    check("goes on" in err, err)


def a_sweep_that_was_stopped_goes_on():
    with Folder() as f:
        args = ("--over", "seed=1,2,3", "--steps", "3000", "--set", "eval_every=1000 steps", "--set", "save_every=1000 steps", "--jobs", "2")
        start_and_stop(f, "s", args)
        check(not os.path.exists(f.at("s", "sweep.jsonl")) or len(lines(f, "s")) < 3, "all had ended")
        f.put("s/sweep.jsonl", f.get("s", "sweep.jsonl") + b'{"run":"003","stat' if os.path.exists(f.at("s", "sweep.jsonl"))
              else b'{"run":"003","stat')
        f.mpc("sweep", "tiny.mpg", *args, "--out", "s")
        records = by_run(f, "s")
        check(sorted(records) == ["001", "002", "003"] and all(r["status"] == 0 for r in records.values()), records)
        check("going on after step" in f.get("s", "001.txt").decode(), f.get("s", "001.txt"))
        f.mpc("train", "tiny.mpg", "--seed", "1", *args[2:-2], "--out", "one")
        check(final_checkpoint(f, "one") == final_checkpoint(f, "s/001"), "the run that was stopped")
        before = f.get("s", "sweep.jsonl")
        f.mpc("sweep", "tiny.mpg", *args, "--out", "s")
        check(f.get("s", "sweep.jsonl") == before, "finished runs ran again")


def runs(pid):
    """A process that has ended stays in the table until whoever inherited it looks."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def a_sweep_that_was_killed_goes_on_alone():
    """Its trainings end with it, and the next sweep waits for their last checkpoints."""
    with Folder() as f:
        args = ("--over", "seed=1,2", "--steps", "6000", "--set", "eval_every=1000 steps", "--set", "save_every=50 steps", "--jobs", "2")
        p = subprocess.Popen(f.command("sweep", "tiny.mpg", *args, "--out", "s"), cwd=f.path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.time() + 60
        while time.time() < deadline and not all(os.path.exists(f.at("s", n, "checkpoints", "last")) for n in ("001", "002")):
            time.sleep(0.02)
        children = open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()
        p.kill()
        p.wait()
        f.mpc("sweep", "tiny.mpg", *args, "--out", "s")
        deadline = time.time() + 5  # their locks go before they do
        while time.time() < deadline and any(runs(pid) for pid in children):
            time.sleep(0.02)
        check(children and not any(runs(pid) for pid in children), children)
        check(all(r["status"] == 0 for r in lines(f, "s")) and len(lines(f, "s")) == 2, lines(f, "s"))
        check("stopped" in f.get("s", "001.txt").decode(), f.get("s", "001.txt"))
        f.mpc("train", "tiny.mpg", "--seed", "1", *args[2:-2], "--out", "one")
        check(final_checkpoint(f, "one") == final_checkpoint(f, "s/001"), "the run whose sweep was killed")


def a_folder_belongs_to_one_process():
    with Folder() as f:
        p = subprocess.Popen(f.command("train", "tiny.mpg", "--steps", "1000000", "--out", "r"), cwd=f.path, stderr=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL)
        deadline = time.time() + 60
        while time.time() < deadline and not os.path.exists(f.at("r", "checkpoints", "last")):
            time.sleep(0.02)
        for way in (("--resume", "r"), ("--out", "r", "--overwrite")):
            check("E386" in f.mpc("train", "tiny.mpg", *way, status=1).err)
        p.terminate()
        f.mpc("train", "tiny.mpg", "--resume", "r", "--change", "length=10 steps", status=None)
        check(p.wait(timeout=60) == 143, p.returncode)


def a_folder_belongs_to_one_sweep():
    with Folder() as f:
        f.mpc("sweep", "tiny.mpg", "--over", "seed=1,2", "--steps", "1", "--out", "s")
        check("other values" in f.mpc("sweep", "tiny.mpg", "--over", "seed=1,3", "--steps", "1", "--out", "s", status=1).err)
        f.put("tiny.mpg", MODEL.replace("0.1)", "0.2)"))
        check("another text" in f.mpc("sweep", "tiny.mpg", "--over", "seed=1,2", "--steps", "1", "--out", "s", status=1).err)
        os.makedirs(f.at("full", "sub"))
        check("E351" in f.mpc("sweep", "tiny.mpg", "--over", "seed=1,2", "--out", "full", status=1).err)
        r = f.mpc("sweep", "tiny.mpg", "--over", "seed=4,5", "--steps", "1")
        check("runs/tiny-sweep-001" in r.err and os.path.isdir(f.at("runs", "tiny-sweep-001", "002")), r.err)


# What a run computes differs by device, how runs are handled doesn't: one case does for a device that compiles.
run_all([four_runs_by_two_equal_four_single_ones] + ([] if DEVICE != "ref" else [
    only_commas_outside_brackets_separate, mistakes_are_found_before_anything_runs, a_run_that_fails_is_named_and_the_others_go_on,
    a_run_that_is_killed_is_named, random_combinations_are_distinct_and_repeatable, a_folder_belongs_to_one_sweep, a_folder_belongs_to_one_process,
    a_sweep_that_was_stopped_goes_on, a_sweep_that_was_killed_goes_on_alone]))
